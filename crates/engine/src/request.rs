//! Calls in the form in which doors submit them, and the principals that make them.

use std::sync::Arc;

use jiff::Timestamp;
use policy::Ceiling;
use serde_json::Value;
use tool::{CallId, CallerForms, CallerModel, NoProgress, Progress, SessionId, Stop};

use crate::{AgentListener, Allowance, Asker, Budget, Origin};

/// Call in the form in which a door submits it.
pub struct CallRequest {
    /// Name of the tool in the caller's dialect.
    pub tool: String,
    /// Arguments: a JSON object.
    pub arguments: Value,
    /// Principal that makes the call.
    pub principal: Principal,
    /// Signal that ends the call early. A door requests [`tool::StopReason::Cancelled`] when its
    /// client cancels or disconnects.
    pub stop: Stop,
    /// Receiver of progress reports.
    pub progress: Arc<dyn Progress>,
    /// True if a read may be answered from the cache. A cached response is up to 60 s old, and
    /// older than no change by this runtime.
    pub cache: bool,
    /// Origin of the request, for traces.
    pub origin: Origin,
}

impl CallRequest {
    /// Creates a call that reports no progress, takes no cached answer and belongs to no trace.
    pub fn new(principal: Principal, tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            principal,
            stop: Stop::default(),
            progress: Arc::new(NoProgress),
            cache: false,
            origin: Origin::default(),
        }
    }
}

/// The one who makes a call, what it may do and spend, and who can be asked for it.
#[derive(Clone)]
pub struct Principal {
    /// Door through which its calls arrive.
    pub door: Door,
    /// Session: a connection, or one run of the command line.
    pub session: SessionId,
    /// Holder of the session: the credential that it was opened with. Processes that outlive the
    /// session belong to the holder. `None` if nothing outlives a session, because the program ends
    /// with it.
    pub holder: Option<SessionId>,
    /// Call on behalf of which this principal acts, if it acts on behalf of one.
    pub parent: Option<CallId>,
    /// Name of the agent whose memory the principal uses; `None` for that of its session.
    pub memory: Option<Arc<str>>,
    /// Dialect of the caller: names and shapes of tools.
    pub dialect: &'static str,
    /// Receiver of the question if the decision is `check`.
    pub asker: Arc<dyn Asker>,
    /// Model that the caller's program offers, if it offers one.
    pub model: Option<Arc<dyn CallerModel>>,
    /// Forms that the caller's program shows for servers, if it shows any.
    pub forms: Option<Arc<dyn CallerForms>>,
    /// Listener of the caller's program to what its agents do, if it has one.
    pub listener: Option<Arc<dyn AgentListener>>,
    // INVARIANT: a ceiling is only ever met with another one, and a budget is only ever taken out
    // of that of the parent. So neither can be assigned.
    ceiling: Ceiling,
    budget: Budget,
}

impl Principal {
    /// Creates a principal that acts for itself, with no ceiling and no budget.
    pub fn new(door: Door, session: SessionId, dialect: &'static str, asker: Arc<dyn Asker>) -> Self {
        let (ceiling, budget) = (Ceiling::default(), Budget::default());
        Self {
            door,
            session,
            holder: None,
            parent: None,
            memory: None,
            dialect,
            asker,
            model: None,
            forms: None,
            listener: None,
            ceiling,
            budget,
        }
    }

    /// Returns a principal that acts on behalf of this one: a scheduled task, a sub-agent, a
    /// plugin. Its permissions are those that both ceilings allow, so never more than this one's,
    /// and it spends this one's budget. The new principal has its own session, whose background
    /// commands and approvals belong to nobody else. Nothing outlives this session.
    #[must_use]
    pub fn on_behalf(&self, session: SessionId, wanted: &Ceiling) -> Self {
        Self { session, holder: None, memory: None, ..self.clone().within(wanted) }
    }

    /// Limits what the principal may do, in addition to its ceiling.
    #[must_use]
    pub fn within(self, ceiling: &Ceiling) -> Self {
        Self { ceiling: self.ceiling.meet(ceiling), ..self }
    }

    /// Limits what the principal may spend: the budget is taken out of the present one. `whose`
    /// names the principal in messages.
    #[must_use]
    pub fn spending(self, whose: &str, wanted: Allowance, now: Timestamp) -> Self {
        Self { budget: self.budget.take(whose, wanted, now), ..self }
    }

    /// Returns the upper limit on what the principal may do.
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// Returns what the principal may spend.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

/// Doors through which calls arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// `handfast call`.
    CommandLine,
    /// The Model Context Protocol.
    Mcp,
    /// Plain HTTP.
    Http,
    /// CSP/1.
    Csp,
    /// The Rust library.
    Library,
    /// No door: a part of Handfast makes the call.
    Internal(Internal),
}

/// Parts of Handfast that make calls themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Internal {
    /// The watcher that keeps the knowledge index current.
    KnowledgeWatcher,
    /// The watcher that keeps the code graph current.
    CodeWatcher,
    /// The scheduler, on behalf of whoever stored the job.
    Schedule,
    /// The loop of an agent, on behalf of whoever started the agent.
    Agent,
    /// A script, on behalf of whoever runs the script.
    Script,
    /// A tool that makes calls itself, on behalf of its caller.
    Tool,
}

impl Door {
    /// Returns true if this door has a form for pictures, in which models see them.
    pub(crate) fn shows_pictures(self) -> bool {
        matches!(self, Door::Mcp | Door::Internal(Internal::Agent))
    }

    /// Returns the name of the door in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::CommandLine => "cli",
            Door::Mcp => "mcp",
            Door::Http => "http",
            Door::Csp => "csp",
            Door::Library => "library",
            Door::Internal(Internal::KnowledgeWatcher) => "knowledge-watcher",
            Door::Internal(Internal::CodeWatcher) => "code-watcher",
            Door::Internal(Internal::Schedule) => "schedule",
            Door::Internal(Internal::Agent) => "agent",
            Door::Internal(Internal::Script) => "script",
            Door::Internal(Internal::Tool) => "tool",
        }
    }
}
