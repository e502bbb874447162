//! The cell of a command is specified before it is needed: what it shows, and which network it is in.

use std::sync::Arc;

use policy::Policy;
use sandbox::CellSpec;
use tool::{Lane, ToolError};

use crate::call::Call;
use crate::denied::DeniedFiles;
use crate::way_out::Around;
use crate::{Engine, cell};

/// The cell of a command while it is specified, and what its user should know about it.
pub(crate) type Specifying = tokio::task::JoinHandle<Result<(CellSpec, Option<String>), ToolError>>;

impl Engine {
    /// The cell for one call. Blocks while denied files are looked for.
    pub(crate) fn specification(
        &self,
        policy: &Policy,
        denied: &Arc<DeniedFiles>,
    ) -> Result<(CellSpec, Option<String>), ToolError> {
        let (mut spec, warning) = cell::specification(&self.cell, policy, &self.place, denied)?;
        // Who may not write to the workspace has no say in what its builds use either.
        let homes = self.homes.as_ref().filter(|_| policy.cell_writes());
        spec.kept_home = homes.map(|homes| homes.home());
        Ok((spec, warning))
    }

    /// Puts the cell into the network of its session. Where that cannot be had it has one of its own, and its result says so; what
    /// else its user should know is given back.
    fn settle_network(&self, owner: &str, cell: &mut CellSpec, goes_out: bool) -> Option<String> {
        if goes_out {
            if !sandbox::has_namespaces() {
                return Some(
                    "no host can be reached from this command: this machine refuses namespaces".to_owned(),
                );
            }
            let around = Around {
                policy: self.policy.clone(),
                store: self.store.clone(),
                redactor: self.redactor.clone(),
                clock: self.clock.clone(),
                vault: self.vault.clone(),
                folder: self.cell.certificates.clone(),
            };
            return self.networks.settle_with_way_out(owner, cell, &around).err();
        }
        if cell.spawner.is_some() {
            match self.networks.of(owner) {
                Ok(network) => cell.network = network,
                Err(_) => cell.spawner = None,
            }
        }
        None
    }

    /// Whether a command of this call may reach the hosts that the policy lists. Who acts under a ceiling reaches none: the network
    /// of a session has one way out, which knows the policy and no ceilings.
    fn goes_out(&self, call: &Call) -> bool {
        self.policy.allows_hosts() && call.ceiling.is_unbounded()
    }

    /// Begins to specify the cell of a command.
    pub(crate) fn specify(self: &Arc<Self>, call: &Call, lane: Lane) -> Option<Specifying> {
        if lane != Lane::Command {
            return None;
        }
        let engine = self.clone();
        let (background, rules, owner) = (call.background, call.rules(self), call.owner());
        let goes_out = self.goes_out(call);
        let denied = call.reach(self).denied();
        Some(tokio::task::spawn_blocking(move || {
            let mut specified = engine.specification(&rules, &denied)?;
            if let Some(told) = engine.settle_network(&owner, &mut specified.0, goes_out) {
                specified.1 = Some(specified.1.map_or(told.clone(), |warning| format!("{warning}; {told}")));
            }
            if !specified.0.has_doors {
                specified.0.environment.extend(engine.cell.without_hosts.clone());
            }
            if background {
                // A cell without namespaces has these read-only too, although nothing can be added beside them there.
                let guarded = std::mem::take(&mut specified.0.frozen_where_direct);
                specified.0.frozen.extend(guarded);
            }
            Ok(specified)
        }))
    }

    /// Whether what the call does leaves this machine, or can, so that its intent must be on the disk first.
    pub(crate) fn leaves_the_machine(&self, call: &Call, lane: Lane) -> bool {
        let reaches_hosts = lane == Lane::Command && self.goes_out(call);
        reaches_hosts || call.effects.iter().any(|part| part.effect.leaves_the_machine())
    }

    /// What the way out of the session's network has refused, for the answer of a command.
    pub(crate) fn told_by_network(&self, call: &Call, lane: Lane) -> Vec<String> {
        if lane == Lane::Command { self.networks.take_notes(&call.owner()) } else { Vec::new() }
    }
}
