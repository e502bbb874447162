//! One pack: an index of ids, and the objects, some as differences against others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt;

use flate2::bufread::ZlibDecoder;

use super::error::{GitError, Result};
use super::id::{ObjectId, ObjectKind};
use crate::listing::LARGEST_FILE;

/// Magic bytes and version of an index.
const HEAD: [u8; 8] = [0xff, 0x74, 0x4f, 0x63, 0, 0, 0, 2];

/// Size of the head with the fan-out table, in bytes.
const TABLE: u64 = 8 + 256 * 4;

/// Differences of one object that are followed at most. Git itself makes no longer chains than 4,095.
const MOST_DELTAS: usize = 4_096;

/// Size of all differences of one object, in bytes.
const DELTA_BYTES: usize = 256 << 20;

/// Size of the ids that are kept in memory, in bytes.
const KEPT: usize = 64 << 20;

/// A pack.
#[derive(Debug)]
pub(super) struct Pack {
    index: File,
    data: File,
    /// Number of ids whose first byte is at most the position.
    fan_out: Vec<u32>,
    /// Ids by their first byte, as far as they were needed.
    ids: BTreeMap<u8, Vec<u8>>,
    kept: usize,
}

/// An object as a pack has it.
pub(super) enum StoredObject {
    /// The base of the differences that were read before.
    Whole(ObjectKind, Vec<u8>),
    /// The id of the object that the last difference is against.
    Against(ObjectId),
}

impl Pack {
    /// Opens a pack.
    pub(super) fn open(index: File, data: File) -> Result<Self> {
        let mut head = [0; 8];
        index.read_exact_at(&mut head, 0)?;
        if head != HEAD {
            return Err(GitError::Unsupported("an index of packs of another version"));
        }
        let mut table = vec![0; 256 * 4];
        index.read_exact_at(&mut table, 8)?;
        let fan_out: Vec<u32> = table.chunks(4).map(number).collect();
        if !fan_out.is_sorted() {
            return Err(GitError::Damaged("the index of a pack"));
        }
        Ok(Self { index, data, fan_out, ids: BTreeMap::new(), kept: 0 })
    }

    fn count(&self) -> u32 {
        self.fan_out.last().copied().unwrap_or_default()
    }

    /// Returns the number of the first id with a first byte, and the ids.
    fn bucket(&mut self, first: u8) -> Result<(u32, &[u8])> {
        let end = self.fan_out.get(usize::from(first)).copied().unwrap_or_default();
        let start = match usize::from(first).checked_sub(1) {
            Some(before) => self.fan_out.get(before).copied().unwrap_or_default(),
            None => 0,
        };
        if !self.ids.contains_key(&first) {
            let size = (end - start) as usize * 20;
            if self.kept + size > KEPT {
                self.ids.clear();
                self.kept = 0;
            }
            if size > KEPT {
                return Err(GitError::Unsupported("a pack of so many objects"));
            }
            let mut ids = vec![0; size];
            self.index.read_exact_at(&mut ids, TABLE + u64::from(start) * 20)?;
            self.ids.insert(first, ids);
            self.kept += size;
        }
        Ok((start, self.ids.get(&first).map(Vec::as_slice).unwrap_or_default()))
    }

