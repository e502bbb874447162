//! Notifications of the kernel about changes in folders (inotify).

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use beneath::descriptor_path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::path::Arg;

use crate::error::WatchError;
use crate::folders::Id;

/// Events to report: a name appears, or moves away. Removing or writing a file changes no marks.
/// Removing a folder ends its watch, and the kernel always reports that.
const WANTED: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::MOVED_FROM);

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A name has appeared, now stands for another file, or was written.
    Came {
        /// Watch of the folder.
        watch: i32,
        /// Name in the folder.
        name: Vec<u8>,
    },
    /// A name has moved away, or was removed.
    Left {
        /// Watch of the folder.
        watch: i32,
        /// Name in the folder.
        name: Vec<u8>,
    },
    /// A folder is gone, together with its watch.
    Gone {
        /// Watch of the folder.
        watch: i32,
    },
    /// The kernel's queue overflowed, and notifications were dropped.
    Lost,
}

/// An inotify instance of this process.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

impl Inotify {
    /// Creates an instance without watches.
    ///
    /// # Errors
    /// The errors of `inotify_init1(2)`.
    pub fn open() -> Result<Self, Errno> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map(Self)
    }

    /// Watches the folder at a path, and returns the number of the watch.
    ///
    /// # Errors
    /// The errors of `inotify_add_watch(2)`.
    pub fn add(&self, folder: impl Arg, wanted: WatchFlags) -> Result<i32, Errno> {
        inotify::add_watch(&self.0, folder, wanted | WatchFlags::ONLYDIR)
    }

    /// Waits for a notification, at most for `most`. Returns true if there is one.
    ///
    /// # Errors
    /// The errors of `poll(2)`. An interrupted wait counts as a notification.
    pub fn wait(&self, most: Option<Duration>) -> Result<bool, Errno> {
        let most = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], most.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(errno),
        }
    }

    /// Reads the notifications that are pending now. Later ones wait for the next call, because they
    /// could arrive without end.
    ///
    /// # Errors
    /// The errors of `read(2)`.
    pub fn read(&self) -> Result<Vec<Notice>, Errno> {
        let mut left = ioctl_fionread(&self.0)?;
        let mut notices = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.0, &mut buffer);
        while left > 0 || !reader.is_buffer_empty() {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let name = event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default();
            // Size of an event: a header of 16 bytes, and the name with at least one NUL, padded to
            // 16.
            let padded = if name.is_empty() { 0 } else { (name.len() + 1).next_multiple_of(16) };
            left = left.saturating_sub(16 + padded as u64);
            let watch = event.wd();
            let told = event.events();
            if told.contains(ReadFlags::QUEUE_OVERFLOW) {
                notices.push(Notice::Lost);
            } else if told.contains(ReadFlags::IGNORED) {
                notices.push(Notice::Gone { watch });
            } else if told.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) {
                notices.push(Notice::Left { watch, name });
            } else if told.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::CLOSE_WRITE) {
                notices.push(Notice::Came { watch, name });
            }
        }
        Ok(notices)
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The watches of the set.
#[derive(Debug)]
pub(crate) struct Notices {
    inotify: Inotify,
    /// Folders of each watch. A folder that is mounted at two paths has one watch and two numbers.
    folders: HashMap<i32, Vec<Id>>,
    /// Maximum number of watches.
    most: usize,
}

/// A handle that reports possible changes, without the set itself.
#[derive(Debug)]
pub struct Changes(Inotify);

impl Changes {
    /// Waits at most `most` for a possible change, and returns true if there was one.
    pub fn wait(&self, most: Duration) -> bool {
        // A failed wait counts as a change.
        self.0.wait(Some(most)) != Ok(false)
    }
}

/// Maximum share of the user's watches that this process takes: editors need some too.
const SHARE: (usize, usize) = (3, 4);

/// Reason why a folder is not watched.
#[derive(Debug)]
pub(crate) enum NotWatched {
    /// The user's share of watches is used up.
    TooMany,
    Failed(Errno),
}

impl Notices {
    pub(crate) fn open() -> Result<Self, WatchError> {
        let inotify =
            Inotify::open().map_err(WatchError::kernel("asking the kernel for notices of changes"))?;
        Ok(Self { inotify, folders: HashMap::new(), most: limit().saturating_mul(SHARE.0) / SHARE.1 })
    }

    pub(crate) fn changes(&self) -> Option<Changes> {
        self.inotify.0.try_clone().ok().map(Inotify).map(Changes)
    }

    /// Watches an open folder. A folder that is marked, or lies in a marked one, also reports
    /// removals. Returns the watch, and the other folders that already have it.
    pub(crate) fn add(
        &mut self,
        folder: BorrowedFd<'_>,
        id: Id,
        in_marked: bool,
    ) -> Result<(i32, Vec<Id>), NotWatched> {
        if self.folders.len() >= self.most {
            return Err(NotWatched::TooMany);
        }
        let wanted = if in_marked { WANTED | WatchFlags::DELETE } else { WANTED };
        // Watch the descriptor, because the path could lead elsewhere by now.
        let watch = self.inotify.add(descriptor_path(folder), wanted).map_err(|errno| match errno {
            Errno::NOSPC => NotWatched::TooMany,
            other => NotWatched::Failed(other),
        })?;
        let folders = self.folders.entry(watch).or_default();
        let others: Vec<Id> = folders.iter().copied().filter(|other| *other != id).collect();
        if others.len() == folders.len() {
            folders.push(id);
        }
        Ok((watch, others))
    }

    /// Returns the folders of a watch.
    pub(crate) fn folders(&self, watch: i32) -> &[Id] {
        self.folders.get(&watch).map_or(&[], Vec::as_slice)
    }

    /// Removes a folder from its watch. The watch ends with its last folder.
    pub(crate) fn remove(&mut self, watch: i32, id: Id) {
        let Some(folders) = self.folders.get_mut(&watch) else { return };
        folders.retain(|folder| *folder != id);
        if folders.is_empty() {
            self.folders.remove(&watch);
            // The folder may be gone already, together with its watch.
            let _gone = inotify::remove_watch(&self.inotify.0, watch);
        }
    }

    /// Reads the pending notifications.
    pub(crate) fn read(&self) -> Result<Vec<Notice>, WatchError> {
        self.inotify.read().map_err(WatchError::kernel("reading the kernel's notices of changes"))
    }
}

/// Returns the number of watches that the user may have.
fn limit() -> usize {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    // Linux before 5.11 had 8,192 as its default.
    text.trim().parse().unwrap_or(8_192)
}
