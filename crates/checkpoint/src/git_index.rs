//! Git's index, compared without stat data.
//!
//! `git status` and most other commands of git refresh the index: they write down the times and inode numbers that files
//! have now, and nothing else. Two such refreshes are no conflict, and neither is one beside a real change.
//!
//! Versions 2, 3 and 4 are read, with hashes of 20 and of 32 bytes. The reader is strict, and any doubt is a conflict.
//! The format is that of `gitformat-index(5)`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use crate::{ContentHash, Contents};

/// The largest index that is read, in bytes: some two million files.
pub(crate) const LARGEST: u64 = 256 << 20;

/// Whose index stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Winner {
    /// Others only refreshed it: what the command wrote is as new as theirs.
    Command,
    /// The command only refreshed it: what others wrote stays.
    Others,
}

/// Whose index stays where both the command and others wrote it. None is a conflict.
pub(crate) fn winner(before: Option<&File>, others: &File, command: &File) -> Option<Winner> {
    let (others, command) = (read(others)?, read(command)?);
    let (others, command) = (Index::parse(&others)?, Index::parse(&command)?);
    if others == command {
        return Some(Winner::Others);
    }
    let before = read(before?)?;
    let before = Index::parse(&before)?;
    if others == before {
        return Some(Winner::Command);
    }
    (command == before).then_some(Winner::Others)
}

/// Tells whether a file of this name may be an index: that of a repository, a worktree or a submodule.
pub(crate) fn may_be(name: &OsStr) -> bool {
    name == "index"
}

/// Tells whether both files are indexes that differ in stat data and caches at the most.
pub(crate) fn is_refreshed(one: &File, other: &File) -> bool {
    read(one).zip(read(other)).is_some_and(|(one, other)| have_same_entries(&one, &other))
}

/// Tells whether both contents are indexes that differ in stat data and caches at the most. What is not kept differs.
pub(crate) fn are_alike(contents: &dyn Contents, one: &ContentHash, other: &ContentHash) -> bool {
    let kept = |hash| read_all(&mut *contents.open(hash).ok()?);
    kept(one).zip(kept(other)).is_some_and(|(one, other)| have_same_entries(&one, &other))
}

/// Tells whether the file is an index like a content that is kept.
pub(crate) fn is_like(file: &File, contents: &dyn Contents, kept: &ContentHash) -> bool {
    let kept = || read_all(&mut *contents.open(kept).ok()?);
    read(file).zip(kept()).is_some_and(|(file, kept)| have_same_entries(&file, &kept))
}

fn have_same_entries(one: &[u8], other: &[u8]) -> bool {
    Index::parse(one).zip(Index::parse(other)).is_some_and(|(one, other)| one == other)
}

fn read_all(content: &mut dyn Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    content.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    u64::try_from(bytes.len()).is_ok_and(|length| length <= LARGEST).then_some(bytes)
}

/// Lists the names of an index, sorted; none where it cannot be understood.
pub(crate) fn names(index: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut names: Vec<Vec<u8>> = Index::parse(index)?.entries.into_iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    Some(names)
}

/// Calls back with the name of each regular file that git compares with the working tree, its size and whether it can be
/// executed. None where the index cannot be understood.
pub(crate) fn each_file(index: &[u8], mut call: impl FnMut(&[u8], u64, bool)) -> Option<()> {
    let (index, sizes) = Index::parse_with_sizes(index)?;
    for (entry, size) in index.entries.iter().zip(sizes) {
        // Without flags it is no side of a conflict, and neither assumed unchanged nor left out of the working tree.
        if matches!(entry.mode, 0o100_644 | 0o100_755) && entry.flags == 0 {
            call(&entry.name, size.into(), entry.mode == 0o100_755);
        }
    }
    Some(())
}

/// Whether an index has one of these objects. One that cannot be understood has none.
pub(crate) fn has_any_of(file: &File, objects: &BTreeSet<Vec<u8>>) -> bool {
    let Some(bytes) = read(file) else { return false };
    Index::parse(&bytes).is_some_and(|index| index.entries.iter().any(|entry| objects.contains(entry.hash)))
}

fn read(mut file: &File) -> Option<Vec<u8>> {
    let length = file.metadata().ok()?.len();
    if length > LARGEST {
        return None;
    }
    file.seek(SeekFrom::Start(0)).ok()?;
    let bytes = read_all(&mut file)?;
    (u64::try_from(bytes.len()).ok()? == length).then_some(bytes)
}

/// What counts of an index.
#[derive(Debug, PartialEq, Eq)]
struct Index<'a> {
    version: u32,
    entries: Vec<IndexEntry<'a>>,
    /// The extensions that are not merely a cache, such as resolved conflicts.
    extensions: Vec<([u8; 4], &'a [u8])>,
}

