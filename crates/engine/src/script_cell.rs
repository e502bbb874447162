//! The cell of a script.
//!
//! The cell shows the toolchains and the script's own folder. It shows no file of the user, and has neither a network
//! nor a secret. So whatever a script does, it does by its calls, and each of them is a call like any other.

use std::sync::Arc;

use policy::Policy;
use sandbox::{CellHost, CellRequest, CellSource, CellSpec};
use tool::{Code, Lane, ToolError};

use crate::call::Call;
use crate::cell_spec::SpecifiedCell;
use crate::denied::{DeniedFiles, Writes};
use crate::request::Internal;
use crate::{Door, Engine};

/// Bytes that are kept of what a script prints.
const OUTPUT_LIMIT: u64 = 4 * 1024 * 1024;

impl Engine {
    /// Gives a call that runs a script a source of the script's cell.
    ///
    /// # Errors
    /// `EPERMISSION` if a script makes the call.
    pub(crate) fn prepare_script(self: &Arc<Self>, call: &mut Call, lane: Lane) -> Result<(), ToolError> {
        if lane != Lane::Script {
            return Ok(());
        }
        if call.door == Door::Internal(Internal::Script) {
            let message = "denied: a script cannot run another script";
            return Err(ToolError::new(Code::Permission, message).hint("call the tools from one script"));
        }
        let (rules, denied) = (call.rules(self), call.reach(self).denied());
        // The scripts of a session share a network that reaches nothing, so that their cells can wait in it.
        let network = format!("{} scripts", call.owner());
        call.network_in_use = Some(self.networks.enter(&network, call.resource_owner()));
        let engine = Arc::downgrade(self);
        call.lasting_cell = Some(Arc::new(CellSource::new(call.owner(), move |request| {
            let engine = engine.upgrade().ok_or("the runtime has ended")?;
            Ok(engine.script_cell(&rules, &denied, (&network, request))?)
        })));
        Ok(())
    }

    fn script_cell(
        &self,
        policy: &Policy,
        denied: &Arc<DeniedFiles>,
        (network, request): (&str, CellRequest),
    ) -> Result<(CellSpec, CellHost), ToolError> {
        if !self.isolations.of(policy)?.can_give_network() {
            // Another isolation hides neither the user's files nor the servers of this machine.
            let message =
                "a script needs a cell that shows no files of the user, and the isolation here has none";
            return Err(ToolError::new(Code::Unavailable, message)
                .hint("make the calls one by one; `handfast doctor` says what the isolation lacks"));
        }
        let SpecifiedCell { cell: whole, host: mut whole_host, .. } =
            self.specification(policy, denied, Writes::AtOnce)?;
        let mut environment = self.cell.environment.clone();
        environment.extend(self.cell.without_hosts.clone());
        let spec = CellSpec {
            workspace: request.folder,
            toolchains: whole.toolchains,
            links: whole.links,
            covered: whole.covered,
            search_path: whole.search_path,
            environment,
            spool_directory: whole.spool_directory,
            output_limit: OUTPUT_LIMIT,
            limits: whole.limits,
            strict: whole.strict,
            ..CellSpec::default()
        };
        whole_host.kept_home = None;
        whole_host.network = None;
        if whole_host.spawner.is_some() && self.networks.settle(network, &mut whole_host).is_err() {
            // A cell that is made for one call has a network of its own.
            whole_host.spawner = None;
        }
        Ok((spec, whole_host))
    }
}
