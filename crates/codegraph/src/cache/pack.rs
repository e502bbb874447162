//! One file of facts: a header, a table of keys with the places of their facts, and the facts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{PARTIAL, WHOLE};
use crate::facts::EXTRACTOR_VERSION;
use crate::facts_key::FactsKey;

/// The first bytes of a pack, and the version of its layout.
const MAGIC: [u8; 8] = *b"facts\0\0\x01";
/// Size of the header: the magic, the version of the extraction, and the number of entries.
const HEADER: usize = 16;
/// Size of an entry of the table: key, offset, length and checksum.
const ENTRY: usize = 32 + 8 + 8 + 32;
/// Size of a checksum.
const CHECKSUM: usize = 32;

/// The place of facts in a pack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    offset: u64,
    /// Number of bytes.
    pub(super) length: u64,
    checksum: [u8; CHECKSUM],
}

/// An open pack.
#[derive(Debug)]
pub(super) struct Pack {
    /// Path.
    pub(super) path: PathBuf,
    /// Size, in bytes.
    pub(super) size: u64,
    file: File,
}

impl Pack {
    /// Opens a pack and reads its table. Returns `None` if it is not one of this version, or is damaged.
    pub(super) fn open(path: &Path) -> Option<(Self, Vec<(FactsKey, Place)>)> {
        if !fs::symlink_metadata(path).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        let mut header = [0; HEADER];
        file.read_exact(&mut header).ok()?;
        let (start, count) = header.split_at(HEADER - 4);
        if start != beginning().as_slice() {
            return None;
        }
        let count = u64::from(u32::from_le_bytes(count.try_into().ok()?));
        let length = count.checked_mul(u64::try_from(ENTRY).ok()?)?;
        if length > size {
            return None;
        }
        let mut table = vec![0; usize::try_from(length).ok()? + CHECKSUM];
        file.read_exact(&mut table).ok()?;
        let (entries, checksum) = table.split_at(table.len() - CHECKSUM);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header).update(entries);
        if hasher.finalize().as_bytes().as_slice() != checksum {
            return None;
        }
        let places = entries.chunks_exact(ENTRY).map(entry).collect::<Option<Vec<_>>>()?;
        Some((Self { path: path.to_owned(), size, file }, places))
    }

    /// Writes a pack, and opens it.
    pub(super) fn write(
        folder: &Path,
        facts: &BTreeMap<FactsKey, Vec<u8>>,
    ) -> io::Result<(Self, Vec<(FactsKey, Place)>)> {
        let count = u32::try_from(facts.len()).map_err(io::Error::other)?;
        let mut head = beginning().to_vec();
        head.extend(count.to_le_bytes());
        let mut offset = HEADER + facts.len() * ENTRY + CHECKSUM;
        for (key, bytes) in facts {
            head.extend(key.0);
            head.extend(u64::try_from(offset).map_err(io::Error::other)?.to_le_bytes());
            head.extend(u64::try_from(bytes.len()).map_err(io::Error::other)?.to_le_bytes());
            head.extend(checksum(key, bytes));
            offset += bytes.len();
        }
        let table = blake3::hash(&head);
        // Packs with equal tables are equal, whoever writes them.
        let path = folder.join(format!("{}{WHOLE}", table.to_hex()));
        let mut partial = tempfile::Builder::new().suffix(PARTIAL).tempfile_in(folder)?;
        // Held until the file has its name, so that another process does not take it for an abandoned one.
        partial.as_file().lock()?;
        partial.write_all(&head)?;
        partial.write_all(table.as_bytes())?;
        for bytes in facts.values() {
            partial.write_all(bytes)?;
        }
        let written = partial.persist(&path)?;
        written.unlock()?;
        drop(written);
        Self::open(&path).ok_or_else(|| io::Error::other("a pack that was written cannot be read"))
    }

    /// Returns the bytes of a key, or `None` if they are damaged.
    pub(super) fn read(&self, key: &FactsKey, place: &Place) -> Option<Vec<u8>> {
        if place.offset.checked_add(place.length)? > self.size {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(place.length).ok()?];
        self.file.read_exact_at(&mut bytes, place.offset).ok()?;
        (checksum(key, &bytes) == place.checksum).then_some(bytes)
    }
}

/// Removes a file that a process was writing when it was killed.
pub(super) fn remove_abandoned(path: &Path) {
    let is_abandoned = fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
        && File::open(path).is_ok_and(|file| file.try_lock().is_ok());
    if is_abandoned {
        drop(fs::remove_file(path));
    }
}

/// Returns the first bytes of a pack, without the number of its entries.
fn beginning() -> [u8; HEADER - 4] {
    let mut start = [0; HEADER - 4];
    let (magic, version) = start.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    version.copy_from_slice(&EXTRACTOR_VERSION.to_le_bytes());
    start
}

/// Returns the checksum of facts. It covers the key, so that nothing passes for the facts of another file.
fn checksum(key: &FactsKey, bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.0).update(bytes);
    *hasher.finalize().as_bytes()
}

fn entry(bytes: &[u8]) -> Option<(FactsKey, Place)> {
    let (key, rest) = bytes.split_first_chunk::<32>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let place = Place {
        offset: u64::from_le_bytes(*offset),
        length: u64::from_le_bytes(*length),
        checksum: rest.try_into().ok()?,
    };
    Some((FactsKey(*key), place))
}
