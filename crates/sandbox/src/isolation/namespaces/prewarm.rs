//! A waiting cell that already shows what the next call will most likely need: its roots, and the
//! workspace through an overlay. Mounting these takes longer than everything else, and here no
//! caller waits for it.
//!
//! A wrong prediction costs time and has no other effect. Before the cell is used, all its sources
//! are checked again; if one has changed, the cell is ended, and another is made or taken. No cell
//! uses the home's caches while it waits, so that they can be removed. From the arrival of the call
//! they are in use, and must be those that the cell shows. Hidden and frozen files are never
//! predicted: they are covered when the call arrives. A cell gives up the right to cover beforehand
//! only if it had nothing to cover.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::cell::NamespaceCell;
use super::launch::{Call, enter};
use crate::child::report::Report;
use crate::child::request::{self, RequestPart};
use crate::error::SandboxError;
use crate::home::InUse;
use crate::isolation::backend::{CellHost, StartRequest};
use crate::isolation::first_process::FirstProcess;
use crate::limits::machine::Machine;
use crate::limits::values::Bounds;
use crate::outcome::Origin;
use crate::overlay;
use crate::roots::Roots;
use crate::spawner::{FileIdentity, PreparationInputs, PreparedCell, Spawner, WaitingCell};
use crate::spec::CellSpec;
use crate::view::{self, ShownParts};
use crate::{landlock, program};

/// Maximum time for a cell to build its steps: many times its usual time, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Prepares a waiting cell, as [`CellHost::make_ready`] does.
pub(super) fn make_ready(spec: &CellSpec, host: &CellHost) -> Result<bool, SandboxError> {
    let Some(spawner) = &host.spawner else { return Ok(false) };
    let made = make(spec, host, spawner);
    spawner.refill();
    let made = made?;
    let is_there = made.is_some();
    // End the replaced cell outside of the lock.
    drop(spawner.keep_ready(made));
    Ok(is_there)
}

fn make(spec: &CellSpec, host: &CellHost, spawner: &Spawner) -> Result<Option<PreparedCell>, SandboxError> {
    // Open this before any check, so that no change is missed.
    let mounts = File::open("/proc/self/mountinfo")
        .map_err(|source| SandboxError::Io { doing: "watching the mounts", source })?;
    let wanted = PreparationInputs::by(spec, caches(spec, host))?;
    let roots = Roots::new(spec)?;
    let paths = roots.all().map(|root| root.at.as_path());
    if !spawner.suits(wanted.identity, wanted.landlock, paths) {
        return Ok(None);
    }
    let seen = look_at(&roots)?;
    let layers = overlay::prepare(spec, &roots, wanted.identity)?.map(|(layers, _)| layers);
    let (identity, landlock) = (wanted.identity, wanted.landlock);
    // Use the caches until they are in place, so that they are not removed in the meantime.
    let in_use = enter(spec, host);
    let kept = look_at_kept(in_use.as_ref())?;
    let shown = ShownParts {
        roots: &roots,
        identity,
        landlock,
        layers: layers.as_ref(),
        kept: in_use.as_ref().map(InUse::kept),
    };
    let view = view::roots(spec, shown)?;
    let finish = view::hidden(spec, shown)?.steps.is_empty();
    let trees: Vec<_> = view.trees.iter().map(AsRawFd::as_raw_fd).collect();
    let descriptors: Vec<_> = view.trees.iter().map(AsFd::as_fd).collect();
    let rules = view.rules.map(landlock::Rules::into_paths).unwrap_or_default();
    let request = request::encode(&view.steps, &rules, &RequestPart::Ahead { finish }, &trees);
    let Some(waiting) = spawner.take() else { return Ok(None) };
    let sent = request::transmit(waiting.control.as_fd(), &request, &descriptors);
    let finished = sent.and_then(|()| built(&waiting)).map_err(SandboxError::io("making a cell ready"))?;
    if let Some(layers) = &layers {
        layers.note_mounted();
    }
    if look_at(&roots)? != seen {
        return Err(SandboxError::io("making a cell ready")(Errno::STALE));
    }
    let (home, missing) = (view.home, view.missing);
    Ok(Some(PreparedCell { waiting, wanted, seen, roots, layers, kept, home, missing, finished, mounts }))
}

