use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::Kind;

/// A time as file systems keep it: since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds; negative before the epoch.
    pub seconds: i64,
    /// The rest, below 1,000,000,000.
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

/// What is known about an entry of a folder. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The permission bits, with set-user-id, set-group-id and sticky (octal 7777).
    pub mode: u32,
    /// The user id of its owner on this machine.
    pub owner: u32,
    /// The group id on this machine.
    pub group: u32,
    /// Its size in bytes; of a link, the length of its target.
    pub size_bytes: u64,
    /// When its content last changed (`mtime`).
    pub modified: Time,
    /// When anything about it last changed (`ctime`). No program can set this.
    pub changed: Time,
    /// Whether it has more names than one (hard links). Not meant for folders.
    pub has_other_names: bool,
    /// The file system that it lies on.
    pub device: u64,
    /// Its number there.
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

    /// Whether both are the same inode.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        (self.device, self.inode, self.kind) == (other.device, other.inode, other.kind)
    }

    /// Whether both are the same inode with the same content and rights, as far as this shows.
    ///
    /// The change time is left out, because a rename sets it. A folder's times change with what is in it, and its rights
    /// are loosened while things are moved: of a folder only the inode counts.
    pub(crate) fn is_unchanged(&self, other: &Self) -> bool {
        self.is_unchanged_content(other) && (self.kind == Kind::Folder || self.has_same_rights(other))
    }

    /// Whether both are the same inode with the same content, as far as its size and time show.
    pub(crate) fn is_unchanged_content(&self, other: &Self) -> bool {
        let content = |entry: &Self| (entry.size_bytes, entry.modified);
        self.is_same_object(other) && (self.kind == Kind::Folder || content(self) == content(other))
    }

    /// Whether both are files that are taken for the same where the bytes of one were not read: not the same inode, because what
    /// was undone and done again has another.
    pub(crate) fn has_same_size_and_time(&self, other: &Self) -> bool {
        (self.size_bytes, self.modified) == (other.size_bytes, other.modified)
    }

    /// Whether both have the same owner, group and mode.
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
