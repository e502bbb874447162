//! The scheduler of `up`: claims the firings of the workspace's jobs when they are due, and runs them.
//!
//! Several processes may serve one workspace: the store gives each firing to one of them.

mod firing;

use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::Engine;
use jobs::StoreError;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tool::Clock as _;

use crate::clock::SystemClock;
use crate::compose::Composed;
use crate::report::warn;

pub(crate) use firing::{JobAsker, JobRunner};

/// Longest time between two looks at the store, in which jobs of other processes are found and jumps of the
/// clock are noticed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of firings that run at once, without those that wait for an answer. Each may be a command,
/// and the admission of calls shares the machine among the sessions.
const AT_ONCE: usize = 64;
/// Time for running firings to end when the server ends, after their calls were stopped.
const AT_END: Duration = Duration::from_secs(8);

/// The running scheduler. Dropping it leaves its firings to their leases.
pub(crate) struct Scheduler {
    /// True as soon as everything must end. Firings listen to it, and are forgotten when they have ended.
    stop: watch::Sender<bool>,
    ended: tokio::task::JoinHandle<()>,
}

impl Scheduler {
    /// Starts it. Requires a tokio runtime.
    pub(crate) fn start(composed: &Composed) -> Self {
        let (stop, stopped) = watch::channel(false);
        let changed = Arc::new(Notify::new());
        let told = changed.clone();
        composed.jobs.book.on_change(move || told.notify_one());
        let serving = Serving {
            runner: Arc::new(JobRunner::of(composed)),
            engine: Arc::downgrade(&composed.engine),
            changed,
            stopped,
            room: Arc::new(Semaphore::new(AT_ONCE)),
        };
        Self { stop, ended: tokio::spawn(serving.serve()) }
    }

    /// Stops the firings that run, and waits until their ends are recorded.
    pub(crate) async fn end(self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(AT_END, self.ended).await.is_err() {
            warn("a scheduled task did not end; its run is recorded as interrupted when its lease has ended");
        }
    }
}

struct Serving {
    runner: Arc<JobRunner>,
    engine: Weak<Engine>,
    changed: Arc<Notify>,
    stopped: watch::Receiver<bool>,
    room: Arc<Semaphore>,
}

impl Serving {
    async fn serve(self) {
        let mut running = JoinSet::new();
        let mut told = None;
        let mut stopped = self.stopped.clone();
        while !*self.stopped.borrow() && self.engine.strong_count() > 0 {
            // A claim lasts a minute, so nothing is claimed that cannot begin.
            let Ok(permit) = self.room.clone().acquire_owned().await else { break };
            drop(permit);
            let wait = match self.claim(&mut running).await {
                Ok(wait) => {
                    told = None;
                    wait
                }
                Err(error) => {
                    let problem = error.to_string();
                    if told.as_ref() != Some(&problem) {
                        warn(&format!("schedules do not fire: {problem}"));
                    }
                    told = Some(problem);
                    LOOK_EVERY
                }
            };
            while running.try_join_next().is_some() {}
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.changed.notified() => {}
                // The sender lives as long as the scheduler.
                _ = stopped.changed() => {}
            }
        }
        while running.join_next().await.is_some() {}
        self.runner.end().await;
    }

    /// Begins the firings that are due, and returns the time until the next look.
    async fn claim(&self, running: &mut JoinSet<()>) -> Result<Duration, StoreError> {
        let claims = self.runner.claims.clone();
        let most = self.room.available_permits().max(1);
        let claimed = tokio::task::spawn_blocking(move || {
            let due = claims.due(SystemClock.now(), most)?;
            Ok((due, claims.next()?))
        });
        let (due, next) = match claimed.await {
            Ok(claimed) => claimed?,
            // The runtime ends.
            Err(_) => return Ok(LOOK_EVERY),
        };
        for (row, firing) in due {
            let (runner, stopped) = (self.runner.clone(), self.stopped.clone());
            let asker = Arc::new(JobAsker::new(self.room.clone().try_acquire_owned().ok()));
            let Some(engine) = self.engine.upgrade() else { break };
            running.spawn(async move { runner.fire(&engine, &row, firing, asker, stopped).await });
        }
        let until = next.map(|at| at.duration_since(SystemClock.now()));
        let until = until.map_or(LOOK_EVERY, |until| Duration::try_from(until).unwrap_or_default());
        Ok(until.min(LOOK_EVERY))
    }
}
