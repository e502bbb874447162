//! Start of a cell's first process: prepares its input, clones it, maps its user, and releases it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use super::cell::{NamespaceCell, NamespaceParts};
use super::late::Late;
use crate::cgroup::{Group, Owner};
use crate::child::blueprint::{Blueprint, Landlock, OwnMap, Start, Step};
use crate::child::first_steps::GO;
use crate::child::request::RequestPart;
use crate::child::{life, request};
use crate::enforcement::{DeniedFiles, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges};
use crate::error::SandboxError;
use crate::hint::{strict, unavailable};
use crate::home::InUse;
use crate::identity::{Identity, has_further_groups, map_user};
use crate::isolation::backend::{CellHost, StartRequest};
use crate::isolation::first_process::{CellFacts, FirstProcess, ProcessCell};
use crate::limits::machine::Machine;
use crate::limits::values::Bounds;
use crate::outcome::Origin;
use crate::overlay::{self, Layers};
use crate::process::prefer_at_out_of_memory;
use crate::roots::Roots;
use crate::spawner::{Spawner, WaitingCell};
use crate::spec::CellSpec;
use crate::streams::{Streams, above_standard};
use crate::view::ShownParts;
use crate::{cgroup, landlock, process, program, seccomp, view};

const NAMESPACE_NAMES: &[&str] = &["user", "mount", "pid", "net", "ipc", "uts", "cgroup"];
const NAMESPACE_NAMES_WITHOUT_NETWORK: &[&str] = &["user", "mount", "pid", "ipc", "uts", "cgroup"];

/// Returns the spawner whose waiting cells may be used; `None` if the cell belongs to a different
/// network.
pub(super) fn waiting(host: &CellHost) -> Option<&Arc<Spawner>> {
    host.spawner.as_ref().filter(|_| host.network.is_none())
}

/// Starts a cell without using one that was made ready in advance.
pub(super) fn launch_now(request: &StartRequest<'_>) -> Result<NamespaceCell, SandboxError> {
    let StartRequest { spec, host, command, streams } = *request;
    let identity = Identity::of_this_process()?;
    let landlock = landlock::version();
    let mut start = program::prepare(spec, command, streams.announced())?;
    start.hands_over = host.late_masks.is_some();
    let roots = Roots::new(spec)?;
    let (layers, started_at) = match overlay::prepare(spec, &roots, identity)? {
        Some((layers, started_at)) => (Some(layers), started_at),
        None => (None, overlay::now()),
    };
    let machine = Machine::this();
    let bounds = Bounds::of(&spec.limits, machine);
    let home = enter(spec, host);
    let call = Call { start, streams, roots, identity, landlock, layers, home, started_at, bounds, machine };
    if let Some(spawner) = waiting(host)
        && spawner.suits(identity, landlock, call.roots.all().map(|root| root.at.as_path()))
    {
        match call.hand_to_waiting(request, spawner)? {
            HandOverResult::Over(cell) => return Ok(cell),
            HandOverResult::Back(call) => return call.make(request),
        }
    }
    call.make(request)
}

/// Starts to use the caches of the home. A command can run without them, and its result reports
/// that.
pub(super) fn enter(spec: &CellSpec, host: &CellHost) -> Option<InUse> {
    host.shared_home(spec)?.enter().ok()
}

/// Facts collected for a call.
pub(super) struct Call {
    pub(super) start: Start,
    pub(super) streams: Streams,
    pub(super) roots: Roots,
    pub(super) identity: Identity,
    pub(super) landlock: Option<i32>,
    pub(super) layers: Option<Layers>,
    pub(super) home: Option<InUse>,
    pub(super) started_at: SystemTime,
    pub(super) bounds: Bounds,
    pub(super) machine: &'static Machine,
}

/// Result of handing a call to a waiting cell.
enum HandOverResult {
    Over(NamespaceCell),
    Back(Call),
}

