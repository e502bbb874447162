//! The thread that makes vectors after the answers.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A thread that repeats one piece of work at a time until it is stopped.
#[derive(Default)]
pub(crate) struct Worker {
    stopped: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// Repeats `work` on the thread as long as it returns true, and gives it the condition under
    /// which it must give up. Does nothing while an earlier work goes on, and after a stop.
    pub(crate) fn start(&self, work: impl Fn(&dyn Fn() -> bool) -> bool + Send + 'static) {
        let mut thread = self.lock();
        let goes_on = thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if goes_on || self.stopped.load(Ordering::SeqCst) {
            return;
        }
        let stopped = self.stopped.clone();
        let run = move || {
            let stop = || stopped.load(Ordering::SeqCst);
            while !stop() && work(&stop) {}
        };
        // Without a thread, the next search makes some of the vectors.
        *thread = std::thread::Builder::new().name("memory-vectors".to_owned()).spawn(run).ok();
    }

    /// Asks the thread to end. Does not wait.
    pub(crate) fn request_stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Ends the thread, and waits until it has ended.
    pub(crate) fn stop(&self) {
        self.request_stop();
        if let Some(thread) = self.lock().take() {
            // A panic of the thread loses vectors, which the next start of the program makes.
            let _ = thread.join();
        }
    }

    /// Returns true if the thread is at work.
    pub(crate) fn is_running(&self) -> bool {
        self.lock().as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The owner that needs to know the end calls `stop`.
        self.request_stop();
    }
}
