//! The agents of this process, in trees: who is above whom, who waits for whom, and how a tree ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::{Asker, Engine, Principal};
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use store_api::AgentState;
use tokio::sync::{Notify, oneshot};
use tool::{
    Clock as _, Code, Owner, Resource, ResourcePool, ResourceUsage, SessionId, Stop, StopReason, ToolError,
};
use tools_agents::MAIN_AGENT;

use crate::agent_runtime::identity::AgentIdentity;
use crate::agent_runtime::model::EngineModel;
use crate::agent_runtime::runtime::{AgentParts, AgentRuntime};
use crate::agent_runtime::waiting_asker::WaitingAsker;
use crate::clock::SystemClock;
use crate::report::warn;

/// Maximum number of agents of one tree that have not ended.
pub(crate) const MOST_OF_TREE: usize = 128;
/// Maximum number of agents above an agent.
pub(crate) const DEEPEST: usize = 4;
/// Time for the agents of a tree to end after they were stopped.
const AT_END: Duration = Duration::from_secs(8);

/// An agent of this process.
pub(crate) struct LiveAgent {
    pub(crate) id: String,
    /// Address of the agent above it: its id, or the session of a main agent outside.
    pub(crate) parent: String,
    /// Address of the main agent.
    pub(crate) root: String,
    pub(crate) depth: usize,
    pub(crate) task: String,
    pub(crate) since: Timestamp,
    pub(crate) identity: Arc<AgentIdentity>,
    pub(crate) model: Arc<EngineModel>,
    pub(crate) stop: Stop,
    pub(crate) status: Mutex<AgentStatus>,
}

impl LiveAgent {
    /// Returns true if the agent has not finished its turn.
    pub(crate) fn is_working(&self) -> bool {
        self.status.lock().state == AgentState::Running
    }

    /// Returns the name of the model that its next request goes to.
    pub(crate) fn model_name(&self) -> String {
        let named = self.model.named.lock().clone();
        named.or_else(|| self.model.preferred(None).ok().map(|found| found.0)).unwrap_or_default()
    }
}

/// State of an agent, as lists show it.
#[derive(Debug, Clone)]
pub(crate) struct AgentStatus {
    pub(crate) state: AgentState,
    pub(crate) outcome: Option<String>,
    /// True if the agent has sent its result itself.
    pub(crate) has_reported: bool,
}

/// Answer of an agent to a question of the agent below it.
pub(crate) struct ParentAnswer {
    pub(crate) is_approved: bool,
    pub(crate) by: String,
    pub(crate) reason: Option<String>,
}

/// The agents of this process.
#[derive(Default)]
pub(crate) struct AgentTree {
    parts: OnceLock<AgentParts>,
    /// True if agents can outlive the call that starts them.
    is_serving: AtomicBool,
    is_closed: AtomicBool,
    agents: Mutex<BTreeMap<String, Arc<LiveAgent>>>,
    /// Number of loops that run, for the end of their owners.
    running: Mutex<BTreeMap<String, usize>>,
    ended: Condvar,
    /// Address that each waiting agent waits for.
    waits: Mutex<BTreeMap<String, String>>,
    wakes: Mutex<BTreeMap<String, Arc<Notify>>>,
    /// Open questions by the agent that asks.
    questions: Mutex<BTreeMap<String, oneshot::Sender<ParentAnswer>>>,
    /// Askers of humans, by the address of a main agent of this process.
    humans: Mutex<BTreeMap<String, Arc<dyn Asker>>>,
}

/// Mark of an agent that waits for another one, removed when it is dropped.
pub(crate) struct Waiting<'a> {
    tree: &'a AgentTree,
    who: String,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.tree.waits.lock().remove(&self.who);
    }
}

/// Mark of a loop that runs, removed when it is dropped.
pub(crate) struct RunningLoop {
    tree: Arc<AgentTree>,
    root: String,
}

