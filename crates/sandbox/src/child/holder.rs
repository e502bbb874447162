//! Processes that are needed for their namespaces alone.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::first_steps::{GO, keep_only};
use super::privileges;
use crate::sys;

/// Brings up the loopback device of this process's network, reports that, and waits until the
/// caller closes its end of `socket`.
pub(crate) fn hold_network(socket: &OwnedFd) -> ! {
    if keep_only(&[socket.as_raw_fd()]).is_ok() && privileges::loopback().is_ok() {
        let _gone = send(socket, &[GO], SendFlags::NOSIGNAL);
        let mut end = [0_u8; 1];
        let _ended = recv(socket, &mut end[..], RecvFlags::empty());
    }
    sys::exit(0)
}

/// Brings up the loopback device of this process's network.
pub(crate) fn raise_loopback() -> Result<(), Errno> {
    privileges::loopback()
}

/// Waits until the caller closes its end of `socket`, for a process that is needed for its
/// namespace alone.
pub(crate) fn outlive_nobody(socket: &OwnedFd) -> ! {
    if keep_only(&[socket.as_raw_fd()]).is_ok() {
        let mut end = [0_u8; 1];
        let _ended = recv(socket, &mut end[..], RecvFlags::empty());
    }
    sys::exit(0)
}
