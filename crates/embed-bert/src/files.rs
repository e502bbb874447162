//! Files of a model: their names, the check against the pinned files, and their hashes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::OpenError;

/// Name of the file with the weights.
pub const MODEL: &str = "model.safetensors";
/// Name of the file with the vocabulary and the tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";
/// Name of the file with the dimensions of the network.
pub const CONFIG: &str = "config.json";
/// Name of the file with the pooling method. If it is missing, the vectors of the tokens are averaged.
pub const POOLING: &str = "1_Pooling/config.json";

/// A file with a fixed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinnedFile {
    /// Name of the file in the folder.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// Checks whether the files of a folder are the pinned ones.
///
/// # Errors
/// Returns [`OpenError`] for the first file that cannot be read or differs.
pub fn check(folder: &Path, files: &[PinnedFile]) -> Result<(), OpenError> {
    check_sizes(folder, files)?;
    for file in files {
        let found = hash_of(&folder.join(file.name))?;
        check_hash(folder, file, found)?;
    }
    Ok(())
}

pub(crate) fn check_sizes(folder: &Path, files: &[PinnedFile]) -> Result<(), OpenError> {
    for file in files {
        let path = folder.join(file.name);
        let found = std::fs::metadata(&path).map_err(OpenError::unreadable(&path))?.len();
        if found != file.bytes {
            return Err(OpenError::Size { path, found, wanted: file.bytes });
        }
    }
    Ok(())
}

pub(crate) fn check_hash(folder: &Path, file: &PinnedFile, found: [u8; 32]) -> Result<(), OpenError> {
    let found = hexadecimal(&found);
    if found == file.sha256 {
        return Ok(());
    }
    Err(OpenError::Hash { path: folder.join(file.name), found, wanted: file.sha256.to_owned() })
}

/// Returns the SHA-256 of a file.
pub(crate) fn hash_of(path: &Path) -> Result<[u8; 32], OpenError> {
    let mut file = File::open(path).map_err(OpenError::unreadable(path))?;
    let mut hasher = Sha256::new();
    let mut room = vec![0; 1 << 18];
    loop {
        match file.read(&mut room).map_err(OpenError::unreadable(path))? {
            0 => return Ok(hasher.finalize().into()),
            count => hasher.update(&room[..count]),
        }
    }
}

pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the size and the times of a file. The file is not hashed again until they change.
pub(crate) fn stamp(path: &Path) -> Result<[u8; 40], OpenError> {
    let metadata = std::fs::metadata(path).map_err(OpenError::unreadable(path))?;
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    let mut stamp = [0; 40];
    let parts = std::iter::once(metadata.len().to_le_bytes()).chain(times.map(i64::to_le_bytes));
    for (to, from) in stamp.as_chunks_mut::<8>().0.iter_mut().zip(parts) {
        *to = from;
    }
    Ok(stamp)
}
