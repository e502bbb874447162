//! Tasks of one connection, which end with it.

use std::future::Future;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Maximum number of tasks of one connection.
const MOST: usize = 64;

/// Tasks of one connection.
pub(crate) struct Tasks {
    runtime: Handle,
    /// Running tasks; absent after the end.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    /// Creates an empty set on the runtime of the caller; `None` outside of one.
    pub(crate) fn new() -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        Some(Self { runtime, running: Mutex::new(Some(JoinSet::new())) })
    }

    /// Starts a task. Returns false, and starts nothing, if there are too many or the connection has ended.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut running = self.running.lock();
        let Some(running) = running.as_mut() else { return false };
        while running.try_join_next().is_some() {}
        let has_room = running.len() < MOST;
        if has_room {
            running.spawn_on(task, &self.runtime);
        }
        has_room
    }

    /// Ends all tasks, and starts none any longer.
    pub(crate) fn end(&self) {
        // Dropping the set aborts its tasks. It happens without the lock, because a task may start another one
        // while it is dropped.
        let running = self.running.lock().take();
        drop(running);
    }
}