impl Drop for RunningLoop {
    fn drop(&mut self) {
        let mut running = self.tree.running.lock();
        if let Some(count) = running.get_mut(&self.root) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                running.remove(&self.root);
            }
        }
        self.tree.ended.notify_all();
    }
}

impl AgentTree {
    /// Gives the tree the runtime that it belongs to. The first call counts.
    pub(crate) fn begin(&self, parts: AgentParts, is_serving: bool) {
        let _second = self.parts.set(parts);
        self.is_serving.store(is_serving, Ordering::SeqCst);
    }

    /// Lets agents of a main agent in this process outlive their calls, with the human who is asked.
    pub(crate) fn serve(&self, root: &str, human: Arc<dyn Asker>) {
        self.is_serving.store(true, Ordering::SeqCst);
        self.humans.lock().insert(root.to_owned(), human);
    }

    /// Returns the runtime.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if nothing outlives a call here, or the runtime ends.
    pub(crate) fn runtime(&self) -> Result<AgentRuntime, ToolError> {
        if !self.is_serving.load(Ordering::SeqCst) {
            let message = "no agent can outlive this call, because Handfast ends with it";
            return Err(ToolError::new(Code::Unavailable, message)
                .hint("`handfast run`, `handfast chat`, `handfast mcp` and `handfast up` have agents"));
        }
        let ends = || ToolError::new(Code::Unavailable, "this runtime is shutting down");
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(ends());
        }
        self.parts.get().and_then(AgentParts::runtime).ok_or_else(ends)
    }

    /// Returns the human who is asked for the agents of a main agent.
    pub(crate) fn human_of(&self, root: &str) -> Arc<dyn Asker> {
        let known = self.humans.lock().get(root).cloned();
        known.unwrap_or_else(|| Arc::new(WaitingAsker))
    }

    /// Returns the address of the main agent above a session.
    pub(crate) fn root_of(&self, session: &SessionId) -> String {
        self.agent(&session.0).map_or_else(|| session.0.clone(), |agent| agent.root.clone())
    }

    /// Returns an agent of this process.
    pub(crate) fn agent(&self, id: &str) -> Option<Arc<LiveAgent>> {
        self.agents.lock().get(id).cloned()
    }

    /// Returns the agents of a tree, in the order of their creation.
    pub(crate) fn of_tree(&self, root: &str) -> Vec<Arc<LiveAgent>> {
        let mut found: Vec<_> =
            self.agents.lock().values().filter(|agent| agent.root == root).cloned().collect();
        found.sort_by(|one, two| (one.since, &one.id).cmp(&(two.since, &two.id)));
        found
    }

    /// Adds an agent, and marks its loop as running.
    ///
    /// # Errors
    /// `EQUOTA` beyond the number of agents of a tree.
    pub(crate) fn add(self: &Arc<Self>, agent: Arc<LiveAgent>) -> Result<RunningLoop, ToolError> {
        let mut agents = self.agents.lock();
        let is_open =
            |other: &&Arc<LiveAgent>| other.root == agent.root && other.status.lock().state.is_open();
        if agents.values().filter(is_open).count() >= MOST_OF_TREE {
            return Err(ToolError::new(Code::Quota, format!("{MOST_OF_TREE} agents work already"))
                .hint("wait until some have ended; agent_list shows them"));
        }
        *self.running.lock().entry(agent.root.clone()).or_default() += 1;
        let root = agent.root.clone();
        agents.insert(agent.id.clone(), agent);
        Ok(RunningLoop { tree: self.clone(), root })
    }

    /// Returns true if the loop of an agent of this process takes the messages to an address.
    pub(crate) fn has_loop(&self, address: &str) -> bool {
        self.agents.lock().contains_key(address)
    }

    /// Returns the bell of a mailbox.
    pub(crate) fn wake_of(&self, address: &str) -> Arc<Notify> {
        self.wakes.lock().entry(address.to_owned()).or_default().clone()
    }

    /// Marks that one agent waits for another.
    ///
    /// # Errors
    /// `ECONFLICT` with the cycle, if the other one waits for the first, also through others.
    pub(crate) fn wait_for(&self, who: &str, whom: &str, root: &str) -> Result<Waiting<'_>, ToolError> {
        let mut waits = self.waits.lock();
        let mut chain = vec![who.to_owned(), whom.to_owned()];
        let mut next = whom;
        while let Some(after) = waits.get(next) {
            chain.push(after.clone());
            if after == who {
                let shown: Vec<&str> = chain.iter().map(|one| shown_address(one, root)).collect();
                let message = format!("the agents would wait for each other: {}", shown.join(" waits for "));
                return Err(ToolError::new(Code::Conflict, message).hint("answer what you were asked first"));
            }
            next = after;
        }
        waits.insert(who.to_owned(), whom.to_owned());
        Ok(Waiting { tree: self, who: who.to_owned() })
    }

    /// Returns true if an agent waits for another one, or for one that waits for it.
    pub(crate) fn waits_for(&self, who: &str, whom: &str) -> bool {
        let waits = self.waits.lock();
        let mut next = who;
        while let Some(after) = waits.get(next) {
            if after == whom {
                return true;
            }
            next = after;
        }
        false
    }

    /// Registers a question of an agent to the agent above it.
    pub(crate) fn open_question(&self, agent: &str) -> oneshot::Receiver<ParentAnswer> {
        let (sender, receiver) = oneshot::channel();
        self.questions.lock().insert(agent.to_owned(), sender);
        receiver
    }

    /// Takes the open question of an agent.
    pub(crate) fn take_question(&self, agent: &str) -> Option<oneshot::Sender<ParentAnswer>> {
        self.questions.lock().remove(agent)
    }

    /// Returns true if an agent has an open question.
    pub(crate) fn has_question(&self, agent: &str) -> bool {
        self.questions.lock().contains_key(agent)
    }

    /// Withdraws the open question of an agent.
    pub(crate) fn forget_question(&self, agent: &str) {
        self.questions.lock().remove(agent);
    }

    /// Returns true if an agent below another one works.
    pub(crate) fn works_below(&self, root: &str) -> bool {
        self.of_tree(root).iter().any(|agent| agent.id != root && agent.is_working())
    }

    /// Stops an agent and all below it.
    pub(crate) fn stop_below(&self, address: &str) {
        let below: Vec<_> =
            self.agents.lock().values().filter(|agent| agent.parent == address).cloned().collect();
        for agent in below {
            agent.stop.request(StopReason::Cancelled);
            self.wake_of(&agent.id).notify_one();
        }
    }

    /// Stops a tree, and waits until all of its loops have ended.
    pub(crate) async fn end_tree(self: &Arc<Self>, root: &str) {
        let owner = Owner::Session(SessionId(root.to_owned()));
        ResourcePool::stop(self.as_ref(), &owner);
        let tree = self.clone();
        // The wait is bounded, and the runtime ends anyway.
        drop(tokio::task::spawn_blocking(move || tree.join(&owner)).await);
    }

    /// Buries the messages to clients that have left: nobody reads them any more. The messages to a main agent
    /// of this process stay, because a later process can continue it.
    fn bury_mail_of_clients(&self, ended: &[Arc<LiveAgent>]) {
        let humans = self.humans.lock();
        let roots: BTreeSet<&str> = ended.iter().map(|agent| agent.root.as_str()).collect();
        let left: Vec<&str> = roots.into_iter().filter(|root| !humans.contains_key(*root)).collect();
        let Some(parts) = self.parts.get().and_then(AgentParts::runtime).filter(|_| !left.is_empty()) else {
            return;
        };
        for client in left {
            if let Err(error) = parts.store.mail().kill_of(&parts.workspace, client, "the client has left") {
                warn(&format!("messages to a client that has left stay open: {error}"));
            }
        }
    }

    fn matching(&self, owner: &Owner) -> Vec<Arc<LiveAgent>> {
        let is_owned =
            |agent: &&Arc<LiveAgent>| owner.includes(&Owner::Session(SessionId(agent.root.clone())));
        self.agents.lock().values().filter(is_owned).cloned().collect()
    }
}

