//! Folders and files whose rights were loosened so that an ordinary user can look into them and move them.
//!
//! A command may leave a folder of mode 000 behind. Its owner has to change the mode to read it, and to move it elsewhere
//! (a folder that moves is written to, because its `..` changes). The true mode is written down first, beside the
//! changes, so that whoever reads them later, in this process or another one, still knows it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::beneath::{LIST, open_known, set_mode};
use crate::{Entry, Error, Kind, Result};

/// The name of the list in the folder of a call.
const LIST_NAME: &str = "loosened";

/// What an owner needs of a folder.
const FOLDER_RIGHTS: u32 = 0o700;

/// The true modes of what was loosened, by path.
pub(crate) struct Loosened {
    list: File,
    modes: BTreeMap<PathBuf, u32>,
    /// Root needs none of this.
    needed: bool,
}

impl Loosened {
    /// Reads the list in the folder of a call.
    pub(crate) fn open(call: BorrowedFd<'_>) -> Result<Self> {
        let failed = |errno: Errno| Error::system("open", LIST_NAME, errno);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut list =
            File::from(openat(call, LIST_NAME, flags, Mode::from_raw_mode(0o600)).map_err(failed)?);
        let mut text = Vec::new();
        list.read_to_end(&mut text).map_err(|source| Error::system("read", LIST_NAME, source))?;
        let mut modes = BTreeMap::new();
        // The first of several is the true one: later ones saw what was loosened before.
        for record in text.split(|byte| *byte == 0) {
            let Some((mode, path)) = record.split_at_checked(4) else { continue };
            let Some(mode) =
                std::str::from_utf8(mode).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok())
            else {
                continue;
            };
            modes.entry(PathBuf::from(OsString::from_vec(path.to_vec()))).or_insert(mode);
        }
        Ok(Self { list, modes, needed: !rustix::process::geteuid().is_root() })
    }

    /// Whether this process is no root, which may do everything anyway.
    pub(crate) fn needed(&self) -> bool {
        self.needed
    }

    /// The entry with its true mode.
    pub(crate) fn truly(&self, path: &Path, mut entry: Entry) -> Entry {
        if let Some(mode) = self.modes.get(path) {
            entry.mode = *mode;
        }
        entry
    }

    /// Opens a folder of the changes for listing. `entry` is what was found there.
    pub(crate) fn open_folder(
        &mut self,
        parent: impl AsFd,
        name: &OsStr,
        path: &Path,
        entry: &Entry,
    ) -> Result<OwnedFd> {
        if self.needed && entry.mode & FOLDER_RIGHTS != FOLDER_RIGHTS || self.modes.contains_key(path) {
            self.loosen(parent.as_fd(), name, path, entry)?;
        }
        open_known(parent, name, entry, LIST).map_err(Error::while_doing("open", path))
    }

    /// Gives the owner all rights to an entry of the changes, after its true mode was written down.
    pub(crate) fn loosen(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        entry: &Entry,
    ) -> Result<()> {
        let true_mode = self.modes.get(path).copied().unwrap_or(entry.mode);
        if !self.modes.contains_key(path) {
            let mut record = format!("{true_mode:04o}").into_bytes();
            record.extend_from_slice(path.as_os_str().as_bytes());
            record.push(0);
            self.list.write_all(&record).map_err(|source| Error::system("write", LIST_NAME, source))?;
            self.modes.insert(path.to_owned(), true_mode);
        }
        let rights = if entry.kind == Kind::Folder { FOLDER_RIGHTS } else { 0o600 };
        let failed = Error::while_doing("loosen the mode of", path);
        let place = open_known(parent, name, entry, OFlags::PATH).map_err(&failed)?;
        set_mode(place.as_fd(), true_mode | rights).map_err(failed)
    }

    /// What was loosened at a path and below it, with the true modes; what lies deeper comes first.
    pub(crate) fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a Path, u32)> {
        let from_here = self.modes.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        let mut found: Vec<_> = from_here
            .take_while(|(loosened, _)| loosened.starts_with(path))
            .map(|(loosened, mode)| (loosened.as_path(), *mode))
            .collect();
        found.reverse();
        found.into_iter()
    }
}
