//! The life of a cell's first process.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::set_name;
use seccompiler::sock_filter;

use super::blueprint::{Blueprint, Landlock};
use super::first_steps::{EndOnUnwind, SIGNAL, keep_only, told_to_go};
use super::report::{Fault, Report, Stage};
use super::{command, filesystem, late, privileges};
use crate::sys;

/// Runs the new process. All signals must be blocked.
pub(crate) fn enter(blueprint: &mut Blueprint) -> ! {
    let _guard = EndOnUnwind;
    let control = sys::borrow(blueprint.control);
    if let Err(fault) = live(blueprint) {
        Report::Fault(fault).send(control);
    }
    sys::exit(1)
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
pub(super) fn run(blueprint: &Blueprint) -> Result<(), Fault> {
    bind(blueprint.control, blueprint.start.hands_over, blueprint.landlock.as_ref(), blueprint.filter)?;
    run_bound(blueprint)
}

/// Removes the builder's right to build; the cell is finished.
pub(super) fn bind(
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
pub(super) fn run_bound(blueprint: &Blueprint) -> Result<(), Fault> {
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