/// Returns the id of an address in calls.
pub(crate) fn shown_address<'a>(address: &'a str, root: &str) -> &'a str {
    if address == root { MAIN_AGENT } else { address }
}

impl ResourcePool for AgentTree {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let open = self.agents.lock();
        let open = open.values().filter(|agent| agent.status.lock().state.is_open());
        let shown = open.map(|agent| Resource {
            kind: "agent",
            owner: Owner::Session(SessionId(agent.root.clone())),
            since: agent.since,
            description: format!("{}: {}", agent.id, agent.task.chars().take(100).collect::<String>()),
            usage: ResourceUsage::default(),
        });
        shown.collect()
    }

    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.is_closed.store(true, Ordering::SeqCst);
        }
        for agent in self.matching(owner) {
            agent.stop.request(StopReason::Cancelled);
            self.wake_of(&agent.id).notify_one();
        }
    }

    fn join(&self, owner: &Owner) {
        let until = std::time::Instant::now() + AT_END;
        let is_running = |running: &mut BTreeMap<String, usize>| {
            running.keys().any(|root| owner.includes(&Owner::Session(SessionId(root.clone()))))
        };
        let mut running = self.running.lock();
        while is_running(&mut running) {
            if self.ended.wait_until(&mut running, until).timed_out() {
                break;
            }
        }
        drop(running);
        let ended = self.matching(owner);
        self.bury_mail_of_clients(&ended);
        for agent in ended {
            self.agents.lock().remove(&agent.id);
            self.wakes.lock().remove(&agent.id);
            self.humans.lock().remove(&agent.root);
        }
    }
}

