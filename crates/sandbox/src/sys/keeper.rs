//! System calls of the first process of a cell without namespaces.

use std::ffi::{c_int, c_long};
use std::mem::zeroed;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::{Side, check};

/// Opens a descriptor that is readable when a child has changed state or SIGTERM has arrived. Both
/// signals must be blocked.
pub(crate) fn child_and_termination_events() -> Result<OwnedFd, Errno> {
    // SAFETY: a sigset_t is plain data that `sigemptyset` fills; all pointers are to live data; the
    // returned descriptor is new and ours.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::OVERFLOW)?))
    }
}

/// Reads the next signal from the descriptor; returns `None` if there is none.
pub(crate) fn next_signal(events: &OwnedFd) -> Option<u32> {
    // The number is the first field of `signalfd_siginfo`.
    let mut event = [0_u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(events, &mut event) {
        Ok(length) if length == event.len() => {
            let [a, b, c, d, ..] = event;
            Some(u32::from_ne_bytes([a, b, c, d]))
        }
        _ => None,
    }
}

/// Starts a process without namespaces by `clone`, because containers often refuse `clone3`.
pub(crate) fn clone_by_older_call() -> Result<Side, Errno> {
    let mut descriptor: c_int = -1;
    // SAFETY: without CLONE_VM this is a fork. With CLONE_PIDFD the third argument receives the
    // descriptor; the others are null and so unused.
    let result = check(unsafe {
        libc::syscall(
            libc::SYS_clone,
            c_long::from(libc::CLONE_PIDFD),
            0_usize,
            &raw mut descriptor,
            0_usize,
            0_usize,
        )
    })?;
    if result == 0 {
        return Ok(Side::Child);
    }
    // SAFETY: the kernel has just opened this descriptor for us, and it has no other owner.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok(Side::Parent(i32::try_from(result).map_err(|_| Errno::OVERFLOW)?, owned))
}

/// Kills every process that the caller may send signals to, except the caller.
///
/// INVARIANT: used only behind a Landlock fence around the caller's descendants.
pub(crate) fn kill_all() {
    // The only possible failure is that there is no process.
    // SAFETY: takes integers only.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}
