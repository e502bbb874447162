use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, fstat, readlinkat};
use rustix::io::Errno;

use crate::beneath::{name_of, open_anywhere};
use crate::{Result, RootsError};

/// What to do with a link at the end of a path. Links before the end are always followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// Its target is meant.
    Follow,
    /// The link itself is meant.
    Keep,
}

/// Links in a row whose targets do not exist, as many as Linux follows of those that do (`MAXSYMLINKS`).
const LONGEST_CHAIN: usize = 40;

/// Where a path really leads: absolute, without links, also where its end does not exist (yet).
///
/// What is missing, or may not be looked at, is taken as it is spelled.
/// Nothing is opened for reading, and nothing about reach is decided: this is for judging a plan beforehand.
/// The operations judge again what they really opened.
///
/// # Errors
/// [`RootsError::TooManyLinks`], [`RootsError::NoOpenat2`], or [`RootsError::Io`] where a name is longer than Linux takes.
// BOUNDED: by the length of a path that Linux takes: the longer ones fail otherwise than by a missing entry.
pub fn real_path(path: &Path, last: LastLink) -> Result<PathBuf> {
    let mut current = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
        let flags = if last == LastLink::Keep { OFlags::NOFOLLOW } else { OFlags::empty() };
        match open_anywhere(&current, flags) {
            Ok(place) => {
                let named = fstat(&place).and_then(|stat| name_of(place.as_fd(), &stat));
                return named.map_err(RootsError::while_doing("find", path));
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(errno) => return Err(RootsError::system("find", path, errno)),
        }
        // `..` behind something that does not exist leads nowhere.
        let (Some(parent), Some(name)) = (current.parent(), current.file_name()) else {
            return Err(RootsError::NotFound { path: path.to_owned() });
        };
        let parent = real_path(parent, LastLink::Follow)?;
        let spelled = parent.join(name);
        if last == LastLink::Keep {
            return Ok(spelled);
        }
        match readlinkat(CWD, &spelled, Vec::new()) {
            Ok(target) => current = parent.join(std::ffi::OsStr::from_bytes(target.as_bytes())),
            Err(_) => return Ok(spelled),
        }
    }
    Err(RootsError::TooManyLinks { path: path.to_owned() })
}
