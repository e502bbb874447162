//! The threads of a runtime: each has an owner, can be stopped, and is waited for.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::resources::{Owner, Resource, ResourcePool, ResourceUsage};
use crate::{Clock, Code, Retry, Stop, StopReason, ToolError};

/// Time for a thread to end after a stop request, as tools have it. A thread that takes longer
/// stays in the list.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that may outlive the calls that start them. Clones share the threads.
///
/// A runtime starts no other thread of this kind, so the end of the runtime ends them all.
#[derive(Clone)]
pub struct Threads(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// True if no further thread may start.
    closed: bool,
    threads: Vec<OwnedThread>,
}

struct OwnedThread {
    name: &'static str,
    owner: Owner,
    since: Timestamp,
    stop: Stop,
    handle: JoinHandle<()>,
    /// True once the work has ended.
    has_ended: bool,
}

impl Threads {
    /// Creates an empty list, which notes the starts of threads by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared { clock, state: Mutex::default(), ended: Condvar::new() }))
    }

    /// Starts `work` on a thread of this name (at most 15 bytes, which is what the system shows).
    /// The work ends soon after a stop is requested.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the runtime has ended, or the system refuses a thread.
    pub fn start(
        &self,
        name: &'static str,
        owner: Owner,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<(), ToolError> {
        let stop = Stop::default();
        let (shared, stopped, since) = (self.0.clone(), stop.clone(), self.0.clock.now());
        let mut state = self.0.state();
        if state.closed {
            let message = format!("the thread `{name}` cannot start: this runtime is shutting down");
            return Err(ToolError::new(Code::Unavailable, message).retry(Retry::Never));
        }
        // INVARIANT: the lock is held until the thread is in the list, so that its end finds it.
        let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _end = EndOfThread(shared);
            work(&stopped);
        });
        let handle = started.map_err(|error| {
            ToolError::new(Code::Unavailable, format!("the thread `{name}` cannot start: {error}"))
                .because(error)
        })?;
        // Threads that have ended need no wait.
        state.threads.retain(|thread| !thread.handle.is_finished());
        state.threads.push(OwnedThread { name, owner, since, stop, handle, has_ended: false });
        Ok(())
    }
}

impl ResourcePool for Threads {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let state = self.0.state();
        let runs = state.threads.iter().filter(|thread| !thread.has_ended);
        runs.map(|thread| Resource {
            kind: "thread",
            owner: thread.owner.clone(),
            since: thread.since,
            description: thread.name.to_owned(),
            usage: ResourceUsage { threads: 1, ..ResourceUsage::default() },
        })
        .collect()
    }

    fn stop(&self, owner: &Owner) {
        let mut state = self.0.state();
        state.closed |= *owner == Owner::Runtime;
        let stops: Vec<Stop> = state.of(owner).map(|thread| thread.stop.clone()).collect();
        // A callback of a stop may take the lock.
        drop(state);
        for stop in stops {
            stop.request(StopReason::Cancelled);
        }
    }

    fn join(&self, owner: &Owner) {
        let until = Instant::now() + PATIENCE;
        // A thread may drop the last reference to a runtime. It does not wait for itself.
        let this = thread::current().id();
        let mut state = self.0.state();
        while state.of(owner).any(|thread| !thread.has_ended && thread.id() != this) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.0.ended.wait_for(&mut state, left);
        }
        let has_ended = |thread: &mut OwnedThread| {
            owner.includes(&thread.owner) && thread.has_ended && thread.id() != this
        };
        let ended: Vec<OwnedThread> = state.threads.extract_if(.., has_ended).collect();
        drop(state);
        for thread in ended {
            // The system has printed the message of a panic.
            let _ = thread.handle.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the list is a single step.
        self.state.lock()
    }
}

impl State {
    fn of<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = &'a OwnedThread> {
        self.threads.iter().filter(|thread| owner.includes(&thread.owner))
    }
}

impl OwnedThread {
    fn id(&self) -> ThreadId {
        self.handle.thread().id()
    }
}

/// Guard that marks the present thread as ended, even after a panic.
struct EndOfThread(Arc<Shared>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        let this = thread::current().id();
        let mut state = self.0.state();
        for ended in state.threads.iter_mut().filter(|thread| thread.id() == this) {
            ended.has_ended = true;
        }
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::SessionId;

    struct Epoch;

    impl Clock for Epoch {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
    }

    fn threads() -> Threads {
        Threads::new(Arc::new(Epoch))
    }

    fn session(id: &str) -> Owner {
        Owner::Session(SessionId(id.to_owned()))
    }

    /// Starts a thread that waits for its stop, and returns a channel that closes with its end.
    fn waiting(threads: &Threads, name: &'static str, owner: Owner) -> Receiver<()> {
        let (lives, ends) = channel();
        let work = move |stop: &Stop| {
            let (says, hears) = channel();
            stop.on_request(move |_| says.send(()).unwrap());
            hears.recv().unwrap();
            drop(lives);
        };
        threads.start(name, owner, work).unwrap();
        ends
    }

    fn names(threads: &Threads) -> Vec<String> {
        threads.list(Timestamp::UNIX_EPOCH).into_iter().map(|resource| resource.description).collect()
    }

    #[test]
    fn the_end_of_an_owner_ends_its_threads_and_those_of_no_other() {
        let threads = threads();
        let one = waiting(&threads, "one", session("1"));
        let other = waiting(&threads, "other", session("2"));
        assert_eq!(names(&threads), ["one", "other"]);
        threads.stop(&session("1"));
        threads.join(&session("1"));
        assert!(one.try_recv().is_err(), "its channel is closed");
        assert_eq!(names(&threads), ["other"]);
        threads.stop(&Owner::Runtime);
        threads.join(&Owner::Runtime);
        assert_eq!(other.recv().ok(), None);
        assert_eq!(names(&threads), Vec::<String>::new());
    }

    #[test]
    fn nothing_starts_after_the_end_of_the_runtime() {
        let threads = threads();
        threads.stop(&Owner::Runtime);
        let late = threads.start("late", session("1"), |_| {});
        let error = late.unwrap_err();
        assert_eq!(error.code, Code::Unavailable);
        assert!(error.message.contains("`late`") && error.message.contains("shutting down"), "{error:?}");
    }

    #[test]
    fn a_thread_that_panics_has_ended() {
        let threads = threads();
        threads.start("broken", Owner::Runtime, |_| panic!("as told")).unwrap();
        threads.join(&Owner::Runtime);
        assert_eq!(names(&threads), Vec::<String>::new());
    }

    #[test]
    fn a_thread_that_ends_the_runtime_does_not_wait_for_itself() {
        let threads = threads();
        let (says, hears) = channel();
        let own = threads.clone();
        let work = move |_: &Stop| {
            own.stop(&Owner::Runtime);
            own.join(&Owner::Runtime);
            says.send(()).unwrap();
        };
        threads.start("last", Owner::Runtime, work).unwrap();
        hears.recv_timeout(PATIENCE).unwrap();
        threads.join(&Owner::Runtime);
    }
}
