//! State that travels through the client between a question and its answer (revision 2026-07-28).
//!
//! The client is untrusted, so the state is signed with a key of this process. The state is bound
//! to the connection, the tool and the plan, and valid for one use within ten minutes.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Approval, Scope};
use parking_lot::Mutex;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tool::SessionId;

/// Validity of an answer to a question.
pub(crate) const GOOD_FOR: Duration = Duration::from_mins(10);

/// Maximum number of open questions; for a new one, the oldest is dropped.
const MAX_OPEN: usize = 1024;

/// Signs questions and verifies that an answer belongs to one of them.
pub(crate) struct Sealer {
    codec: RequestStateCodec,
    session: SessionId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: u64,
    /// Open questions, with the time of each. A question that is missing here was answered before.
    open: BTreeMap<u64, Instant>,
}

/// The signed data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    number: u64,
    tool: String,
    /// Digest that binds the answer to the plan that was shown.
    pub(crate) digest: String,
    /// Scopes that an approval may have.
    pub(crate) offered: Vec<Scope>,
}

/// Error: this connection did not issue the state for this tool, or no longer waits for it.
///
/// The message does not distinguish these cases: a legitimate sender knows, and others must not learn it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`requestState` is unknown, expired or already used; repeat the call without it")]
pub(crate) struct NotOurs;

impl Sealer {
    /// Creates a sealer with a new key, for one connection.
    ///
    /// # Errors
    /// An error if the operating system returns no random bytes.
    pub(crate) fn new(session: SessionId) -> Result<Self, getrandom::Error> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key)?;
        // The constructor checks only the length of the key, which is valid.
        let codec = RequestStateCodec::new_unchecked(key);
        Ok(Self { codec, session, state: Mutex::default() })
    }

    /// Creates the state for a question about this plan, with the offered scopes.
    pub(crate) fn seal(&self, approval: &Approval, offered: Vec<Scope>) -> String {
        self.sealed_for(GOOD_FOR, approval, offered)
    }

    fn sealed_for(&self, good_for: Duration, approval: &Approval, offered: Vec<Scope>) -> String {
        let number = {
            let mut state = self.state.lock();
            state.asked += 1;
            let number = state.asked;
            state.open.insert(number, Instant::now());
            if state.open.len() > MAX_OPEN {
                state.open.pop_first();
            }
            number
        };
        let question =
            Question { number, tool: approval.tool.clone(), digest: approval.digest.clone(), offered };
        // Serialization cannot fail: a number, two strings and some names.
        let payload = serde_json::to_vec(&question).unwrap_or_default();
        let options = SealOptions::new().associated_data(self.session.0.as_bytes()).ttl(good_for);
        self.codec.seal_with(&payload, &options)
    }

    /// Returns the question that the state belongs to, and the time since it was asked. Closes the
    /// question.
    ///
    /// # Errors
    /// An error if the state was changed, belongs to another connection or tool, has expired, or
    /// was used before.
    pub(crate) fn open(&self, state: &str, tool: &str) -> Result<(Question, Duration), NotOurs> {
        let question: Question =
            self.codec.open_json_with(state, self.session.0.as_bytes()).map_err(|_| NotOurs)?;
        let mut state = self.state.lock();
        if question.tool != tool {
            return Err(NotOurs);
        }
        let asked = state.open.remove(&question.number).ok_or(NotOurs)?;
        Ok((question, asked.elapsed()))
    }

    /// Creates the state of a suspended call.
    pub(crate) fn seal_call(&self, number: u64) -> String {
        let data = self.data_of_calls();
        let options = SealOptions::new().associated_data(&data).ttl(GOOD_FOR);
        self.codec.seal_with(&number.to_le_bytes(), &options)
    }

    /// Returns the number of the suspended call that the state belongs to. The caller makes sure that a
    /// number counts once.
    ///
    /// # Errors
    /// An error if the state was changed, belongs to another connection or to a question, or has expired.
    pub(crate) fn open_call(&self, state: &str) -> Result<u64, NotOurs> {
        let number = self.codec.open_with(state, &self.data_of_calls()).map_err(|_| NotOurs)?;
        number.try_into().map(u64::from_le_bytes).map_err(|_| NotOurs)
    }

    fn data_of_calls(&self) -> Vec<u8> {
        [b"call\0", self.session.0.as_bytes()].concat()
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
            patterns_in_the_cell: false,
            terminal_only: true,
            offers: Vec::new(),
            pattern_kind: None,
            suggestion: None,
            digest: "the digest".to_owned(),
            effects_digest: String::new(),
            bound: Vec::new(),
            connections: Vec::new(),
            every_host: false,
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
        // The state expires with this millisecond; the attempts take longer.
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
