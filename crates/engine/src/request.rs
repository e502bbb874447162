use std::sync::Arc;

use policy::Ceiling;
use serde_json::Value;
use tool::{Progress, SessionId, Stop};

use crate::{Asker, Origin};

/// One call as a door hands it in.
pub struct CallRequest {
    /// The tool's name in the caller's dialect.
    pub tool: String,
    /// Its arguments: a JSON object.
    pub arguments: Value,
    /// Who calls.
    pub caller: Caller,
    /// Ends the call early. A door requests [`tool::StopReason::Cancelled`] when its client cancels or goes away.
    pub stop: Stop,
    /// Where progress goes.
    pub progress: Arc<dyn Progress>,
    /// Whether a read may be answered from the cache: up to 60 s old, unless this runtime changed something since.
    pub cache: bool,
    /// Where it comes from, for traces.
    pub origin: Origin,
}

/// Who calls, and who can be asked.
#[derive(Clone)]
pub struct Caller {
    /// What belongs together: a connection, a run of the command line.
    pub session: SessionId,
    /// Whose the session is: the credential that it came with. What is to outlive the session belongs to it. None where nothing
    /// outlives a session, because the program ends with it.
    pub holder: Option<SessionId>,
    /// The way in.
    pub door: Door,
    /// The names and shapes that the caller speaks.
    pub dialect: &'static str,
    /// Who answers a `check`.
    pub asker: Arc<dyn Asker>,
    /// What the caller may at most do; [`Ceiling::default`] for one that acts for nobody else.
    pub ceiling: Ceiling,
}

impl Caller {
    /// A caller that acts on behalf of this one: a scheduled task, a sub-agent, a plugin. It can do what both ceilings allow, so
    /// never more than this one, and has a session of its own, whose background commands and approvals are nobody else's, and which nothing outlives.
    #[must_use]
    pub fn on_behalf(&self, session: SessionId, wanted: &Ceiling) -> Caller {
        Caller { session, holder: None, ceiling: self.ceiling.meet(wanted), ..self.clone() }
    }
}

/// The ways in.
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
}

impl Door {
    /// Tells whether what this door carries has a form for pictures, in which models see them.
    pub(crate) fn shows_pictures(self) -> bool {
        self == Door::Mcp
    }

    /// The door's name in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::CommandLine => "cli",
            Door::Mcp => "mcp",
            Door::Http => "http",
            Door::Csp => "csp",
            Door::Library => "library",
        }
    }
}
