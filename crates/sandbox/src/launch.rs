//! Starts the first process of a cell: prepares what it needs, clones it, maps its user, and lets it go.

mod ahead;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::getgroups;

use crate::cgroup::{Group, Owner};
use crate::child::blueprint::{Blueprint, Landlock, Mount, OwnMap, Source, Start, Step};
use crate::child::report::{Fault, Report, Stage};
use crate::child::request::Part;
use crate::child::{self, GO, request};
use crate::degraded::PrivateFolder;
use crate::enforcement::{DeniedFiles, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges};
use crate::error::SandboxError;
use crate::hint::{strict, unavailable};
use crate::home::InUse;
use crate::identity::Identity;
use crate::late::Late;
use crate::limits::machine::Machine;
use crate::limits::space::{Space, Written};
use crate::limits::{Bounds, ProcessTotal};
use crate::outcome::Origin;
use crate::overlay::{self, Layers};
use crate::process::{Process, write_map};
use crate::roots::Roots;
use crate::spawner::{Spawner, Waiting};
use crate::spec::{CellSpec, Command};
use crate::streams::{Ends, Streams, above_standard};
use crate::view::Shown;
use crate::{cgroup, landlock, process, program, seccomp, view};
pub(crate) use ahead::Ahead;
pub use ahead::make_ready;

/// The namespaces of a cell: their flags, and their names for the record.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// What is added to the score by which the kernel chooses whom to kill, in thousandths of the memory there is.
pub(crate) const OUT_OF_MEMORY_SCORE: &str = "500";
const NAMESPACE_NAMES: &[&str] = &["user", "mount", "pid", "net", "ipc", "uts", "cgroup"];
const NAMESPACE_NAMES_WITHOUT_NETWORK: &[&str] = &["user", "mount", "pid", "ipc", "uts", "cgroup"];

/// The flags of a cell's namespaces: without the network where that is shared.
pub(crate) fn namespaces(shares_network: bool) -> i32 {
    if shares_network { NAMESPACES & !libc::CLONE_NEWNET } else { NAMESPACES }
}

/// A cell that has been started, seen from outside.
pub(crate) struct Cell {
    pub(crate) process: Process,
    /// The caller's end of the control socket. Closing it ends the cell.
    pub(crate) control: OwnedFd,
    /// The caller's ends of the command's standard descriptors, until somebody takes them.
    pub(crate) ends: Ends,
    pub(crate) enforcement: Enforcement,
    pub(crate) origin: Origin,
    /// Changes of others have this change time or a later one.
    pub(crate) started_at: SystemTime,
    /// The control group, which must outlive what is in it.
    pub(crate) group: Option<Group>,
    /// The disks that it may not fill.
    pub(crate) space: Space,
    /// The processes of all cells that count together with this one.
    pub(crate) process_total: Option<Arc<ProcessTotal>>,
    /// Covers files that come while the command runs.
    pub(crate) late: Option<Late>,
    pub(crate) steps: Vec<Step>,
    layers: Option<Layers>,
    /// Held so that nobody takes the caches of its home away meanwhile.
    pub(crate) home: Option<InUse>,
    /// What a cell without namespaces has of its own on the host.
    pub(crate) private: Option<PrivateFolder>,
    /// Another process that has made the cell, and ends with its first one.
    pub(crate) maker: Option<Process>,
}

/// Starts a cell. That setting up inside failed is learnt later, over the control socket.
///
/// A spawner that has no cell to give, for whatever reason, is no failure: the cell is then made here.
pub(crate) fn launch(spec: &CellSpec, command: &Command, streams: Streams) -> Result<Cell, SandboxError> {
    let ready = waiting(spec).and_then(|spawner| spawner.take_ready(spec.overlay.as_ref()));
    let launched = ready.map(|ready| ready.launch(spec, command, streams)).transpose()?.flatten();
    let cell = launched.map_or_else(|| launch_now(spec, command, streams), Ok)?;
    Ok(cell.with_watched_limits(spec))
}

/// Whose waiting cells may be used: none where the cell belongs into another network than theirs.
fn waiting(spec: &CellSpec) -> Option<&Arc<Spawner>> {
    spec.spawner.as_ref().filter(|_| spec.network.is_none())
}

/// The same without a cell that was made ready for this call.
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
            Handed::Over(cell) => return Ok(cell),
            Handed::Back(call) => return call.make(spec),
        }
    }
    call.make(spec)
}

/// Begins to use the caches of the home. A command can do without what is kept, and its result says so.
fn enter(spec: &CellSpec) -> Option<InUse> {
    spec.shared_home()?.enter().ok()
}

/// What has been found out about a call.
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

/// Whether a waiting cell took a call.
enum Handed {
    Over(Cell),
    Back(Call),
}

