//! Bytes of answers that may exist at once, shared by all sessions.
//!
//! Where they are all taken sessions take turns, one answer each, so that no number of reads of one session keeps another waiting for
//! longer than until room for its own answer comes back. Whoever has the turn waits for as much as is needed, so that small
//! answers never keep a large one out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tool::{SessionId, Stop, ToolError};

use super::closed;
use crate::stopping::requested;

/// The room that there is.
pub(super) struct Bytes {
    most: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: u64,
    /// What waits, by session, each in the order in which it came.
    waiting: HashMap<SessionId, VecDeque<Waiter>>,
    /// The sessions that have something that waits, each once, in the order of their turns.
    turns: VecDeque<SessionId>,
    tickets: u64,
}

struct Waiter {
    ticket: u64,
    wanted: u64,
    room: oneshot::Sender<Room>,
}

/// Room for one answer, given back when this is dropped.
pub(super) struct Room {
    bytes: Arc<Bytes>,
    taken: u64,
}

impl Bytes {
    pub(super) fn new(most: u64) -> Self {
        Self { most, state: Mutex::default() }
    }

    /// Waits for room; who wants more than there is gets all of it.
    ///
    /// # Errors
    /// `ECANCELLED` or `ETIMEOUT` where a stop is requested while waiting.
    pub(super) async fn room(
        this: &Arc<Self>,
        session: &SessionId,
        wanted: u64,
        stop: &Stop,
    ) -> Result<Room, ToolError> {
        let wanted = wanted.clamp(1, this.most);
        let (ticket, receiver) = {
            let mut state = this.state();
            if state.turns.is_empty() && state.taken + wanted <= this.most {
                state.taken += wanted;
                return Ok(Room { bytes: this.clone(), taken: wanted });
            }
            let (room, receiver) = oneshot::channel();
            state.tickets += 1;
            let ticket = state.tickets;
            let of_session = state.waiting.entry(session.clone()).or_default();
            of_session.push_back(Waiter { ticket, wanted, room });
            if of_session.len() == 1 {
                state.turns.push_back(session.clone());
            }
            (ticket, receiver)
        };
        let _waiting = Waiting { bytes: this, session, ticket };
        tokio::select! {
            room = receiver => room.map_err(|_| closed()),
            reason = requested(stop) => Err(reason.into()),
        }
    }

    /// Gives the room that there is to those whose turn it is.
    fn give(this: &Arc<Self>) {
        let mut given = Vec::new();
        {
            let mut state = this.state();
            while let Some(waiter) = state.next_turn(this.most) {
                state.taken += waiter.wanted;
                given.push(waiter);
            }
        }
        for Waiter { wanted, room, .. } in given {
            // Where the waiter is gone, its room comes back and is dropped here, which gives it to the next. Not under the lock.
            let _ = room.send(Room { bytes: this.clone(), taken: wanted });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.taken == 0 && state.waiting.is_empty() && state.turns.is_empty()
    }
}

impl State {
    /// The first that waits of the session whose turn it is, where there is room for it.
    fn next_turn(&mut self, most: u64) -> Option<Waiter> {
        let session = self.turns.front()?.clone();
        let of_session = self.waiting.get_mut(&session)?;
        of_session.front().filter(|first| self.taken + first.wanted <= most)?;
        let waiter = of_session.pop_front()?;
        self.turns.pop_front();
        if of_session.is_empty() {
            self.waiting.remove(&session);
        } else {
            self.turns.push_back(session);
        }
        Some(waiter)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.bytes.state().taken -= self.taken;
        Bytes::give(&self.bytes);
    }
}

/// A call that waits. One that is cancelled leaves the queue with this, and lets those behind it have what it would have had.
struct Waiting<'a> {
    bytes: &'a Arc<Bytes>,
    session: &'a SessionId,
    ticket: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.bytes.state();
            let Some(of_session) = state.waiting.get_mut(self.session) else { return };
            let before = of_session.len();
            of_session.retain(|waiter| waiter.ticket != self.ticket);
            if of_session.len() == before {
                return;
            }
            if of_session.is_empty() {
                state.waiting.remove(self.session);
                state.turns.retain(|session| session != self.session);
            }
        }
        Bytes::give(self.bytes);
    }
}
