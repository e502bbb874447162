//! Limit on the bytes of answers that may exist at once, shared by all sessions.
//!
//! Small answers have a room of their own, so that none of them waits for a large one, however
//! slowly a client reads the large one. In each room a session has a share. Beyond its share, the
//! session's next answer waits only for earlier answers of the same session. If a room is full, the
//! sessions within their shares take turns, one answer each. The answer whose turn it is waits
//! until there is enough room for it, so small answers never keep a large one out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tool::{SessionId, Stop, ToolError};

use crate::stopping::requested;

/// Largest answer, in bytes, that counts as small if the room for small answers has space for
/// several.
const SMALL: u64 = 256 * 1024;

/// Divisor of all bytes for the room of small answers: that room has one eighth.
const FOR_SMALL: u64 = 8;

/// Divisor of a room for the share of one session: a session with more than one answer may use one
/// quarter.
const SHARE: u64 = 4;

/// The two rooms: one for small answers and one for large answers.
pub(super) struct Rooms {
    small: Arc<Bytes>,
    large: Arc<Bytes>,
    largest_small: u64,
}

impl Rooms {
    /// Divides `most` bytes between the two rooms. A number too small to divide makes a single
    /// room.
    pub(super) fn new(most: u64) -> Self {
        let for_small = most / FOR_SMALL;
        Self {
            small: Arc::new(Bytes::new(for_small)),
            large: Arc::new(Bytes::new(most - for_small)),
            largest_small: SMALL.min(for_small / SHARE),
        }
    }

    /// Waits for room. An answer that wants more bytes than its room has gets the whole room.
    ///
    /// # Errors
    /// `ECANCELLED` or `ETIMEOUT` if a stop is requested while the call waits.
    pub(super) async fn room(
        &self,
        session: &SessionId,
        wanted: u64,
        stop: &Stop,
    ) -> Result<Room, ToolError> {
        let of = if self.is_small(wanted) { &self.small } else { &self.large };
        Bytes::room(of, session, wanted, stop).await
    }

    /// Returns true if an answer of at most `wanted` bytes counts as small and therefore waits for
    /// no large answer.
    pub(super) fn is_small(&self, wanted: u64) -> bool {
        wanted <= self.largest_small
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }
}

/// One room.
struct Bytes {
    most: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: u64,
    /// Bytes taken by the answers of each session that has any.
    of_session: HashMap<SessionId, u64>,
    /// Waiting answers by session, each queue in order of arrival.
    waiting: HashMap<SessionId, VecDeque<Waiter>>,
    /// Sessions that have a waiting answer, each once, in the order of their turns.
    turns: VecDeque<SessionId>,
    tickets: u64,
}

struct Waiter {
    ticket: u64,
    wanted: u64,
    room: oneshot::Sender<Room>,
}

/// Room for one answer, released on drop.
pub(super) struct Room {
    bytes: Arc<Bytes>,
    session: SessionId,
    taken: u64,
}

impl Room {
    /// Releases the bytes beyond `needed`.
    pub(super) fn shrink(&mut self, needed: u64) {
        let needed = needed.max(1);
        if needed < self.taken {
            self.bytes.state().give_back(&self.session, self.taken - needed);
            self.taken = needed;
            Bytes::give(&self.bytes);
        }
    }
}

impl Bytes {
    fn new(most: u64) -> Self {
        Self { most, state: Mutex::default() }
    }

    async fn room(
        this: &Arc<Self>,
        session: &SessionId,
        wanted: u64,
        stop: &Stop,
    ) -> Result<Room, ToolError> {
        let wanted = wanted.clamp(1, this.most);
        let (ticket, receiver) = {
            let mut state = this.state();
            let is_ahead_of_nobody =
                !state.waiting.contains_key(session) && !state.somebody_has_the_turn(this.most);
            if is_ahead_of_nobody
                && state.has_share(session, wanted, this.most)
                && state.taken + wanted <= this.most
            {
                state.take(session, wanted);
                return Ok(Room { bytes: this.clone(), session: session.clone(), taken: wanted });
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
        let _waiting = QueuedCall { bytes: this, session, ticket };
        tokio::select! {
            room = receiver => room.map_err(|_| lanes_closed()),
            reason = requested(stop) => Err(reason.into()),
        }
    }

    /// Gives free room to the waiting answers whose turn has come.
    fn give(this: &Arc<Self>) {
        let mut given = Vec::new();
        {
            let mut state = this.state();
            while let Some((session, waiter)) = state.next_turn(this.most) {
                state.take(&session, waiter.wanted);
                given.push((session, waiter));
            }
        }
        for (session, Waiter { wanted, room, .. }) in given {
            // If the receiver is gone, `send` returns the room, and dropping it here gives it to
            // the next answer. That drop takes the lock, so it must happen outside the lock.
            let _ = room.send(Room { bytes: this.clone(), session, taken: wanted });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let state = self.state();
        state.taken == 0 && state.of_session.is_empty() && state.waiting.is_empty() && state.turns.is_empty()
    }
}

impl State {
    /// Returns true if the session may take `wanted` more bytes. A session without answers may
    /// always take one, however large.
    fn has_share(&self, session: &SessionId, wanted: u64, most: u64) -> bool {
        self.of_session.get(session).is_none_or(|taken| taken + wanted <= most / SHARE)
    }

    /// Returns the index in `turns` of the first session whose next answer is within its share.
    fn turn(&self, most: u64) -> Option<usize> {
        self.turns.iter().position(|session| {
            let next = self.waiting.get(session).and_then(VecDeque::front);
            next.is_some_and(|next| self.has_share(session, next.wanted, most))
        })
    }

    fn somebody_has_the_turn(&self, most: u64) -> bool {
        self.turn(most).is_some()
    }

    /// Takes the first waiting answer of the session whose turn it is, if there is room for that
    /// answer.
    fn next_turn(&mut self, most: u64) -> Option<(SessionId, Waiter)> {
        let at = self.turn(most)?;
        let session = self.turns.get(at)?.clone();
        let of_session = self.waiting.get_mut(&session)?;
        of_session.front().filter(|first| self.taken + first.wanted <= most)?;
        let waiter = of_session.pop_front()?;
        self.turns.remove(at);
        if of_session.is_empty() {
            self.waiting.remove(&session);
        } else {
            self.turns.push_back(session.clone());
        }
        Some((session, waiter))
    }

    fn take(&mut self, session: &SessionId, bytes: u64) {
        self.taken += bytes;
        *self.of_session.entry(session.clone()).or_default() += bytes;
    }

    fn give_back(&mut self, session: &SessionId, bytes: u64) {
        self.taken -= bytes;
        if let Some(taken) = self.of_session.get_mut(session) {
            *taken -= bytes;
            if *taken == 0 {
                self.of_session.remove(session);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.bytes.state().give_back(&self.session, self.taken);
        Bytes::give(&self.bytes);
    }
}

/// A waiting call. Dropping this value, as cancellation does, removes the call from the queue and
/// offers its room to the calls behind it.
struct QueuedCall<'a> {
    bytes: &'a Arc<Bytes>,
    session: &'a SessionId,
    ticket: u64,
}

impl Drop for QueuedCall<'_> {
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

/// Returns the error of a call that waited when the lanes closed.
pub(super) fn lanes_closed() -> ToolError {
    ToolError::internal("the lanes closed while a call was waiting")
}
