//! Admission of calls: the number of commands is limited per session and overall, and answers are
//! limited in bytes.
//!
//! A session whose commands wait for a place on the machine gets a turn after every other waiting
//! session has had one. Many commands of one session therefore delay those of another session by at
//! most one command each.

mod bytes;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use policy::{Part, Policy};
use tokio::sync::oneshot;
use tool::{ByteReservation, Code, Data, Effect, Lane, PreparedCall, Retry, SessionId, Stop, ToolError};

use crate::stopping::requested;
use bytes::{Room, Rooms, lanes_closed};

/// Milliseconds after which a refused command may be retried. A typical command has ended by then.
const COMMAND_RETRY_MS: u64 = 1_000;

/// Bytes of an answer in addition to the file that it contains.
const ANSWER_WITHOUT_FILE: u64 = 16 * 1024;

/// Limits on the commands that run and wait, and on the total size of the answers of all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneLimits {
    /// Commands of one session that run at once (CSP/1 source: max concurrent 5).
    pub(crate) running: usize,
    /// Commands of one session that wait for a place (CSP/1 source: queue overflow 10 max). One
    /// more is refused.
    pub(crate) waiting: usize,
    /// Commands of all sessions that run at once.
    pub(crate) in_all: usize,
    /// Bytes of answers that may exist at once. An answer counts from the start of its call until
    /// its door has delivered it.
    pub(crate) answer_bytes: u64,
}

impl LaneLimits {
    /// Returns the limits that the profile names, and the built-in ones for the rest.
    pub(crate) fn of(policy: &Policy) -> Self {
        let limits = policy.limits_over(Self::built_in());
        let number =
            |limit: Option<u64>| limit.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        // A limit of 0 would make waiting commands wait for ever.
        Self {
            running: number(limits.commands).max(1),
            waiting: number(limits.commands_waiting),
            in_all: number(limits.commands_in_all).max(1),
            answer_bytes: limits.answer_bytes_in_all.unwrap_or(u64::MAX).max(1),
        }
    }

    /// Returns the built-in limits under their profile keys.
    pub(crate) fn built_in() -> policy::Limits {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        policy::Limits {
            commands: Some(5),
            commands_waiting: Some(10),
            // Most commands wait for disks and for each other.
            commands_in_all: Some((4 * processors).max(16)),
            // The largest read (32 MiB) and several of 8 MiB fit, with an eighth for small answers.
            answer_bytes_in_all: Some(64 * 1024 * 1024),
            ..policy::Limits::default()
        }
    }
}

pub(crate) struct Lanes {
    commands: Arc<Commands>,
    bytes: Rooms,
}

/// An admitted call: its place in the command lane, if it has one, and the room for its answer. The
/// room outlives the run: it is released with the answer.
pub(crate) struct AdmittedCall {
    _command: Option<Slot>,
    bytes: Room,
}

impl AdmittedCall {
    /// Releases the command's place and keeps the room for the answer. If the answer's length is
    /// known, the room shrinks to that length.
    pub(crate) fn into_held(mut self, answer: &Result<Data, ToolError>) -> ByteReservation {
        match answer {
            Ok(Data::Written(written)) => self.bytes.shrink(written.as_str().len() as u64),
            Err(error) if error.data.is_none() => self.bytes.shrink(error.message.len() as u64),
            Ok(Data::Value(_)) | Err(_) => {}
        }
        ByteReservation(Some(Box::new(self.bytes)))
    }
}

impl Lanes {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        Self {
            bytes: Rooms::new(limits.answer_bytes),
            commands: Arc::new(Commands { limits, state: Mutex::default() }),
        }
    }

    /// Returns the largest number of bytes that the answer is expected to have. If the call asks
    /// for more than its file has, the file's size counts, so that a small file is read as a small
    /// answer.
    pub(crate) fn expected(&self, prepared: &PreparedCall, effects: &[Part]) -> u64 {
        let asked = prepared.answer_bytes;
        if !prepared.answers_with_file || self.bytes.is_small(asked) {
            return asked;
        }
        let [Part { effect: Effect::Read { path }, real, .. }] = effects else { return asked };
        let size = std::fs::metadata(real.as_deref().unwrap_or(path)).map(|file| file.len());
        // Escapes and Base64 take up to twice the room, and the rest of an answer takes little. A
        // missing file adds no bytes to the answer.
        size.map_or(0, |size| size.saturating_mul(2)).saturating_add(ANSWER_WITHOUT_FILE).min(asked)
    }

    /// Waits until the call may start.
    ///
    /// # Errors
    /// `EQUOTA` if the queue of the session's commands is full, with the time after which to retry.
    /// `ECANCELLED` or `ETIMEOUT` if a stop is requested while the call waits.
    pub(crate) async fn admit(
        &self,
        session: &SessionId,
        lane: Lane,
        answer_bytes: u64,
        stop: &Stop,
    ) -> Result<AdmittedCall, ToolError> {
        let command = match lane {
            Lane::Command => Some(Commands::place(&self.commands, session, stop).await?),
            Lane::Read | Lane::Write | Lane::Browser | Lane::Service => None,
        };
        let bytes = self.bytes.room(session, answer_bytes, stop).await?;
        Ok(AdmittedCall { _command: command, bytes })
    }
}

