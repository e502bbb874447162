//! Bytes of files that were saved so that a change can be undone: compressed, and kept once.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FlockOperation;
use tempfile::NamedTempFile;
use zstd::bulk::Compressor;

use crate::blobs::{Blobs, COMPRESSED, INCOMING, create_folder, retry_with_folder, touch};
use crate::error::StoreError;
use crate::hash::Hash;

/// Up to which size a file is read and compressed in one piece.
const IN_ONE_PIECE: usize = 1024 * 1024;

/// The level of zstd that costs about as much as copying.
const LEVEL: i32 = 1;

/// Saves one file after the other. While it lives nothing is pruned.
pub struct Saver<'a> {
    blobs: &'a Blobs,
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
    _lock: File,
}

impl Blobs {
    /// Begins to save files.
    pub fn saver(&self) -> Result<Saver<'_>, StoreError> {
        create_folder(&self.folder)?;
        let compressor = Compressor::new(LEVEL).map_err(|error| self.failed(error))?;
        let lock = self.lock(FlockOperation::LockShared)?;
        Ok(Saver { blobs: self, compressor, buffer: Vec::new(), _lock: lock })
    }

    /// Opens what was saved, from its start.
    pub fn open_saved(&self, hash: &Hash) -> Result<Box<dyn Read>, StoreError> {
        let path = self.saved_path(hash);
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::BlobUnknown { hash: *hash },
            _ => StoreError::from_io(&path, error),
        })?;
        let content = zstd::Decoder::new(file).map_err(|error| StoreError::from_io(&path, error))?;
        Ok(Box::new(content))
    }

    fn saved_path(&self, hash: &Hash) -> PathBuf {
        self.path(hash).with_extension(&COMPRESSED[1..])
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::from_io(&self.folder, error)
    }
}

impl Saver<'_> {
    /// Saves everything that `content` gives, and gives its hash. The same content is saved once.
    ///
    /// From an hour later on, pruning may remove what no checkpoint names.
    pub fn save(&mut self, content: &mut dyn Read) -> Result<Hash, StoreError> {
        self.buffer.clear();
        let unread = |error| StoreError::Content { source: Arc::new(error) };
        content.take(IN_ONE_PIECE as u64).read_to_end(&mut self.buffer).map_err(unread)?;
        if self.buffer.len() < IN_ONE_PIECE {
            return self.save_in_one_piece();
        }
        let mut hasher = blake3::Hasher::new();
        let failed = |error| self.blobs.failed(error);
        let mut encoder = zstd::Encoder::new(self.incoming()?, LEVEL).map_err(failed)?;
        while !self.buffer.is_empty() {
            hasher.update(&self.buffer);
            encoder.write_all(&self.buffer).map_err(failed)?;
            self.buffer.clear();
            content.take(IN_ONE_PIECE as u64).read_to_end(&mut self.buffer).map_err(unread)?;
        }
        let incoming = encoder.finish().map_err(failed)?;
        let hash = hasher.finalize().into();
        self.persist(incoming, &hash)?;
        Ok(hash)
    }

    fn save_in_one_piece(&mut self) -> Result<Hash, StoreError> {
        let hash = Hash::of(&self.buffer);
        if self.is_saved(&hash)? {
            return Ok(hash);
        }
        let failed = |error| self.blobs.failed(error);
        let compressed = self.compressor.compress(&self.buffer).map_err(failed)?;
        let mut incoming = self.incoming()?;
        incoming.write_all(&compressed).map_err(failed)?;
        self.persist(incoming, &hash)?;
        Ok(hash)
    }

    fn incoming(&self) -> Result<NamedTempFile, StoreError> {
        let folder = self.blobs.folder.join(INCOMING);
        retry_with_folder(&folder, || NamedTempFile::new_in(&folder))
    }

    /// A file appears under its name only when it is whole, so one that is there and is no link is what it should be.
    fn is_saved(&self, hash: &Hash) -> Result<bool, StoreError> {
        let path = self.blobs.saved_path(hash);
        // A power loss may have left an empty one.
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() > 0) {
            return Ok(false);
        }
        touch(&path)?;
        Ok(true)
    }

    fn persist(&self, incoming: NamedTempFile, hash: &Hash) -> Result<(), StoreError> {
        if self.is_saved(hash)? {
            return Ok(());
        }
        let path = self.blobs.saved_path(hash);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        incoming.persist(&path).map_err(|error| StoreError::from_io(&path, error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn what_was_saved_comes_back_and_takes_little_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for length in [0, 1, 1000, IN_ONE_PIECE - 1, IN_ONE_PIECE, IN_ONE_PIECE + 1, 3 * IN_ONE_PIECE + 7] {
            let content: Vec<u8> = b"some words ".iter().copied().cycle().take(length).collect();
            let hash = store.blobs().saver().unwrap().save(&mut content.as_slice()).unwrap();
            assert_eq!(hash, Hash::of(&content));
            let mut read = Vec::new();
            store.blobs().open_saved(&hash).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == content, "{length} bytes");
            let room = fs::metadata(store.blobs().saved_path(&hash)).unwrap().len();
            assert!(room < 100 + length as u64 / 100, "{length} bytes take {room}");
        }
        let incoming = fs::read_dir(folder.path().join("blobs").join(INCOMING)).unwrap().count();
        assert_eq!(incoming, 0);
    }

    #[test]
    fn a_file_that_a_power_loss_cut_to_nothing_is_saved_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let hash = store.blobs().saver().unwrap().save(&mut &b"content"[..]).unwrap();
        fs::write(store.blobs().saved_path(&hash), b"").unwrap();
        store.blobs().saver().unwrap().save(&mut &b"content"[..]).unwrap();
        let mut read = Vec::new();
        store.blobs().open_saved(&hash).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, b"content");
    }
}