    /// Returns the place of an object in the pack.
    pub(super) fn find(&mut self, id: &ObjectId) -> Result<Option<u64>> {
        let (start, ids) = self.bucket(id.0[0])?;
        let (mut low, mut high) = (0, ids.len() / 20);
        while low < high {
            let middle = usize::midpoint(low, high);
            match ids.get(middle * 20..middle * 20 + 20).unwrap_or_default().cmp(&id.0) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let at = u64::from(start) + middle as u64;
                    return self.offset(at).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Returns the place of the object with a number.
    fn offset(&self, at: u64) -> Result<u64> {
        let count = u64::from(self.count());
        // After the ids and their checksums.
        let table = TABLE + count * 24;
        let mut bytes = [0; 4];
        self.index.read_exact_at(&mut bytes, table + at * 4)?;
        let place = u32::from_be_bytes(bytes);
        if place < 1 << 31 {
            return Ok(u64::from(place));
        }
        let mut bytes = [0; 8];
        self.index.read_exact_at(&mut bytes, table + count * 4 + u64::from(place & !(1 << 31)) * 8)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Returns the ids that begin with these digits, at most two.
    pub(super) fn with_prefix(&mut self, digits: &str) -> Result<Vec<ObjectId>> {
        let Some(first) = digits.get(..2).and_then(|first| u8::from_str_radix(first, 16).ok()) else {
            return Ok(Vec::new());
        };
        let (_, ids) = self.bucket(first)?;
        let ids = ids.chunks_exact(20).filter_map(|id| id.try_into().ok().map(ObjectId));
        Ok(ids.filter(|id| id.to_string().starts_with(digits)).take(2).collect())
    }

    /// Reads an object at a place. Differences on the way are added to `deltas`, the last one first to be applied
    /// last.
    pub(super) fn read(&self, mut offset: u64, deltas: &mut Vec<Vec<u8>>) -> Result<StoredObject> {
        loop {
            let held: usize = deltas.iter().map(Vec::len).sum();
            if deltas.len() > MOST_DELTAS || held > DELTA_BYTES {
                return Err(GitError::Damaged("a chain of differences without end"));
            }
            let mut head = [0; 64];
            let length = read_some(&self.data, &mut head, offset)?;
            let mut head = head.get(..length).unwrap_or_default().iter().copied();
            let mut used = 0;
            let mut next = || {
                used += 1;
                head.next().ok_or(GitError::Damaged("the head of an object in a pack"))
            };
            let byte = next()?;
            let kind = (byte >> 4) & 7;
            let (mut size, mut shift, mut more) = (u64::from(byte & 15), 4_u32, byte & 128 != 0);
            while more {
                let byte = next()?;
                if shift > 57 {
                    return Err(GitError::Damaged("the size of an object in a pack"));
                }
                size |= u64::from(byte & 127) << shift;
                shift += 7;
                more = byte & 128 != 0;
            }
            if size > LARGEST_FILE {
                return Err(GitError::TooLarge);
            }
            let base = match kind {
                6 => {
                    let mut byte = next()?;
                    let mut back = u64::from(byte & 127);
                    while byte & 128 != 0 {
                        byte = next()?;
                        let more = back.checked_add(1).and_then(|back| back.checked_mul(128));
                        back = more.ok_or(GitError::Damaged("the base of a difference"))?
                            | u64::from(byte & 127);
                    }
                    let place = offset.checked_sub(back).filter(|_| back > 0);
                    Some(Base::Place(place.ok_or(GitError::Damaged("the base of a difference"))?))
                }
                7 => {
                    let mut id = [0; 20];
                    for byte in &mut id {
                        *byte = next()?;
                    }
                    Some(Base::Id(ObjectId(id)))
                }
                _ => None,
            };
            let content = self.inflate(offset + used, size)?;
            match base {
                Some(Base::Place(place)) => {
                    deltas.push(content);
                    offset = place;
                }
                Some(Base::Id(id)) => {
                    deltas.push(content);
                    return Ok(StoredObject::Against(id));
                }
                None => {
                    let kind = match kind {
                        1 => ObjectKind::Commit,
                        2 => ObjectKind::Tree,
                        3 => ObjectKind::Blob,
                        4 => ObjectKind::Tag,
                        _ => return Err(GitError::Damaged("the type of an object in a pack")),
                    };
                    return Ok(StoredObject::Whole(kind, content));
                }
            }
        }
    }

    fn inflate(&self, offset: u64, size: u64) -> Result<Vec<u8>> {
        let from = BufReader::new(At { file: &self.data, offset });
        let mut content = Vec::new();
        ZlibDecoder::new(from)
            .take(size + 1)
            .read_to_end(&mut content)
            .map_err(|_| GitError::Damaged("an object in a pack"))?;
        if content.len() as u64 == size {
            Ok(content)
        } else {
            Err(GitError::Damaged("an object of another size in a pack"))
        }
    }
}

/// The base of a difference.
enum Base {
    Place(u64),
    Id(ObjectId),
}

/// A file, read from a place on.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl io::Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Reads up to the size of a buffer.
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_be_bytes)
}

/// Applies differences to a base, the last one first.
pub(super) fn patched(mut base: Vec<u8>, deltas: &[Vec<u8>]) -> Result<Vec<u8>> {
    for delta in deltas.iter().rev() {
        base = apply(&base, delta)?;
    }
    Ok(base)
}

/// Applies one difference: a list of copies from the base and of new bytes.
fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>> {
    const WRONG: GitError = GitError::Damaged("a difference in a pack");
    let mut bytes = delta.iter().copied();
    let from = size(&mut bytes)?;
    let to = size(&mut bytes)?;
    if from != base.len() as u64 || to > LARGEST_FILE {
        return Err(WRONG);
    }
    let to = usize::try_from(to).map_err(|_| WRONG)?;
    let mut made = Vec::with_capacity(to.min(1 << 20));
    while let Some(code) = bytes.next() {
        if code & 128 != 0 {
            let (mut start, mut length) = (0_usize, 0_usize);
            for bit in 0..4 {
                if code & (1 << bit) != 0 {
                    start |= usize::from(bytes.next().ok_or(WRONG)?) << (8 * bit);
                }
            }
            for bit in 0..3 {
                if code & (16 << bit) != 0 {
                    length |= usize::from(bytes.next().ok_or(WRONG)?) << (8 * bit);
                }
            }
            if length == 0 {
                length = 0x10000;
            }
            let end = start.checked_add(length).ok_or(WRONG)?;
            made.extend_from_slice(base.get(start..end).ok_or(WRONG)?);
        } else if code > 0 {
            for _ in 0..code {
                made.push(bytes.next().ok_or(WRONG)?);
            }
        } else {
            return Err(WRONG);
        }
        if made.len() > to {
            return Err(WRONG);
        }
    }
    if made.len() == to { Ok(made) } else { Err(WRONG) }
}

/// Reads a size of the head of a difference.
fn size(bytes: &mut impl Iterator<Item = u8>) -> Result<u64> {
    let (mut size, mut shift) = (0_u64, 0_u32);
    loop {
        let byte = bytes.next().filter(|_| shift <= 56).ok_or(GitError::Damaged("a difference in a pack"))?;
        size |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            return Ok(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_copies_and_adds() {
        // Sizes 5 and 7; copy 3 bytes from 1, add "xy", copy 2 bytes from 0.
        let delta = [5, 7, 0x91, 1, 3, 2, b'x', b'y', 0x91, 0, 2];
        assert_eq!(apply(b"abcde", &delta).unwrap(), b"bcdxyab");
    }

    #[test]
    fn refuses_differences_that_reach_outside_or_never_end() {
        for delta in [
            &[5, 7, 0x91, 4, 3][..],
            &[4, 1, 1, b'x'],
            &[5, 1, 2, b'x', b'y'],
            &[5, 2, 1, b'x'],
            &[5, 1, 0],
            &[5, 1, 1],
            &[255; 12],
            &[],
        ] {
            assert!(matches!(apply(b"abcde", delta), Err(GitError::Damaged(_))), "{delta:?}");
        }
    }
}