/// Running and waiting commands of all sessions.
struct Commands {
    limits: LaneLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of running commands of all sessions.
    running: usize,
    /// Sessions that have a running or waiting command.
    sessions: HashMap<SessionId, OfSession>,
    /// Sessions that have a waiting command, each once, in the order of their turns.
    turns: VecDeque<SessionId>,
    tickets: u64,
}

#[derive(Default)]
struct OfSession {
    running: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Slot>)>,
}

/// Place of a running command. Dropping it passes it on to the next waiting command.
struct Slot {
    commands: Arc<Commands>,
    session: SessionId,
}

impl Commands {
    async fn place(this: &Arc<Self>, session: &SessionId, stop: &Stop) -> Result<Slot, ToolError> {
        let (ticket, receiver) = {
            let mut state = this.state();
            let has_room = state.running < this.limits.in_all;
            let of_session = state.sessions.entry(session.clone()).or_default();
            if has_room && of_session.running < this.limits.running && of_session.waiting.is_empty() {
                of_session.running += 1;
                state.running += 1;
                return Ok(Slot { commands: this.clone(), session: session.clone() });
            }
            if of_session.waiting.len() >= this.limits.waiting {
                let error = full(of_session.running, of_session.waiting.len());
                state.forget_idle(session);
                return Err(error);
            }
            let (sender, receiver) = oneshot::channel();
            let is_first = of_session.waiting.is_empty();
            state.tickets += 1;
            let ticket = state.tickets;
            state.sessions.entry(session.clone()).or_default().waiting.push_back((ticket, sender));
            if is_first {
                state.turns.push_back(session.clone());
            }
            (ticket, receiver)
        };
        let _waiting = QueuedCommand { commands: this, session, ticket };
        tokio::select! {
            place = receiver => place.map_err(|_| lanes_closed()),
            reason = requested(stop) => Err(reason.into()),
        }
    }

    /// Gives the free places to the waiting commands whose turn has come.
    fn give(this: &Arc<Self>) {
        let mut given = Vec::new();
        {
            let mut state = this.state();
            while state.running < this.limits.in_all
                && let Some(turn) = state.next_turn(this.limits.running)
            {
                given.push(turn);
            }
        }
        for (session, waiter) in given {
            // If the receiver is gone, `send` returns the place, and dropping it here gives it to
            // the next command. That drop takes the lock, so it must happen outside the lock.
            let _ = waiter.send(Slot { commands: this.clone(), session });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Takes the next waiting command: the first one of the first session in turn that is below its
    /// limit. The command counts as running from then on.
    fn next_turn(&mut self, most: usize) -> Option<(SessionId, oneshot::Sender<Slot>)> {
        let may = |session: &SessionId| self.sessions.get(session).is_some_and(|of| of.running < most);
        let index = self.turns.iter().position(may)?;
        let session = self.turns.remove(index)?;
        let of_session = self.sessions.get_mut(&session)?;
        let (_, waiter) = of_session.waiting.pop_front()?;
        of_session.running += 1;
        self.running += 1;
        if !of_session.waiting.is_empty() {
            self.turns.push_back(session.clone());
        }
        Some((session, waiter))
    }

    fn forget_idle(&mut self, session: &SessionId) {
        if self.sessions.get(session).is_some_and(|of| of.running == 0 && of.waiting.is_empty()) {
            self.sessions.remove(session);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut state = self.commands.state();
            state.running -= 1;
            if let Some(of_session) = state.sessions.get_mut(&self.session) {
                of_session.running -= 1;
            }
            state.forget_idle(&self.session);
        }
        Commands::give(&self.commands);
    }
}

/// A waiting command. Dropping this value, as cancellation does, removes the command from the
/// queue.
struct QueuedCommand<'a> {
    commands: &'a Arc<Commands>,
    session: &'a SessionId,
    ticket: u64,
}

impl Drop for QueuedCommand<'_> {
    fn drop(&mut self) {
        let mut state = self.commands.state();
        let Some(of_session) = state.sessions.get_mut(self.session) else { return };
        let before = of_session.waiting.len();
        of_session.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        if of_session.waiting.is_empty() && before > 0 {
            state.turns.retain(|session| session != self.session);
        }
        state.forget_idle(self.session);
    }
}

fn full(running: usize, waiting: usize) -> ToolError {
    let message = format!(
        "{running} commands of this session are running and {waiting} are waiting; this one was refused"
    );
    ToolError::new(Code::Quota, message)
        .hint("wait for a running command to end, then try again")
        .retry(Retry::AfterMs(COMMAND_RETRY_MS))
}

#[cfg(test)]
mod tests;
