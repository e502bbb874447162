//! Calls in the form in which doors submit them.

use std::sync::Arc;

use policy::Ceiling;
use serde_json::Value;
use tool::{Progress, SessionId, Stop};

use crate::{Asker, Origin};

/// Call in the form in which a door submits it.
pub struct CallRequest {
    /// Name of the tool in the caller's dialect.
    pub tool: String,
    /// Arguments: a JSON object.
    pub arguments: Value,
    /// Principal.
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

/// Principal, and the person who can be asked.
#[derive(Clone)]
pub struct Principal {
    /// Session: a connection, or one run of the command line.
    pub session: SessionId,
    /// Holder of the session: the credential that it was opened with. Processes that outlive the
    /// session belong to the holder. `None` if nothing outlives a session, because the program ends
    /// with it.
    pub holder: Option<SessionId>,
    /// Door through which the call arrived.
    pub door: Door,
    /// Dialect of the caller: names and shapes of tools.
    pub dialect: &'static str,
    /// Receiver of the question if the decision is `check`.
    pub asker: Arc<dyn Asker>,
    /// Ceiling of the caller's permissions; [`Ceiling::default`] for a caller that acts for itself.
    pub ceiling: Ceiling,
}

impl Principal {
    /// Returns a caller that acts on behalf of this one: a scheduled task, a sub-agent, a plugin.
    /// Its permissions are those that both ceilings allow, so never more than this caller's. The
    /// new caller has its own session, whose background commands and approvals belong to no other
    /// caller. Nothing outlives this session.
    #[must_use]
    pub fn on_behalf(&self, session: SessionId, wanted: &Ceiling) -> Principal {
        Principal { session, holder: None, ceiling: self.ceiling.meet(wanted), ..self.clone() }
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
}

impl Door {
    /// Returns true if the protocol of this door has a form for pictures, in which models see them.
    pub(crate) fn shows_pictures(self) -> bool {
        self == Door::Mcp
    }

    /// Returns the name of the door in the audit.
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
