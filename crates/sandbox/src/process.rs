//! Processes in new namespaces, which their starter refers to by descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::error::SandboxError;
use crate::network::Network;
use crate::sys::{self, AtEnd, Side};

/// Starts a process in new namespaces (`CLONE_NEW*` of `flags`) that runs `inside` with all signals
/// blocked, and then ends.
///
/// INVARIANT: `inside` follows the rules of `crate::child` for a process of this kind.
pub(crate) fn start(flags: i32, inside: impl FnOnce()) -> Result<Process, Errno> {
    start_in(None, flags, inside)
}

/// Starts a process as [`start`] does, in a control group of version two.
pub(crate) fn start_in(
    group: Option<BorrowedFd<'_>>,
    flags: i32,
    inside: impl FnOnce(),
) -> Result<Process, Errno> {
    let (pid, descriptor) = clone(flags, AtEnd::Quiet, group, inside)?;
    Ok(Process { pid, descriptor, waited_for: WaitMethod::AsParent, killed_by: Signal::KILL })
}

/// Starts a process without new namespaces that runs `inside`. Works on all kernels and in all
/// containers.
///
/// INVARIANT: as for [`start`].
pub(crate) fn start_by_older_call(inside: impl FnOnce()) -> Result<Process, Errno> {
    let (pid, descriptor) = begin(sys::keeper::clone_by_older_call, inside)?;
    Ok(Process { pid, descriptor, waited_for: WaitMethod::AsParent, killed_by: Signal::KILL })
}

/// Starts a process that ends its descendants on SIGTERM, because no kernel does that without a pid
/// namespace.
pub(crate) fn start_keeper(inside: impl FnOnce()) -> Result<Process, Errno> {
    let mut keeper = start_by_older_call(inside)?;
    keeper.killed_by = Signal::TERM;
    Ok(keeper)
}

/// Starts a process as [`start_in`] does, in a shared network: `flags` must not ask for a new one.
///
/// An intermediate process enters the network and makes the new process as a child of this one.
/// This process cannot do that, because it has threads and could not return.
pub(crate) fn start_in_network(
    network: &Network,
    group: Option<BorrowedFd<'_>>,
    flags: i32,
    inside: impl FnOnce(),
) -> Result<Process, Errno> {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let between = start(0, || {
        let flags = flags | libc::CLONE_PARENT;
        let cloned = network.enter().and_then(|()| sys::clone_into_namespaces(flags, AtEnd::Quiet, group));
        let answer = match cloned {
            Ok(Side::Child) => {
                inside();
                sys::exit(1)
            }
            Ok(Side::Parent(pid, _descriptor)) => pid,
            Err(errno) => -errno.raw_os_error(),
        };
        let _gone = send(&there, &answer.to_ne_bytes(), SendFlags::NOSIGNAL);
    })?;
    drop(there);
    let mut answer = [0_u8; 4];
    let (received, _) = recv(&here, &mut answer[..], RecvFlags::empty())?;
    between.end()?;
    match i32::from_ne_bytes(answer) {
        _ if received != answer.len() => Err(Errno::PIPE),
        refused if refused < 0 => Err(Errno::from_raw_os_error(-refused)),
        pid => {
            // The child of this process has not been reaped, so the id still refers to it.
            let child = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
            let descriptor = pidfd_open(child, PidfdFlags::empty())?;
            Ok(Process { pid, descriptor, waited_for: WaitMethod::AsParent, killed_by: Signal::KILL })
        }
    }
}

/// Starts a process as [`start_in`] does, for a starter that ignores the ends of its children.
/// Returns the process's id and descriptor.
pub(crate) fn start_unattended(
    group: Option<BorrowedFd<'_>>,
    flags: i32,
    inside: impl FnOnce(),
) -> Result<(i32, OwnedFd), Errno> {
    clone(flags, AtEnd::ChildSignal, group, inside)
}

fn clone(
    flags: i32,
    at_end: AtEnd,
    group: Option<BorrowedFd<'_>>,
    inside: impl FnOnce(),
) -> Result<(i32, OwnedFd), Errno> {
    begin(|| sys::clone_into_namespaces(flags, at_end, group), inside)
}

/// Makes a process with `make` and runs `inside` in it.
fn begin(make: impl FnOnce() -> Result<Side, Errno>, inside: impl FnOnce()) -> Result<(i32, OwnedFd), Errno> {
    // No signal handler of this program may run in the copy, so the copy starts with all signals
    // blocked.
    let blocked = sys::block_signals();
    match make() {
        Ok(Side::Child) => {
            inside();
            sys::exit(1)
        }
        Ok(Side::Parent(pid, descriptor)) => {
            blocked.restore();
            Ok((pid, descriptor))
        }
        Err(errno) => {
            blocked.restore();
            Err(errno)
        }
    }
}

/// A process, killed and reaped when dropped, so that no error path leaves it behind.
#[derive(Debug)]
pub(crate) struct Process {
    pid: i32,
    descriptor: OwnedFd,
    waited_for: WaitMethod,
    /// Signal that ends the process with all processes of its cell.
    killed_by: Signal,
}

/// The way to wait for the end of a process.
#[derive(Clone, Copy, Debug)]
enum WaitMethod {
    /// Reap the process as its parent.
    AsParent,
    /// Poll its descriptor, because another process is its parent.
    ByDescriptor,
    /// The process was already waited for.
    Done,
}

impl Process {
    /// Takes over a process that the spawner has started.
    pub(crate) fn adopt(pid: i32, descriptor: OwnedFd) -> Self {
        Self { pid, descriptor, waited_for: WaitMethod::ByDescriptor, killed_by: Signal::KILL }
    }

    /// Returns a copy of the process's descriptor.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, SandboxError> {
        self.descriptor
            .try_clone()
            .map_err(|source| SandboxError::Io { doing: "copying the descriptor of a process", source })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Kills the process and, if it is the first one of its pid namespace, all processes in that.
    pub(crate) fn kill(&self) {
        // The only possible failure is a process that has ended.
        let _ended = pidfd_send_signal(&self.descriptor, self.killed_by);
    }

    /// Waits for the end of the process, at most for `patience`.
    pub(crate) fn await_end(&self, patience: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        // A signal may shorten the wait.
        let _ended = poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&timeout));
    }

    /// Waits for the end of the process and, as the kernel guarantees, of all processes in its pid
    /// namespace.
    pub(crate) fn end(mut self) -> Result<(), Errno> {
        self.reap()
    }

    /// Returns true if the process has ended, even if it has not been reaped.
    pub(crate) fn has_ended(&self) -> bool {
        poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
    }

    fn reap(&mut self) -> Result<(), Errno> {
        let waited_for = std::mem::replace(&mut self.waited_for, WaitMethod::Done);
        let how = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        loop {
            let ended = match waited_for {
                WaitMethod::AsParent => waitid(WaitId::PidFd(self.descriptor.as_fd()), how).map(drop),
                // The descriptor is readable once the process has ended, whether or not it has been
                // reaped.
                WaitMethod::ByDescriptor => {
                    poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None).map(drop)
                }
                WaitMethod::Done => Ok(()),
            };
            if ended != Err(Errno::INTR) {
                return ended;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.waited_for, WaitMethod::Done) {
            self.kill();
            // A failure here has no remedy; the process is killed in any case.
            let _failed = self.reap();
        }
    }
}

/// Writes one map of the process's user namespace.
pub(crate) fn write_map(pid: i32, map: &str, lines: &str) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/{map}"), lines)
}