#[derive(Debug, PartialEq, Eq)]
struct IndexEntry<'a> {
    mode: u32,
    hash: &'a [u8],
    /// Stage, assume-valid, skip-worktree, intent-to-add; without the length of the name and the bit for more flags.
    flags: u32,
    name: Vec<u8>,
}

/// Extensions that git makes again from the rest: cached trees, untracked files, the file system monitor, offsets.
const CACHES: [&[u8; 4]; 5] = [b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT"];

/// The bit that says that there are two more bytes of flags.
const EXTENDED: u16 = 0x4000;
/// The part of the flags that is the length of the name, or all ones where it is longer.
const NAME_LENGTH: u16 = 0x0fff;

impl<'a> Index<'a> {
    /// The length of the hashes is written nowhere; only one of the two makes sense of a whole file.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::parse_with_sizes(bytes).map(|(index, _)| index)
    }

    /// Parses the same with the size of each file, which is no more than stat data.
    fn parse_with_sizes(bytes: &'a [u8]) -> Option<(Self, Vec<u32>)> {
        Self::parse_with(bytes, 20).or_else(|| Self::parse_with(bytes, 32))
    }

    fn parse_with(bytes: &'a [u8], hash_length: usize) -> Option<(Self, Vec<u32>)> {
        // Behind everything stands a hash over it, which is zeros where `index.skipHash` is set. It is not looked at.
        let (body, _) = bytes.split_at_checked(bytes.len().checked_sub(hash_length)?)?;
        let mut rest = Bytes(body);
        if rest.take(4)? != b"DIRC" {
            return None;
        }
        let version = rest.number()?;
        let count = usize::try_from(rest.number()?).ok()?;
        // No entry is shorter than this, so a made-up count cannot take memory.
        if !(2..=4).contains(&version) || count > body.len() / 60 {
            return None;
        }
        let mut entries: Vec<IndexEntry<'a>> = Vec::with_capacity(count);
        let mut sizes = Vec::with_capacity(count);
        for _ in 0..count {
            let previous = entries.last().map_or(&[][..], |entry| &entry.name);
            let (entry, size) = rest.entry(version, hash_length, previous)?;
            entries.push(entry);
            sizes.push(size);
        }
        let mut extensions = Vec::new();
        while !rest.0.is_empty() {
            let signature: [u8; 4] = rest.take(4)?.try_into().ok()?;
            let length = usize::try_from(rest.number()?).ok()?;
            let content = rest.take(length)?;
            // One with a small first letter changes the meaning of all else (split and sparse indexes).
            if !signature[0].is_ascii_uppercase() {
                return None;
            }
            if !CACHES.contains(&&signature) {
                extensions.push((signature, content));
            }
        }
        Some((Self { version, entries, extensions }, sizes))
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// An entry, and the size of its file.
    fn entry(&mut self, version: u32, hash_length: usize, previous: &[u8]) -> Option<(IndexEntry<'a>, u32)> {
        let before = self.0.len();
        // Change time, modification time, device, inode.
        self.take(24)?;
        let mode = self.number()?;
        // Owner, group.
        self.take(8)?;
        let size = self.number()?;
        let hash = self.take(hash_length)?;
        let flags = self.half()?;
        let more = match flags & EXTENDED {
            0 => 0,
            _ if version == 2 => return None,
            _ => self.half()?,
        };
        let name = if version == 4 {
            let dropped = self.offset()?;
            let mut name = previous.get(..previous.len().checked_sub(dropped)?)?.to_vec();
            name.extend_from_slice(self.until_nul()?);
            name
        } else {
            let name = self.until_nul()?.to_vec();
            // Entries are filled up to a multiple of eight with one to eight NULs, the first of which is taken.
            let length = before - self.0.len();
            let fill = self.take(length.next_multiple_of(8) - length)?;
            if fill.iter().any(|byte| *byte != 0) {
                return None;
            }
            name
        };
        let told = usize::from(flags & NAME_LENGTH);
        if name.is_empty() || told != name.len().min(usize::from(NAME_LENGTH)) {
            return None;
        }
        let flags = u32::from(flags & !(NAME_LENGTH | EXTENDED)) << 16 | u32::from(more);
        Some((IndexEntry { mode, hash, flags, name }, size))
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let taken = self.take(end)?;
        self.take(1)?;
        Some(taken)
    }

    /// The variable-width number of version 4 (`varint.c` of git).
    fn offset(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        for position in 0..5 {
            let byte = *self.take(1)?.first()?;
            if position > 0 {
                value = value.checked_add(1)?;
            }
            value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
