//! A cell that waits for its call: the parts that no call decides are built, and the rest comes by
//! a request. Some of the rest may come ahead of the call, from a caller that can predict the needs
//! of the next call.
//!
//! The process is a copy of the spawner, which has one thread, so unlike its siblings this module
//! may allocate. It serves one call and ends with it, or ends without one when the other end of its
//! control socket is closed.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use seccompiler::sock_filter;

use super::blueprint::{Blueprint, Landlock, Step};
use super::first_steps::{EndOnUnwind, keep_only, told_to_go};
use super::report::{Fault, Report, Stage};
use super::request::RequestPart;
use super::{filesystem, life, privileges, request};
use crate::sys;

/// The parts from which a waiting cell is built.
pub(crate) struct Foundation<'a> {
    /// The process's end of the control socket.
    pub(crate) control: RawFd,
    /// True if the supplementary groups can be dropped, which needs privilege.
    pub(crate) drop_groups: bool,
    /// True if some roots are taken from the host by their paths, instead of all being handed over.
    pub(crate) keep_host: bool,
    /// True if the process was started in a shared network namespace and has no separate one.
    pub(crate) shares_network: bool,
    pub(crate) steps: &'a mut [Step],
    pub(crate) landlock: Option<Landlock>,
    pub(crate) filter: &'static [sock_filter],
}

/// Builds the cell, reports that it is ready, waits for the request, and runs its command. All
/// signals must be blocked. The standard descriptors must be open, because later descriptors must
/// not take their numbers.
pub(crate) fn wait(mut foundation: Foundation<'_>) -> ! {
    let _guard = EndOnUnwind;
    let control = sys::borrow(foundation.control);
    if let Err(fault) = live(&mut foundation) {
        Report::Fault(fault).send(control);
    }
    sys::exit(1)
}

fn live(foundation: &mut Foundation<'_>) -> Result<(), Fault> {
    let mut keep = vec![0, 1, 2, foundation.control];
    keep.extend(foundation.landlock.as_ref().map(|landlock| landlock.ruleset));
    keep.sort_unstable();
    // INVARIANT: comes before anything else. An open descriptor of another waiting cell's control
    // socket would keep that cell alive after all its users have closed it.
    keep_only(&keep).map_err(|errno| Stage::Descriptors.fault(errno))?;
    sys::reset_signal_handlers();
    if !told_to_go(foundation.control) {
        sys::exit(0);
    }
    privileges::become_inner_user(foundation.drop_groups).map_err(|errno| Stage::Identity.fault(errno))?;
    filesystem::prepare(foundation.steps, foundation.keep_host)?;
    privileges::isolate(foundation.shares_network)?;
    privileges::limit_capabilities()?;
    if let Some(landlock) = &foundation.landlock {
        privileges::add_rules(landlock)?;
    }
    close_trees(foundation.steps).map_err(|errno| Stage::Descriptors.fault(errno))?;
    let control = sys::borrow(foundation.control);
    Report::Ready.send(control);

    let mut building = Some(foundation.keep_host);
    let mut ahead = false;
    let (steps, rules, start, standard) = loop {
        wait_for_request(control)?;
        let Some(request) = request::receive(control).map_err(|errno| Stage::Request.fault(errno))? else {
            sys::exit(0)
        };
        match request.part {
            RequestPart::Call { start, standard } => break (request.steps, request.rules, start, standard),
            RequestPart::Ahead { .. } if std::mem::replace(&mut ahead, true) => {
                return Err(Stage::Request.fault(Errno::PROTO));
            }
            RequestPart::Ahead { finish } => {
                let mut steps = request.steps;
                filesystem::add(&mut steps, foundation.keep_host)?;
                close_trees(&steps).map_err(|errno| Stage::Descriptors.fault(errno))?;
                let landlock = foundation.with_rules(request.rules);
                if finish {
                    filesystem::finish()?;
                    life::bind(foundation.control, true, landlock.as_ref(), foundation.filter)?;
                    building = None;
                } else {
                    landlock.as_ref().map_or(Ok(()), privileges::add_rules)?;
                    building = Some(false);
                }
                Report::Ready.send(control);
            }
        }
    };
    let mut blueprint = Blueprint {
        keep,
        control: foundation.control,
        standard,
        drop_groups: foundation.drop_groups,
        shares_network: foundation.shares_network,
        own_map: None,
        steps,
        landlock: foundation.with_rules(rules),
        filter: foundation.filter,
        start,
    };
    match building {
        Some(host_kept) => {
            filesystem::add(&mut blueprint.steps, host_kept)?;
            filesystem::finish()?;
            life::run(&blueprint)
        }
        None if blueprint.steps.is_empty() => life::run_bound(&blueprint),
        // INVARIANT: no requested step is skipped because the cell has lost the right to build it.
        None => Err(Stage::Request.fault(Errno::PROTO)),
    }
}

/// Waits for a request without allocating memory for it: a waiting process should be small.
fn wait_for_request(control: BorrowedFd<'_>) -> Result<(), Fault> {
    while let Err(errno) = poll(&mut [PollFd::new(&control, PollFlags::IN)], None) {
        if errno != Errno::INTR {
            return Err(Stage::Request.fault(errno));
        }
    }
    Ok(())
}

impl Foundation<'_> {
    /// Returns the cell's ruleset with the rules still to be added.
    fn with_rules(&self, rules: Vec<(CString, u64)>) -> Option<Landlock> {
        self.landlock.as_ref().map(|landlock| Landlock { ruleset: landlock.ruleset, rules })
    }
}

/// Closes the trees that have been put in place.
fn close_trees(steps: &[Step]) -> Result<(), Errno> {
    for step in steps {
        if let Step::Mount(mount) = step
            && let Ok(tree) = u32::try_from(mount.tree)
        {
            sys::close_range(tree, tree, false)?;
        }
    }
    Ok(())
}
