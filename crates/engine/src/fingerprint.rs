//! Check that everything a read-only call may have seen is unchanged, by a digest of the file
//! system's metadata of every entry below the roots.
//!
//! The digest covers times and identities, not contents. The kernel updates the status time with
//! every change of content, mode, owner, name or attribute, and no process can set this time. A
//! write to a mapped page that is already dirty shows with its next flush.

use std::fs::{DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use policy::{PathVerdict, Policy};
use rustix::time::{ClockId, clock_gettime};
use tool::Access;

/// Maximum number of entries that are examined. For more, the state is unknown.
const MAX_ENTRIES: usize = 100_000;

/// Interval within which two changes may have the same time, because the kernel's clock for files
/// ticks every 1 to 10 ms.
const TICK: Duration = Duration::from_millis(20);

/// State of the entries below the roots at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fingerprint {
    digest: [u8; 32],
    /// True if a later change will certainly show.
    pub(crate) is_settled: bool,
}

impl Fingerprint {
    /// Creates a state from one byte, for tests.
    #[cfg(test)]
    pub(crate) const fn of(byte: u8) -> Self {
        Self { digest: [byte; 32], is_settled: true }
    }

    /// Returns true if nothing has changed between the two states.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// Examines all readable entries below the roots. Returns `None` if there are too many, or if this
/// user cannot read them.
pub(crate) fn look(policy: &Policy) -> Option<Fingerprint> {
    // The kernel takes the times of files from this clock.
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
        // An invalid time counts as newer than all, so that the state is not settled.
        newest = newest.max(Timestamp::new(data.ctime(), nanoseconds).unwrap_or(Timestamp::MAX));
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for root in policy.roots() {
        // A missing root has no state. Its creation changes its parent folder, or nothing that is
        // shown.
        let Ok(data) = std::fs::symlink_metadata(&root.path) else { continue };
        note(root.path.as_os_str().as_bytes(), &data);
        if data.is_dir() {
            folders.push(root.path.clone());
        }
    }
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<DirEntry> = std::fs::read_dir(&folder).ok()?.collect::<Result<_, _>>().ok()?;
        count += entries.len();
        if count > MAX_ENTRIES {
            return None;
        }
        entries.sort_unstable_by_key(DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            // A hidden entry shows its name at most, and Handfast itself writes there.
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
    Some(Fingerprint { digest: *hasher.finalize().as_bytes(), is_settled })
}
