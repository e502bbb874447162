//! A process that enters the namespaces of a running cell to cover or freeze files in it.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::cover::{Cover, cover_one};
use super::first_steps::{EndOnUnwind, keep_only};
use super::report::Report;
use crate::sys;

/// Sends the namespaces of this process, the first one of a cell, to the caller.
pub(super) fn hand_over_namespaces(control: BorrowedFd<'_>) -> Result<(), Errno> {
    let open = |path| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    Report::UserNamespace.send_with(control, open(c"/proc/self/ns/user")?.as_fd())?;
    Report::MountNamespace.send_with(control, open(c"/proc/self/ns/mnt")?.as_fd())
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
