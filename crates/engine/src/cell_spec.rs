//! Specification of a command's cell before the cell is needed: the files that it shows, and its
//! network.

use std::sync::Arc;

use checkpoint::HiddenFile;
use policy::Policy;
use sandbox::{CellHost, CellSpec};
use tool::{Effect, Lane, ToolError};

use crate::approvals::ConnectionAsker;
use crate::call::Call;
use crate::connections::CallConnections;
use crate::denied::{DeniedFiles, Writes};
use crate::digest::digest;
use crate::egress_gate::GateDeps;
use crate::rules_in_force::RulesInForce;
use crate::{Engine, cell};

/// Task that specifies the cell of a command.
pub(crate) type CellSpecTask = tokio::task::JoinHandle<Result<SpecifiedCell, ToolError>>;

/// Cell of a command.
pub(crate) struct SpecifiedCell {
    pub(crate) cell: CellSpec,
    /// Live parts that the cell stands on.
    pub(crate) host: CellHost,
    /// Files that the cell replaces by placeholders, if the command runs on a snapshot.
    pub(crate) hidden: Vec<HiddenFile>,
    /// Warnings about the cell for its user.
    pub(crate) told: Vec<String>,
}

/// Network of a call's commands.
pub(crate) struct Network {
    /// Owner of the network.
    pub(crate) owner: String,
    pub(crate) rules: Rules,
}

/// Rules of the network's way out.
pub(crate) enum Rules {
    These(Arc<Policy>),
    /// The network can reach no host.
    NoHosts,
    /// The rules may allow hosts, but too many networks exist already.
    TooMany,
}

const TOO_MANY: &str = "no host can be reached from this command: this session has had callers with \
     too many different ceilings";

impl Engine {
    /// Returns the cell for one call. Blocks while denied files are searched for.
    pub(crate) fn specification(
        &self,
        policy: &Policy,
        denied: &Arc<DeniedFiles>,
        writes: Writes,
    ) -> Result<SpecifiedCell, ToolError> {
        let parts = (&self.toolchains, &self.programs, self.isolations.of(policy)?);
        let (mut spec, mut host, warning) =
            cell::specification(&self.cell, policy, &self.place, denied, writes, parts)?;
        // A caller that may not write to the workspace must not influence the builds in it either.
        let homes = self.homes.as_ref().filter(|_| policy.cell_writes());
        host.kept_home = homes.map(|homes| homes.home());
        let on_snapshot = writes == Writes::Apart && policy.cell_writes() && self.snapshots.is_some();
        let hidden =
            if on_snapshot { self.hidden.replace(&mut spec, &self.place.workspace) } else { Vec::new() };
        Ok(SpecifiedCell { cell: spec, host, hidden, told: warning.into_iter().collect() })
    }

    /// Puts the cell into its network. If the network is not available, the cell gets a network of
    /// its own, and its result reports that. Returns a warning for the user.
    pub(crate) fn settle_network(
        &self,
        network: &Network,
        connections: Option<Arc<CallConnections>>,
        (cell, host): (&mut CellSpec, &mut CellHost),
    ) -> Option<String> {
        let Network { owner, rules } = network;
        match (rules, connections) {
            (Rules::These(rules), _) if !rules.allows_hosts() && !host.isolation.can_give_network() => {}
            (Rules::These(_), _) if !host.isolation.can_give_network() => {
                let because = host.isolation.no_network_because();
                return Some(format!("no host can be reached from this command: {because}"));
            }
            (Rules::These(rules), Some(connections)) => {
                let around = GateDeps {
                    policy: RulesInForce::of(rules.clone()),
                    store: self.store.clone(),
                    redactor: self.redactor.clone(),
                    clock: self.clock.clone(),
                    vault: self.vault.clone(),
                    workspace: self.place.workspace.clone(),
                    folder: self.cell.certificates.clone(),
                };
                return self.networks.settle_with_way_out(owner, (cell, host), &around, connections).err();
            }
            (Rules::These(_), None) | (Rules::NoHosts | Rules::TooMany, _) => {}
        }
        if host.spawner.is_some() && self.networks.settle(owner, host).is_err() {
            host.spawner = None;
        }
        matches!(rules, Rules::TooMany).then(|| TOO_MANY.to_owned())
    }

    /// Returns the owner of the network that the call's programs would be in.
    pub(crate) fn network_owner(&self, call: &Call) -> String {
        self.network(call).owner
    }

    /// Returns the network for the commands of this call. Callers whose ceilings allow different
    /// hosts never share a network, because each network has one way out. A caller that reaches
    /// another caller's program also reaches that program's hosts.
    pub(crate) fn network(&self, call: &Call) -> Network {
        let owner = call.owner();
        // A command that only reads needs no host.
        let reaches = |policy: &Policy| policy.allows_hosts() || policy.asks_about_hosts();
        if !reaches(&self.policy) || call.passed_as_reading() || call.without_network {
            return Network { owner, rules: Rules::NoHosts };
        }
        if call.ceiling.is_unbounded() {
            return Network { owner, rules: Rules::These(self.policy.clone()) };
        }
        let ceiling = call.ceiling.of_connections();
        let rules = self.policy.under(&ceiling);
        if !reaches(&rules) {
            return Network { owner, rules: Rules::NoHosts };
        }
        match self.networks.owner_under(&owner, ceiling) {
            Some(owner) => Network { owner, rules: Rules::These(Arc::new(rules)) },
            None => Network { owner, rules: Rules::TooMany },
        }
    }

