//! What the kernel tells of changes in folders (inotify).

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, ioctl_fionread};

use crate::error::WatchError;
use crate::folders::Id;

/// What is to be told: a name that comes and one that moves away. That a file is removed or written changes no marks,
/// and a folder that is removed takes its watch along, which is told in any case.
const WANTED: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::MOVED_FROM).union(WatchFlags::ONLYDIR);

/// One thing that was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A name has come, or something else has its name now.
    Came { watch: i32, name: Vec<u8> },
    /// A name has moved away, or was removed from a marked folder.
    Left { watch: i32, name: Vec<u8> },
    /// A folder is gone, and its watch with it.
    Gone { watch: i32 },
    /// More was to be told than the kernel keeps.
    Lost,
}

/// The watches.
#[derive(Debug)]
pub(crate) struct Notices {
    inotify: OwnedFd,
    /// The folder of each watch. A folder that is mounted at a second place has one watch and two numbers.
    folders: HashMap<i32, Vec<Id>>,
    /// How many watches there may be.
    most: usize,
}

/// Tells that something may have changed, without the set itself.
#[derive(Debug)]
pub struct Changes(OwnedFd);

impl Changes {
    /// Waits until something may have changed, and says whether it has.
    pub fn wait(&self, most: Duration) -> bool {
        let most = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        // An interrupted wait is as good as a change.
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&most)) != Ok(0)
    }
}

/// The share of the user's watches that is taken at most: editors need some too.
const SHARE: (usize, usize) = (3, 4);

/// Why a folder is not watched.
#[derive(Debug)]
pub(crate) enum NotWatched {
    /// There are no more watches to be had.
    TooMany,
    Failed(Errno),
}

impl Notices {
    pub(crate) fn open() -> Result<Self, WatchError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(WatchError::kernel("asking the kernel for notices of changes"))?;
        Ok(Self { inotify, folders: HashMap::new(), most: limit().saturating_mul(SHARE.0) / SHARE.1 })
    }

    pub(crate) fn changes(&self) -> Option<Changes> {
        self.inotify.try_clone().ok().map(Changes)
    }

    /// Watches an open folder, one that is marked or lies in a marked one more closely; gives the watch and the folders that it stood for before.
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
        // By descriptor: the path could lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let watch = inotify::add_watch(&self.inotify, path, wanted).map_err(|errno| match errno {
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

    /// The folders that a watch stands for.
    pub(crate) fn folders(&self, watch: i32) -> &[Id] {
        self.folders.get(&watch).map_or(&[], Vec::as_slice)
    }

    /// One folder less has this watch; the last one ends it.
    pub(crate) fn remove(&mut self, watch: i32, id: Id) {
        let Some(folders) = self.folders.get_mut(&watch) else { return };
        folders.retain(|folder| *folder != id);
        if folders.is_empty() {
            self.folders.remove(&watch);
            // The folder may be gone already, and its watch with it.
            let _gone = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// What was told until now. What is told while this reads may wait for the next time: there may be no end of it.
    pub(crate) fn read(&self) -> Result<Vec<Notice>, WatchError> {
        let failed = || WatchError::kernel("reading the kernel's notices of changes");
        let mut left = ioctl_fionread(&self.inotify).map_err(failed())?;
        let mut notices = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        while left > 0 || !reader.is_buffer_empty() {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed()(errno)),
            };
            let name = event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default();
            // The size of an event: its head of 16 bytes, and its name with at least one NUL, padded to 16.
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
            } else if told.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                notices.push(Notice::Came { watch, name });
            }
        }
        Ok(notices)
    }
}

/// How many watches the user may have.
fn limit() -> usize {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    // 8,192 was the value of Linux before 5.11.
    text.trim().parse().unwrap_or(8_192)
}
