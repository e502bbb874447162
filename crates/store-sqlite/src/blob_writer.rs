//! Bytes of files that were saved for undo: compressed, and without duplicates.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use locks::{FileLock, Kind};
use parking_lot::{Mutex, MutexGuard};
use store_api::{BlobReader, BlobWriter, Hash, StoreError};
use tempfile::NamedTempFile;
use zstd::bulk::Compressor;

use crate::blobs::{BlobFolder, COMPRESSED, INCOMING, create_folder, retry_with_folder, touch};
use crate::pack_reader::PackReader;
use crate::packs::{FillingPack, LARGEST_PACKED};

/// Size in bytes below which a file is read and compressed in one piece.
const IN_ONE_PIECE: usize = 1024 * 1024;

/// zstd level whose cost is about that of copying.
pub(crate) const LEVEL: i32 = 1;

/// Writer of saved files. Its lock keeps pruning waiting.
pub(crate) struct SavedWriter<'a> {
    blobs: &'a BlobFolder,
    /// Working memory that a thread takes for one file, and puts back.
    idle: Mutex<Vec<Press>>,
    filling: Mutex<FillingPack>,
    _lock: FileLock,
}

/// Working memory to compress one file.
struct Press {
    compressor: Compressor<'static>,
    content: Vec<u8>,
    compressed: Vec<u8>,
}

/// Reader of saved content.
pub(crate) struct SavedReader<'a> {
    blobs: &'a BlobFolder,
    unpacking: PackReader,
}

impl BlobFolder {
    pub(crate) fn begin_saving(&self) -> Result<SavedWriter<'_>, StoreError> {
        create_folder(&self.folder)?;
        let lock = self.lock(Kind::Shared)?;
        Ok(SavedWriter { blobs: self, idle: Mutex::default(), filling: Mutex::default(), _lock: lock })
    }

    pub(crate) fn begin_reading(&self) -> SavedReader<'_> {
        SavedReader { blobs: self, unpacking: PackReader::default() }
    }

    pub(crate) fn incoming(&self) -> Result<NamedTempFile, StoreError> {
        let folder = self.folder.join(INCOMING);
        retry_with_folder(&folder, || NamedTempFile::new_in(&folder))
    }

    pub(crate) fn failed(&self, error: io::Error) -> StoreError {
        StoreError::from_io(&self.folder, error)
    }

    fn saved_path(&self, hash: &Hash) -> PathBuf {
        self.path(hash).with_extension(&COMPRESSED[1..])
    }
}

impl BlobReader for SavedReader<'_> {
    fn open(&self, hash: &Hash) -> Result<Box<dyn Read>, StoreError> {
        if let Some(content) = self.unpacking.read(self.blobs, hash)? {
            return Ok(Box::new(Cursor::new(content)));
        }
        let path = self.blobs.saved_path(hash);
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::BlobUnknown { hash: *hash },
            _ => StoreError::from_io(&path, error),
        })?;
        let content = zstd::Decoder::new(file).map_err(|error| StoreError::from_io(&path, error))?;
        Ok(Box::new(content))
    }
}

impl BlobWriter for SavedWriter<'_> {
    fn save(&self, content: &mut dyn Read) -> Result<Hash, StoreError> {
        let idle = lock(&self.idle).pop();
        let mut press = match idle {
            Some(press) => press,
            None => {
                let compressor = Compressor::new(LEVEL).map_err(|error| self.blobs.failed(error))?;
                Press { compressor, content: Vec::new(), compressed: Vec::new() }
            }
        };
        let saved = self.save_with(&mut press, content);
        lock(&self.idle).push(press);
        saved
    }

    fn finish(&self) -> Result<(), StoreError> {
        let filled = std::mem::take(&mut *lock(&self.filling));
        match filled.only() {
            Some((hash, content)) => {
                let compressed = zstd::bulk::compress(content, LEVEL);
                self.persist_compressed(&hash, &compressed.map_err(|error| self.blobs.failed(error))?)
            }
            None => self.blobs.put_pack(filled),
        }
    }
}

