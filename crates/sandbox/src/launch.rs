//! Start of a cell's first process: prepares its input, clones it, maps its user, and releases it.

mod prewarm;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use crate::cgroup::{Group, Owner};
use crate::child::blueprint::{Blueprint, Landlock, Mount, OwnMap, Source, Start, Step};
use crate::child::first_steps::GO;
use crate::child::report::{Fault, Report, Stage};
use crate::child::request::RequestPart;
use crate::child::{life, request};
use crate::degraded::PrivateFolder;
use crate::enforcement::{DeniedFiles, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges};
use crate::error::SandboxError;
use crate::hint::{strict, unavailable};
use crate::home::InUse;
use crate::identity::{Identity, has_further_groups, map_user};
use crate::late_mask::Late;
use crate::limits::ProcessTotal;
use crate::limits::machine::Machine;
use crate::limits::space::{Space, WrittenFolder};
use crate::limits::values::Bounds;
use crate::outcome::Origin;
use crate::overlay::{self, Layers};
use crate::process::{Process, prefer_at_out_of_memory};
use crate::roots::Roots;
use crate::spawner::{Spawner, WaitingCell};
use crate::spec::{CellSpec, Command};
use crate::streams::{Ends, Streams, above_standard};
use crate::view::ShownParts;
use crate::{cgroup, landlock, process, program, seccomp, view};
pub(crate) use prewarm::PreparedCell;
pub use prewarm::make_ready;

const NAMESPACE_NAMES: &[&str] = &["user", "mount", "pid", "net", "ipc", "uts", "cgroup"];
const NAMESPACE_NAMES_WITHOUT_NETWORK: &[&str] = &["user", "mount", "pid", "ipc", "uts", "cgroup"];

/// A started cell, seen from outside.
pub(crate) struct Cell {
    pub(crate) process: Process,
    /// The caller's end of the control socket. Closing it ends the cell.
    pub(crate) control: OwnedFd,
    /// The caller's ends of the command's standard descriptors, until they are taken.
    pub(crate) ends: Ends,
    pub(crate) enforcement: Enforcement,
    pub(crate) origin: Origin,
    /// Earliest change time of later changes by other programs.
    pub(crate) started_at: SystemTime,
    /// The control group, which must outlive its processes.
    pub(crate) group: Option<Group>,
    /// Limits on the disk space that the cell may use.
    pub(crate) space: Space,
    /// Counter that this cell's processes share with those of other cells.
    pub(crate) process_total: Option<Arc<ProcessTotal>>,
    /// Handle that covers files that appear while the command runs.
    pub(crate) late: Option<Late>,
    pub(crate) steps: Vec<Step>,
    layers: Option<Layers>,
    /// Lock that keeps the caches of the cell's home in place.
    pub(crate) home: Option<InUse>,
    /// Private folder of a cell without namespaces on the host.
    pub(crate) private: Option<PrivateFolder>,
    /// The process that made the cell and ends with the cell's first process, for cells made by
    /// another program.
    pub(crate) maker: Option<Process>,
}

/// Starts a cell. A failure to set up the inside is reported later, over the control socket.
///
/// A spawner without a ready cell is no failure, for any reason: the cell is then made here.
pub(crate) fn launch(spec: &CellSpec, command: &Command, streams: Streams) -> Result<Cell, SandboxError> {
    let ready = waiting(spec).and_then(|spawner| spawner.take_ready(spec.overlay.as_ref()));
    let launched = ready.map(|ready| ready.launch(spec, command, streams)).transpose()?.flatten();
    let cell = launched.map_or_else(|| launch_now(spec, command, streams), Ok)?;
    Ok(cell.with_watched_limits(spec))
}

/// Returns the spawner whose waiting cells may be used; `None` if the cell belongs to a different
/// network.
fn waiting(spec: &CellSpec) -> Option<&Arc<Spawner>> {
    spec.spawner.as_ref().filter(|_| spec.network.is_none())
}

