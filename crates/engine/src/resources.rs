//! Resources that outlive calls in one runtime: their list, and their end with their owners.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::{SignedDuration, Timestamp};
use sandbox::{ListedSession, OwnedSessions, Phase, Sessions};
use tool::{Owner, Resource, ResourcePool, ResourceUsage, SessionId, Threads, Timer};

use crate::call;
use crate::{AgentFeed, Engine};

/// The pools of a runtime. A pool ends before the pools behind it, on which it may depend.
pub(crate) struct Resources(Vec<Arc<dyn ResourcePool>>);

impl Resources {
    /// Collects the pools of a runtime. The threads come last, because every other pool may have
    /// started one.
    pub(crate) fn new(mut pools: Vec<Arc<dyn ResourcePool>>, threads: Threads) -> Self {
        pools.push(Arc::new(threads));
        Self(pools)
    }

    /// Tells every pool that the owner has ended. Does not wait.
    pub(crate) fn stop(&self, owner: &Owner) {
        self.0.iter().for_each(|pool| pool.stop(owner));
    }

    /// Ends the resources of an owner, pool after pool. Blocks until they have ended.
    pub(crate) fn end(&self, owner: &Owner) {
        for pool in &self.0 {
            pool.stop(owner);
            pool.join(owner);
        }
    }

    fn list(&self, now: Timestamp) -> impl Iterator<Item = Resource> {
        self.0.iter().flat_map(move |pool| pool.list(now))
    }
}

impl Engine {
    /// Stops every call and waits until each has ended and is recorded. Then ends everything that
    /// outlives calls, and waits until the output of commands is stored. Later calls are refused.
    pub async fn shutdown(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.running.stop_all().await;
        self.removals.wait().await;
        if let Some(snapshots) = &self.snapshots {
            snapshots.put_away();
        }
        self.end(Owner::Runtime).await;
        self.denied.settle();
        if let Some(latest) = self.successor() {
            latest.denied.settle();
        }
    }

    /// Stops every call, and ends everything that outlives calls, without an async runtime. Blocks
    /// until the latter has ended; calls end soon. Later calls are refused.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.running.stop();
        self.resources.end(&Owner::Runtime);
    }

    /// Ends a session's background commands, waits until their output is stored, releases the rest.
    pub async fn end_session(&self, session: &SessionId) {
        self.end(Owner::Session(session.clone())).await;
    }

    async fn end(&self, owner: Owner) {
        let resources = self.resources.clone();
        // If the task panics, the remaining resources end with the program.
        let _ = tokio::task::spawn_blocking(move || resources.end(&owner)).await;
    }

    /// Returns the agents of this runtime, if it has any.
    pub fn agents(&self) -> Option<&Arc<dyn AgentFeed>> {
        self.agents.as_ref()
    }

    /// Returns everything that outlives calls and exists now, with secrets covered.
    pub fn resources(&self) -> Vec<Resource> {
        self.redactor.refresh();
        let cover = |resource: Resource| match self.redactor.text(&resource.description) {
            Some(description) => Resource { description, ..resource },
            None => resource,
        };
        self.resources.list(self.clock.now()).map(cover).collect()
    }

    /// Returns the timer of this runtime's own waits.
    pub fn timer(&self) -> &dyn Timer {
        self.timer.as_ref()
    }

    /// Returns the threads of this runtime. All of them end with it.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A successor shares its calls and resources with the engine that it follows.
        if !self.is_successor {
            // After a shutdown, this finds no work.
            self.close();
        }
    }
}

/// The background commands of a runtime.
pub(crate) struct BackgroundCommands {
    sessions: Arc<Sessions>,
    /// Credentials that own commands. A session of its own has the same kind of name.
    holders: Mutex<HashSet<String>>,
}

impl BackgroundCommands {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Arc<Self> {
        Arc::new(Self { sessions, holders: Mutex::default() })
    }

    /// Returns the commands of one owner.
    pub(crate) fn of(&self, owner: &str) -> OwnedSessions {
        self.sessions.of(owner)
    }

    /// Records that a credential owns commands from now on.
    pub(crate) fn add_holder(&self, holder: &SessionId) {
        self.holders.lock().insert(holder.0.clone());
    }

    fn owner(&self, name: &str) -> Owner {
        if self.holders.lock().contains(name) {
            return Owner::Holder(SessionId(name.to_owned()));
        }
        Owner::Session(call::session_of(name))
    }
}

/// Returns true if the resources under this name end with `owner`.
fn ends_with(owner: &Owner, name: &str) -> bool {
    match owner {
        Owner::Call(_) => false,
        Owner::Session(session) => call::owners(session).iter().any(|own| own == name),
        Owner::Holder(holder) => holder.0 == name,
        Owner::Runtime => true,
    }
}

impl ResourcePool for BackgroundCommands {
    fn list(&self, now: Timestamp) -> Vec<Resource> {
        let resource = |(owner, listed): (String, ListedSession)| {
            let status = listed.session.status();
            let since =
                SignedDuration::try_from(status.runs_for).ok().and_then(|age| now.checked_sub(age).ok());
            let runs = !matches!(status.phase, Phase::Ended(_));
            runs.then(|| Resource {
                kind: "background command",
                owner: self.owner(&owner),
                since: since.unwrap_or(now),
                description: listed.command,
                // A thread supervises each command.
                usage: ResourceUsage { threads: 1, bytes: Some(status.bytes), ..ResourceUsage::default() },
            })
        };
        self.sessions.all().into_iter().filter_map(resource).collect()
    }

    fn stop(&self, owner: &Owner) {
        for (name, listed) in self.sessions.all() {
            if ends_with(owner, &name) {
                listed.session.begin_to_close();
            }
        }
    }

    fn join(&self, owner: &Owner) {
        match owner {
            Owner::Call(_) => {}
            Owner::Session(session) => {
                for name in &call::owners(session) {
                    self.sessions.close_all_of(name);
                }
            }
            Owner::Holder(holder) => self.sessions.close_all_of(&holder.0),
            Owner::Runtime => self.sessions.close_all(),
        }
    }
}