impl SavedWriter<'_> {
    fn save_with(&self, press: &mut Press, content: &mut dyn Read) -> Result<Hash, StoreError> {
        press.content.clear();
        let unread = |error| StoreError::Content { source: Arc::new(error) };
        content.take(IN_ONE_PIECE as u64).read_to_end(&mut press.content).map_err(unread)?;
        if press.content.len() < IN_ONE_PIECE {
            return self.save_in_one_piece(press);
        }
        let buffer = &mut press.content;
        let mut hasher = blake3::Hasher::new();
        let failed = |error| self.blobs.failed(error);
        let mut encoder = zstd::Encoder::new(self.blobs.incoming()?, LEVEL).map_err(failed)?;
        while !buffer.is_empty() {
            hasher.update(buffer);
            encoder.write_all(buffer).map_err(failed)?;
            buffer.clear();
            content.take(IN_ONE_PIECE as u64).read_to_end(buffer).map_err(unread)?;
        }
        let incoming = encoder.finish().map_err(failed)?;
        let hash = hasher.finalize().into();
        self.persist(incoming, &hash)?;
        Ok(hash)
    }

    fn save_in_one_piece(&self, press: &mut Press) -> Result<Hash, StoreError> {
        let Press { compressor, content, compressed } = press;
        let hash = Hash::of(content);
        let is_large = content.len() > LARGEST_PACKED;
        if lock(&self.filling).holds(&hash) || is_large && self.is_saved(&hash)? {
            return Ok(hash);
        }
        if is_large {
            compressed.clear();
            compressed.reserve(zstd::zstd_safe::compress_bound(content.len()));
            compressor.compress_to_buffer(content, compressed).map_err(|error| self.blobs.failed(error))?;
            self.persist_compressed(&hash, compressed)?;
            return Ok(hash);
        }
        let mut filling = lock(&self.filling);
        filling.add(hash, content);
        if filling.is_full() {
            let full = std::mem::take(&mut *filling);
            drop(filling);
            self.blobs.put_pack(full)?;
        }
        Ok(hash)
    }

    fn persist_compressed(&self, hash: &Hash, compressed: &[u8]) -> Result<(), StoreError> {
        let mut incoming = self.blobs.incoming()?;
        incoming.write_all(compressed).map_err(|error| self.blobs.failed(error))?;
        self.persist(incoming, hash)
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

    /// Returns true if the content has a file. A file appears under its name only when it is
    /// complete, so an existing regular file is valid.
    fn is_saved(&self, hash: &Hash) -> Result<bool, StoreError> {
        let path = self.blobs.saved_path(hash);
        // A power loss may have left an empty file.
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() > 0) {
            return Ok(false);
        }
        touch(&path)?;
        Ok(true)
    }
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock()
}

#[cfg(test)]
mod tests {
    use store_api::Store as _;

    use super::*;
    use crate::SqliteStore;

    fn save(store: &SqliteStore, contents: &[&[u8]]) -> Vec<Hash> {
        let saver = store.blobs().saver().unwrap();
        let hashes = contents.iter().map(|content| saver.save(&mut &**content).unwrap()).collect();
        saver.finish().unwrap();
        hashes
    }

    fn content(store: &SqliteStore, hash: &Hash) -> Vec<u8> {
        let mut read = Vec::new();
        store.blobs().reader().unwrap().open(hash).unwrap().read_to_end(&mut read).unwrap();
        read
    }

    fn files(store: &SqliteStore) -> Vec<PathBuf> {
        let folders = fs::read_dir(&store.blobs.folder).unwrap().map(|folder| folder.unwrap().path());
        let mut files: Vec<_> = folders
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        files
    }

    #[test]
    fn what_was_saved_comes_back_and_takes_little_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        for length in [0, 1, 1000, IN_ONE_PIECE - 1, IN_ONE_PIECE, IN_ONE_PIECE + 1, 3 * IN_ONE_PIECE + 7] {
            let bytes: Vec<u8> = b"some words ".iter().copied().cycle().take(length).collect();
            let hash = save(&store, &[&bytes])[0];
            assert_eq!(hash, Hash::of(&bytes));
            assert!(content(&store, &hash) == bytes, "{length} bytes");
            let room = fs::metadata(store.blobs.saved_path(&hash)).unwrap().len();
            assert!(room < 100 + length as u64 / 100, "{length} bytes take {room}");
        }
        let incoming = fs::read_dir(folder.path().join("blobs").join(INCOMING)).unwrap().count();
        assert_eq!(incoming, 0);
    }

    #[test]
    fn many_small_files_are_one_file_and_each_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let own: Vec<Vec<u8>> = (0..100).map(|number| format!("file {number}").into_bytes()).collect();
        let large = vec![7; LARGEST_PACKED + 1];
        let mut contents: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
        contents.extend([&b""[..], &large, &own[3]]);
        let hashes = save(&store, &contents);
        assert_eq!(files(&store).len(), 2, "a pack, and the large one");
        for (hash, expected) in hashes.iter().zip(&contents) {
            assert_eq!(content(&store, hash), *expected);
        }
        // Equal content is saved once, even by another saver and together with new content.
        save(&store, &contents);
        assert_eq!(files(&store).len(), 2);
        save(&store, &[&own[0], b"another"]);
        assert_eq!(files(&store).len(), 3);
    }

    #[test]
    fn a_pack_that_a_power_loss_cut_is_saved_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let hashes = save(&store, &[b"one", b"two"]);
        let pack = files(&store).remove(0);
        for cut in [true, false] {
            if cut {
                fs::write(&pack, b"").unwrap();
            } else {
                fs::remove_file(&pack).unwrap();
            }
            // Control: the damaged content cannot be read.
            assert!(store.blobs().reader().unwrap().open(&hashes[0]).is_err());
            save(&store, &[b"one", b"two"]);
            assert_eq!(content(&store, &hashes[1]), b"two");
        }
    }

    #[test]
    fn a_file_that_a_power_loss_cut_to_nothing_is_saved_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let hash = save(&store, &[b"content"])[0];
        fs::write(store.blobs.saved_path(&hash), b"").unwrap();
        save(&store, &[b"content"]);
        assert_eq!(content(&store, &hash), b"content");
    }
}
