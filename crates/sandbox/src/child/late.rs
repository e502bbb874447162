//! A process that enters the namespaces of a running cell to cover or freeze files in it.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::fs::{FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, open, stat};
use rustix::io::{Errno, write};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::filesystem::{clone_tree, open_exactly, put};
use super::report::Report;
use super::{EndOnUnwind, keep_only};
use crate::sys;

/// Sends the namespaces of this process, the first one of a cell, to the caller.
pub(super) fn hand_over_namespaces(control: BorrowedFd<'_>) -> Result<(), Errno> {
    let open = |path| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    Report::UserNamespace.send_with(control, open(c"/proc/self/ns/user")?.as_fd())?;
    Report::MountNamespace.send_with(control, open(c"/proc/self/ns/mnt")?.as_fd())
}

/// The effect on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// Hides all content of the path.
    Hide,
    /// Makes the path read-only.
    Freeze,
}

/// Input of a covering process.
pub(crate) struct CoverInput {
    /// Descriptors that stay open, in ascending order.
    pub(crate) keep: Vec<RawFd>,
    pub(crate) user: RawFd,
    pub(crate) mount: RawFd,
    /// Pipe for the result: an error number, or zero.
    pub(crate) answer: RawFd,
    pub(crate) cover: Cover,
    /// Paths in the cell.
    pub(crate) places: Vec<CString>,
}

/// Runs the process. All signals must be blocked.
pub(crate) fn cover(covering: &CoverInput) -> ! {
    let _guard = EndOnUnwind;
    let errno = act(covering).err().map_or(0, Errno::raw_os_error);
    // Without an answer, the starter reports a failure.
    let _unheard = write(sys::borrow(covering.answer), &errno.to_ne_bytes());
    sys::exit(0)
}

fn act(covering: &CoverInput) -> Result<(), Errno> {
    keep_only(&covering.keep)?;
    // Forbid inspection: the process's memory is a copy of the caller's.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The user namespace comes first, because it grants the right to enter the mount namespace.
    move_into_link_name_space(sys::borrow(covering.user), Some(LinkNameSpaceType::User))?;
    move_into_link_name_space(sys::borrow(covering.mount), Some(LinkNameSpaceType::Mount))?;
    covering.places.iter().try_for_each(|place| match cover_one(place, covering.cover) {
        // The command has removed or moved the file, or replaced it with a link.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
        other => other,
    })
}

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