impl Call {
    /// Makes a cell for the call.
    fn make(mut self, request: &StartRequest<'_>) -> Result<NamespaceCell, SandboxError> {
        let StartRequest { spec, host, .. } = *request;
        let view = view::decide(spec, self.shown())?;
        // If no group can be made, weaker layers enforce the limits, and the result reports that.
        let mut group = cgroup::hierarchy().zip(Owner::this()).and_then(|(hierarchy, owner)| {
            Group::make(hierarchy, &owner, &self.bounds).map(|(_, group)| group).ok()
        });
        let (network, late) = (host.shared_network(), self.late(request));
        let enforcement = self.enforce(request, (view.home, view.missing), group.as_ref())?;
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
                return Call { start: blueprint.start, ..self }.make_without_group(request);
            }
            process => process.map_err(|errno| unavailable("namespaces of its own", errno))?,
        };
        if group.as_mut().is_some_and(|group| group.attach(process.pid()).is_err()) {
            drop(process);
            return Call { start: blueprint.start, ..self }.make_without_group(request);
        }
        prefer_at_out_of_memory(process.pid());
        if !maps_itself {
            map_user(process.pid(), self.identity)?;
        }
        send(&control, &[GO], SendFlags::NOSIGNAL).map_err(SandboxError::io("starting the cell"))?;
        let first = FirstProcess { process, control, ends, group };
        let Blueprint { start, steps, .. } = blueprint;
        Ok(Call { start, ..self }.into_cell(request, first, (Origin::Made, steps), enforcement, late))
    }

    /// Makes the cell after a group turned out to be unusable, and records that.
    fn make_without_group(self, request: &StartRequest<'_>) -> Result<NamespaceCell, SandboxError> {
        cgroup::give_up();
        self.make(request)
    }

    /// Sends the call to a waiting cell.
    fn hand_to_waiting(
        mut self,
        request: &StartRequest<'_>,
        spawner: &Spawner,
    ) -> Result<HandOverResult, SandboxError> {
        let spec = request.spec;
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
            let enforcement = self.enforce(request, (view.home, view.missing.clone()), group.as_ref())?;
            let part = RequestPart::Call { start: &self.start, standard: theirs.standard };
            let message = request::encode(&view.steps, &rules, &part, &trees);
            // A cell that was killed or stopped while it waited has not started the command, so
            // another cell may.
            if request::transmit(control.as_fd(), &message, &descriptors).is_ok() {
                let first = FirstProcess { process, control, ends, group };
                let how = (Origin::Spawner, view.steps);
                let late = self.late(request);
                return Ok(HandOverResult::Over(self.into_cell(request, first, how, enforcement, late)));
            }
        }
        Ok(HandOverResult::Back(self))
    }

    pub(super) fn shown(&self) -> ShownParts<'_> {
        ShownParts {
            roots: &self.roots,
            identity: self.identity,
            landlock: self.landlock,
            layers: self.layers.as_ref(),
            kept: self.home.as_ref().map(InUse::kept),
        }
    }

    /// Builds the cell, after its first process got everything that it needs.
    pub(super) fn into_cell(
        self,
        request: &StartRequest<'_>,
        first: FirstProcess,
        (origin, steps): (Origin, Vec<Step>),
        enforcement: Enforcement,
        late: Option<Late>,
    ) -> NamespaceCell {
        let parts = NamespaceParts { late, layers: self.layers, spawner: request.host.spawner.clone() };
        let facts = CellFacts { enforcement, origin, started_at: self.started_at, steps, home: self.home };
        ProcessCell::new(request, first, facts, parts)
    }

    /// Returns the masks for files that appear while the command runs, if the caller wants them.
    pub(super) fn late(&self, request: &StartRequest<'_>) -> Option<Late> {
        Late::of(request.host, &self.roots, self.layers.as_ref())
    }

    /// Returns the restrictions that will be in force, with the parts missing from the view, and
    /// sets the limits of the command's process.
    pub(super) fn enforce(
        &mut self,
        request: &StartRequest<'_>,
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
        let StartRequest { spec, host, .. } = *request;
        let shares_network = host.shared_network().is_some();
        let enforcement = Enforcement {
            degraded: None,
            namespaces: if shares_network { NAMESPACE_NAMES_WITHOUT_NETWORK } else { NAMESPACE_NAMES },
            network: match (shares_network, host.has_egress) {
                (false, _) => NetworkReach::Own,
                (true, false) => NetworkReach::Session,
                (true, true) => NetworkReach::Doors,
            },
            landlock_abi: self.landlock,
            seccomp: true,
            user: self.identity.mapping,
            denied_files: if host.late_masks.is_some() { DeniedFiles::Watched } else { DeniedFiles::AtStart },
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
