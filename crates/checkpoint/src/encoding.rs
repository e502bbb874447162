//! Binary encoding of this crate's records. Numbers are little-endian.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::{Entry, Kind, Time};

/// An encoder that appends values.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn small(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        // A length in memory always fits.
        self.number(u64::try_from(value.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(value);
    }

    pub(crate) fn path(&mut self, value: &Path) {
        self.bytes(value.as_os_str().as_bytes());
    }

    pub(crate) fn time(&mut self, value: Time) {
        self.0.extend_from_slice(&value.seconds.to_le_bytes());
        self.small(value.nanoseconds);
    }

    /// Appends an entry that may be missing.
    pub(crate) fn entry(&mut self, value: Option<&Entry>) {
        let Some(entry) = value else { return self.byte(0) };
        self.byte(match entry.kind {
            Kind::File => 1,
            Kind::Folder => 2,
            Kind::Link => 3,
            Kind::Fifo => 4,
            Kind::Socket => 5,
            Kind::Device => 6,
            Kind::Whiteout => 7,
        });
        self.small(entry.mode);
        self.small(entry.owner);
        self.small(entry.group);
        self.number(entry.size_bytes);
        self.time(entry.modified);
        self.time(entry.changed);
        self.byte(u8::from(entry.has_other_names));
        self.number(entry.device);
        self.number(entry.inode);
    }
}

/// A decoder that takes values off the front. Its methods return `None` if the value is incomplete
/// or invalid.
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    pub(crate) fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(OsString::from_vec(self.bytes()?.to_vec())))
    }

    pub(crate) fn time(&mut self) -> Option<Time> {
        let seconds = i64::from_le_bytes(self.take(8)?.try_into().ok()?);
        Some(Time { seconds, nanoseconds: self.small()? })
    }

    /// Takes an entry. The outer option is `None` for an invalid record, the inner one for a missing
    /// entry.
    #[expect(clippy::option_option, reason = "a missing entry is a value, a cut record is not")]
    pub(crate) fn entry(&mut self) -> Option<Option<Entry>> {
        let kind = match self.byte()? {
            0 => return Some(None),
            1 => Kind::File,
            2 => Kind::Folder,
            3 => Kind::Link,
            4 => Kind::Fifo,
            5 => Kind::Socket,
            6 => Kind::Device,
            7 => Kind::Whiteout,
            _ => return None,
        };
        Some(Some(Entry {
            kind,
            mode: self.small()?,
            owner: self.small()?,
            group: self.small()?,
            size_bytes: self.number()?,
            modified: self.time()?,
            changed: self.time()?,
            has_other_names: self.flag()?,
            device: self.number()?,
            inode: self.number()?,
        }))
    }
}
