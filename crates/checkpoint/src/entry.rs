//! Metadata of entries.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::Kind;

/// Time of a file system, since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds; negative before the epoch.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    pub(crate) fn new(seconds: i64, nanoseconds: impl TryInto<u32>) -> Self {
        Self { seconds, nanoseconds: nanoseconds.try_into().unwrap_or_default() }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let whole = |past: Duration| i64::try_from(past.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(past) => Self::new(whole(past), past.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => Self::new(-whole(before), 0_u32),
                    rest => Self::new(-whole(before) - 1, 1_000_000_000 - rest),
                }
            }
        }
    }
}

/// Metadata of an entry in a folder. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the entry.
    pub kind: Kind,
    /// Permission bits, with set-user-id, set-group-id and sticky (octal 7777).
    pub mode: u32,
    /// User id of the owner on this machine.
    pub owner: u32,
    /// Group id on this machine.
    pub group: u32,
    /// Size in bytes; for a link, the length of its target.
    pub size_bytes: u64,
    /// Time of the last change of the content (`mtime`).
    pub modified: Time,
    /// Time of the last change of content or metadata (`ctime`). Programs cannot set it.
    pub changed: Time,
    /// True if the entry has several names (hard links). Always false for folders.
    pub has_other_names: bool,
    /// Device of the file system.
    pub device: u64,
    /// Inode number on the device.
    pub inode: u64,
}

impl Entry {
    pub(crate) fn of(stat: &Stat) -> Self {
        let kind = Kind::of(stat);
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            owner: stat.st_uid,
            group: stat.st_gid,
            size_bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: Time::new(stat.st_mtime, stat.st_mtime_nsec),
            changed: Time::new(stat.st_ctime, stat.st_ctime_nsec),
            has_other_names: kind != Kind::Folder && stat.st_nlink > 1,
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// Returns true if both are the same inode.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        (self.device, self.inode, self.kind) == (other.device, other.inode, other.kind)
    }

    /// Returns true if both are the same inode with the same content and rights, as far as the
    /// metadata shows.
    ///
    /// The change time is ignored, because a rename sets it. For a folder only the inode counts: its
    /// times change with its entries, and its rights are loosened while entries are moved.
    pub(crate) fn is_unchanged(&self, other: &Self) -> bool {
        self.is_unchanged_content(other) && (self.kind == Kind::Folder || self.has_same_rights(other))
    }

    /// Returns true if both are the same inode with the same content, as far as size and time show.
    pub(crate) fn is_unchanged_content(&self, other: &Self) -> bool {
        let content = |entry: &Self| (entry.size_bytes, entry.modified);
        self.is_same_object(other) && (self.kind == Kind::Folder || content(self) == content(other))
    }

    /// Returns true if two files count as equal without a comparison of their bytes. The inode is
    /// ignored, because an undone and repeated change has another one.
    pub(crate) fn has_same_size_and_time(&self, other: &Self) -> bool {
        (self.size_bytes, self.modified) == (other.size_bytes, other.modified)
    }

    /// Returns true if both have the same owner, group and mode.
    pub(crate) fn has_same_rights(&self, other: &Self) -> bool {
        (self.mode, self.owner, self.group) == (other.mode, other.owner, other.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_keep_their_order() {
        let at = |offset: Duration| Time::from(UNIX_EPOCH - offset);
        assert_eq!(at(Duration::from_millis(1500)), Time { seconds: -2, nanoseconds: 500_000_000 });
        assert_eq!(at(Duration::from_secs(2)), Time { seconds: -2, nanoseconds: 0 });
        assert!(at(Duration::from_millis(1500)) > at(Duration::from_secs(2)));
        assert!(Time::from(UNIX_EPOCH + Duration::from_nanos(1)) > at(Duration::ZERO));
    }
}
