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
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::stat;
use rustix::io::Errno;

use super::{Call, Cell, enter};
use crate::child::report::Report;
use crate::child::request::{self, RequestPart};
use crate::enforcement::Home;
use crate::error::SandboxError;
use crate::home::InUse;
use crate::identity::Identity;
use crate::late_mask::Late;
use crate::limits::machine::Machine;
use crate::limits::space::Space;
use crate::limits::values::Bounds;
use crate::outcome::Origin;
use crate::overlay::{self, Layers};
use crate::roots::Roots;
use crate::spawner::{Spawner, WaitingCell};
use crate::spec::{CellSpec, Command, Overlay};
use crate::streams::Streams;
use crate::view::{self, ShownParts};
use crate::{landlock, program};

/// Maximum time for a cell to build its steps: many times its usual time, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Prepares a waiting cell of the spawner for a call with the same `spec`. Ends the cell that was
/// prepared before. Returns true if a prepared cell exists now. Blocks for some milliseconds.
///
/// # Errors
/// Returns an error if a path of `spec` cannot be shown, or the cell fails.
pub fn make_ready(spec: &CellSpec) -> Result<bool, SandboxError> {
    let Some(spawner) = &spec.spawner else { return Ok(false) };
    let made = PreparedCell::make(spec, spawner);
    spawner.refill();
    let made = made?;
    let is_there = made.is_some();
    // End the replaced cell outside of the lock.
    drop(spawner.keep_ready(made));
    Ok(is_there)
}

/// A prepared cell.
///
/// INVARIANT: the process is the first field: it ends before its sources are dropped.
#[derive(Debug)]
pub(crate) struct PreparedCell {
    waiting: WaitingCell,
    wanted: PreparationInputs,
    seen: Vec<FileIdentity>,
    roots: Roots,
    layers: Option<Layers>,
    /// Identity of the folder of the home's caches, if it was available.
    kept: Option<FileIdentity>,
    /// Lifetime of the home's content, as the cell shows it.
    home: Home,
    /// Descriptions of the parts that could not be shown.
    missing: Vec<String>,
    /// User namespace and mount namespace of a finished cell.
    finished: Option<(OwnedFd, OwnedFd)>,
    /// File that reports mounts and unmounts since the preparation.
    mounts: File,
}

/// Inputs that determine how a cell is built.
#[derive(Debug, PartialEq, Eq)]
struct PreparationInputs {
    identity: Identity,
    landlock: Option<i32>,
    workspace: PathBuf,
    read_only: Vec<PathBuf>,
    toolchains: Vec<PathBuf>,
    /// Covered paths, with the identity of each: a cover disappears from a file that another file
    /// replaces.
    covered: Vec<(PathBuf, Option<FileIdentity>)>,
    read_write: Vec<PathBuf>,
    home_files: Vec<(PathBuf, Vec<u8>)>,
    caches: Option<PathBuf>,
    overlay: Option<Overlay>,
    reads_only: bool,
}

/// Identity of the file at a path: device, inode, mode and owner.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity([u64; 5]);

impl FileIdentity {
    fn at(path: &Path) -> Result<Self, Errno> {
        let found = stat(path)?;
        let (user, group) = (found.st_uid.into(), found.st_gid.into());
        Ok(Self([found.st_dev, found.st_ino, found.st_mode.into(), user, group]))
    }
}

impl PreparationInputs {
    fn by(spec: &CellSpec) -> Result<Self, SandboxError> {
        Ok(Self {
            identity: Identity::of_this_process()?,
            landlock: landlock::version(),
            workspace: spec.workspace.clone(),
            read_only: spec.read_only.clone(),
            toolchains: spec.toolchains.clone(),
            covered: spec.covered.iter().map(|path| (path.clone(), FileIdentity::at(path).ok())).collect(),
            read_write: spec.read_write.clone(),
            home_files: spec.home_files.clone(),
            caches: spec.shared_home().map(|home| home.caches()),
            overlay: spec.overlay.clone(),
            reads_only: spec.reads_only,
        })
    }
}

