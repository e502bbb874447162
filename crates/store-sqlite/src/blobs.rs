//! Content stored by its BLAKE3 hash, one file each: `blobs/ab/ab12...`.
//!
//! A file appears under its name only when it is complete, by a rename. Processes therefore share
//! the folder without locks, and a killed process leaves only a temporary file, which pruning
//! removes. Files are not flushed to disk: a blob survives the end of the process, but after a power
//! loss it may be missing or truncated, which [`Blobs::open`] reports.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use locks::{FileLock, Kind};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use store_api::{BlobReader, BlobRef, BlobWriter, Blobs, CheckResult, Hash, StoreError};
use tempfile::NamedTempFile;

use crate::database::Database;
use crate::hash_prefixes::{Key, key};

/// Size in bytes of the buffer of one `put`, its only memory use.
const BUFFER: usize = 64 * 1024;

/// Folder of files that are not complete yet.
pub(crate) const INCOMING: &str = "incoming";

/// Suffix of a compressed blob's name, after the hash of the uncompressed content.
pub(crate) const COMPRESSED: &str = ".zst";

/// Suffix of a pack's name, after the hash of the pack.
pub(crate) const PACK: &str = ".pack";

/// Contents that must not be removed.
pub(crate) struct ReferencedContents {
    /// Hashes of the outputs, sorted.
    pub(crate) outputs: Vec<Hash>,
    /// Keys of the contents that checkpoints need, sorted. A content with the same key as a needed
    /// one stays too.
    pub(crate) saved: Vec<Key>,
}

impl ReferencedContents {
    fn knows(&self, hash: &Hash) -> bool {
        self.outputs.binary_search(hash).is_ok() || self.saved.binary_search(&key(hash)).is_ok()
    }
}

/// The folder with the blobs of one store.
pub(crate) struct BlobFolder {
    pub(crate) folder: PathBuf,
    /// Database with the positions of contents in packs.
    pub(crate) database: Arc<Database>,
}

impl Blobs for BlobFolder {
    fn put(&self, content: &mut dyn Read) -> Result<BlobRef, StoreError> {
        let incoming = self.folder.join(INCOMING);
        let (temporary, blob) = retry_with_folder(&incoming, || NamedTempFile::new_in(&incoming))
            .and_then(|file| copy(content, file))?;
        let path = self.path(&blob.hash);
        let _lock = self.lock(Kind::Shared)?;
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == blob.size) {
            touch(&path)?;
            return Ok(blob);
        }
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        temporary.persist(&path).map_err(|error| StoreError::from_io(&path, error.error))?;
        Ok(blob)
    }

    fn open(&self, blob: &BlobRef) -> Result<File, StoreError> {
        let path = self.path(&blob.hash);
        let at = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::BlobUnknown { hash: blob.hash },
            _ => StoreError::from_io(&path, error),
        };
        let file = File::open(&path).map_err(at)?;
        let found = file.metadata().map_err(at)?.len();
        if found != blob.size {
            return Err(StoreError::BlobDamaged { path, expected: blob.size, found });
        }
        Ok(file)
    }

    fn saver(&self) -> Result<Box<dyn BlobWriter + '_>, StoreError> {
        Ok(Box::new(self.begin_saving()?))
    }

    fn reader(&self) -> Result<Box<dyn BlobReader + '_>, StoreError> {
        Ok(Box::new(self.begin_reading()))
    }

    fn check(&self, goes_on: &dyn Fn(u64) -> bool) -> Result<Option<CheckResult>, StoreError> {
        self.check_saved(goes_on)
    }
}

impl BlobFolder {
    pub(crate) fn new(folder: PathBuf, database: Arc<Database>) -> Self {
        Self { folder, database }
    }