/// Starts a cell without using one that was made ready in advance.
fn launch_now(spec: &CellSpec, command: &Command, streams: Streams) -> Result<Cell, SandboxError> {
    let identity = Identity::of_this_process()?;
    let landlock = landlock::version();
    let (start, roots) = (program::prepare(spec, command, streams.announced())?, Roots::new(spec)?);
    let (layers, started_at) = match overlay::prepare(spec, &roots, identity)? {
        Some((layers, started_at)) => (Some(layers), started_at),
        None => (None, overlay::now()),
    };
    let machine = Machine::this();
    let bounds = Bounds::of(&spec.limits, machine);
    let home = enter(spec);
    let call = Call { start, streams, roots, identity, landlock, layers, home, started_at, bounds, machine };
    if let Some(spawner) = waiting(spec)
        && spawner.suits(identity, landlock, call.roots.all().map(|root| root.at.as_path()))
    {
        match call.hand_to_waiting(spec, spawner)? {
            HandOverResult::Over(cell) => return Ok(cell),
            HandOverResult::Back(call) => return call.make(spec),
        }
    }
    call.make(spec)
}

/// Starts to use the caches of the home. A command can run without them, and its result reports
/// that.
fn enter(spec: &CellSpec) -> Option<InUse> {
    spec.shared_home()?.enter().ok()
}

/// Facts collected for a call.
struct Call {
    start: Start,
    streams: Streams,
    roots: Roots,
    identity: Identity,
    landlock: Option<i32>,
    layers: Option<Layers>,
    home: Option<InUse>,
    started_at: SystemTime,
    bounds: Bounds,
    machine: &'static Machine,
}

/// Result of handing a call to a waiting cell.
enum HandOverResult {
    Over(Cell),
    Back(Call),
}

impl Call {
    /// Makes a cell for the call.
    fn make(mut self, spec: &CellSpec) -> Result<Cell, SandboxError> {
        let view = view::decide(spec, self.shown())?;
        // If no group can be made, weaker layers enforce the limits, and the result reports that.
        let mut group = cgroup::hierarchy().zip(Owner::this()).and_then(|(hierarchy, owner)| {
            Group::make(hierarchy, &owner, &self.bounds).map(|(_, group)| group).ok()
        });
        let network = spec.shared_network();
        let enforcement = self.enforce(spec, (view.home, view.missing), group.as_ref())?;
        let ruleset = self.landlock.map(landlock::ruleset).transpose()?;
        let landlock = ruleset
            .as_ref()
            .zip(view.rules)
            .map(|(ruleset, rules)| Landlock { ruleset: ruleset.as_raw_fd(), rules: rules.into_paths() });
        let (control, inner_control) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(SandboxError::io("making a socket pair"))?;
        let inner_control = above_standard(inner_control)?;
        let (ends, theirs) = self.streams.make(spec.terminal, self.identity.receiver())?;
        let mut keep = vec![inner_control.as_raw_fd()];
        keep.extend(theirs.descriptors.iter().map(AsRawFd::as_raw_fd));
        keep.extend(view.trees.iter().map(AsRawFd::as_raw_fd));
        keep.extend(landlock.as_ref().map(|landlock| landlock.ruleset));
        keep.sort_unstable();
        let mut blueprint = Blueprint {
            keep,
            control: inner_control.as_raw_fd(),
            standard: theirs.standard,
            drop_groups: self.identity.mapping == UserMapping::IdMapped,
            shares_network: network.is_some(),
            own_map: network.filter(|network| network.owned_apart()).map(|_| OwnMap {
                users: self.identity.map(self.identity.user).into_bytes(),
                groups: self.identity.map(self.identity.group).into_bytes(),
            }),
            steps: view.steps,
            landlock,
            filter: seccomp::filter(group.is_some())?,
            start: self.start,
        };

        let door = group.as_ref().and_then(Group::door);
        let maps_itself = blueprint.own_map.is_some();
        let (into, flags) = (door.as_ref().map(AsFd::as_fd), process::cell_namespaces(network.is_some()));
        let started = match network {
            None => process::start_in(into, flags, || life::enter(&mut blueprint)),
            Some(network) => network.start_process(into, flags, || life::enter(&mut blueprint)),
        };
        let process = match started {
            // The kernel may have refused because of the group.
            Err(_) if door.is_some() => {
                return Call { start: blueprint.start, ..self }.make_without_group(spec);
            }
            process => process.map_err(|errno| unavailable("namespaces of its own", errno))?,
        };
        if group.as_mut().is_some_and(|group| group.attach(process.pid()).is_err()) {
            drop(process);
            return Call { start: blueprint.start, ..self }.make_without_group(spec);
        }
        prefer_at_out_of_memory(process.pid());
        if !maps_itself {
            map_user(process.pid(), self.identity)?;
        }
        send(&control, &[GO], SendFlags::NOSIGNAL).map_err(SandboxError::io("starting the cell"))?;
        Ok(Cell {
            process,
            control,
            ends,
            enforcement,
            origin: Origin::Made,
            started_at: self.started_at,
            group,
            late: Late::of(spec, &self.roots, self.layers.as_ref()),
            steps: blueprint.steps,
            layers: self.layers,
            home: self.home,
            space: Space::default(),
            process_total: None,
            private: None,
            maker: None,
        })
    }

