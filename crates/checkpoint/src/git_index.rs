//! Comparison of git indexes without stat data.
//!
//! `git status` and most other git commands refresh the index: they update the times and inode
//! numbers of files, and nothing else. Two refreshes are no conflict, and neither is a refresh next
//! to a real change.
//!
//! The parser reads versions 2, 3 and 4, with hashes of 20 and of 32 bytes. The parser is strict,
//! and any doubt is a conflict. The format is that of `gitformat-index(5)`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use crate::{ContentHash, Contents};

/// Size in bytes of the largest index that is read: about two million files.
pub(crate) const LARGEST: u64 = 256 << 20;

/// Side whose index stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Winner {
    /// Others only refreshed the index, so the command's version stays.
    Command,
    /// The command only refreshed the index, so the version of others stays.
    Others,
}

/// Decides whose index stays after both the command and others wrote it. `None` is a conflict.
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

/// Returns true if a file with this name may be an index: of a repository, a worktree or a
/// submodule.
pub(crate) fn may_be(name: &OsStr) -> bool {
    name == "index"
}

/// Returns true if both files are indexes that differ at most in stat data and caches.
pub(crate) fn is_refreshed(one: &File, other: &File) -> bool {
    read(one).zip(read(other)).is_some_and(|(one, other)| have_same_entries(&one, &other))
}

/// Returns true if both contents are indexes that differ at most in stat data and caches. A missing
/// content counts as different.
pub(crate) fn are_alike(contents: &dyn Contents, one: &ContentHash, other: &ContentHash) -> bool {
    let kept = |hash| read_all(&mut *contents.open(hash).ok()?);
    kept(one).zip(kept(other)).is_some_and(|(one, other)| have_same_entries(&one, &other))
}

/// Returns true if the file is an index that matches a stored content.
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

/// Lists the names of an index, sorted. Returns `None` if the index cannot be parsed.
pub(crate) fn names(index: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut names: Vec<Vec<u8>> = Index::parse(index)?.entries.into_iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    Some(names)
}

/// Calls `call` for each regular file that git compares with the working tree, with its name, size
/// and executable bit. Returns `None` if the index cannot be parsed.
pub(crate) fn each_file(index: &[u8], mut call: impl FnMut(&[u8], u64, bool)) -> Option<()> {
    let (index, sizes) = Index::parse_with_sizes(index)?;
    for (entry, size) in index.entries.iter().zip(sizes) {
        // Without flags the entry is no side of a conflict, is not assumed unchanged, and belongs to
        // the working tree.
        if matches!(entry.mode, 0o100_644 | 0o100_755) && entry.flags == 0 {
            call(&entry.name, size.into(), entry.mode == 0o100_755);
        }
    }
    Some(())
}

/// Returns true if an index contains one of these objects. An index that cannot be parsed contains
/// none.
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

/// The part of an index that is compared.
#[derive(Debug, PartialEq, Eq)]
struct Index<'a> {
    version: u32,
    entries: Vec<IndexEntry<'a>>,
    /// Extensions that are more than a cache, for example resolved conflicts.
    extensions: Vec<([u8; 4], &'a [u8])>,
}

#[derive(Debug, PartialEq, Eq)]
struct IndexEntry<'a> {
    mode: u32,
    hash: &'a [u8],
    /// Stage, assume-valid, skip-worktree, intent-to-add; without the name length and the bit for
    /// extended flags.
    flags: u32,
    name: Vec<u8>,
}

/// Extensions that git rebuilds from the rest: cached trees, untracked files, the file system
/// monitor, offsets.
const CACHES: [&[u8; 4]; 5] = [b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT"];

/// Flag for two more bytes of flags.
const EXTENDED: u16 = 0x4000;
/// Mask for the name length, which is all ones for longer names.
const NAME_LENGTH: u16 = 0x0fff;

impl<'a> Index<'a> {
    /// Parses an index. The format does not contain the hash length; only one of the two fits a
    /// whole file.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::parse_with_sizes(bytes).map(|(index, _)| index)
    }

    /// Parses an index, together with the size of each file, which is only stat data.
    fn parse_with_sizes(bytes: &'a [u8]) -> Option<(Self, Vec<u32>)> {
        Self::parse_with(bytes, 20).or_else(|| Self::parse_with(bytes, 32))
    }

    fn parse_with(bytes: &'a [u8], hash_length: usize) -> Option<(Self, Vec<u32>)> {
        // The file ends with a hash of its content, which is zero with `index.skipHash`. The parser
        // ignores it.
        let (body, _) = bytes.split_at_checked(bytes.len().checked_sub(hash_length)?)?;
        let mut rest = Bytes(body);
        if rest.take(4)? != b"DIRC" {
            return None;
        }
        let version = rest.number()?;
        let count = usize::try_from(rest.number()?).ok()?;
        // No entry is shorter than this, so a forged count cannot allocate much memory.
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
            // A lower-case first letter marks an extension that changes the meaning of the rest
            // (split and sparse indexes).
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

    /// Parses an entry, and the size of its file.
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
            // Entries are padded to a multiple of eight with one to eight NULs; the first one is
            // already consumed.
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

    /// Parses the variable-width number of version 4 (`varint.c` of git).
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
