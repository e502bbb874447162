//! Covering and freezing of one path in a cell.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, OFlags, StatVfsMountFlags, fstat, fstatvfs, stat};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use super::mount::{clone_tree, open_exactly, put};
use crate::sys;

/// The effect on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// Hides all content of the path.
    Hide,
    /// Makes the path read-only.
    Freeze,
}

/// Covers or freezes the object at a path. Skips a symbolic link.
pub(super) fn cover_one(place: &CStr, cover: Cover) -> Result<(), Errno> {
    let point = open_exactly(place, OFlags::PATH | OFlags::NOFOLLOW)?;
    let there = fstat(&point)?;
    let kind = FileType::from_raw_mode(there.st_mode);
    if kind == FileType::Symlink {
        return Ok(());
    }
    if cover == Cover::Freeze {
        return freeze_one(point.as_fd());
    }
    let cover = if kind == FileType::Directory { c"/.cell/folder" } else { c"/.cell/file" };
    let own = stat(cover)?;
    if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) {
        // The path is still covered.
        return Ok(());
    }
    let tree = clone_tree(cover)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    sys::mount_setattr(tree.as_fd(), true, attributes, None, false)?;
    put(tree.as_fd(), point.as_fd(), c"")
}

/// Mounts the object over itself, read-only with all mounts below it.
fn freeze_one(point: BorrowedFd<'_>) -> Result<(), Errno> {
    if fstatvfs(point)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        // The path is still covered or frozen.
        return Ok(());
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(point, c"", flags)?;
    sys::mount_setattr(tree.as_fd(), true, MountAttrFlags::MOUNT_ATTR_RDONLY, None, false)?;
    put(tree.as_fd(), point, c"")
}
