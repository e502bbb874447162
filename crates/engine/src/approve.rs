//! Asking a human. Keeps no durable record of its own: the audit has what was asked and answered.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tool::{BoxFuture, CallId, Level, SessionId};

/// A question to a human: may this call be made?
#[derive(Debug, Clone)]
pub struct Approval {
    /// What the `EAPPROVAL` error and the audit call it.
    pub id: String,
    /// The call that waits.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The level of the call.
    pub level: Level,
    /// Every effect, one readable line each.
    pub effects: Vec<String>,
    /// Why the policy asks.
    pub reason: String,
    /// The rule that decided.
    pub rule: String,
    /// What a yes for the session would cover, or none where only this one call can be allowed.
    pub session_covers: Option<String>,
    /// Binds an answer to exactly this tool with exactly these effects and arguments.
    pub digest: String,
}

/// What the human said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    Once {
        /// Who said so, for the audit.
        by: String,
    },
    /// Yes, and again in this session for what [`Approval::session_covers`] says.
    Session {
        /// Who said so, for the audit.
        by: String,
    },
    /// No.
    Denied {
        /// Who said so, for the audit.
        by: String,
        /// A word for the agent.
        message: Option<String>,
    },
    /// There is nobody who could answer now.
    Nobody {
        /// How an answer could be had, for the hint of the error.
        hint: String,
    },
}

/// Whoever can be asked: a terminal, a client that can show a form, nobody.
pub trait Asker: Send + Sync {
    /// Asks and waits. Must come back with [`Answer::Nobody`] rather than wait for ever.
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer>;
}

/// Nobody is there to answer.
pub struct NoAsker {
    /// How an answer could be had.
    pub hint: String,
}

impl Asker for NoAsker {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody { hint: self.hint.clone() } })
    }
}

/// What was allowed for a session. It ends with the process.
#[derive(Default)]
pub(crate) struct SessionGrants(Mutex<HashSet<(SessionId, String)>>);

impl SessionGrants {
    pub(crate) fn covers(&self, session: &SessionId, scope: &str) -> bool {
        let grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grants.contains(&(session.clone(), scope.to_owned()))
    }

    pub(crate) fn grant(&self, session: &SessionId, scope: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((session.clone(), scope));
    }
}
