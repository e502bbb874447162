//! Release of networks and ways out of sessions that run no command.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sandbox::Spawner;
use tool::Timer;

use super::{Networks, OfSession, Shared};

/// Time for which a session keeps its network after it has begun its last command. The next command
/// gets a network whose cells wait already, so little is lost.
const REST_AFTER: Duration = Duration::from_secs(5);

/// Released parts of sessions, and whether more may follow.
struct ReleasedParts {
    released: Vec<OfSession>,
    more: bool,
}

impl Networks {
    /// Releases unused networks after a while, and checks again as long as more may follow.
    pub(crate) fn rest_soon(self: &Arc<Self>) {
        {
            let mut state = self.state();
            if state.is_closed || std::mem::replace(&mut state.is_resting, true) {
                return;
            }
        }
        let (networks, timer) = (Arc::downgrade(self), self.deps.timer.clone());
        tokio::spawn(async move { while rest_after_a_while(&networks, timer.as_ref()).await {} });
    }

    /// Releases unused networks. Returns true if more may follow. Blocks until the released
    /// spawners have ended.
    fn rest(&self, now: Instant) -> bool {
        let ReleasedParts { released, more } = self.unused(now.checked_sub(REST_AFTER).unwrap_or(now));
        self.let_go(released);
        more
    }

    /// Takes the networks and ways out of the sessions that run nothing and have begun nothing
    /// since `before`. Two sessions keep theirs: the one that ran a command last, and the one with
    /// the spawner that lives as long as the program.
    fn unused(&self, before: Instant) -> ReleasedParts {
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
            let mut released = OfSession::new(session.owner.clone(), session.since, session.used.1);
            (released.network, released.way_out) = (session.network.take(), session.way_out.take());
            rested.released.push(released);
        }
        rested
    }

    /// Ends the released parts of sessions. Blocks until their spawners have ended.
    pub(super) fn let_go(&self, released: Vec<OfSession>) {
        for spawner in released.iter().filter_map(OfSession::spawner) {
            if let Some(snapshots) = &self.deps.snapshots {
                snapshots.let_go_of(spawner);
            }
        }
        for (way_out, _) in released.iter().filter_map(|session| session.way_out.as_ref()) {
            way_out.close();
        }
        let held_networks = released.iter().any(|session| session.network.is_some());
        drop(released);
        if held_networks {
            sandbox::give_memory_back();
        }
    }
}

/// Waits, then releases unused networks. Returns true if more may follow, and this task is to check
/// for them.
async fn rest_after_a_while(networks: &Weak<Networks>, timer: &dyn Timer) -> bool {
    timer.sleep(REST_AFTER).await;
    let Some(networks) = networks.upgrade() else { return false };
    networks.state().is_resting = false;
    let (resting, now) = (networks.clone(), timer.now());
    // If the task panics, the next command starts another one.
    let more = tokio::task::spawn_blocking(move || resting.rest(now)).await.unwrap_or(false);
    more && !std::mem::replace(&mut networks.state().is_resting, true)
}

impl OfSession {
    /// Returns the spawner that ends with these parts, if there is one.
    fn spawner(&self) -> Option<&Arc<Spawner>> {
        match &self.network {
            Some(Shared::WithCells(spawner)) => Some(spawner),
            Some(Shared::Alone(_)) | None => None,
        }
    }

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

#[cfg(test)]
mod tests {
    use sandbox::CellHost;
    use testkit::{FixedClock, MovingTimer};
    use tool::{Owner, ResourcePool, SessionId, Threads};

    use super::super::NetworkDeps;
    use super::*;

    fn owner(session: &str) -> Owner {
        Owner::Session(SessionId(session.to_owned()))
    }

    /// Returns the sessions that have a network.
    fn owners(networks: &Networks) -> Vec<Owner> {
        let mut listed: Vec<Owner> =
            networks.list(jiff::Timestamp::UNIX_EPOCH).into_iter().map(|resource| resource.owner).collect();
        listed.sort_by_key(|owner| format!("{owner:?}"));
        listed
    }

    #[test]
    fn a_session_keeps_its_network_while_it_runs_something_and_five_seconds_longer() {
        let host = CellHost::default();
        if !host.isolation.can_give_network() {
            return;
        }
        let (clock, timer) = (Arc::new(FixedClock::default()), MovingTimer::default());
        let deps = NetworkDeps {
            clock: clock.clone(),
            timer: Arc::new(timer.clone()),
            threads: Threads::new(clock),
            snapshots: None,
        };
        let networks = Networks::new(None, deps);
        let enter = |session: &str| {
            let in_use = networks.enter(session, owner(session));
            networks.settle(session, &mut host.clone()).unwrap();
            in_use
        };
        let runs = enter("runs");
        drop(enter("idle"));
        drop(enter("last"));
        assert_eq!(owners(&networks), [owner("idle"), owner("last"), owner("runs")]);
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let rest = || {
            let driven = timer.clone();
            let passing = std::thread::spawn(move || driven.advance(REST_AFTER));
            let more = tokio.block_on(rest_after_a_while(&Arc::downgrade(&networks), &timer));
            passing.join().unwrap();
            more
        };
        assert!(rest(), "the session that runs something is looked at again");
        assert_eq!(owners(&networks), [owner("last"), owner("runs")]);
        drop(runs);
        assert!(!rest(), "nothing is left to look at");
        assert_eq!(owners(&networks), [owner("last")]);
        networks.join(&owner("last"));
        assert_eq!(owners(&networks), []);
    }
}
