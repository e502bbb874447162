//! Processes in new namespaces, which their starter refers to by descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::error::SandboxError;
use crate::sys::{self, AtEnd, Side};

/// Namespaces of a cell, as flags for `clone3`.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Added to the score by which the kernel's out-of-memory killer chooses a process, in thousandths
/// of the available memory.
pub(crate) const OUT_OF_MEMORY_SCORE: &str = "500";

/// Returns the flags of a cell's namespaces, without the network if that is shared.
pub(crate) fn cell_namespaces(shares_network: bool) -> i32 {
    if shares_network { NAMESPACES & !libc::CLONE_NEWNET } else { NAMESPACES }
}

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
    /// Takes over a child of this process that an intermediate process has made. The child has not
    /// been reaped, so its id still refers to it.
    pub(crate) fn adopt_child(pid: i32) -> Result<Self, Errno> {
        let child = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
        let descriptor = pidfd_open(child, PidfdFlags::empty())?;
        Ok(Self { pid, descriptor, waited_for: WaitMethod::AsParent, killed_by: Signal::KILL })
    }

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

/// Marks a process for the out-of-memory killer: a command should be killed before the processes
/// that it runs with.
pub(crate) fn prefer_at_out_of_memory(pid: i32) {
    // The kernel may refuse if this program itself was marked.
    let _as_before = write_map(pid, "oom_score_adj", OUT_OF_MEMORY_SCORE);
}
