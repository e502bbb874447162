//! Kills a program right before any chosen system call that changes something.
//!
//! The program does not know about the tests: they trace it, and every system call that changes the
//! file system is a point at which they can kill it. The points are therefore complete, and include
//! the calls of the database.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Killed before this change.
    Killed(String),
    /// Ran to its end, with this many points and this exit code.
    ByItself { points: usize, code: i32 },
}

/// Runs the program of `command`, whose environment is exactly the one that it names. Kills the
/// program with all its threads right before the change of this number, counted from 1. Processes
/// that the program started must end on their own.
#[expect(clippy::zombie_processes, reason = "it is waited for as what is traced")]
pub(crate) fn kill_at(command: &Command, point: usize) -> Ended {
    // The shell stops itself until it is traced.
    let mut waiting = Command::new("sh");
    waiting
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    waiting.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    waiting.current_dir(command.get_current_dir().unwrap());
    waiting.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = waiting.spawn().unwrap();
    let leader = Pid::from_raw(i32::try_from(child.id()).unwrap());
    assert!(matches!(waitpid(leader, Some(WaitPidFlag::WUNTRACED)), Ok(WaitStatus::Stopped(..))));
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::seize(leader, options).unwrap();
    kill(leader, Signal::SIGCONT).unwrap();
    let mut points = 0;
    let mut killed = None;
    loop {
        // Wait only for threads that this thread traces, because other tests have children, too.
        let status =
            waitpid(Pid::from_raw(-1), Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)).unwrap();
        let (stopped, signal) = match status {
            WaitStatus::PtraceSyscall(thread) => {
                if let Some(change) = change(thread).filter(|_| killed.is_none()) {
                    points += 1;
                    if points == point {
                        kill(leader, Signal::SIGKILL).unwrap();
                        killed = Some(change);
                        continue;
                    }
                }
                (thread, None)
            }
            // INVARIANT: only threads are traced. A cell that was stopped at the moment of the kill
            // would stay stopped. Each later run would then try to remove its control group, which
            // adds a point.
            WaitStatus::PtraceEvent(thread, ..) if !is_thread_of(thread, leader) => {
                let _ = ptrace::detach(thread, None);
                continue;
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            WaitStatus::Exited(thread, code) if thread == leader => {
                return killed.map_or(Ended::ByItself { points, code }, Ended::Killed);
            }
            WaitStatus::Signaled(thread, ..) if thread == leader => return Ended::Killed(killed.unwrap()),
            _ => continue,
        };
        // A thread that was killed meanwhile cannot go on.
        let _ = ptrace::syscall(stopped, signal);
    }
}

/// Returns true if `thread` is a thread of the process `leader`, and not another process. A thread
/// that has ended is not one.
fn is_thread_of(thread: Pid, leader: Pid) -> bool {
    std::fs::exists(format!("/proc/{leader}/task/{thread}")).unwrap()
}

/// Returns the name of the change that a thread is about to make. Returns `None` at the end of a
/// system call, or if the call changes nothing.
fn change(thread: Pid) -> Option<String> {
    const ENTRY: u8 = 1;
    if ptrace::syscall_info(thread).ok()?.op != ENTRY {
        return None;
    }
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let mut words = line.split_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    let arguments: Vec<u64> =
        words.filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let creating =
        u64::try_from(libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY).ok()?;
    if number == libc::SYS_openat {
        return (arguments[2] & creating != 0).then(|| "openat".to_owned());
    }
    if [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev].contains(&number) {
        let to = std::fs::read_link(format!("/proc/{thread}/fd/{}", arguments[0])).ok()?;
        let place = to.to_str()?;
        let is_kept = place.starts_with('/')
            && !["/dev/", "/proc/", "/sys/"].iter().any(|other| place.starts_with(other));
        return is_kept.then(|| format!("write to {}", to.file_name().unwrap_or_default().to_string_lossy()));
    }
    let names: BTreeMap<libc::c_long, &str> = [
        (libc::SYS_renameat2, "renameat2"),
        (libc::SYS_renameat, "renameat"),
        (libc::SYS_linkat, "linkat"),
        (libc::SYS_symlinkat, "symlinkat"),
        (libc::SYS_unlinkat, "unlinkat"),
        (libc::SYS_mkdirat, "mkdirat"),
        (libc::SYS_mknodat, "mknodat"),
        (libc::SYS_ftruncate, "ftruncate"),
        (libc::SYS_fallocate, "fallocate"),
        (libc::SYS_fchmod, "fchmod"),
        (libc::SYS_fchmodat, "fchmodat"),
        (libc::SYS_fchown, "fchown"),
        (libc::SYS_fchownat, "fchownat"),
        (libc::SYS_utimensat, "utimensat"),
        (libc::SYS_setxattr, "setxattr"),
        (libc::SYS_lsetxattr, "lsetxattr"),
        (libc::SYS_fsetxattr, "fsetxattr"),
        (libc::SYS_removexattr, "removexattr"),
        (libc::SYS_lremovexattr, "lremovexattr"),
        (libc::SYS_fremovexattr, "fremovexattr"),
        (libc::SYS_copy_file_range, "copy_file_range"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_rename, "rename"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_link, "link"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_symlink, "symlink"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_unlink, "unlink"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mkdir, "mkdir"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_rmdir, "rmdir"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, "chmod"),
    ]
    .into();
    names.get(&number).map(|name| (*name).to_owned())
}
