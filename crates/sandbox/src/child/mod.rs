//! The inside of the new process, from `clone3` to `execve`.
//!
//! INVARIANT: nothing in this module and its parts allocates, locks, panics or unwinds. The process is a copy of
//! one that had other threads: a lock that one of them held stays held for ever, the allocator's among them.
//! Only plain system calls (`rustix` with C strings, and `crate::sys`) on data of the [`Blueprint`] are allowed;
//! owned descriptors may be dropped, which is one `close`.
//!
//! The process is the first one of its pid namespace, so that its end is the end of everything in the cell. It
//! never executes a program itself: it sets up, starts the command, reaps, reports how the command ended, and
//! ends when its caller's end of the control socket closes, for whatever reason. While the command's process is on its
//! way to `execve` it stands still: the two share their memory. It can be killed all the same.
//! It has no signal for the death of its parent: that one is bound to the thread that cloned, which may end long
//! before the program does.

pub(crate) mod blueprint;
mod command;
pub(crate) mod entrance;
mod filesystem;
pub(crate) mod keeper;
pub(crate) mod late;
mod placeholder;
mod privileges;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod zygote;

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::set_name;
use seccompiler::sock_filter;

use crate::sys;
use blueprint::{Blueprint, Landlock};
pub use privileges::HOST_NAME;
use report::{Fault, Report, Stage};

/// The message with which the caller says that the user mapping is written.
pub(crate) const GO: u8 = b'g';
/// The first byte of the message with which the caller asks for a signal to the command's process group; the second is
/// the signal's number.
pub(crate) const SIGNAL: u8 = b's';

/// Runs the new process. All signals must be blocked.
pub(crate) fn enter(blueprint: &mut Blueprint) -> ! {
    let _guard = EndOnUnwind;
    let control = sys::borrow(blueprint.control);
    if let Err(fault) = live(blueprint) {
        Report::Fault(fault).send(control);
    }
    sys::exit(1)
}

/// Should something unwind after all, the caller's destructors must not run in this copy of it.
pub(crate) struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        sys::exit(101)
    }
}

/// Brings the loopback device of its network up, says so, and waits until the caller closes its end of `socket`.
pub(crate) fn hold_network(socket: &OwnedFd) -> ! {
    if keep_only(&[socket.as_raw_fd()]).is_ok() && privileges::loopback().is_ok() {
        let _gone = send(socket, &[GO], SendFlags::NOSIGNAL);
        let mut end = [0_u8; 1];
        let _ended = recv(socket, &mut end[..], RecvFlags::empty());
    }
    sys::exit(0)
}

/// Brings the loopback device of the network of this process up.
pub(crate) fn raise_loopback() -> Result<(), Errno> {
    privileges::loopback()
}

/// Only waits until the caller closes its end of `socket`: for a process that is needed for its namespace alone.
pub(crate) fn outlive_nobody(socket: &OwnedFd) -> ! {
    if keep_only(&[socket.as_raw_fd()]).is_ok() {
        let mut end = [0_u8; 1];
        let _ended = recv(socket, &mut end[..], RecvFlags::empty());
    }
    sys::exit(0)
}

fn live(blueprint: &mut Blueprint) -> Result<(), Fault> {
    keep_only(&blueprint.keep).map_err(|errno| Stage::Descriptors.fault(errno))?;
    sys::reset_signal_handlers();
    if !told_to_go(blueprint.control) {
        sys::exit(0);
    }
    if let Some(map) = &blueprint.own_map {
        privileges::map_own_user(map).map_err(|errno| Stage::Identity.fault(errno))?;
    }
    privileges::become_inner_user(blueprint.drop_groups).map_err(|errno| Stage::Identity.fault(errno))?;
    filesystem::build(&mut blueprint.steps)?;
    privileges::isolate(blueprint.shares_network)?;
    privileges::limit_capabilities()?;
    run(blueprint)
}

