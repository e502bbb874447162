//! The files of a model: what they are called, whether they are the pinned ones, and their hashes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::OpenError;

/// The weights.
pub const MODEL: &str = "model.safetensors";
/// The vocabulary, and how a text is taken apart.
pub const TOKENIZER: &str = "tokenizer.json";
/// The measures of the network.
pub const CONFIG: &str = "config.json";
/// How the vectors of tokens become one; where it is not there, it is their mean.
pub const POOLING: &str = "1_Pooling/config.json";

/// A file as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Its name in the folder.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// Whether the files of a folder are the pinned ones.
///
/// # Errors
/// [`OpenError`], with the first that is not.
pub fn check(folder: &Path, files: &[Pinned]) -> Result<(), OpenError> {
    check_sizes(folder, files)?;
    for file in files {
        let found = hash_of(&folder.join(file.name))?;
        check_hash(folder, file, found)?;
    }
    Ok(())
}

pub(crate) fn check_sizes(folder: &Path, files: &[Pinned]) -> Result<(), OpenError> {
    for file in files {
        let path = folder.join(file.name);
        let found = std::fs::metadata(&path).map_err(OpenError::unreadable(&path))?.len();
        if found != file.bytes {
            return Err(OpenError::Size { path, found, wanted: file.bytes });
        }
    }
    Ok(())
}

pub(crate) fn check_hash(folder: &Path, file: &Pinned, found: [u8; 32]) -> Result<(), OpenError> {
    let found = hexadecimal(&found);
    if found == file.sha256 {
        return Ok(());
    }
    Err(OpenError::Hash { path: folder.join(file.name), found, wanted: file.sha256.to_owned() })
}

/// The SHA-256 of a file.
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

/// What a file looks like from outside: as long as that is the same, it is not hashed again.
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
