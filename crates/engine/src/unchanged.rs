//! Whether anything that a read-only call could have seen is as it was: a digest of what the file system knows of every entry below
//! the roots.
//!
//! Times and identities are compared and not contents: the kernel changes the time of a status with every change of content, mode, owner,
//! name or attribute, and nobody can set it. What is stored into a mapped page that is dirty already shows with its next flush.

use std::fs::{DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use policy::{PathVerdict, Policy};
use rustix::time::{ClockId, clock_gettime};
use tool::Access;

/// Entries that are looked at; below more, nothing is known.
const MOST_ENTRIES: usize = 100_000;

/// Two changes in so short a time may have the same time: the kernel's clock for files ticks every 1 to 10 ms.
const TICK: Duration = Duration::from_millis(20);

/// What the entries below the roots were at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked {
    digest: [u8; 32],
    /// Whether a later change certainly shows.
    pub(crate) is_settled: bool,
}

impl Looked {
    /// One that stands for itself.
    #[cfg(test)]
    pub(crate) const fn of(byte: u8) -> Self {
        Self { digest: [byte; 32], is_settled: true }
    }

    /// Whether nothing has changed between the two.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// Looks at everything below the roots that may be read. None where that cannot be said: too much, or closed to this user.
pub(crate) fn look(policy: &Policy) -> Option<Looked> {
    // The kernel's own clock, which its times of files come from.
    let now = clock_gettime(ClockId::Realtime);
    let now = Timestamp::new(now.tv_sec, i32::try_from(now.tv_nsec).ok()?).ok()?;
    let mut hasher = blake3::Hasher::new();
    let mut newest = Timestamp::MIN;
    let mut count = 0;
    let mut note = |name: &[u8], data: &Metadata| {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        for number in
            [data.dev(), data.ino(), data.size(), data.mode().into(), data.uid().into(), data.gid().into()]
        {
            hasher.update(&number.to_le_bytes());
        }
        for time in [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()] {
            hasher.update(&time.to_le_bytes());
        }
        let nanoseconds = i32::try_from(data.ctime_nsec()).unwrap_or(0);
        // A time that is none is newer than all, so that nothing is settled.
        newest = newest.max(Timestamp::new(data.ctime(), nanoseconds).unwrap_or(Timestamp::MAX));
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for root in policy.roots() {
        // What is not there has no state; that it comes changes the folder that it comes to, or nothing that is shown.
        let Ok(data) = std::fs::symlink_metadata(&root.path) else { continue };
        note(root.path.as_os_str().as_bytes(), &data);
        if data.is_dir() {
            folders.push(root.path.clone());
        }
    }
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<DirEntry> = std::fs::read_dir(&folder).ok()?.collect::<Result<_, _>>().ok()?;
        count += entries.len();
        if count > MOST_ENTRIES {
            return None;
        }
        entries.sort_unstable_by_key(DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            // What is hidden shows by its name at most, and Handfast itself writes there.
            if matches!(policy.path_verdict(Access::Read, &path), PathVerdict::Denied(_)) {
                continue;
            }
            let data = entry.metadata().ok()?;
            note(path.as_os_str().as_bytes(), &data);
            if data.is_dir() {
                folders.push(path);
            }
        }
    }
    let is_settled = newest.checked_add(TICK).is_ok_and(|settled| settled < now);
    Some(Looked { digest: *hasher.finalize().as_bytes(), is_settled })
}
