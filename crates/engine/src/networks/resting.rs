//! What a session keeps open for its commands is given back while it runs none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sandbox::Spawner;

use super::{Networks, OfSession, Shared};
use crate::Engine;

/// How long a session keeps what it needs for a command after it has begun its last one. The next command gets a network whose cells
/// wait already, so little is lost.
const REST_AFTER: Duration = Duration::from_secs(5);

/// Whether somebody will look for what can be given back.
#[derive(Default)]
pub(crate) struct Looking(AtomicBool);

/// Parts of sessions that nobody needs any more, and whether others may follow.
pub(crate) struct Rested {
    pub(super) released: Vec<OfSession>,
    pub(super) more: bool,
}

impl Rested {
    /// The spawners that end with this.
    fn spawners(&self) -> impl Iterator<Item = &Arc<Spawner>> {
        self.released.iter().filter_map(|session| match &session.network {
            Some(Shared::WithCells(spawner)) => Some(spawner),
            _ => None,
        })
    }
}

impl Networks {
    /// Takes the networks and the ways out of the sessions that run nothing, and have begun nothing since `before`. The session that
    /// ran a command last keeps its own, and so does the one that has the spawner that lives as long as the program.
    pub(crate) fn rest(&self, before: Instant) -> Rested {
        let mut state = self.state();
        let (last, first) = (state.uses, state.first.clone());
        let mut rested = Rested { released: Vec::new(), more: false };
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
            // The rest of it stays: the session may go on.
            let mut released = OfSession::new();
            (released.network, released.way_out) = (session.network.take(), session.way_out.take());
            rested.released.push(released);
        }
        rested
    }
}

impl OfSession {
    /// Whether a call that runs a command holds it, or the cell of one that runs on.
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
    /// Gives back in a while what sessions hold that run nothing any more, and looks again for as long as some may follow.
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
                // What broke off is tried again behind the next command.
                let rested = tokio::task::spawn_blocking(move || of.rest(Instant::now())).await;
                let again = rested.unwrap_or(false);
                if !again || engine.resting.0.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        });
    }

    /// Gives back what can be. Says whether some may follow. Blocks until the spawners that nobody needs have ended.
    fn rest(&self, now: Instant) -> bool {
        let rested = self.networks.rest(now.checked_sub(REST_AFTER).unwrap_or(now));
        let more = rested.more;
        self.let_go(rested);
        more
    }

    /// Ends what nobody needs any more. Blocks meanwhile.
    pub(crate) fn let_go(&self, rested: Rested) {
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
