//! Metadata and identities of entries.

use rustix::fs::{FileType, Stat};

use crate::EntryKind;

/// Metadata of an entry, read without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes; for a link, the length of its target.
    pub size_bytes: u64,
    /// Time of the last change of the content, in whole seconds since the Unix epoch.
    pub modified_seconds: i64,
    /// Nanoseconds of that time, below one second.
    pub modified_nanoseconds: u32,
    /// Inode number on its device.
    pub inode: u64,
    /// True if the entry is a file with further names (hard links).
    pub has_further_names: bool,
}

impl Metadata {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: kind_of(stat),
            size_bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_seconds: stat.st_mtime,
            modified_nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            inode: stat.st_ino,
            has_further_names: kind_of(stat) == EntryKind::File && stat.st_nlink > 1,
        }
    }
}

/// Identity of one state of a file: any change of its content, attributes or names results in
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device of the file system.
    pub device: u64,
    /// Inode number on the device.
    pub inode: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Time of the last change of the content, as seconds since the Unix epoch and nanoseconds.
    pub modified: (i64, u64),
    /// Time of the last change of the content or the metadata. Programs cannot set it.
    pub changed: (i64, u64),
    /// Number of names (hard links).
    pub names: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        #[allow(clippy::useless_conversion, reason = "the field has another width on each architecture")]
        let names = u64::from(stat.st_nlink);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size_bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            names,
        }
    }

    /// Returns true if both have the same content, as far as the identities show. A rename sets the
    /// time of the last metadata change, so `changed` is ignored.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        let content =
            |identity: &Self| (identity.device, identity.inode, identity.size_bytes, identity.modified);
        content(self) == content(other)
    }
}

pub(crate) fn kind_of(stat: &Stat) -> EntryKind {
    EntryKind::of(FileType::from_raw_mode(stat.st_mode))
}

/// Returns true if both are the same inode of the same file system.
pub(crate) fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
