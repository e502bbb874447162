//! The inside of the new process, from `clone3` to `execve`.
//!
//! INVARIANT: nothing in this module and its submodules allocates, locks, panics or unwinds. The
//! process is a copy of one with other threads: a lock that another thread owned stays locked for
//! ever, including the allocator's. Only plain system calls (`rustix` with C strings, and
//! `crate::sys`) on data of the [`Blueprint`] are allowed. Owned descriptors may be dropped, which
//! is one `close`.
//!
//! The process is the first one of its pid namespace, so that its end is the end of every process
//! in the cell. It never executes a program itself: it sets up, starts the command, reaps children,
//! and reports how the command ended. It ends when its caller's end of the control socket closes,
//! for any reason. While the command's process is on its way to `execve`, this process is
//! suspended, because the two share their memory; it can still be killed.
//!
//! The process asks for no parent-death signal: the kernel ties that signal to the cloning thread,
//! which may end long before the program does.

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

/// Message in which the caller reports that the user mapping is written.
pub(crate) const GO: u8 = b'g';
/// First byte of the message that requests a signal to the command's process group; the second byte
/// is the signal's number.
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

/// A guard that ends the process if something unwinds after all: the caller's destructors must not
/// run in this copy of the caller.
pub(crate) struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        sys::exit(101)
    }
}

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

/// Runs the command in the cell, which is finished except for the restriction of its builder.
fn run(blueprint: &Blueprint) -> Result<(), Fault> {
    bind(blueprint.control, blueprint.start.hands_over, blueprint.landlock.as_ref(), blueprint.filter)?;
    run_bound(blueprint)
}

/// Removes the builder's right to build; the cell is finished.
fn bind(
    control: RawFd,
    hands_over: bool,
    landlock: Option<&Landlock>,
    filter: &[sock_filter],
) -> Result<(), Fault> {
    if hands_over {
        // Must come while this process's process table still shows the namespaces.
        late::hand_over_namespaces(sys::borrow(control)).map_err(|errno| Stage::Names.fault(errno))?;
    }
    privileges::renounce(landlock, filter)
}

/// Runs the command in the cell, which has been [bound](bind).
fn run_bound(blueprint: &Blueprint) -> Result<(), Fault> {
    // The command's `execve` closes the pipe, or else its end does.
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

pub(crate) fn told_to_go(control: RawFd) -> bool {
    let mut message = [0_u8; 1];
    matches!(
        recv(sys::borrow(control), &mut message[..], RecvFlags::empty()),
        Ok((1, _)) if message == [GO]
    )
}

/// Reaps children until the caller closes the control socket, or no process is left after the
/// command has ended.
fn watch(blueprint: &Blueprint, command: i32, mut executed: Option<OwnedFd>) -> Result<(), Errno> {
    let control = sys::borrow(blueprint.control);
    // A pipe must end when the last process that received it ends, so this process must not keep it
    // open.
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
                // No child process is left.
                Err(Errno::CHILD) if ended || status.is_some() => {
                    if let Some(status) = status {
                        // A viewer of the process list must not take this process for a waiting
                        // one.
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
            // One signal may stand for several children, and all are reaped above, so the content
            // does not matter.
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
