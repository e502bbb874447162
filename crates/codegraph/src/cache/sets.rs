//! Relationships and graphs of whole sets of files, each in a file of its own that its key names.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::PARTIAL;

/// A kind of such files.
#[derive(Debug)]
pub(super) struct Kind {
    /// First bytes, with the version of what is around the content.
    magic: [u8; 8],
    /// End of the names.
    ending: &'static str,
    /// Number of files that are kept.
    kept: usize,
}

/// The relationships of a set of files.
pub(super) const RELATIONSHIPS: Kind = Kind { magic: *b"links\0\0\x01", ending: ".links", kept: 8 };

/// The graph of a set of files.
pub(super) const GRAPHS: Kind = Kind { magic: *b"graphs\0\x01", ending: ".graph", kept: 4 };

/// Size of a checksum.
const CHECKSUM: usize = 32;

/// Reads the content of a key; `None` if it is not there, or damaged.
pub(super) fn load(kind: &Kind, folder: &Path, key: &[u8; 32], maximum: u64) -> Option<Vec<u8>> {
    let path = path_of(kind, folder, key);
    if !fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let file = File::open(&path).ok()?;
    let size = file.metadata().ok()?.len().min(maximum);
    let mut bytes = Vec::with_capacity(usize::try_from(size).ok()?.saturating_add(1));
    (&file).take(maximum.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    let (head, content) = bytes.split_at_checked(kind.magic.len() + CHECKSUM)?;
    let (magic, known) = head.split_at(kind.magic.len());
    if magic != kind.magic || known != checksum(key, content) {
        return None;
    }
    bytes.drain(..kind.magic.len() + CHECKSUM);
    Some(bytes)
}

/// Writes the content of a key, and drops those that were written longest ago.
pub(super) fn save(kind: &Kind, folder: &Path, key: &[u8; 32], bytes: &[u8]) -> io::Result<()> {
    let mut partial = tempfile::Builder::new().suffix(PARTIAL).tempfile_in(folder)?;
    // Held until the file has its name, so that another process does not take it for an abandoned one.
    partial.as_file().lock()?;
    partial.write_all(&kind.magic)?;
    partial.write_all(&checksum(key, bytes))?;
    partial.write_all(bytes)?;
    let path = path_of(kind, folder, key);
    partial.persist(&path)?.unlock()?;
    drop_old(kind, folder, &path)
}

fn drop_old(kind: &Kind, folder: &Path, new: &Path) -> io::Result<()> {
    let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let is_one =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(kind.ending));
        if is_one && path != new {
            kept.push((entry.metadata()?.modified()?, path));
        }
    }
    kept.sort();
    let many = kept.len().saturating_sub(kind.kept - 1);
    for (_, path) in kept.into_iter().take(many) {
        // Another process may have removed it already.
        drop(fs::remove_file(path));
    }
    Ok(())
}

fn path_of(kind: &Kind, folder: &Path, key: &[u8; 32]) -> PathBuf {
    folder.join(format!("{}{}", blake3::Hash::from_bytes(*key).to_hex(), kind.ending))
}

/// Returns the checksum. It covers the key, so that nothing passes for that of other files.
fn checksum(key: &[u8; 32], bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(bytes);
    *hasher.finalize().as_bytes()
}
