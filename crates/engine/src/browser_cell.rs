//! The cell of a session's browser, and the connections of its pages.
//!
//! The browser outlives the calls that use it. Its cell shows no folder of the user, and it is in
//! the network of the session, so it reaches the servers that the session's commands started, and
//! other machines by the way out alone. A connection of a page belongs to the call that uses the
//! browser at that time; between calls, pages reach listed hosts only.

use std::path::PathBuf;
use std::sync::Arc;

use policy::Policy;
use sandbox::{CellHost, CellProcesses, CellSource, CellSpec};
use tool::{Effect, Lane, ToolError};

use crate::Engine;
use crate::call::Call;
use crate::cell;
use crate::cell_spec::{Network, Rules};
use crate::connections::CallConnections;

/// Bytes that are kept of what the browser itself prints.
const OUTPUT_LIMIT: u64 = 256 * 1024;

impl Engine {
    /// Makes the connections of the session's browser those of this call, and gives the call a source
    /// of the browser's cell.
    pub(crate) fn prepare_browser(self: &Arc<Self>, call: &mut Call, lane: Lane) {
        if lane != Lane::Browser {
            return;
        }
        let network = self.network(call);
        // The cell of the browser keeps the network afterwards.
        call.network_in_use = Some(self.networks.enter(&network.owner, call.resource_owner()));
        let cells = self.networks.browser_cells(&network.owner);
        call.browser_processes = Some(cells.clone());
        let connects = matches!(network.rules, Rules::These(_));
        let connections = connects
            .then(|| Arc::new(CallConnections::of_browser(self.connection_asker(call), cells.clone())));
        if let Some(connections) = &connections {
            allow_decided(call, connections);
            self.networks.use_way_out(&network.owner, connections.clone());
        }
        call.connections.clone_from(&connections);
        let (engine, rules) = (Arc::downgrade(self), call.rules(self));
        let owner = network.owner.clone();
        call.browser_cell = Some(Arc::new(CellSource::new(owner, move |folder| {
            let engine = engine.upgrade().ok_or("the runtime has ended")?;
            let (spec, mut host) = engine.browser_cell(&rules, &network, connections.clone(), folder)?;
            // Without a way out, nobody else has asked for them.
            host.processes.get_or_insert_with(|| cells.clone());
            Ok((spec, host))
        })));
    }

    /// Returns the bytes of memory that the browser of a call uses.
    pub(crate) async fn browser_bytes(processes: Option<Arc<CellProcesses>>) -> Option<u64> {
        let processes = processes?;
        let memory = tokio::task::spawn_blocking(move || processes.memory()).await.ok()?;
        (memory > 0).then_some(memory)
    }

    fn browser_cell(
        &self,
        policy: &Policy,
        network: &Network,
        connections: Option<Arc<CallConnections>>,
        folder: PathBuf,
    ) -> Result<(CellSpec, CellHost), ToolError> {
        let isolation = self.isolations.of(policy)?;
        if !isolation.can_give_network() {
            // The pages would reach the servers of this machine.
            let because = isolation.no_network_because();
            let message = format!("a browser needs a network of its own: {because}");
            return Err(ToolError::new(tool::Code::Unavailable, message));
        }
        let mut spec = CellSpec {
            workspace: folder,
            spool_directory: self.cell.spool_directory.clone(),
            output_limit: OUTPUT_LIMIT,
            limits: cell::limits_of(policy),
            strict: policy.strict(),
            ..CellSpec::default()
        };
        let mut host = CellHost {
            spawner: self.cell.spawner.clone().filter(|_| isolation.uses_spawner()),
            isolation,
            process_total: Some(Arc::clone(&self.cell.process_total)),
            ..CellHost::default()
        };
        if let Some(warning) = self.settle_network(network, connections, (&mut spec, &mut host)) {
            return Err(ToolError::new(tool::Code::Unavailable, warning));
        }
        // Pages get no placeholders of secrets.
        spec.environment = self.cell.environment.clone();
        spec.read_only.clear();
        Ok((spec, host))
    }
}

/// Lets the connections pass that the decision about the call already covers.
fn allow_decided(call: &Call, connections: &CallConnections) {
    for part in &call.effects {
        if let Effect::Browse { host, port, .. } = &part.effect {
            connections.allow(host, *port);
        }
    }
}