/// Runs the command in the prepared cell if that matches the request. Otherwise ends the cell.
pub(super) fn launch(
    prepared: PreparedCell,
    request: &StartRequest<'_>,
) -> Result<Option<NamespaceCell>, SandboxError> {
    let StartRequest { spec, host, command, streams } = *request;
    let Some(spawner) = &host.spawner else { return Ok(None) };
    // Mounts in the workspace are written directly, which this call may forbid.
    let is_direct = prepared.layers.as_ref().is_none_or(|layers| !layers.submounts.is_empty());
    if spec.overlay_only && is_direct {
        return Ok(None);
    }
    let home = enter(spec, host);
    let Some(started_at) = still_suits(&prepared, (spec, host), home.as_ref()) else { return Ok(None) };
    let mut start = program::prepare(spec, command, streams.announced())?;
    start.hands_over = host.late_masks.is_some();
    let machine = Machine::this();
    let PreparationInputs { identity, landlock, .. } = prepared.wanted;
    let bounds = Bounds::of(&spec.limits, machine);
    let (roots, layers) = (prepared.roots, prepared.layers);
    let mut call =
        Call { start, streams, roots, identity, landlock, layers, home, started_at, bounds, machine };
    let hidden = view::hidden(spec, call.shown())?;
    if prepared.finished.is_some() && !hidden.steps.is_empty() {
        return Ok(None);
    }
    let (ends, theirs) = streams.make(spec.terminal, identity.receiver())?;
    let WaitingCell { process, control, mut group } = prepared.waiting;
    if group.as_mut().is_some_and(|group| !spawner.adjust(group, process.pid(), &call.bounds)) {
        return Ok(None);
    }
    let missing = [prepared.missing, hidden.missing].concat();
    let enforcement = call.enforce(request, (prepared.home, missing), group.as_ref())?;
    let late = call.late(request);
    if let (Some(late), Some((user, mount))) = (&late, prepared.finished) {
        late.takes(Report::UserNamespace, user, process.descriptor()?);
        late.takes(Report::MountNamespace, mount, process.descriptor()?);
    }
    let descriptors: Vec<_> = theirs.descriptors.iter().map(AsFd::as_fd).collect();
    let part = RequestPart::Call { start: &call.start, standard: theirs.standard };
    let message = request::encode(&hidden.steps, &[], &part, &[]);
    if request::transmit(control.as_fd(), &message, &descriptors).is_err() {
        // The cell was killed or stopped while it waited, so the command has not started.
        return Ok(None);
    }
    let first = FirstProcess { process, control, ends, group };
    Ok(Some(call.into_cell(request, first, (Origin::Ready, hidden.steps), enforcement, late)))
}

/// Returns the folder of the caches that the command may change.
fn caches(spec: &CellSpec, host: &CellHost) -> Option<PathBuf> {
    host.shared_home(spec).map(|home| home.caches())
}

/// Checks that all sources of the cell are unchanged, including the caches that the call has
/// started to use. Returns the time from which changes count.
fn still_suits(
    prepared: &PreparedCell,
    (spec, host): (&CellSpec, &CellHost),
    in_use: Option<&InUse>,
) -> Option<SystemTime> {
    let mounted =
        poll(&mut [PollFd::new(&prepared.mounts, PollFlags::PRI)], Some(&Timespec::default())) != Ok(0);
    if mounted
        || PreparationInputs::by(spec, caches(spec, host)).ok()? != prepared.wanted
        || look_at(&prepared.roots).ok()? != prepared.seen
        || look_at_kept(in_use).ok()? != prepared.kept
    {
        return None;
    }
    prepared.layers.as_ref().map_or_else(|| Some(overlay::now()), |layers| layers.begin_again().ok()?)
}

/// Returns the identity of the target of each name of each root.
fn look_at(roots: &Roots) -> Result<Vec<FileIdentity>, SandboxError> {
    let mut seen = Vec::new();
    for root in roots.all() {
        let names = [Some(&root.at), Some(&root.real).filter(|real| **real != root.at)];
        for name in names.into_iter().flatten() {
            seen.push(FileIdentity::at(name).map_err(SandboxError::io("looking at a root"))?);
        }
    }
    Ok(seen)
}

/// Returns the identity of the caches' folder. A cell that shows the folder prevents the reuse of
/// its inode number.
fn look_at_kept(in_use: Option<&InUse>) -> Result<Option<FileIdentity>, SandboxError> {
    let seen = in_use.map(|in_use| FileIdentity::at(in_use.kept())).transpose();
    seen.map_err(SandboxError::io("looking at the caches of the home"))
}

/// Waits until the cell has built its steps. Returns its namespaces, if it is finished.
fn built(waiting: &WaitingCell) -> Result<Option<(OwnedFd, OwnedFd)>, Errno> {
    let (mut user, mut mount) = (None, None);
    let timeout = Timespec {
        tv_sec: i64::try_from(TIMEOUT.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: TIMEOUT.subsec_nanos().into(),
    };
    loop {
        match poll(&mut [PollFd::new(&waiting.control, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        match Report::receive_with(waiting.control.as_fd()) {
            Ok(Some((Report::UserNamespace, namespace))) => user = namespace,
            Ok(Some((Report::MountNamespace, namespace))) => mount = namespace,
            Ok(Some((Report::Ready, _))) => return Ok(user.zip(mount)),
            Ok(Some((Report::Fault(fault), _))) => return Err(fault.errno),
            Ok(_) => return Err(Errno::PROTO),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
