//! The first process of a cell without namespaces.
//!
//! Without a pid namespace the kernel does not end a command's descendants, so this process does.
//! Every orphan becomes its child, and a Landlock scope limits its signals to its descendants. So
//! one signal to all processes kills them at once, and no process can fork out of reach. It stands
//! outside of the command's confinement, and so out of the command's reach, and executes no
//! program. Its child is the first process of a cell with namespaces.
//!
//! It ends the cell when it receives SIGTERM, when its child ends, and when the other end of the
//! control socket is closed.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, getpid, getppid, set_child_subreaper,
    set_dumpable_behavior, setrlimit, setsid, test_kill_process,
};
use rustix::thread::{set_name, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::blueprint::Blueprint;
use super::first_steps::{EndOnUnwind, keep_only, told_to_go};
use super::life::run;
use super::privileges;
use super::report::{Fault, Report, Stage};
use crate::sys::{self, keeper};

/// The user whose rights the command gets, if they are not the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Wait for killed children before the keeper kills again.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Runs the new process. All signals must be blocked. `fence` is a ruleset for signals and one of
/// the descriptors that the blueprint keeps open.
pub(crate) fn enter(blueprint: &Blueprint, fence: RawFd, user: Option<User>) -> ! {
    let _guard = EndOnUnwind;
    if let Err(fault) = live(blueprint, fence, user) {
        Report::Fault(fault).send(sys::borrow(blueprint.control));
    }
    sys::exit(1)
}

fn live(blueprint: &Blueprint, fence: RawFd, user: Option<User>) -> Result<(), Fault> {
    keep_only(&blueprint.keep).map_err(|errno| Stage::Descriptors.fault(errno))?;
    sys::reset_signal_handlers();
    if !told_to_go(blueprint.control) {
        sys::exit(0);
    }
    let events = prepare().map_err(|errno| Stage::Names.fault(errno))?;
    fence_in(fence)?;
    let Some(first) = sys::fork().map_err(|errno| Stage::Fork.fault(errno))? else {
        drop(events);
        if let Err(fault) =
            begin(user).map_err(|errno| Stage::Identity.fault(errno)).and_then(|()| run(blueprint))
        {
            Report::Fault(fault).send(sys::borrow(blueprint.control));
        }
        sys::exit(1)
    };
    let ended = keep(blueprint, &events, first);
    sweep(&events);
    ended.map_err(|errno| Stage::Wait.fault(errno))?;
    sys::exit(0)
}

fn prepare() -> Result<OwnedFd, Errno> {
    set_child_subreaper(Some(getpid()))?;
    // Forbid inspection: the process's memory is a copy of the caller's.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setsid()?;
    set_name(c"handfast-cell")?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    keeper::child_and_termination_events()
}

/// Limits the signals of this process to the processes that it starts from now on.
fn fence_in(fence: RawFd) -> Result<(), Fault> {
    let landlock = |errno| Stage::Landlock.fault(errno);
    set_no_new_privs(true).map_err(landlock)?;
    sys::landlock_restrict(fence).map_err(landlock)?;
    // INVARIANT: tested before any use. Without the fence a signal to all processes would reach all
    // processes of the user, and for root the whole machine.
    match getppid().map(test_kill_process) {
        Some(Err(Errno::PERM)) => Ok(()),
        // The caller has ended, and the cell with it.
        Some(Err(Errno::SRCH)) | None => sys::exit(0),
        Some(_) => Err(landlock(Errno::NOTSUP)),
    }
}

/// Kills all processes that this process has started, until none is left. Must run only behind the
/// fence.
///
/// The kernel signals all of them in one pass, and a process with a pending kill signal cannot
/// fork. So the first pass reaches all of them; their orphans soon become children of this process.
fn sweep(events: &OwnedFd) {
    loop {
        keeper::kill_all();
        loop {
            match sys::reap() {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let _woken = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&PAUSE));
        while keeper::next_signal(events).is_some() {}
    }
}

/// Prepares the process that becomes the first one of the cell. The process gives up privilege for
/// good, and drops its remaining rights together with those that setting up needs.
fn begin(user: Option<User>) -> Result<(), Errno> {
    // Descendants that outlive the command are reaped here for as long as their output is read.
    set_child_subreaper(Some(getpid()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let Some(User { user, group }) = user else { return Ok(()) };
    privileges::limit_capabilities().map_err(|fault| fault.errno)?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    // A change of identity makes an undumpable process dumpable again.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Waits until the cell is to end.
fn keep(blueprint: &Blueprint, events: &OwnedFd, first: i32) -> Result<(), Errno> {
    for fd in blueprint.standard.descriptors().into_iter().flatten() {
        let fd = fd.cast_unsigned();
        sys::close_range(fd, fd, false)?;
    }
    let control = sys::borrow(blueprint.control);
    loop {
        loop {
            match sys::reap() {
                Ok(Some((pid, _))) if pid == first => return Ok(()),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(Errno::CHILD) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        // The end of the control socket is all that counts here; its messages are for the first
        // process.
        let mut ready = [
            PollFd::new(&control, PollFlags::RDHUP),
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let [from_caller, _] = &ready;
        if !from_caller.revents().is_empty() {
            return Ok(());
        }
        while let Some(signal) = keeper::next_signal(events) {
            if signal == libc::SIGTERM.cast_unsigned() {
                return Ok(());
            }
        }
    }
}
