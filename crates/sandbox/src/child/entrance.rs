//! The first process of a cell that another program has made: this program, executed again.
//!
//! The process has one thread and none of its caller's memory, so unlike its siblings this module
//! may allocate.

use std::os::fd::{AsRawFd, RawFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};
use rustix::process::{
    DumpableBehavior, PidfdFlags, Resource, Rlimit, getpid, pidfd_open, set_dumpable_behavior, setrlimit,
    umask,
};
use rustix::thread::set_name;

use super::blueprint::{Blueprint, Landlock};
use super::first_steps::{EndOnUnwind, keep_only};
use super::report::{Fault, Report, Stage};
use super::request::{self, Request, RequestPart};
use super::{filesystem, life};
use crate::process::OUT_OF_MEMORY_SCORE;
use crate::{landlock, seccomp, sys};

/// Becomes the first process of the cell in which this process was started, and ends with the cell.
/// `control` is the number after the arguments of the [`Entrance`](crate::Entrance).
///
/// Ends at once, without any effect, if another program started it.
pub fn enter(control: RawFd) -> ! {
    let _guard = EndOnUnwind;
    let _never_restored = sys::block_signals();
    if control > 2
        && let Err(fault) = live(control)
    {
        Report::Fault(fault).send(sys::borrow(control));
    }
    sys::exit(1)
}

fn live(control: RawFd) -> Result<(), Fault> {
    let keep = vec![0, 1, 2, control];
    settle(&keep).map_err(|errno| Stage::Descriptors.fault(errno))?;
    let socket = sys::borrow(control);
    let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(|errno| Stage::Names.fault(errno))?;
    // The caller uses this descriptor to kill the cell and to wait for its end.
    Report::Ready
        .send_with(socket, std::os::fd::AsFd::as_fd(&own))
        .map_err(|errno| Stage::Request.fault(errno))?;
    drop(own);
    let received = request::receive(socket).map_err(|errno| Stage::Request.fault(errno))?;
    let Some(Request { mut steps, rules, part }) = received else { sys::exit(0) };
    let RequestPart::Call { start, standard } = part else { return Err(Stage::Request.fault(Errno::PROTO)) };
    filesystem::verify(&mut steps)?;
    let unmade = |_| Stage::Landlock.fault(Errno::NOTSUP);
    let ruleset = landlock::version().map(landlock::ruleset).transpose().map_err(unmade)?;
    let blueprint = Blueprint {
        keep,
        control,
        standard,
        drop_groups: false,
        shares_network: false,
        own_map: None,
        steps,
        landlock: ruleset.as_ref().map(|ruleset| Landlock { ruleset: ruleset.as_raw_fd(), rules }),
        // This process cannot know whether a group limits the cell's memory.
        filter: seccomp::filter(false).map_err(|_| Stage::Seccomp.fault(Errno::NOTSUP))?,
        start,
    };
    life::run(&blueprint)
}

/// Drops the state that the other program left, and takes on the settings of every cell's first
/// process.
fn settle(keep: &[RawFd]) -> Result<(), Errno> {
    let null = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for standard in 0..3 {
        sys::duplicate_onto(&null, standard)?;
    }
    drop(null);
    keep_only(keep)?;
    sys::reset_signal_handlers();
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_name(c"handfast-cell")?;
    umask(Mode::from_raw_mode(0o022));
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    for resource in [Resource::Core, Resource::Rtprio, Resource::Nice] {
        setrlimit(resource, none)?;
    }
    // If the kernel refuses to change the score, the score stays unchanged.
    if let Ok(score) = open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _as_before = write(score, OUT_OF_MEMORY_SCORE.as_bytes());
    }
    Ok(())
}
