//! Real paths of entries that may not exist.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beneath::open_anywhere;
use rustix::fs::{CWD, OFlags, fstat, readlinkat};
use rustix::io::Errno;

use crate::descriptor::name_of;
use crate::{Result, RootsError};

/// Treatment of a link at the end of a path. Links before the end are always followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// The path means the link's target.
    Follow,
    /// The path means the link itself.
    Keep,
}

/// Maximum number of links in a row whose targets do not exist: as many existing ones as Linux
/// follows (`MAXSYMLINKS`).
const LONGEST_CHAIN: usize = 40;

/// Returns the real target of a path: absolute, without links, even if its end does not exist yet.
///
/// Components that are missing, or may not be examined, are taken as spelled. No entry is opened for
/// reading, and reach is not judged: this function serves to judge a plan beforehand. The operations
/// judge the entry again that they really opened.
///
/// # Errors
/// [`RootsError::TooManyLinks`], [`RootsError::NoOpenat2`], or [`RootsError::Io`] if a name is
/// longer than Linux takes.
// BOUNDED: by the maximum path length of Linux: longer paths fail with an error other than a missing
// entry.
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
        // A `..` after a missing entry leads nowhere.
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
