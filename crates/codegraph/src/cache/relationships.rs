//! The relationships of sets of files, each in a file of its own that its key names.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::PARTIAL;

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"links\0\0\x01";

/// The end of the names of these files.
const LINKS: &str = ".links";

/// Number of sets of files that are kept.
const KEPT: usize = 8;

/// Size of a checksum.
const CHECKSUM: usize = 32;

/// Reads the relationships of a key; `None` if they are not there, or damaged.
pub(super) fn load(folder: &Path, key: &[u8; 32], maximum: u64) -> Option<Vec<u8>> {
    let path = path_of(folder, key);
    if !fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let file = File::open(&path).ok()?;
    let mut bytes = Vec::new();
    (&file).take(maximum.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    let (head, content) = bytes.split_at_checked(MAGIC.len() + CHECKSUM)?;
    let (magic, known) = head.split_at(MAGIC.len());
    if magic != MAGIC || known != checksum(key, content) {
        return None;
    }
    Some(bytes.split_off(MAGIC.len() + CHECKSUM))
}

/// Writes the relationships of a key, and drops those that were written longest ago.
pub(super) fn save(folder: &Path, key: &[u8; 32], bytes: &[u8]) -> io::Result<()> {
    let mut partial = tempfile::Builder::new().suffix(PARTIAL).tempfile_in(folder)?;
    // Held until the file has its name, so that another process does not take it for an abandoned one.
    partial.as_file().lock()?;
    partial.write_all(&MAGIC)?;
    partial.write_all(&checksum(key, bytes))?;
    partial.write_all(bytes)?;
    let path = path_of(folder, key);
    partial.persist(&path)?.unlock()?;
    drop_old(folder, &path)
}

fn drop_old(folder: &Path, new: &Path) -> io::Result<()> {
    let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let is_one =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(LINKS));
        if is_one && path != new {
            kept.push((entry.metadata()?.modified()?, path));
        }
    }
    kept.sort();
    let many = kept.len().saturating_sub(KEPT - 1);
    for (_, path) in kept.into_iter().take(many) {
        // Another process may have removed it already.
        drop(fs::remove_file(path));
    }
    Ok(())
}

fn path_of(folder: &Path, key: &[u8; 32]) -> PathBuf {
    folder.join(format!("{}{LINKS}", blake3::Hash::from_bytes(*key).to_hex()))
}

/// Returns the checksum. It covers the key, so that nothing passes for the relationships of other files.
fn checksum(key: &[u8; 32], bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(bytes);
    *hasher.finalize().as_bytes()
}
