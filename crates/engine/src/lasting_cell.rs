//! The cells of programs that outlive the calls that use them: the browser of a session, MCP servers, plugins.
//!
//! Such a cell is in the network of its session, so it reaches the servers that the session's commands started, and
//! other machines by the way out alone. A connection of its program belongs to the call that uses the program at
//! that time; between calls, the program reaches listed hosts only. A program that serves every session has a
//! network of the runtime, and never reaches more than listed hosts.
//!
//! The browser's cell shows no folder of the user and gets no placeholders of secrets. The others show what their
//! configuration says, at most what a background command sees.

use std::path::PathBuf;
use std::sync::Arc;

use policy::Policy;
use sandbox::{CellHost, CellProcesses, CellRequest, CellSource, CellSpec, WorkspaceView};
use tool::{Code, Effect, Lane, Owner, ToolError};

use crate::Engine;
use crate::call::Call;
use crate::cell;
use crate::cell_spec::{Network, Rules, SpecifiedCell};
use crate::connections::CallConnections;
use crate::denied::{DeniedFiles, MaskSet, Writes};

/// Bytes that are kept of what such a program itself prints.
const OUTPUT_LIMIT: u64 = 256 * 1024;

/// Owner of the network of the programs that serve every session.
const SHARED: &str = "programs of every session";

/// Kind of a long-lived program.
#[derive(Clone)]
enum Lasting {
    Browser,
    /// Program with this name.
    Service(String),
}

impl Lasting {
    /// Returns the program that the call uses, if its lane has one.
    fn of(call: &Call, lane: Lane) -> Option<Self> {
        match lane {
            Lane::Browser => Some(Self::Browser),
            Lane::Service => call.effects.iter().find_map(|part| match &part.effect {
                Effect::UseTool { server, .. } => Some(Self::Service(server.clone())),
                _ => None,
            }),
            Lane::Read | Lane::Write | Lane::Script | Lane::Command => None,
        }
    }
}

/// Parts from which the cell of a program is made, by the call that starts it.
struct LastingCell {
    kind: Lasting,
    rules: Arc<Policy>,
    denied: Arc<DeniedFiles>,
    network: Network,
    connections: Option<Arc<CallConnections>>,
    cells: Arc<CellProcesses>,
    /// Connections of a program that serves every session. Their call has ended already, so nobody is asked about them.
    shared: Arc<CallConnections>,
}

impl Engine {
    /// Makes the connections of the session's long-lived program those of this call, and gives the call a
    /// source of the program's cell.
    pub(crate) fn prepare_lasting(self: &Arc<Self>, call: &mut Call, lane: Lane) {
        let Some(kind) = Lasting::of(call, lane) else { return };
        let network = self.network(call);
        // The cell of the program keeps the network afterwards.
        call.network_in_use = Some(self.networks.enter(&network.owner, call.resource_owner()));
        let cells = match &kind {
            Lasting::Browser => self.networks.browser_cells(&network.owner),
            Lasting::Service(name) => self.networks.service_cells(&network.owner, name),
        };
        if let Lasting::Browser = kind {
            call.browser_processes = Some(cells.clone());
        }
        let connects = matches!(network.rules, Rules::These(_));
        let connections = connects
            .then(|| Arc::new(CallConnections::of_lasting(self.connection_asker(call), cells.clone())));
        if let Some(connections) = &connections {
            allow_decided(call, connections);
            self.networks.use_way_out(&network.owner, connections.clone());
        }
        call.connections.clone_from(&connections);
        let shared = Arc::new(CallConnections::of_lasting(self.connection_asker(call), Arc::default()));
        shared.end_before_it_begins();
        let may_share = call.ceiling.is_unbounded();
        let (rules, denied) = (call.rules(self), call.reach(self).denied());
        let (engine, owner) = (Arc::downgrade(self), network.owner.clone());
        let parts = LastingCell { kind, rules, denied, network, connections, cells, shared };
        let source = CellSource::new(owner, move |request| {
            let engine = engine.upgrade().ok_or("the runtime has ended")?;
            if request.is_shared && !may_share {
                return Err("this caller may not use a program that serves every session".into());
            }
            Ok(engine.lasting_cell(&parts, &request)?)
        });
        call.lasting_cell = Some(Arc::new(source.sharing(may_share)));
    }

    /// Returns the bytes of memory that the browser of a call uses.
    pub(crate) async fn browser_bytes(processes: Option<Arc<CellProcesses>>) -> Option<u64> {
        let processes = processes?;
        let memory = tokio::task::spawn_blocking(move || processes.memory()).await.ok()?;
        (memory > 0).then_some(memory)
    }

