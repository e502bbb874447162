//! The kernel's notices of changes for the watchers of `up`, which end with their runtime.

use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tool::Stop;
use watch::{Inotify, WatchFlags};

/// Events to watch for.
pub(super) const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DONT_FOLLOW);

/// A queue of notices that can be waited for until a stop.
pub(super) struct ChangeNotices {
    /// Queue of the kernel.
    pub(super) inotify: Inotify,
    stopped: Arc<std::os::fd::OwnedFd>,
}

impl ChangeNotices {
    /// Opens a queue. Waiting ends when the stop is requested.
    pub(super) fn open(stop: &Stop) -> Result<Self, Errno> {
        let inotify = Inotify::open()?;
        let stopped = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let wakes = stopped.clone();
        stop.on_request(move |_| {
            // The only possible failure is a counter at its maximum, which wakes the thread as well.
            let _full = rustix::io::write(&wakes, &1_u64.to_ne_bytes());
        });
        Ok(Self { inotify, stopped })
    }

    /// Waits for a notice or a stop. Returns false if neither came in time.
    pub(super) fn wait(&self, longest: Option<&Timespec>) -> Result<bool, Errno> {
        let mut events =
            [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::IN)];
        match poll(&mut events, longest) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(errno),
        }
    }
}