    /// Makes the cell after a group turned out to be unusable, and records that.
    fn make_without_group(self, spec: &CellSpec) -> Result<Cell, SandboxError> {
        cgroup::give_up();
        self.make(spec)
    }

    /// Sends the call to a waiting cell.
    fn hand_to_waiting(mut self, spec: &CellSpec, spawner: &Spawner) -> Result<HandOverResult, SandboxError> {
        let view = view::addition(spec, self.shown())?;
        let (ends, theirs) = self.streams.make(spec.terminal, self.identity.receiver())?;
        let mut descriptors: Vec<_> = theirs.descriptors.iter().map(AsFd::as_fd).collect();
        descriptors.extend(view.trees.iter().map(AsFd::as_fd));
        let trees: Vec<_> = view.trees.iter().map(AsRawFd::as_raw_fd).collect();
        let rules = view.rules.map(landlock::Rules::into_paths).unwrap_or_default();
        for _ in 0..spawner.attempts() {
            let Some(WaitingCell { process, control, mut group }) = spawner.take() else { break };
            if group.as_mut().is_some_and(|group| !spawner.adjust(group, process.pid(), &self.bounds)) {
                break;
            }
            let enforcement = self.enforce(spec, (view.home, view.missing.clone()), group.as_ref())?;
            let part = RequestPart::Call { start: &self.start, standard: theirs.standard };
            let request = request::encode(&view.steps, &rules, &part, &trees);
            // A cell that was killed or stopped while it waited has not started the command, so
            // another cell may.
            if request::transmit(control.as_fd(), &request, &descriptors).is_ok() {
                return Ok(HandOverResult::Over(Cell {
                    process,
                    control,
                    ends,
                    enforcement,
                    origin: Origin::Spawner,
                    started_at: self.started_at,
                    group,
                    late: Late::of(spec, &self.roots, self.layers.as_ref()),
                    steps: view.steps,
                    layers: self.layers,
                    home: self.home,
                    space: Space::default(),
                    process_total: None,
                    private: None,
                    maker: None,
                }));
            }
        }
        Ok(HandOverResult::Back(self))
    }

    fn shown(&self) -> ShownParts<'_> {
        ShownParts {
            roots: &self.roots,
            identity: self.identity,
            landlock: self.landlock,
            layers: self.layers.as_ref(),
            kept: self.home.as_ref().map(InUse::kept),
        }
    }

    /// Returns the restrictions that will be in force, with the parts missing from the view, and
    /// sets the limits of the command's process.
    fn enforce(
        &mut self,
        spec: &CellSpec,
        (home, mut missing): (Home, Vec<String>),
        group: Option<&Group>,
    ) -> Result<Enforcement, SandboxError> {
        if self.landlock.is_none() {
            missing.push("landlock".to_owned());
        }
        if self.identity.mapping == UserMapping::Own && has_further_groups(self.identity.group)? {
            // Dropping these groups needs privilege. The groups grant rights only to files of the
            // roots and system folders.
            missing.push("dropping the user's further groups".to_owned());
        }
        let limits = self.bounds.in_force(group, self.machine);
        self.start.bounds = self.bounds.resources(&limits, self.machine);
        self.start.processors = self.bounds.processors(&limits, self.machine);
        let shares_network = spec.shared_network().is_some();
        let enforcement = Enforcement {
            degraded: None,
            namespaces: if shares_network { NAMESPACE_NAMES_WITHOUT_NETWORK } else { NAMESPACE_NAMES },
            network: match (shares_network, spec.has_doors) {
                (false, _) => NetworkReach::Own,
                (true, false) => NetworkReach::Session,
                (true, true) => NetworkReach::Doors,
            },
            landlock_abi: self.landlock,
            seccomp: true,
            user: self.identity.mapping,
            denied_files: if spec.late_masks.is_some() { DeniedFiles::Watched } else { DeniedFiles::AtStart },
            workspace: match (&self.layers, self.roots.workspace()) {
                (Some(_), _) => WorkspaceChanges::Overlay,
                (None, Some(root)) if root.writable => WorkspaceChanges::Direct,
                (None, _) => WorkspaceChanges::ReadOnly,
            },
            direct: self.direct(),
            home,
            limits,
            missing,
        };
        let shortcomings = if spec.strict { enforcement.shortcomings() } else { Vec::new() };
        if shortcomings.is_empty() { Ok(enforcement) } else { Err(strict(&shortcomings)) }
    }
}

