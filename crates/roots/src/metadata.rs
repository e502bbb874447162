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

/// Tells one state of a file from another: any change of its content, attributes or name makes it another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The file system that it lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When its content last changed: seconds since the Unix epoch, and nanoseconds.
    pub modified: (i64, u64),
    /// When anything about it last changed. No program can set this.
    pub changed: (i64, u64),
    /// How many names it has.
    pub names: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size_bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            names: stat.st_nlink,
        }
    }

    /// Whether both have the same content, as far as this shows. A rename sets the time of change, so that is left out.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        let content =
            |identity: &Self| (identity.device, identity.inode, identity.size_bytes, identity.modified);
        content(self) == content(other)
    }
}

pub(crate) fn kind_of(stat: &Stat) -> EntryKind {
    EntryKind::of(FileType::from_raw_mode(stat.st_mode))
}

/// Whether both are the same inode of the same file system.
pub(crate) fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