    /// Returns the source of answers about the connections of the call's commands.
    pub(crate) fn connection_asker(&self, call: &Call) -> ConnectionAsker {
        let runs = |part: &&policy::Part| matches!(part.effect, Effect::Run { .. });
        ConnectionAsker {
            store: self.store.clone(),
            clock: self.clock.clone(),
            redactor: self.redactor.clone(),
            signals: self.answers.clone(),
            place: self.place.clone(),
            program: self.program().clone(),
            id: call.id.clone(),
            session: call.session.clone(),
            door: call.door,
            dialect: call.dialect,
            asker: call.asker.clone(),
            stop: call.stop.clone(),
            tool: call.tool.clone(),
            command: call.effects.iter().find(runs).cloned(),
            request: digest(&(&call.digest(), "its connections")),
        }
    }

    /// Returns true if the cell of the call has a separate network, because the call may not use
    /// the network of its session.
    pub(crate) fn is_apart(&self, call: &Call) -> bool {
        call.without_network || call.passed_as_reading() && self.policy.allows_hosts()
    }

    /// Starts to specify the cell of a command.
    pub(crate) fn specify(self: &Arc<Self>, call: &mut Call, lane: Lane) -> Option<CellSpecTask> {
        if lane != Lane::Command {
            return None;
        }
        let engine = self.clone();
        let (background, rules, network) = (call.background, call.rules(self), self.network(call));
        let owner = call.owner();
        let (reads_only, apart) = (call.passed_as_reading(), self.is_apart(call));
        let undoable = call.passed_as_undoable();
        let connects = matches!(network.rules, Rules::These(_));
        let connections = connects.then(|| Arc::new(CallConnections::new(self.connection_asker(call))));
        call.connections.clone_from(&connections);
        let starts_in = call.effects.iter().find_map(|part| match &part.effect {
            Effect::Run { directory, .. } => Some(part.real.clone().unwrap_or_else(|| directory.clone())),
            _ => None,
        });
        let denied = call.reach(self).denied();
        // A tool that declares no host has a network for itself.
        let own = call
            .without_network
            .then(|| self.networks.enter_apart(&owner, &call.tool, call.resource_owner()));
        let (own, in_use) = match own.flatten() {
            Some((own, in_use)) => (Some(own), in_use),
            None => (None, self.networks.enter(&network.owner, call.resource_owner())),
        };
        call.network_in_use = Some(in_use);
        Some(tokio::task::spawn_blocking(move || {
            let writes = if background { Writes::AtOnce } else { Writes::Apart };
            let mut specified = engine.specification(&rules, &denied, writes)?;
            let SpecifiedCell { cell, host, told, .. } = &mut specified;
            // A call that passes because it only reads starts no program that a call could have
            // written.
            if let Some(directory) = starts_in.filter(|_| !reads_only) {
                let folders = policy::project_folders(&directory, &engine.place.workspace);
                cell.search_path.extend(folders.into_iter().filter(|folder| folder.is_dir()));
            }
            let settled = own.is_some_and(|own| {
                host.spawner.is_some() && !reads_only && engine.networks.settle(&own, host).is_ok()
            });
            if settled {
                // The network has no other program.
            } else if apart {
                (host.spawner, host.network) = (None, None);
            } else {
                told.extend(engine.settle_network(&network, connections, (cell, host)));
            }
            told.extend(engine.hidden.tell(&owner, cell, &rules, &engine.place.workspace));
            if undoable {
                // Other roots are written directly, which cannot be undone.
                cell.read_only.append(&mut cell.read_write);
            }
            if reads_only {
                cell.reads_only = true;
                // Otherwise git would refresh its index, and that work would be discarded.
                cell.environment.insert("GIT_OPTIONAL_LOCKS".into(), "0".into());
            }
            if !host.has_egress {
                cell.environment.extend(engine.cell.without_hosts.clone());
            }
            if background {
                // A lesser isolation makes these read-only too, although files can still be
                // added next to them.
                let guarded = std::mem::take(&mut cell.frozen_where_direct);
                cell.frozen.extend(guarded);
            }
            Ok(specified)
        }))
    }

    /// Returns true if effects of the call leave this machine, or may leave it, so that its intent
    /// must be on the disk first.
    pub(crate) fn leaves_the_machine(&self, call: &Call, lane: Lane) -> bool {
        // A connection to a host on no list is recorded on the disk before it is made.
        let reaches_hosts = lane == Lane::Command
            && self.policy.allows_hosts()
            && matches!(self.network(call).rules, Rules::These(_));
        reaches_hosts || call.effects.iter().any(|part| part.effect.leaves_the_machine())
    }
}