/// Returns the status of an agent that begins.
pub(crate) fn begun() -> Mutex<AgentStatus> {
    Mutex::new(AgentStatus { state: AgentState::Running, outcome: None, has_reported: false })
}

/// Returns the present time, for rows and lists.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// Returns the principal of the call that a tool carries out.
///
/// # Errors
/// `EINTERNAL` if the call has ended.
pub(crate) fn caller(engine: &Engine, context: &tool::Context) -> Result<Principal, ToolError> {
    engine.principal_of(&context.call).ok_or_else(|| ToolError::internal("the call has no principal"))
}

/// Returns an envelope, if a text is one.
pub(crate) fn envelope(text: &str) -> Option<(String, Value)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let kind = value.get("type")?.as_str()?.to_owned();
    value.is_object().then_some((kind, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_of_agents_that_wait_is_refused_with_the_cycle_and_the_end_of_a_wait_frees_it() {
        let tree = AgentTree::default();
        let first = tree.wait_for("main", "a1", "main").unwrap();
        let second = tree.wait_for("a1", "a2", "main").unwrap();
        assert!(tree.waits_for("main", "a2") && !tree.waits_for("a2", "main"));
        let cycle = tree.wait_for("a2", "main", "main").err().unwrap();
        assert_eq!(cycle.code, Code::Conflict);
        assert!(cycle.message.ends_with("a2 waits for 0 waits for a1 waits for a2"), "{}", cycle.message);
        drop(first);
        let third = tree.wait_for("a2", "main", "main").unwrap();
        assert!(tree.wait_for("main", "a1", "main").is_err());
        drop((second, third));
        assert!(tree.waits.lock().is_empty());
    }

    #[test]
    fn only_json_objects_with_a_type_are_envelopes() {
        assert_eq!(envelope(r#"{"type": "task_result"}"#).unwrap().0, "task_result");
        for text in ["hello", "7", r#"["type"]"#, r#"{"type": 7}"#, r#"{"kind": "x"}"#] {
            assert!(envelope(text).is_none(), "{text}");
        }
    }
}