    /// Removes every file that was last put or begun before `before` and that is absent from
    /// `referred`. `referred` must have been read after the time `before`. Returns the numbers of
    /// removed blobs and bytes.
    ///
    /// The sweep begins with the folder number `first`, and stops when `goes_on` returns false. With
    /// varying values of `first`, repeated sweeps reach all folders.
    pub(crate) fn sweep(
        &self,
        before: Timestamp,
        (first, goes_on): (usize, &dyn Fn() -> bool),
        referred: &ReferencedContents,
    ) -> Result<(u64, u64), StoreError> {
        let (mut count, mut bytes) = (0, 0);
        let mut folders: Vec<PathBuf> = entries(&self.folder)?.collect();
        folders.sort_unstable();
        let first = first % folders.len().max(1);
        folders.rotate_left(first);
        for folder in folders {
            let incoming = folder.ends_with(INCOMING);
            for path in entries(&folder)? {
                if !goes_on() {
                    return Ok((count, bytes));
                }
                let name = path.file_name().and_then(|name| name.to_str());
                let pack: Option<Hash> = name.and_then(|name| name.strip_suffix(PACK)?.parse().ok());
                let hash = name.and_then(|name| name.strip_suffix(COMPRESSED).unwrap_or(name).parse().ok());
                let kept = match (&pack, &hash, incoming) {
                    (_, _, true) => false,
                    (Some(pack), _, false) => self.holds_any(pack, &referred.saved)?,
                    (_, Some(hash), false) => referred.knows(hash),
                    // A file that this program did not write.
                    (None, None, false) => true,
                };
                if kept {
                    continue;
                }
                // The lock is exclusive, so that no `put` finds and reuses the file while it is
                // being removed.
                let _lock = self.lock(Kind::Exclusive)?;
                if let Some(pack) = &pack
                    && is_older(&path, before)?.is_some()
                {
                    self.forget_pack(pack)?;
                }
                if let Some(size) = remove_if_older(&path, before)? {
                    count += u64::from(!incoming);
                    bytes += size;
                }
            }
        }
        Ok((count, bytes))
    }

    pub(crate) fn path(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        self.folder.join(&name[..2]).join(name)
    }

    /// Locks the folder until the lock is dropped.
    pub(crate) fn lock(&self, kind: Kind) -> Result<FileLock, StoreError> {
        let at = |error| StoreError::from_io(&self.folder, error);
        let folder = File::open(&self.folder).map_err(at)?;
        FileLock::wait(folder, kind, &self.folder.display()).map_err(|error| at(error.into()))
    }
}

fn copy(content: &mut dyn Read, mut file: NamedTempFile) -> Result<(NamedTempFile, BlobRef), StoreError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER];
    let mut size = 0;
    loop {
        let count = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(StoreError::Content { source: Arc::new(error) }),
        };
        hasher.update(&buffer[..count]);
        file.write_all(&buffer[..count]).map_err(|error| StoreError::from_io(file.path(), error))?;
        size += count as u64;
    }
    Ok((file, BlobRef { hash: hasher.finalize().into(), size }))
}

/// Runs `create`, and runs it again after creating `folder` if that was missing.
pub(crate) fn retry_with_folder<T>(
    folder: &Path,
    create: impl Fn() -> io::Result<T>,
) -> Result<T, StoreError> {
    let at = |error| StoreError::from_io(folder, error);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_folder(folder)?;
            create().map_err(at)
        }
        result => result.map_err(at),
    }
}

/// Creates a folder that only its owner can enter, and its missing parents.
pub(crate) fn create_folder(folder: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| StoreError::from_io(folder, error))
}

/// Marks a blob as put at this moment.
pub(crate) fn touch(path: &Path) -> Result<(), StoreError> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| StoreError::from_io(path, error.into()))
}

/// Lists the paths in a folder. A missing path, or one that is not a folder, yields an empty list.
pub(crate) fn entries(folder: &Path) -> Result<impl Iterator<Item = PathBuf> + use<>, StoreError> {
    let found = match fs::read_dir(folder) {
        Ok(found) => Some(found),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(error) => return Err(StoreError::from_io(folder, error)),
    };
    // An entry that cannot be read was removed meanwhile, so it need not be pruned.
    Ok(found.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()))
}

/// Removes a file and returns its size, unless it is gone or was modified since.
fn remove_if_older(path: &Path, before: Timestamp) -> Result<Option<u64>, StoreError> {
    let Some(size) = is_older(path, before)? else { return Ok(None) };
    match fs::remove_file(path) {
        Ok(()) => Ok(Some(size)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::from_io(path, error)),
    }
}