impl Call {
    /// Makes a cell for the call.
    fn make(mut self, spec: &CellSpec) -> Result<Cell, SandboxError> {
        let view = view::decide(spec, self.shown())?;
        // Where no group can be made, weaker layers hold the limits, and the result says so.
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
        let (into, flags) = (door.as_ref().map(AsFd::as_fd), namespaces(network.is_some()));
        let started = match network {
            None => process::start_in(into, flags, || child::enter(&mut blueprint)),
            Some(network) => process::start_in_network(network, into, flags, || child::enter(&mut blueprint)),
        };
        let process = match started {
            // Perhaps it is the group that the kernel refuses.
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

    /// Makes the cell after a group turned out to be of no use, and remembers that.
    fn make_without_group(self, spec: &CellSpec) -> Result<Cell, SandboxError> {
        cgroup::give_up();
        self.make(spec)
    }

    /// Sends the call to a waiting cell.
    fn hand_to_waiting(mut self, spec: &CellSpec, spawner: &Spawner) -> Result<Handed, SandboxError> {
        let view = view::addition(spec, self.shown())?;
        let (ends, theirs) = self.streams.make(spec.terminal, self.identity.receiver())?;
        let mut descriptors: Vec<_> = theirs.descriptors.iter().map(AsFd::as_fd).collect();
        descriptors.extend(view.trees.iter().map(AsFd::as_fd));
        let trees: Vec<_> = view.trees.iter().map(AsRawFd::as_raw_fd).collect();
        let rules = view.rules.map(landlock::Rules::into_paths).unwrap_or_default();
        for _ in 0..spawner.attempts() {
            let Some(Waiting { process, control, mut group }) = spawner.take() else { break };
            if group.as_mut().is_some_and(|group| !spawner.adjust(group, process.pid(), &self.bounds)) {
                break;
            }
            let enforcement = self.enforce(spec, (view.home, view.missing.clone()), group.as_ref())?;
            let part = Part::Call { start: &self.start, standard: theirs.standard };
            let request = request::encode(&view.steps, &rules, &part, &trees);
            // A cell that was killed while it waited, or stopped, has not begun: another can.
            if request::transmit(control.as_fd(), &request, &descriptors).is_ok() {
                return Ok(Handed::Over(Cell {
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
        Ok(Handed::Back(self))
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
            roots: &self.roots,
            identity: self.identity,
            landlock: self.landlock,
            layers: self.layers.as_ref(),
            kept: self.home.as_ref().map(InUse::kept),
        }
    }

    /// What will be in force, besides what the view could not show; and the same told to the command's process.
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
            // Only privilege could drop them, and they give rights to files of the roots and system folders alone.
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
    /// What the command can write to although there is an overlay.
    fn direct(&self) -> Vec<PathBuf> {
        let Some(layers) = &self.layers else { return Vec::new() };
        let roots = self.roots.all().filter(|root| root.writable && root.real != layers.workspace);
        let paths = roots.map(|root| &root.real).chain(&layers.submounts).cloned();
        paths.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Cell {
    /// A cell that is less than a whole one.
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

    /// Adds what the watchdog needs beside the limits in force: the shared count of processes, and the built-in bound on disks
    /// where the call names none.
    pub(crate) fn with_watched_limits(mut self, spec: &CellSpec) -> Self {
        self.process_total.clone_from(&spec.process_total);
        if spec.limits.disk.is_some() {
            return self;
        }
        let own = |folder: &Path| Written { folder: folder.to_owned(), is_its_own: true };
        let others = |folder: &Path| Written { folder: folder.to_owned(), is_its_own: false };
        let mut written: Vec<Written> = self.layers.iter().map(|layers| own(&layers.folder)).collect();
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

    /// The command is about to start; the cell hands over one of its namespaces.
    pub(crate) fn hands_over(&self, report: Report, namespace: OwnedFd) -> Result<(), SandboxError> {
        let Some(late) = &self.late else { return Ok(()) };
        late.takes(report, namespace, self.process.descriptor()?);
        Ok(())
    }

    /// The error for a fault that the cell has reported.
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
        // These stages touch nothing of the user's, so a refusal is the machine's.
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

/// Maps the user of a new process's user namespace.
pub(crate) fn map_user(pid: i32, identity: Identity) -> Result<(), SandboxError> {
    let failed = |source: io::Error| match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(errno) => unavailable("a user of its own", errno),
        None => SandboxError::Io { doing: "mapping the cell's user", source },
    };
    if identity.mapping == UserMapping::Own {
        // Without this the kernel lets an ordinary user map no group.
        write_map(pid, "setgroups", "deny").map_err(failed)?;
    }
    write_map(pid, "uid_map", &identity.map(identity.user)).map_err(failed)?;
    write_map(pid, "gid_map", &identity.map(identity.group)).map_err(failed)
}

/// Where the machine as a whole runs out of memory, a command is a better choice than what it runs beside.
pub(crate) fn prefer_at_out_of_memory(pid: i32) {
    // The kernel may refuse, if this program was marked in that way itself.
    let _as_before = write_map(pid, "oom_score_adj", OUT_OF_MEMORY_SCORE);
}

/// Whether this process has groups beside `own`.
pub(crate) fn has_further_groups(own: u32) -> Result<bool, SandboxError> {
    let groups = getgroups().map_err(SandboxError::io("reading the own groups"))?;
    Ok(groups.iter().any(|group| group.as_raw() != own))
}
