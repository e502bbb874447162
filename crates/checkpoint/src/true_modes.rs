//! Folders and files whose permission bits were loosened so that an ordinary user can read and move
//! them.
//!
//! A command may leave a folder of mode 000 behind. Its owner must change the mode to read the
//! folder, and to move it elsewhere (a move writes to the folder, because its `..` changes). The
//! true mode is written down first, with the changes, so that a later reader in any process still
//! knows it.

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

use crate::folder::{LIST, open_known, set_mode};
use crate::{Entry, Error, Kind, Result};

/// Name of the list in the folder of a call.
const LIST_NAME: &str = "loosened";

/// Permission bits that an owner needs on a folder.
const FOLDER_RIGHTS: u32 = 0o700;

/// True modes of the loosened entries, by path.
pub(crate) struct TrueModes {
    list: File,
    modes: BTreeMap<PathBuf, u32>,
    /// False for root, which needs no loosening.
    needed: bool,
}

impl TrueModes {
    /// Reads the list in the folder of a call.
    pub(crate) fn open(call: BorrowedFd<'_>) -> Result<Self> {
        let failed = |errno: Errno| Error::system("open", LIST_NAME, errno);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut list =
            File::from(openat(call, LIST_NAME, flags, Mode::from_raw_mode(0o600)).map_err(failed)?);
        let mut text = Vec::new();
        list.read_to_end(&mut text).map_err(|source| Error::system("read", LIST_NAME, source))?;
        let mut modes = BTreeMap::new();
        // The first of several records is the true one: later ones saw a mode that was loosened
        // before.
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

    /// Returns true if this process is not root, which may do everything anyway.
    pub(crate) fn needed(&self) -> bool {
        self.needed
    }

    /// Returns the entry with its true mode.
    pub(crate) fn truly(&self, path: &Path, mut entry: Entry) -> Entry {
        if let Some(mode) = self.modes.get(path) {
            entry.mode = *mode;
        }
        entry
    }

    /// Opens a folder of the changes for listing. `entry` is the metadata of the folder.
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

    /// Gives the owner all rights to an entry of the changes, after recording its true mode.
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

    /// Iterates over the loosened entries at a path and below it, with their true modes; deeper ones
    /// come first.
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
