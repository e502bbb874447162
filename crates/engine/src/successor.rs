//! A change of the rules while the runtime serves: later calls go to a successor of the engine,
//! which shares everything with it except the rules and what follows from them.
//!
//! A call that has begun keeps its rules until its end, so no call sees two policies.

use std::sync::Arc;

use policy::Policy;

use crate::{Engine, EngineError, approvals, cache, denied, reach, toolchains};

impl Engine {
    /// Replaces the policy for every later call. Calls and background commands that run already keep
    /// the earlier one, except for the hosts that they may reach. Leases, sessions and networks stay.
    ///
    /// Limits on the number of commands, on answers, on background commands and on the home keep
    /// their values from the start.
    ///
    /// # Errors
    /// Fails if the roots of the new policy cannot be opened. The earlier policy then stays.
    pub fn replace_policy(&self, policy: Policy) -> Result<(), EngineError> {
        let successor = self.with_policy(Arc::new(policy))?;
        self.networks.follow(&successor.policy);
        *self.successor.lock() = Some(Arc::new(successor));
        Ok(())
    }

    /// Returns the engine that has the rules in force, unless it is this one.
    pub(crate) fn successor(&self) -> Option<Arc<Engine>> {
        self.successor.lock().clone()
    }

    fn with_policy(&self, policy: Arc<Policy>) -> Result<Self, EngineError> {
        let area = self.snapshots.as_ref().map(|snapshots| snapshots.change_area().clone());
        let keep = if self.cell.watches { watch::WatchMode::Fresh } else { watch::WatchMode::Once };
        let denied = Arc::new(denied::DeniedFiles::new(policy.clone(), keep, area, self.threads.clone()));
        let toolchains = toolchains::Toolchains::new(
            self.cell.toolchains.clone(),
            policy.clone(),
            self.clock.clone(),
            self.cell.toolchains_seen.clone(),
        );
        Ok(Self {
            reach: reach::AccessScope::open(policy.clone(), denied.clone(), &self.place)?,
            programs: denied::DeniedPrograms::new(
                policy.clone(),
                &self.cell.search_path,
                self.cell.paths.clone(),
            ),
            denied,
            toolchains,
            policy,
            leases: approvals::Leases::default(),
            // An answer under the earlier rules may be denied now.
            cache: cache::Cache::default(),
            notices: Vec::new(),
            is_successor: true,
            successor: parking_lot::Mutex::default(),
            place: self.place.clone(),
            store: self.store.clone(),
            registry: self.registry.clone(),
            clock: self.clock.clone(),
            timer: self.timer.clone(),
            cell: self.cell.clone(),
            hidden: self.hidden.clone(),
            isolations: self.isolations.clone(),
            redactor: self.redactor.clone(),
            vault: self.vault.clone(),
            sessions: self.sessions.clone(),
            services: self.services.clone(),
            databases: self.databases.clone(),
            memories: self.memories.clone(),
            answers: self.answers.clone(),
            lanes: self.lanes.clone(),
            snapshots: self.snapshots.clone(),
            homes: self.homes.clone(),
            removals: self.removals.clone(),
            pruned: self.pruned.clone(),
            running: self.running.clone(),
            counted: self.counted.clone(),
            tracer: self.tracer.clone(),
            program: self.program.clone(),
            summarizer: self.summarizer.clone(),
            pictures: self.pictures.clone(),
            user: self.user.clone(),
            networks: self.networks.clone(),
            threads: self.threads.clone(),
            resources: self.resources.clone(),
            agents: self.agents.clone(),
            closed: self.closed.clone(),
        })
    }
}
