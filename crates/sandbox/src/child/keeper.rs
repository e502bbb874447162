//! The first process of a cell that has no namespaces.
//!
//! Without a namespace of processes the kernel does not end what a command has started. So this one does: whatever
//! loses its parent becomes its child, and it kills its children until it has none. It is no part of what confines the
//! command, and so out of the command's reach; it executes nothing. Its own child is the process that a cell with
//! namespaces begins with.
//!
//! It ends the cell when it gets SIGTERM, when its own child ends, and when nobody holds the other end of the control
//! socket any more.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, getpid, set_child_subreaper, set_dumpable_behavior,
    setrlimit, setsid,
};
use rustix::thread::{set_name, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::blueprint::Blueprint;
use super::report::{Fault, Report, Stage};
use super::{EndOnUnwind, keep_only, privileges, run, told_to_go};
use crate::sys::{self, keeper};

/// Whose rights the command gets, where they are not those of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// How long the keeper waits for killed children before it looks again.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Runs the new process. All signals must be blocked.
pub(crate) fn enter(blueprint: &Blueprint, user: Option<User>) -> ! {
    let _guard = EndOnUnwind;
    if let Err(fault) = live(blueprint, user) {
        Report::Fault(fault).send(sys::borrow(blueprint.control));
    }
    sys::exit(1)
}

fn live(blueprint: &Blueprint, user: Option<User>) -> Result<(), Fault> {
    keep_only(&blueprint.keep).map_err(|errno| Stage::Descriptors.fault(errno))?;
    sys::reset_signal_handlers();
    if !told_to_go(blueprint.control) {
        sys::exit(0);
    }
    let kept = prepare().map_err(|errno| Stage::Names.fault(errno))?;
    let Some(first) = sys::fork().map_err(|errno| Stage::Fork.fault(errno))? else {
        drop(kept);
        if let Err(fault) =
            begin(user).map_err(|errno| Stage::Identity.fault(errno)).and_then(|()| run(blueprint))
        {
            Report::Fault(fault).send(sys::borrow(blueprint.control));
        }
        sys::exit(1)
    };
    let ended = keep(blueprint, &kept, first);
    sweep(&kept);
    ended.map_err(|errno| Stage::Wait.fault(errno))?;
    sys::exit(0)
}

/// What the keeper holds open.
struct Kept {
    /// The list of its own children.
    children: OwnedFd,
    events: OwnedFd,
}

fn prepare() -> Result<Kept, Errno> {
    set_child_subreaper(Some(getpid()))?;
    // Its memory is a copy of the caller's.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setsid()?;
    set_name(c"handfast-cell")?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let children = open(c"/proc/thread-self/children", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Kept { children, events: keeper::child_and_termination_events()? })
}

/// Begins what a cell with namespaces begins with. Privilege is given up for good; what is left of it is dropped with
/// everything else that setting up needs.
fn begin(user: Option<User>) -> Result<(), Errno> {
    // What outlives the command is waited for here for as long as its output is read.
    set_child_subreaper(Some(getpid()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let Some(User { user, group }) = user else { return Ok(()) };
    privileges::limit_capabilities().map_err(|fault| fault.errno)?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    // A change of identity makes a process that cannot be looked into one that can.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Waits until the cell is to end.
fn keep(blueprint: &Blueprint, kept: &Kept, first: i32) -> Result<(), Errno> {
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
        // Of the control socket only its end counts here; what is said on it is for the first process.
        let mut ready = [
            PollFd::new(&control, PollFlags::RDHUP),
            PollFd::from_borrowed_fd(kept.events.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let [from_caller, _] = &ready;
        if !from_caller.revents().is_empty() {
            return Ok(());
        }
        while let Some(signal) = keeper::next_signal(&kept.events) {
            if signal == libc::SIGTERM.cast_unsigned() {
                return Ok(());
            }
        }
    }
}

/// Kills children until there are none. Those of the killed ones become children in turn.
///
/// A process that has a SIGKILL pending does not get another child, so each round leaves fewer that can; and those
/// that are made while the list is read are in the next one.
fn sweep(kept: &Kept) {
    loop {
        let mut list = [0_u8; 4096];
        let read = pread(&kept.children, &mut list, 0).unwrap_or(0);
        // A number that the buffer cuts short is not one: each is followed by a space.
        let mut pid = 0_i32;
        for &byte in list.get(..read).unwrap_or_default() {
            if byte.is_ascii_digit() {
                pid = pid.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            } else {
                if pid > 1 {
                    keeper::kill(pid);
                }
                pid = 0;
            }
        }
        let mut reaped = false;
        loop {
            match sys::reap() {
                Ok(Some(_)) => reaped = true,
                Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if !reaped {
            let _woken = poll(&mut [PollFd::new(&kept.events, PollFlags::IN)], Some(&PAUSE));
            while keeper::next_signal(&kept.events).is_some() {}
        }
    }
}