impl PreparedCell {
    fn make(spec: &CellSpec, spawner: &Spawner) -> Result<Option<Self>, SandboxError> {
        // Open this before any check, so that no change is missed.
        let mounts = File::open("/proc/self/mountinfo")
            .map_err(|source| SandboxError::Io { doing: "watching the mounts", source })?;
        let wanted = PreparationInputs::by(spec)?;
        let roots = Roots::new(spec)?;
        let paths = roots.all().map(|root| root.at.as_path());
        if !spawner.suits(wanted.identity, wanted.landlock, paths) {
            return Ok(None);
        }
        let seen = look_at(&roots)?;
        let layers = overlay::prepare(spec, &roots, wanted.identity)?.map(|(layers, _)| layers);
        let (identity, landlock) = (wanted.identity, wanted.landlock);
        // Use the caches until they are in place, so that they are not removed in the meantime.
        let in_use = enter(spec);
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
        let finished =
            sent.and_then(|()| built(&waiting)).map_err(SandboxError::io("making a cell ready"))?;
        if look_at(&roots)? != seen {
            return Err(SandboxError::io("making a cell ready")(Errno::STALE));
        }
        let (home, missing) = (view.home, view.missing);
        Ok(Some(Self { waiting, wanted, seen, roots, layers, kept, home, missing, finished, mounts }))
    }

    /// Returns true if the cell was made with these folders for the changes.
    pub(crate) fn is_for(&self, overlay: Option<&Overlay>) -> bool {
        self.wanted.overlay.as_ref() == overlay
    }

    /// Runs the command in this cell if the cell matches `spec`. Otherwise ends the cell.
    pub(super) fn launch(
        self,
        spec: &CellSpec,
        command: &Command,
        streams: Streams,
    ) -> Result<Option<Cell>, SandboxError> {
        let Some(spawner) = &spec.spawner else { return Ok(None) };
        // Mounts in the workspace are written directly, which this call may forbid.
        let is_direct = self.layers.as_ref().is_none_or(|layers| !layers.submounts.is_empty());
        if spec.overlay_only && is_direct {
            return Ok(None);
        }
        let home = enter(spec);
        let Some(started_at) = self.still_suits(spec, home.as_ref()) else { return Ok(None) };
        let start = program::prepare(spec, command, streams.announced())?;
        let machine = Machine::this();
        let PreparationInputs { identity, landlock, .. } = self.wanted;
        let bounds = Bounds::of(&spec.limits, machine);
        let (roots, layers) = (self.roots, self.layers);
        let mut call =
            Call { start, streams, roots, identity, landlock, layers, home, started_at, bounds, machine };
        let hidden = view::hidden(spec, call.shown())?;
        if self.finished.is_some() && !hidden.steps.is_empty() {
            return Ok(None);
        }
        let (ends, theirs) = streams.make(spec.terminal, identity.receiver())?;
        let WaitingCell { process, control, mut group } = self.waiting;
        if group.as_mut().is_some_and(|group| !spawner.adjust(group, process.pid(), &call.bounds)) {
            return Ok(None);
        }
        let missing = [self.missing, hidden.missing].concat();
        let enforcement = call.enforce(spec, (self.home, missing), group.as_ref())?;
        let late = Late::of(spec, &call.roots, call.layers.as_ref());
        if let (Some(late), Some((user, mount))) = (&late, self.finished) {
            late.takes(Report::UserNamespace, user, process.descriptor()?);
            late.takes(Report::MountNamespace, mount, process.descriptor()?);
        }
        let descriptors: Vec<_> = theirs.descriptors.iter().map(AsFd::as_fd).collect();
        let part = RequestPart::Call { start: &call.start, standard: theirs.standard };
        let request = request::encode(&hidden.steps, &[], &part, &[]);
        if request::transmit(control.as_fd(), &request, &descriptors).is_err() {
            // The cell was killed or stopped while it waited, so the command has not started.
            return Ok(None);
        }
        Ok(Some(Cell {
            process,
            control,
            ends,
            enforcement,
            origin: Origin::Ready,
            started_at,
            group,
            late,
            steps: hidden.steps,
            layers: call.layers,
            home: call.home,
            space: Space::default(),
            process_total: None,
            private: None,
            maker: None,
        }))
    }

    /// Checks that all sources of the cell are unchanged, including the caches that the call has
    /// started to use. Returns the time from which changes count.
    fn still_suits(&self, spec: &CellSpec, in_use: Option<&InUse>) -> Option<SystemTime> {
        let mounted =
            poll(&mut [PollFd::new(&self.mounts, PollFlags::PRI)], Some(&Timespec::default())) != Ok(0);
        if mounted
            || PreparationInputs::by(spec).ok()? != self.wanted
            || look_at(&self.roots).ok()? != self.seen
            || look_at_kept(in_use).ok()? != self.kept
        {
            return None;
        }
        self.layers.as_ref().map_or_else(|| Some(overlay::now()), |layers| layers.begin_again().ok()?)
    }
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