/// Returns the size of a file that was last modified before `before`, or `None` if it is newer or
/// gone.
fn is_older(path: &Path, before: Timestamp) -> Result<Option<u64>, StoreError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::from_io(path, error)),
    };
    let modified = metadata.modified().map_err(|error| StoreError::from_io(path, error))?;
    let is_newer = Timestamp::try_from(modified).is_ok_and(|modified| modified >= before);
    Ok((metadata.is_file() && !is_newer).then_some(metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn blobs() -> (tempfile::TempDir, BlobFolder) {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), crate::database::Access::Write, || Ok(())).unwrap();
        let blobs = BlobFolder::new(folder.path().join("blobs"), Arc::new(database));
        (folder, blobs)
    }

    fn files(blobs: &BlobFolder) -> usize {
        entries(&blobs.folder).unwrap().map(|folder| entries(&folder).unwrap().count()).sum()
    }

    fn content(blobs: &BlobFolder, blob: &BlobRef) -> Vec<u8> {
        let mut bytes = Vec::new();
        blobs.open(blob).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_put_can_be_opened_by_its_hash() {
        let (_folder, blobs) = blobs();
        let bytes = vec![7; 3 * BUFFER + 1];
        let blob = blobs.put(&mut bytes.as_slice()).unwrap();
        assert_eq!(blob, BlobRef { hash: Hash::of(&bytes), size: bytes.len() as u64 });
        assert_eq!(content(&blobs, &blob), bytes);
        let empty = blobs.put(&mut io::empty()).unwrap();
        assert_eq!(content(&blobs, &empty), b"");
    }

    #[test]
    fn the_same_content_is_kept_once_and_private() {
        let (_folder, blobs) = blobs();
        let first = blobs.put(&mut &b"same"[..]).unwrap();
        let second = blobs.put(&mut &b"same"[..]).unwrap();
        assert_eq!(first, second);
        assert_eq!(files(&blobs), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&blobs.path(&first.hash)), 0o600);
        assert_eq!(mode(&blobs.folder), 0o700);
    }

    #[test]
    fn a_whole_file_is_put_wherever_its_cursor_stands() {
        let (_folder, blobs) = blobs();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"output").unwrap();
        let blob = blobs.put_file(file).unwrap();
        assert_eq!(content(&blobs, &blob), b"output");
    }

    #[test]
    fn an_unknown_hash_is_named() {
        let (_folder, blobs) = blobs();
        let blob = BlobRef { hash: Hash::of(b"never"), size: 5 };
        let error = blobs.open(&blob).unwrap_err();
        assert!(matches!(error, StoreError::BlobUnknown { hash } if hash == blob.hash));
        assert!(error.to_string().contains(&blob.hash.to_string()));
    }

    #[test]
    fn a_truncated_blob_is_not_handed_out_and_putting_it_again_repairs_it() {
        let (_folder, blobs) = blobs();
        let blob = blobs.put(&mut &b"content"[..]).unwrap();
        fs::write(blobs.path(&blob.hash), b"con").unwrap();
        let error = blobs.open(&blob).unwrap_err();
        assert!(matches!(error, StoreError::BlobDamaged { expected: 7, found: 3, .. }));
        blobs.put(&mut &b"content"[..]).unwrap();
        assert_eq!(content(&blobs, &blob), b"content");
    }

    #[test]
    fn a_link_in_the_place_of_a_blob_is_replaced_and_its_target_left_alone() {
        let (folder, blobs) = blobs();
        let blob = blobs.put(&mut &b"content"[..]).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, b"victims").unwrap();
        fs::remove_file(blobs.path(&blob.hash)).unwrap();
        std::os::unix::fs::symlink(&victim, blobs.path(&blob.hash)).unwrap();
        // Positive control: the link is followed while it exists.
        assert_eq!(content(&blobs, &blob), b"victims");
        blobs.put(&mut &b"content"[..]).unwrap();
        assert_eq!(content(&blobs, &blob), b"content");
        assert_eq!(fs::read(&victim).unwrap(), b"victims");
    }

    #[test]
    fn a_reader_that_fails_leaves_no_blob_and_no_temporary_file() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the pipe broke"))
            }
        }
        let (_folder, blobs) = blobs();
        let error = blobs.put(&mut b"begin".chain(Failing)).unwrap_err();
        assert!(matches!(error, StoreError::Content { .. }));
        assert_eq!(files(&blobs), 0);
    }
}
