//! The name of the agent that a call comes from, and the memory that the call sees.
//!
//! Each subject of an identity provider is an agent. Without an identity provider, everybody who
//! works here as this user is the agent `main`. A caller that acts on behalf of another is an agent
//! of its own, named after its session.

use std::sync::Arc;

use jiff::Timestamp;
use memory::{AgentMemory, MemoryCaller};
use tool::SessionId;

use crate::call::Call;
use crate::{Engine, Principal};

/// Prefix of the names of agents that are subjects of an identity provider.
const SUBJECT: &str = "subject ";

/// Name of the agent without a name of its own.
const MAIN: &str = "main";

/// Number of digits of a subject's mark in the agent names of earlier versions. Memories of the
/// agent may be stored under that name.
const EARLIER_DIGITS: usize = 12;

impl Engine {
    pub(crate) fn memory_of(&self, call: &Call) -> AgentMemory {
        let agent = match &call.memory {
            Some(name) => name.to_string(),
            None => agent(call.holder.as_ref(), &call.session, call.ceiling.is_unbounded()),
        };
        let earlier = earlier(&agent).map(str::to_owned);
        let who = MemoryCaller {
            workspace: self.place.workspace.clone(),
            agent,
            session: call.session.0.clone(),
            call: call.id.0.clone(),
            now: Timestamp::UNIX_EPOCH,
            only_tries: call.dry_run.is_some(),
        };
        self.memories.of(who, earlier)
    }
}

impl Principal {
    /// Returns the name of the agent whose memory the principal uses.
    pub fn memory_name(&self) -> Arc<str> {
        self.memory.clone().unwrap_or_else(|| {
            let is_unbounded = self.ceiling().is_unbounded();
            agent(self.holder.as_ref().filter(|_| is_unbounded), &self.session, is_unbounded).into()
        })
    }
}

/// Returns the name that an earlier version gave to the agent, if it differs.
fn earlier(agent: &str) -> Option<&str> {
    let mark = agent.strip_prefix(SUBJECT)?;
    (mark.len() > EARLIER_DIGITS).then(|| agent.get(..SUBJECT.len() + EARLIER_DIGITS))?
}

/// Returns the name of an agent, which is the same in every run of the program. A holder's id
/// begins with the run in which it arrived. If it is a subject of an identity provider, a dot and
/// the subject's mark follow.
fn agent(holder: Option<&SessionId>, session: &SessionId, is_unbounded: bool) -> String {
    let mark = holder.and_then(|holder| holder.0.rsplit_once('.')).map(|(_, mark)| mark);
    match mark {
        Some(mark) => format!("{SUBJECT}{mark}"),
        None if is_unbounded => MAIN.to_owned(),
        None => format!("on behalf {}", session.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_the_same_name_in_every_run_and_no_other_has_it() {
        let id = |text: &str| SessionId(text.to_owned());
        let named =
            |holder: Option<&str>, is_unbounded| agent(holder.map(id).as_ref(), &id("s2-7"), is_unbounded);
        // Users with a token of the server, in two runs of it, and a user without a token.
        for holder in [Some("s19ab-12"), Some("s19ac-13"), None] {
            assert_eq!(named(holder, true), "main");
        }
        let subjects = ["s19ab-12.0123456789ab", "s19ac-13.0123456789ab", "s19ac-13.ba9876543210"];
        let [one, again, other] = subjects.map(|holder| named(Some(holder), true));
        assert!(one == again && one != other && one != "main", "{one} {other}");
        assert_eq!(named(None, false), "on behalf s2-7");
    }
}
