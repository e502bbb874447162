//! The first steps of every new process: its guard, its descriptors, and the messages to it.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::sys;

/// Message in which the caller reports that the user mapping is written.
pub(crate) const GO: u8 = b'g';
/// First byte of the message that requests a signal to the command's process group; the second byte
/// is the signal's number.
pub(crate) const SIGNAL: u8 = b's';

/// A guard that ends the process if something unwinds after all: the caller's destructors must not
/// run in this copy of the caller.
pub(crate) struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        sys::exit(101)
    }
}

/// Closes every descriptor except those of `keep`, which is in ascending order. Descriptors that
/// the caller's other threads had open at the time of the clone, including other cells' control
/// sockets, must not stay open here.
pub(crate) fn keep_only(keep: &[RawFd]) -> Result<(), Errno> {
    let mut next = 0_u32;
    for &kept in keep {
        let kept = kept.cast_unsigned();
        if kept > next {
            sys::close_range(next, kept - 1, false)?;
        }
        next = kept + 1;
    }
    sys::close_range(next, u32::MAX, false)
}

/// Waits for the message that the user mapping is written.
pub(crate) fn told_to_go(control: RawFd) -> bool {
    let mut message = [0_u8; 1];
    matches!(
        recv(sys::borrow(control), &mut message[..], RecvFlags::empty()),
        Ok((1, _)) if message == [GO]
    )
}
