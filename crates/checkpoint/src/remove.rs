//! Removal from folders of this program.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

pub(crate) use beneath::remove_tree;
use rustix::fs::OFlags;

use crate::Entry;
use crate::folder::{LIST, names, open, set_mode};

/// Removes everything in an open folder except the entry `name`.
///
/// The folder must belong to this program: meanwhile no other process may change it.
pub(crate) fn remove_all_but(folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    for found in names(folder)? {
        if found != name {
            remove_tree(folder.as_fd(), &found)?;
        }
    }
    Ok(())
}

/// Opens a folder whatever its mode, which its owner may change.
pub(crate) fn open_freely(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    entry: &Entry,
) -> rustix::io::Result<OwnedFd> {
    if entry.mode & 0o700 != 0o700 {
        let place = open(parent, Path::new(name), OFlags::PATH)?;
        set_mode(place.as_fd(), entry.mode | 0o700)?;
    }
    open(parent, Path::new(name), LIST)
}
