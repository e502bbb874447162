//! Processes in namespaces of their own, as their starter holds them: by descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::sys::{self, Side};

/// Starts a process in new namespaces (`CLONE_NEW*` of `flags`) that runs `inside` with all signals blocked, and
/// then ends.
///
/// INVARIANT: `inside` keeps to what `crate::child` says about such a process.
pub(crate) fn start(flags: i32, inside: impl FnOnce()) -> Result<Process, Errno> {
    // No handler of this program may run in the copy of it, so the copy starts with everything blocked.
    let blocked = sys::block_signals();
    match sys::clone_into_namespaces(flags) {
        Ok(Side::Child) => {
            inside();
            sys::exit(1)
        }
        Ok(Side::Parent(pid, descriptor)) => {
            blocked.restore();
            Ok(Process { pid, descriptor, reaped: false })
        }
        Err(errno) => {
            blocked.restore();
            Err(errno)
        }
    }
}

/// A process that was cloned, killed and reaped when dropped, so that no error path leaves it behind.
pub(crate) struct Process {
    pid: i32,
    descriptor: OwnedFd,
    reaped: bool,
}

impl Process {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Kills the process, and with it, when it is the first of its pid namespace, everything in there.
    pub(crate) fn kill(&self) {
        // The one possible failure is that it has ended.
        let _ended = pidfd_send_signal(&self.descriptor, Signal::KILL);
    }

    /// Waits for the end of the process and, by what the kernel promises, of everything in its pid namespace.
    pub(crate) fn end(mut self) -> Result<(), Errno> {
        self.reap()
    }

    fn reap(&mut self) -> Result<(), Errno> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        loop {
            match waitid(WaitId::PidFd(self.descriptor.as_fd()), how) {
                Err(Errno::INTR) => {}
                other => {
                    self.reaped = true;
                    return other.map(drop);
                }
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            // Nothing is left to do about a failure here; the process is killed in any case.
            let _failed = self.reap();
        }
    }
}

/// Writes one map of the process's user namespace.
pub(crate) fn write_map(pid: i32, map: &str, lines: &str) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/{map}"), lines)
}
