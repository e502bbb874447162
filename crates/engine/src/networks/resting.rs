//! Release of networks and ways out of sessions that run no command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sandbox::Spawner;

use super::{Networks, OfSession, Shared};
use crate::Engine;

/// Time for which a session keeps its network after it has begun its last command. The next command
/// gets a network whose cells wait already, so little is lost.
const REST_AFTER: Duration = Duration::from_secs(5);

/// Flag that is true if a task will check for networks to release.
#[derive(Default)]
pub(crate) struct ReleaseFlag(AtomicBool);

/// Released parts of sessions, and whether more may follow.
pub(crate) struct ReleasedParts {
    pub(super) released: Vec<OfSession>,
    pub(super) more: bool,
}

impl ReleasedParts {
    /// Returns the spawners that end with this value.
    fn spawners(&self) -> impl Iterator<Item = &Arc<Spawner>> {
        self.released.iter().filter_map(|session| match &session.network {
            Some(Shared::WithCells(spawner)) => Some(spawner),
            _ => None,
        })
    }
}

impl Networks {
    /// Takes the networks and ways out of the sessions that run nothing and have begun nothing
    /// since `before`. Two sessions keep theirs: the one that ran a command last, and the one with
    /// the spawner that lives as long as the program.
    pub(crate) fn rest(&self, before: Instant) -> ReleasedParts {
        let mut state = self.state();
        let (last, first) = (state.uses, state.first.clone());
        let mut rested = ReleasedParts { released: Vec::new(), more: false };
        for session in state.sessions.values_mut() {
            let is_first = match (&session.network, &first) {
                (Some(Shared::WithCells(spawner)), Some(first)) => Arc::ptr_eq(spawner, first),
                _ => false,
            };
            if session.network.is_none() || is_first || session.used.0 == last {
                continue;
            }
            if session.used.1 > before || session.is_in_use() {
                rested.more = true;
                continue;
            }
            // The rest of the session stays, because the session may continue.
            let mut released = OfSession::new();
            (released.network, released.way_out) = (session.network.take(), session.way_out.take());
            rested.released.push(released);
        }
        rested
    }
}

impl OfSession {
    /// Returns true if a call that runs a command holds the session, or the cell of a background
    /// command does.
    fn is_in_use(&self) -> bool {
        let by_cells = match &self.network {
            Some(Shared::WithCells(spawner)) => Arc::strong_count(spawner) > 1,
            Some(Shared::Alone(network)) => network.is_shared(),
            None => false,
        };
        by_cells || Arc::strong_count(&self.in_use.0) > 1
    }
}

impl Engine {
    /// Releases unused networks after a while, and checks again as long as more may follow.
    pub(crate) fn rest_soon(self: &Arc<Self>) {
        if self.resting.0.swap(true, Ordering::SeqCst) {
            return;
        }
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(REST_AFTER).await;
                let Some(engine) = engine.upgrade() else { return };
                engine.resting.0.store(false, Ordering::SeqCst);
                let of = engine.clone();
                // If the task panics, the next command starts another one.
                let rested = tokio::task::spawn_blocking(move || of.rest(Instant::now())).await;
                let again = rested.unwrap_or(false);
                if !again || engine.resting.0.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        });
    }

    /// Releases unused networks. Returns true if more may follow. Blocks until the released
    /// spawners have ended.
    fn rest(&self, now: Instant) -> bool {
        let rested = self.networks.rest(now.checked_sub(REST_AFTER).unwrap_or(now));
        let more = rested.more;
        self.let_go(rested);
        more
    }

    /// Ends the released parts of sessions. Blocks until their spawners have ended.
    pub(crate) fn let_go(&self, rested: ReleasedParts) {
        for spawner in rested.spawners() {
            if let Some(snapshots) = &self.snapshots {
                snapshots.let_go_of(spawner);
            }
        }
        for (way_out, _) in rested.released.iter().filter_map(|session| session.way_out.as_ref()) {
            way_out.close();
        }
        if !rested.released.is_empty() {
            drop(rested);
            sandbox::give_memory_back();
        }
    }
}