/// Runs the command in the cell, which is finished but for what binds its own builder.
fn run(blueprint: &Blueprint) -> Result<(), Fault> {
    bind(blueprint.control, blueprint.start.hands_over, blueprint.landlock.as_ref(), blueprint.filter)?;
    run_bound(blueprint)
}

/// Takes the right to build from the builder of the cell, which is finished.
fn bind(
    control: RawFd,
    hands_over: bool,
    landlock: Option<&Landlock>,
    filter: &[sock_filter],
) -> Result<(), Fault> {
    if hands_over {
        // While the own process table still tells them.
        late::hand_over_namespaces(sys::borrow(control)).map_err(|errno| Stage::Names.fault(errno))?;
    }
    privileges::renounce(landlock, filter)
}

/// Runs the command in the cell, which has been [bound](bind).
fn run_bound(blueprint: &Blueprint) -> Result<(), Fault> {
    // Closed by the command's `execve`, or by its end where it never gets there.
    let executed = if blueprint.start.announced {
        Some(pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Stage::Fork.fault(errno))?)
    } else {
        None
    };
    let mut stack = sys::Stack::new();
    let command = sys::start_in_same_memory(&mut stack, blueprint, command::start)
        .map_err(|errno| Stage::Fork.fault(errno))?;
    let executed = executed.map(|(executed, _)| executed);
    watch(blueprint, command, executed).map_err(|errno| Stage::Wait.fault(errno))
}

/// Closes every descriptor but those of `keep`, which are in ascending order: what the caller's other threads
/// had open at the moment of the clone, other cells' control sockets among it, must not live on here.
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

pub(crate) fn told_to_go(control: RawFd) -> bool {
    let mut message = [0_u8; 1];
    matches!(
        recv(sys::borrow(control), &mut message[..], RecvFlags::empty()),
        Ok((1, _)) if message == [GO]
    )
}

/// Reaps until the caller lets go of the control socket, or no process is left after the command has ended.
fn watch(blueprint: &Blueprint, command: i32, mut executed: Option<OwnedFd>) -> Result<(), Errno> {
    let control = sys::borrow(blueprint.control);
    // The pipes must end when the last process that was given them ends, so this one must not hold them.
    for fd in blueprint.standard.descriptors().into_iter().flatten() {
        let fd = fd.cast_unsigned();
        sys::close_range(fd, fd, false)?;
    }
    let children = sys::child_events()?;
    let mut ended = false;
    loop {
        let mut status = None;
        loop {
            match sys::reap() {
                Ok(Some((pid, its_status))) if pid == command => status = Some(its_status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    if let Some(status) = status {
                        ended = true;
                        Report::Ended { status, last: false }.send(control);
                    }
                    break;
                }
                // Nobody is left.
                Err(Errno::CHILD) if ended || status.is_some() => {
                    if let Some(status) = status {
                        // So that whoever looks at the processes does not take this one for one that waits.
                        let _name = set_name(c"handfast-ended");
                        Report::Ended { status, last: true }.send(control);
                    }
                    sys::exit(0)
                }
                Err(errno) => return Err(errno),
            }
        }
        let children_again = children.as_fd();
        let announcing = executed.as_ref().map_or(children_again, AsFd::as_fd);
        let mut ready = [control, children_again, announcing]
            .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let [from_caller, from_children, from_execution] = ready.map(|source| source.revents());
        if executed.is_some() && !from_execution.is_empty() {
            Report::Started.send(control);
            executed = None;
        }
        if from_children.contains(PollFlags::IN) {
            // One signal may stand for several children, and all are reaped above, so the content says nothing.
            let mut signals = [0_u8; 128];
            let _content = rustix::io::read(&children, &mut signals);
        }
        if !from_caller.is_empty() {
            let mut message = [0_u8; 2];
            match recv(control, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => sys::exit(0),
                Ok(_) if message[0] == SIGNAL => sys::signal_group(command, message[1].into()),
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}