impl Call {
    /// Returns the paths that the command can write to directly in spite of an overlay.
    fn direct(&self) -> Vec<PathBuf> {
        let Some(layers) = &self.layers else { return Vec::new() };
        let roots = self.roots.all().filter(|root| root.writable && root.real != layers.workspace);
        let paths = roots.map(|root| &root.real).chain(&layers.submounts).cloned();
        paths.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Cell {
    /// Builds a cell with less than the full confinement.
    pub(crate) fn degraded(
        process: Process,
        control: OwnedFd,
        ends: Ends,
        enforcement: Enforcement,
        started_at: SystemTime,
    ) -> Self {
        Self {
            process,
            control,
            ends,
            enforcement,
            origin: Origin::Made,
            started_at,
            group: None,
            late: None,
            steps: Vec::new(),
            layers: None,
            home: None,
            space: Space::default(),
            process_total: None,
            private: None,
            maker: None,
        }
    }

    /// Adds what the watchdog needs besides the limits in force: the shared counter of processes, and
    /// the built-in limit on disk space, unless the call has a limit on disk writes.
    pub(crate) fn with_watched_limits(mut self, spec: &CellSpec) -> Self {
        self.process_total.clone_from(&spec.process_total);
        if spec.limits.disk.is_some() {
            return self;
        }
        let own = |folder: &Path| WrittenFolder { folder: folder.to_owned(), is_its_own: true };
        let others = |folder: &Path| WrittenFolder { folder: folder.to_owned(), is_its_own: false };
        let mut written: Vec<WrittenFolder> = self.layers.iter().map(|layers| own(&layers.folder)).collect();
        if self.enforcement.workspace == WorkspaceChanges::Direct {
            written.push(others(&spec.workspace));
        }
        written.extend(self.enforcement.direct.iter().chain(&spec.read_write).map(|folder| others(folder)));
        written.extend(self.home.iter().map(|home| others(home.kept())));
        written.extend(self.private.iter().map(|private| own(private.path())));
        self.space = Space::begin(written, self.started_at);
        self.enforcement.limits.extend(self.space.in_force());
        self
    }

    /// Takes one of the cell's namespaces, which the cell hands over right before its command
    /// starts.
    pub(crate) fn hands_over(&self, report: Report, namespace: OwnedFd) -> Result<(), SandboxError> {
        let Some(late) = &self.late else { return Ok(()) };
        late.takes(report, namespace, self.process.descriptor()?);
        Ok(())
    }

    /// Makes the error for a fault that the cell has reported.
    pub(crate) fn fault(&self, fault: Fault) -> SandboxError {
        let step = usize::try_from(fault.step).ok().and_then(|index| self.steps.get(index));
        let doing = match (fault.stage, step) {
            (Stage::TakeTree | Stage::Step | Stage::Check, Some(step)) => {
                format!("{} (`{}`)", fault.stage.doing(), step.path().display())
            }
            _ => fault.stage.doing().to_owned(),
        };
        if let (Some(layers), Some(Step::Mount(Mount { source: Source::Overlay { .. }, .. }))) =
            (&self.layers, step)
        {
            return layers.refused(fault.errno);
        }
        let refused = matches!(fault.errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS);
        // These stages do not touch the user's files, so the machine is the cause of a refusal.
        let of_machine = matches!(
            fault.stage,
            Stage::Identity
                | Stage::PrivateMounts
                | Stage::NewRoot
                | Stage::Names
                | Stage::Network
                | Stage::Capabilities
                | Stage::Landlock
                | Stage::Seccomp
        ) || step.is_some_and(|step| step.path().starts_with("/proc"));
        if refused && of_machine {
            return unavailable(&format!("the right for {doing}"), fault.errno);
        }
        SandboxError::Setup { doing, source: fault.errno.into() }
    }
}
