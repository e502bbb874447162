//! System calls that only probes attempt.

use std::ffi::{c_int, c_long};
use std::ptr;

use rustix::io::Errno;

use super::check;

/// Moves the calling thread into new namespaces (`CLONE_NEW*` of `flags`).
pub(crate) fn unshare(flags: c_int) -> Result<(), Errno> {
    // SAFETY: takes integers only, and none of the flags shares or separates memory or descriptors.
    check(c_long::from(unsafe { libc::unshare(flags) })).map(drop)
}

/// Forks into new namespaces by `clone`, not by `clone3`. Returns `None` in the child.
pub(crate) fn fork_into_namespaces(flags: c_int) -> Result<Option<i32>, Errno> {
    let flags = c_long::from(flags | libc::SIGCHLD);
    // SAFETY: plain fork semantics; all pointer arguments are null and so unused.
    let result = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    if result == 0 {
        return Ok(None);
    }
    Ok(Some(i32::try_from(result).map_err(|_| Errno::OVERFLOW)?))
}

/// Asks the parent to trace this process.
pub(crate) fn ask_to_be_traced() -> Result<(), Errno> {
    // SAFETY: this request ignores its pointers.
    check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) })
        .map(drop)
}