    fn lasting_cell(
        self: &Arc<Self>,
        parts: &LastingCell,
        request: &CellRequest,
    ) -> Result<(CellSpec, CellHost), ToolError> {
        let policy = parts.rules.as_ref();
        let isolation = self.isolations.of(policy)?;
        if !isolation.can_give_network() {
            // The program would reach the servers of this machine.
            let because = isolation.no_network_because();
            let message = format!("a long-lived program needs a network of its own: {because}");
            return Err(ToolError::new(Code::Unavailable, message));
        }
        let (mut spec, mut host) = match (&parts.kind, request.workspace) {
            (Lasting::Service(_), WorkspaceView::ReadOnly | WorkspaceView::Writable) => {
                self.cell_with_workspace(parts, request)?
            }
            _ => self.cell_apart(policy, isolation, request.folder.clone()),
        };
        show(policy, &parts.denied, request, &mut spec)?;
        if request.is_shared {
            let _entered = self.networks.enter(SHARED, Owner::Runtime);
            let network = Network { owner: SHARED.to_owned(), rules: Rules::These(self.policy.clone()) };
            self.settle_lasting(&network, Some(parts.shared.clone()), (&mut spec, &mut host))?;
        } else {
            self.settle_lasting(&parts.network, parts.connections.clone(), (&mut spec, &mut host))?;
            // Without a way out, nobody else has asked for them.
            host.processes.get_or_insert_with(|| parts.cells.clone());
        }
        if let Lasting::Browser = parts.kind {
            // Pages get no placeholders of secrets.
            spec.environment = self.cell.environment.clone();
            spec.read_only.clear();
        } else if !host.has_egress {
            spec.environment.extend(self.cell.without_hosts.clone());
        }
        Ok((spec, host))
    }

    fn settle_lasting(
        &self,
        network: &Network,
        connections: Option<Arc<CallConnections>>,
        cell: (&mut CellSpec, &mut CellHost),
    ) -> Result<(), ToolError> {
        match self.settle_network(network, connections, cell) {
            Some(warning) => Err(ToolError::new(Code::Unavailable, warning)),
            None => Ok(()),
        }
    }

    /// Returns a cell that shows the program's own folder and no other one of the user.
    fn cell_apart(
        &self,
        policy: &Policy,
        isolation: sandbox::Isolation,
        folder: PathBuf,
    ) -> (CellSpec, CellHost) {
        let spec = CellSpec {
            workspace: folder,
            spool_directory: self.cell.spool_directory.clone(),
            output_limit: OUTPUT_LIMIT,
            limits: cell::limits_of(policy),
            strict: policy.strict(),
            ..CellSpec::default()
        };
        let host = CellHost {
            spawner: self.cell.spawner.clone().filter(|_| isolation.uses_spawner()),
            isolation,
            process_total: Some(Arc::clone(&self.cell.process_total)),
            ..CellHost::default()
        };
        (spec, host)
    }

    /// Returns a cell that shows what a background command sees, and lets the program write it if the request
    /// says so.
    fn cell_with_workspace(
        &self,
        parts: &LastingCell,
        request: &CellRequest,
    ) -> Result<(CellSpec, CellHost), ToolError> {
        let specified = self.specification(&parts.rules, &parts.denied, Writes::AtOnce)?;
        let SpecifiedCell { cell: mut spec, mut host, .. } = specified;
        if request.workspace == WorkspaceView::ReadOnly {
            spec.read_only.append(&mut spec.read_write);
            spec.read_only.push(spec.workspace.clone());
            // A program that may not write the workspace must not influence the builds in it either.
            host.kept_home = None;
        }
        // A lesser isolation makes these read-only too, although files can still be added next to them.
        let guarded = std::mem::take(&mut spec.frozen_where_direct);
        spec.frozen.extend(guarded);
        spec.read_write.push(request.folder.clone());
        spec.output_limit = OUTPUT_LIMIT;
        Ok((spec, host))
    }
}

/// Shows the further files of a request, without those that are denied.
///
/// # Errors
/// `EUNAVAILABLE` if Handfast's own files lie there.
fn show(
    policy: &Policy,
    denied: &Arc<DeniedFiles>,
    request: &CellRequest,
    spec: &mut CellSpec,
) -> Result<(), ToolError> {
    if request.shows.is_empty() {
        return Ok(());
    }
    let overlap = |shown: &&PathBuf| {
        let real = shown.canonicalize().unwrap_or_else(|_| (*shown).clone());
        policy.protected().any(|own| own.starts_with(&real) || real.starts_with(own))
    };
    if let Some(shown) = request.shows.iter().find(overlap) {
        let message = format!("`shows`: the files of Handfast lie in or around {}", shown.display());
        return Err(ToolError::new(Code::Unavailable, message).hint("name a folder apart from them"));
    }
    let MaskSet { marked, .. } = denied.below(&request.shows, Writes::AtOnce)?;
    spec.masked.extend(marked.hidden);
    spec.read_only.extend(request.shows.iter().cloned());
    Ok(())
}

/// Lets the connections pass that the decision about the call already covers.
fn allow_decided(call: &Call, connections: &CallConnections) {
    for part in &call.effects {
        if let Effect::Browse { host, port, .. } = &part.effect {
            connections.allow(host, *port);
        }
    }
}
