//! Operations on single mounts.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// Copies the mount at a path, with all mounts below it.
pub(super) fn clone_tree(path: &CStr) -> Result<OwnedFd, Errno> {
    // Recursive, because the kernel refuses to uncover the files below other mounts.
    open_tree(
        CWD,
        path,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE,
    )
}

/// Mounts a tree at a path in a folder, or over the folder itself if the path is empty.
pub(super) fn put(tree: BorrowedFd<'_>, folder: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    move_mount(tree, c"", folder, path, flags)
}

/// Opens the object with exactly this path, following no link: content that earlier commands left
/// behind must not decide where a mount lands.
pub(super) fn open_exactly(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
