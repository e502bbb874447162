//! Listing of folders.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

use crate::{EntryKind, Folder, Result, RootsError, is_temporary_name};

/// A name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name, any bytes but `/` and NUL.
    pub name: &'a OsStr,
    /// Kind of the entry when the folder was read.
    pub kind: EntryKind,
}

/// Many entries of one folder. Their names share one buffer: an allocation per name would cost more
/// than reading the folder.
#[derive(Debug, Default)]
pub struct Entries {
    names: Vec<u8>,
    spans: Vec<Span>,
}

/// Position of one name in the buffer.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// First bytes in which the names differ, for sorting. The key alone orders most pairs.
    key: u64,
    start: u32,
    length: u16,
    kind: EntryKind,
}

/// Bytes of names that one system call reads. In the measured file systems, larger buffers cost as
/// many calls as they save.
const READ_AT_ONCE: usize = 32 * 1024;

impl Entries {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Iterates over the entries in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> + ExactSizeIterator {
        self.spans.iter().map(|span| Entry { name: OsStr::from_bytes(span.of(&self.names)), kind: span.kind })
    }

    fn push(&mut self, entry: Entry<'_>) {
        let name = entry.name.as_bytes();
        // A folder is read in pages of a bounded number of names, each at most 255 bytes long, so
        // neither conversion is cut.
        let start = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        self.names.extend_from_slice(name);
        self.spans.push(Span { key: 0, start, length, kind: entry.kind });
    }

    /// Keeps the first `count` entries by the bytes of their names, and frees the memory of the
    /// others.
    fn keep_first(&mut self, count: usize) {
        if count >= self.spans.len() {
            return;
        }
        self.find_keys();
        let names = &self.names;
        self.spans.select_nth_unstable_by(count, |one, other| one.order(other, names));
        self.spans.truncate(count);
        let mut kept = Self::default();
        for entry in self.iter() {
            kept.push(entry);
        }
        *self = kept;
    }

    fn sort(&mut self) {
        self.find_keys();
        let names = &self.names;
        self.spans.sort_unstable_by(|one, other| one.order(other, names));
    }

    /// Finds the common prefix of all names, and takes the eight bytes after it as each name's key.
    fn find_keys(&mut self) {
        let Some(first) = self.spans.first().map(|span| span.of(&self.names)) else { return };
        let mut common = first.len();
        for span in &self.spans {
            let pairs = first.iter().take(common).zip(span.of(&self.names));
            common = pairs.take_while(|(one, other)| one == other).count();
        }
        for span in &mut self.spans {
            let mut key = [0; 8];
            let rest = span.of(&self.names).get(common..).unwrap_or_default();
            let length = rest.len().min(key.len());
            // Names contain no NUL, so a name that ends early sorts first, as required.
            key[..length].copy_from_slice(&rest[..length]);
            span.key = u64::from_be_bytes(key);
        }
    }
}

impl Span {
    fn of<'a>(&self, names: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize;
        names.get(start..start + usize::from(self.length)).unwrap_or_default()
    }

    fn order(&self, other: &Self, names: &[u8]) -> std::cmp::Ordering {
        self.key.cmp(&other.key).then_with(|| self.of(names).cmp(other.of(names)))
    }
}

impl Folder {
    /// Passes every entry to `each`, including files that are being written or that a killed writer
    /// left.
    ///
    /// The order is that of the file system, and the guard is not asked.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read, and passes on the errors of `each`.
    pub(crate) fn for_each(&self, mut each: impl FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        // A separate open file description allows the folder to be read again from its start, even
        // during another read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let again: OwnedFd = openat(&self.descriptor, ".", flags, Mode::empty())
            .map_err(RootsError::while_doing("list", &self.real))?;
        let mut buffer = Vec::with_capacity(READ_AT_ONCE);
        let mut listing = RawDir::new(again, buffer.spare_capacity_mut());
        while let Some(entry) = listing.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                // The folder was removed after it was opened.
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(RootsError::system("list", &self.real, errno)),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match EntryKind::of(entry.file_type()) {
                // Some file systems do not report the kind in the listing; an entry that vanished
                // meanwhile stays unknown.
                EntryKind::Unknown => self.metadata(name).map_or(EntryKind::Unknown, |found| found.kind),
                kind => kind,
            };
            each(Entry { name, kind })?;
        }
        Ok(())
    }

    /// Returns the first `at_most` entries after the name `after`, by the bytes of their names, and
    /// whether more follow.
    ///
    /// Files that are being written are left out. At most `2 * at_most` entries are in memory,
    /// however large the folder is. The guard is not asked: callers use [`Folder::may_read`].
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn first_entries(&self, after: Option<&OsStr>, at_most: usize) -> Result<(Entries, bool)> {
        let mut kept = Entries::default();
        let mut more = false;
        self.for_each(|entry| {
            if after.is_some_and(|after| entry.name <= after) || is_temporary_name(entry.name) {
                return Ok(());
            }
            kept.push(entry);
            if kept.len() >= at_most.saturating_mul(2) {
                kept.keep_first(at_most);
                more = true;
            }
            Ok(())
        })?;
        more |= kept.len() > at_most;
        kept.keep_first(at_most);
        kept.sort();
        Ok((kept, more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&[u8]]) -> Entries {
        let mut entries = Entries::default();
        for name in names {
            entries.push(Entry { name: OsStr::from_bytes(name), kind: EntryKind::File });
        }
        entries
    }

    #[test]
    fn names_are_sorted_by_their_bytes_whatever_all_begin_with() {
        let long = b"entry-0000000000000000-a".as_slice();
        let cases: [&[&[u8]]; 6] = [
            &[],
            &[b"one"],
            &[b"b", b"a", b"ab", b"a-", b"A", b"\xff", b"\x01", b"a\x01"],
            &[long, b"entry-0000000000000000-b", b"entry-0000000000000000-", b"entry-0000000000000000-ab"],
            &[b"x12345678", b"x12345678a", b"x1234567", b"x123456789", b"x12345678\x01"],
            &[b"same-then-much-longer-than-a-key-2", b"same-then-much-longer-than-a-key-1", b"sane"],
        ];
        for names in cases {
            let mut sorted = entries(names);
            sorted.sort();
            let mut expected = names.to_vec();
            expected.sort_unstable();
            assert_eq!(sorted.iter().map(|entry| entry.name.as_bytes()).collect::<Vec<_>>(), expected);
            for count in 0..=names.len() {
                let mut first = entries(names);
                first.keep_first(count);
                first.sort();
                let kept: Vec<_> = first.iter().map(|entry| entry.name.as_bytes()).collect();
                assert_eq!(kept, expected[..count]);
            }
        }
    }
}
