//! The state that travels through the client between a question and its answer (revision of 2026-07-28).
//!
//! The client could be anyone, so the state is signed with a key that this process made, bound to the connection, the tool and the
//! plan, and good for one use within ten minutes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{Approval, Scope};
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tool::SessionId;

/// How long an answer to a question is good for.
const GOOD_FOR: Duration = Duration::from_mins(10);

/// Questions that may be open at a time; the oldest is forgotten for a new one.
const MOST_OPEN: usize = 1024;

/// Signs questions and checks that an answer belongs to one of them.
pub(crate) struct Sealer {
    codec: RequestStateCodec,
    session: SessionId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: u64,
    /// The questions that have no answer yet, and when each was asked. One that is not in here was answered before.
    open: BTreeMap<u64, Instant>,
}

/// What is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    number: u64,
    tool: String,
    /// Binds the answer to exactly the plan that was shown.
    pub(crate) digest: String,
    /// How far a yes may reach.
    pub(crate) offered: Vec<Scope>,
}

/// The state is not one that this connection gave out for this tool and still waits for.
///
/// Which of these it is is not said: whoever sends it knows, or shall not.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`requestState` is unknown here, expired or used already; make the call again without it")]
pub(crate) struct NotOurs;

impl Sealer {
    /// A sealer with a new key, for one connection.
    ///
    /// # Errors
    /// Where the operating system gives no random bytes.
    pub(crate) fn new(session: SessionId) -> Result<Self, getrandom::Error> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key)?;
        // The length is the one that it checks.
        let codec = RequestStateCodec::new_unchecked(key);
        Ok(Self { codec, session, state: Mutex::default() })
    }

    /// The state for a question about this plan, with the reach that a yes may have.
    pub(crate) fn seal(&self, approval: &Approval, offered: Vec<Scope>) -> String {
        self.sealed_for(GOOD_FOR, approval, offered)
    }

    fn sealed_for(&self, good_for: Duration, approval: &Approval, offered: Vec<Scope>) -> String {
        let number = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.asked += 1;
            let number = state.asked;
            state.open.insert(number, Instant::now());
            if state.open.len() > MOST_OPEN {
                state.open.pop_first();
            }
            number
        };
        let question =
            Question { number, tool: approval.tool.clone(), digest: approval.digest.clone(), offered };
        // A number, two strings and some names: there is nothing that could fail.
        let payload = serde_json::to_vec(&question).unwrap_or_default();
        let options = SealOptions::new().associated_data(self.session.0.as_bytes()).ttl(good_for);
        self.codec.seal_with(&payload, &options)
    }

    /// Gives the question that the state belongs to, and how long ago it was asked. The question is closed by this.
    ///
    /// # Errors
    /// Where the state was changed, belongs to another connection or tool, is too old or was used before.
    pub(crate) fn open(&self, state: &str, tool: &str) -> Result<(Question, Duration), NotOurs> {
        let question: Question =
            self.codec.open_json_with(state, self.session.0.as_bytes()).map_err(|_| NotOurs)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if question.tool != tool {
            return Err(NotOurs);
        }
        let asked = state.open.remove(&question.number).ok_or(NotOurs)?;
        Ok((question, asked.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use tool::{CallId, Level};

    use super::*;

    fn approval() -> Approval {
        Approval {
            id: "a1".to_owned(),
            call: CallId("c1".to_owned()),
            tool: "file_write".to_owned(),
            level: Level::Moderate,
            effects: vec!["write a.txt".to_owned()],
            reason: "r".to_owned(),
            rule: "r".to_owned(),
            preview: None,
            preview_more_lines: 0,
            once_only: true,
            terminal_only: true,
            offers: Vec::new(),
            pattern_kind: None,
            suggestion: None,
            digest: "the digest".to_owned(),
            effects_digest: String::new(),
            bound: Vec::new(),
            program: engine::Program::default(),
        }
    }

    fn sealer(session: &str) -> Sealer {
        Sealer::new(SessionId(session.to_owned())).unwrap()
    }

    #[test]
    fn a_state_opens_once_and_gives_the_plan_that_was_shown() {
        let sealer = sealer("s");
        let state = sealer.seal(&approval(), vec![Scope::Once]);
        let (question, _) = sealer.open(&state, "file_write").unwrap();
        assert_eq!((question.digest.as_str(), question.offered), ("the digest", vec![Scope::Once]));
        assert_eq!(sealer.open(&state, "file_write"), Err(NotOurs));
    }

    #[test]
    fn a_state_that_is_too_old_does_not_open() {
        let ours = sealer("s");
        let short = ours.sealed_for(Duration::ZERO, &approval(), vec![Scope::Once]);
        let long = ours.seal(&approval(), vec![Scope::Once]);
        // Its time is over with this millisecond, which the attempts outlast.
        for _ in 0..20_000 {
            assert_eq!(ours.open(&format!("{long}x"), "file_write"), Err(NotOurs));
        }
        assert_eq!(ours.open(&short, "file_write"), Err(NotOurs));
        assert!(ours.open(&long, "file_write").is_ok());
    }

    #[test]
    fn a_changed_foreign_or_borrowed_state_does_not_open() {
        let ours = sealer("s");
        let state = ours.seal(&approval(), vec![Scope::Once]);
        for position in 0..state.len() {
            let mut changed = state.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(ours.open(&changed, "file_write"), Err(NotOurs), "position {position} can be changed");
        }
        assert_eq!(sealer("s").open(&state, "file_write"), Err(NotOurs), "another process has another key");
        let elsewhere =
            Sealer { codec: ours.codec.clone(), session: SessionId("t".to_owned()), state: Mutex::default() };
        elsewhere.seal(&approval(), vec![Scope::Once]);
        assert_eq!(elsewhere.open(&state, "file_write"), Err(NotOurs), "another connection");
        assert_eq!(ours.open(&state, "shell_execute"), Err(NotOurs), "another tool");
        assert_eq!(ours.open("", "file_write"), Err(NotOurs));
        assert!(ours.open(&state, "file_write").is_ok(), "the failed attempts have not used it up");
    }
}
