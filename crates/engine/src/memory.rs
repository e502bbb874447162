//! The memory of the agent that a call comes from.
//!
//! Each subject of an identity provider is an agent. Without an identity provider, everybody who
//! works here as this user is the agent `main`. A caller that acts on behalf of another is an agent
//! of its own, named after its session.

mod meaning;

use std::sync::Arc;

use jiff::Timestamp;
use retrieval::embedder::Failure;
use store_api::{ChangeOutcome, Memory, MemoryCaller, StoreError};
use store_sqlite::{QueryVector, Store};
use tool::{
    Clock, Code, Memories, MemoryChange, MemoryEntry, MemoryFound, MemoryPage, Retry, SessionId, Stop,
    ToolError,
};

pub(crate) use self::meaning::Meanings;

use crate::Engine;
use crate::call::Call;

/// Prefix of the names of agents that are subjects of an identity provider.
const SUBJECT: &str = "subject ";

/// Name of the agent without a name of its own.
const MAIN: &str = "main";

/// The memory as one call sees it.
pub(crate) struct OfCaller {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    who: MemoryCaller,
    meanings: Option<Arc<Meanings>>,
    stop: Stop,
}

impl Engine {
    pub(crate) fn memory_of(&self, call: &Call) -> OfCaller {
        let agent = agent(call.holder.as_ref(), &call.session, call.ceiling.is_unbounded());
        let who = MemoryCaller {
            workspace: self.place.workspace.clone(),
            agent,
            session: call.session.0.clone(),
            call: call.id.0.clone(),
            now: Timestamp::UNIX_EPOCH,
            only_tries: call.dry_run.is_some(),
        };
        OfCaller {
            store: self.store.clone(),
            clock: self.clock.clone(),
            who,
            meanings: self.meanings.clone(),
            stop: call.stop.clone(),
        }
    }
}

/// Number of digits of a subject's mark in the agent names of earlier versions. Memories of the
/// agent may be stored under that name.
const EARLIER_DIGITS: usize = 12;

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

impl OfCaller {
    /// Returns the memories, after adopting those that an earlier version stored under another name
    /// of the agent.
    fn memories(&self) -> Result<&store_sqlite::Memories, StoreError> {
        let memories = self.store.memories();
        if let Some(earlier) = earlier(&self.who.agent) {
            memories.adopt(earlier, &self.who.agent)?;
        }
        Ok(memories)
    }

    fn now(&self) -> MemoryCaller {
        MemoryCaller { now: self.clock.now(), ..self.who.clone() }
    }
}

impl Memories for OfCaller {
    fn create(&self, key: &str, content: &str, shared: bool) -> Result<MemoryEntry, ToolError> {
        // A call creates one memory, so the call's id identifies the memory too.
        let id = format!("m{}", self.who.call);
        let key = if key.is_empty() { &id } else { key };
        let made =
            self.memories().and_then(|memories| memories.create(&self.now(), &id, (key, content), shared));
        changed(made, key, "`update` changes an existing entry")
    }

    fn read(&self, key: &str) -> Result<MemoryEntry, ToolError> {
        let found = self.memories().map_err(failed)?.read(&self.who, key).map_err(failed)?;
        found.map(entry).ok_or_else(|| unknown(key))
    }

    fn update(&self, key: &str, content: &str, version: Option<u64>) -> Result<MemoryEntry, ToolError> {
        let made = self.memories().and_then(|memories| memories.update(&self.now(), key, content, version));
        changed(made, key, "read it, then repeat the change with its version")
    }

    fn delete(&self, key: &str, version: Option<u64>) -> Result<MemoryEntry, ToolError> {
        let made = self.memories().and_then(|memories| memories.delete(&self.now(), key, version));
        changed(made, key, "read it, then repeat the change with its version")
    }

    fn list(&self, prefix: &str, skip: u64, limit: u32) -> Result<MemoryPage, ToolError> {
        let (found, has_more) =
            self.memories().map_err(failed)?.list(&self.who, prefix, (skip, limit)).map_err(failed)?;
        Ok(MemoryPage { entries: found.into_iter().map(entry).collect(), has_more })
    }

    fn search(&self, question: &str, skip: u64, limit: u32) -> Result<MemoryFound, ToolError> {
        let (mut meant, mut waiting, mut without_model) = (None, 0, None);
        if let Some(meanings) = &self.meanings {
            match meanings.question(question, &self.stop) {
                Ok(question) => {
                    waiting = meanings.catch_up(&self.store, &self.who, &question.model, &self.stop);
                    meant = Some(question);
                }
                Err(Failure::Failed(why)) => without_model = Some(why),
                Err(stopped @ Failure::Stopped) => without_model = Some(stopped.to_string()),
            }
            self.stop.check()?;
        }
        let meaning = meant
            .as_ref()
            .map(|question| QueryVector { vector: &question.vector, model: &question.model.model().hash });
        let found = self
            .memories()
            .map_err(failed)?
            .search(&self.who, question, meaning, (skip, limit))
            .map_err(failed)?;
        let rounded = |number: f64| (number * 10_000.0).round() / 10_000.0;
        let scored = |(memory, score): (Memory, f64)| MemoryEntry {
            similarity_score: Some(rounded(score)),
            ..entry(memory)
        };
        let entries = found.memories.into_iter().map(scored).collect();
        let page = MemoryPage { entries, has_more: found.has_more };
        let confidence = rounded(found.confidence);
        Ok(MemoryFound { page, confidence, by_meaning: meant.is_some(), waiting, without_model })
    }

    fn history(&self, key: &str) -> Result<Vec<MemoryChange>, ToolError> {
        let versions = self.memories().map_err(failed)?.history(&self.who, key).map_err(failed)?;
        if versions.is_empty() {
            return Err(unknown(key));
        }
        let change = |version: store_api::MemoryVersion| {
            let store_api::MemoryVersion { version, what, content, at, agent, session, call } = version;
            MemoryChange { version, what, content, at, agent, session, call }
        };
        Ok(versions.into_iter().map(change).collect())
    }
}

fn changed(made: Result<ChangeOutcome, StoreError>, key: &str, hint: &str) -> Result<MemoryEntry, ToolError> {
    match made.map_err(failed)? {
        ChangeOutcome::Done(memory) => Ok(entry(memory)),
        ChangeOutcome::Unknown => Err(unknown(key)),
        ChangeOutcome::Conflict(there) => {
            let message =
                format!("`{}` already exists with version {}", tool::visible(&there.key), there.version);
            Err(ToolError::new(Code::Conflict, message).hint(hint).retry(Retry::Never))
        }
        ChangeOutcome::Full => Err(ToolError::new(Code::Quota, "the memory of the agent is full")
            .hint("delete entries that are no longer needed")),
    }
}

fn entry(memory: Memory) -> MemoryEntry {
    let Memory { id, key, content, version, shared, agent, created_at, changed_at } = memory;
    MemoryEntry { id, key, content, version, shared, agent, created_at, changed_at, similarity_score: None }
}

fn unknown(key: &str) -> ToolError {
    ToolError::new(Code::NotFound, format!("there is no memory entry `{}`", tool::visible(key)))
        .hint("use `list` or `search` to find entries")
}

fn failed(error: StoreError) -> ToolError {
    ToolError::new(Code::Runtime, format!("the memory cannot be read or written: {error}")).because(error)
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
