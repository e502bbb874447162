use rustix::fs::{FileType, Stat};

use crate::EntryKind;

/// What is known about an entry without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes; of a link, the length of its target.
    pub size_bytes: u64,
    /// When its content last changed: whole seconds since the Unix epoch.
    pub modified_seconds: i64,
    /// The rest of that time, in nanoseconds below one second.
    pub modified_nanoseconds: u32,
}

impl Metadata {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: kind_of(stat),
            size_bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_seconds: stat.st_mtime,
            modified_nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        }
    }
}

pub(crate) fn kind_of(stat: &Stat) -> EntryKind {
    EntryKind::of(FileType::from_raw_mode(stat.st_mode))
}

/// Whether both are the same inode of the same file system.
pub(crate) fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
