//! Which network the commands of a session are in: those of one session reach each other's servers, and nobody else's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sandbox::{SandboxError, SessionNetwork};

/// The networks of the sessions of one runtime.
#[derive(Default)]
pub(crate) struct Networks(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whose the spawner's network is: that of the session which ran a command first. It is nobody else's afterwards, because a
    /// command that is being stopped may be in it still.
    of_spawner: Option<String>,
    others: HashMap<String, SessionNetwork>,
}

impl Networks {
    /// The network of a session of its own; none for the one that has the spawner's.
    ///
    /// # Errors
    /// Where this machine refuses one.
    pub(crate) fn of(&self, owner: &str) -> Result<Option<SessionNetwork>, SandboxError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.of_spawner.get_or_insert_with(|| owner.to_owned()) == owner {
            return Ok(None);
        }
        if let Some(network) = state.others.get(owner) {
            return Ok(Some(network.clone()));
        }
        let made = SessionNetwork::make()?;
        state.others.insert(owner.to_owned(), made.clone());
        Ok(Some(made))
    }

    /// Whether the session has the spawner's network, and with it the cells that wait. The first session that asks has.
    pub(crate) fn is_of_spawner(&self, owner: &str) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.of_spawner.get_or_insert_with(|| owner.to_owned()) == owner
    }

    /// The session has ended.
    pub(crate) fn forget(&self, owner: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).others.remove(owner);
    }
}
