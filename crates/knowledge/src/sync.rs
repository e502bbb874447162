//! Synchronization of the index with the files.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::chunk::{Chunk, chunks};
use crate::decoding::{AsUtf8, FirstPass, look};
use crate::error::IndexError;
use crate::file::{self, Change, KnownFile};
use crate::{Hash, Index, ListedKind, Shelf, ShelfError, Stamp};

/// Maximum size of a file that is indexed, in bytes.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;

/// Maximum number of files in one base.
const MAX_FILES: usize = 200_000;

/// Maximum size of a file whose chunks are buffered in memory, and limits of one write: bytes and
/// number of buffered files.
const SMALL_FILE: u64 = 1024 * 1024;
const AT_ONCE: u64 = 4 * 1024 * 1024;
const FILES_AT_ONCE: usize = 256;

/// Maximum number of omitted files that are listed by name.
const MAX_LEFT: usize = 50;

/// Age in seconds below which a file may change again without a new stamp.
const FRESH: i64 = 2;

/// Parameters of a synchronization.
pub struct SyncRequest<'a> {
    /// True to read every file again, even with an unchanged stamp.
    pub all: bool,
    /// Restriction to this file, or to the files below this folder.
    pub under: Option<&'a Path>,
    /// Current time: seconds since the Unix epoch.
    pub now_seconds: i64,
    /// Function that returns true to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Callback for progress: the number of finished files, and of all files to read.
    pub progress: &'a dyn Fn(u64, u64),
}

/// Result of a synchronization.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SyncResult {
    /// Number of files in the base.
    pub files: u64,
    /// Number of files whose chunks were renewed.
    pub files_indexed: u64,
    /// Number of new chunks.
    pub chunks_created: u64,
    /// Number of deleted files that were removed from the index.
    pub files_removed: u64,
    /// First omitted files, and files not in UTF-8, each with the reason.
    pub left: Vec<SkippedFile>,
    /// Total number of files in the list, including those beyond its limit.
    pub left_in_all: u64,
}

/// A file that is omitted, or is not in UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path relative to the base.
    pub path: PathBuf,
    /// Reason, as a sentence for the user.
    pub why: String,
}

impl SyncResult {
    fn left(&mut self, path: &Path, why: &str) {
        self.left_in_all += 1;
        if self.left.len() < MAX_LEFT {
            self.left.push(SkippedFile { path: path.to_owned(), why: why.to_owned() });
        }
    }
}

/// A small file, read and split, before it is written to the index.
struct ReadFile {
    path: PathBuf,
    stamp: Stamp,
    hash: Hash,
    note: Option<String>,
    chunks: Vec<Chunk>,
}

impl Index {
    /// Updates the index to the current files. Only files with a changed size or time are read, and
    /// only those with changed content are split again.
    ///
    /// # Errors
    /// An error if the base cannot be listed, `under` matches no file, or the index cannot be
    /// written. Finished files stay in the index.
    pub fn sync(&self, shelf: &dyn Shelf, wanted: &SyncRequest<'_>) -> Result<SyncResult, IndexError> {
        let known = self.with(&mut |connection| Ok(file::known(connection, wanted.under)?))?;
        let mut synced = SyncResult::default();
        let (todo, seen) = look_around(shelf, wanted, &known, &mut synced)?;
        if synced.files == 0 && known.is_empty() && synced.left_in_all == 0 && wanted.under.is_some() {
            return Err(IndexError::shelf(wanted.under.unwrap_or(Path::new("")), ShelfError::Gone));
        }
        let gone: Vec<i64> = known
            .iter()
            .filter(|(path, _)| !seen.contains(*path))
            // A file that this caller may not see is not gone: other callers may see it.
            .filter(|(path, _)| matches!(shelf.stamp(path), Err(ShelfError::Gone)))
            .map(|(_, known)| known.id)
            .collect();
        for some in gone.chunks(FILES_AT_ONCE) {
            self.write(&mut |connection| {
                for id in some {
                    file::remove(connection, *id)?;
                }
                Ok(())
            })?;
            synced.files_removed += some.len() as u64;
        }
        let total = todo.len() as u64;
        let mut waiting: Vec<ReadFile> = Vec::new();
        let mut bytes = 0;
        for (done, path) in todo.iter().enumerate() {
            if (wanted.stop)() {
                self.put(&mut waiting, &mut synced)?;
                return Err(IndexError::Stopped);
            }
            let before = known.get(path);
            if let Some(read) = self.file(shelf, path, before, wanted, &mut synced)? {
                bytes += read.stamp.size;
                waiting.push(read);
            }
            if bytes >= AT_ONCE || waiting.len() >= FILES_AT_ONCE {
                self.put(&mut waiting, &mut synced)?;
                bytes = 0;
                (wanted.progress)(done as u64 + 1, total);
            }
        }
        self.put(&mut waiting, &mut synced)?;
        if total > 0 {
            (wanted.progress)(total, total);
        }
        synced.left.sort_by(|one, other| one.path.cmp(&other.path));
        if synced.files_indexed + synced.files_removed > 0 {
            self.forget_unused_vectors()?;
        }
        Ok(synced)
    }

    /// Reads one file. A small file is returned for a joint write; a large one is written at once,
    /// piece by piece.
    fn file(
        &self,
        shelf: &dyn Shelf,
        path: &Path,
        before: Option<&KnownFile>,
        wanted: &SyncRequest<'_>,
        synced: &mut SyncResult,
    ) -> Result<Option<ReadFile>, IndexError> {
        let FirstLook { stamp, looked, bytes } = match look_at(shelf, path) {
            Ok(found) => found,
            Err(ShelfError::Stopped) => return Err(IndexError::Stopped),
            // The file was deleted meanwhile; the next run removes it.
            Err(ShelfError::Gone) => return Ok(None),
            Err(error) => {
                synced.left(path, &error.to_string());
                return Ok(None);
            }
        };
        let stamp = Stamp {
            // An invalid stamp makes the next run look at the file again.
            modified_seconds: if stamp.modified_seconds > wanted.now_seconds - FRESH {
                -1
            } else {
                stamp.modified_seconds
            },
            ..stamp
        };
        let (hash, encoding, note) = match looked {
            Ok(looked) => {
                let note = match looked.encoding {
                    None => Some("skipped: it is binary".to_owned()),
                    Some(encoding) if encoding == encoding_rs::UTF_8 => None,
                    Some(encoding) => Some(format!("read as {}, because it is not UTF-8", encoding.name())),
                };
                (looked.hash, looked.encoding, note)
            }
            Err(too_large) => (Hash([0; 32]), None, Some(too_large)),
        };
        if let Some(note) = &note {
            synced.left(path, note);
        }
        if let Some(before) =
            before.filter(|before| before.hash == hash.0 && before.note == note && !wanted.all)
        {
            if before.stamp != stamp {
                self.write(&mut |connection| Ok(file::restamp(connection, before.id, &stamp)?))?;
            }
            return Ok(None);
        }
        let mut read = ReadFile { path: path.to_owned(), stamp, hash, note, chunks: Vec::new() };
        let Some(encoding) = encoding else { return Ok(Some(read)) };
        let opened = |error| IndexError::shelf(path, error);
        if stamp.size <= SMALL_FILE {
            let mut text = AsUtf8::new(bytes.as_slice(), encoding);
            chunks::<io::Error>(&mut text, &mut |chunk| {
                read.chunks.push(chunk);
                Ok(())
            })
            .map_err(|error| opened(error.into()))?;
            read.hash = text.hash();
            return Ok(Some(read));
        }
        let created = self.write(&mut |connection| {
            let mut text = AsUtf8::new(shelf.open(path).map_err(opened)?.1.take(LARGEST_FILE * 2), encoding);
            let mut change = Change::begin(connection, path)?;
            chunks::<IndexError>(&mut text, &mut |chunk| {
                if (wanted.stop)() { Err(IndexError::Stopped) } else { change.chunk(&chunk) }
            })?;
            Ok(change.end(&stamp, &text.hash(), read.note.as_deref())?)
        })?;
        synced.files_indexed += 1;
        synced.chunks_created += created;
        Ok(None)
    }

    /// Writes the buffered files in one transaction.
    fn put(&self, waiting: &mut Vec<ReadFile>, synced: &mut SyncResult) -> Result<(), IndexError> {
        if waiting.is_empty() {
            return Ok(());
        }
        let created = self.write(&mut |connection| {
            let mut created = 0;
            for read in waiting.iter() {
                let mut change = Change::begin(connection, &read.path)?;
                for chunk in &read.chunks {
                    change.chunk(chunk)?;
                }
                created += change.end(&read.stamp, &read.hash, read.note.as_deref())?;
            }
            Ok(created)
        })?;
        synced.files_indexed += waiting.len() as u64;
        synced.chunks_created += created;
        waiting.clear();
        Ok(())
    }

    /// Deletes vectors whose text is in no file.
    fn forget_unused_vectors(&self) -> Result<(), IndexError> {
        self.write(&mut |connection| {
            connection.execute(
                "DELETE FROM embeddings WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.hash = embeddings.hash)",
                [],
            )?;
            Ok(())
        })
    }
}

/// Returns the files to read, and all existing files.
fn look_around(
    shelf: &dyn Shelf,
    wanted: &SyncRequest<'_>,
    known: &HashMap<PathBuf, KnownFile>,
    synced: &mut SyncResult,
) -> Result<(Vec<PathBuf>, HashSet<PathBuf>), IndexError> {
    let mut todo = Vec::new();
    let mut seen = HashSet::with_capacity(known.len());
    shelf
        .list(wanted.under, &mut |path, listed| {
            let stamp = match listed {
                ListedKind::File(stamp) => stamp,
                ListedKind::Link => {
                    synced.left(path, "skipped: it is a link; copy the file, or move it here");
                    return Ok(());
                }
                ListedKind::Special => {
                    synced.left(path, "skipped: it is not a regular file");
                    return Ok(());
                }
            };
            synced.files += 1;
            if seen.len() >= MAX_FILES {
                synced.left(path, &format!("skipped: there are more than {MAX_FILES} files"));
                return Ok(());
            }
            seen.insert(path.to_owned());
            match known.get(path) {
                Some(known) if !wanted.all && known.stamp == stamp => {
                    if let Some(note) = &known.note {
                        synced.left(path, note);
                    }
                }
                _ => todo.push(path.to_owned()),
            }
            Ok(())
        })
        .map_err(|error| IndexError::shelf(wanted.under.unwrap_or(Path::new("")), error))?;
    Ok((todo, seen))
}

/// First look at a file.
struct FirstLook {
    stamp: Stamp,
    /// Encoding and hash, or the reason why the file is not read.
    looked: Result<FirstPass, String>,
    /// Whole content of a small file, so that the file is read once.
    bytes: Vec<u8>,
}

fn look_at(shelf: &dyn Shelf, path: &Path) -> Result<FirstLook, ShelfError> {
    let (stamp, file) = shelf.open(path)?;
    let too_large = format!("skipped: it has more than {} MiB", LARGEST_FILE / (1024 * 1024));
    let mut bytes = Vec::new();
    if stamp.size > LARGEST_FILE {
        return Ok(FirstLook { stamp, looked: Err(too_large), bytes });
    }
    // The file may grow during the read.
    if stamp.size <= SMALL_FILE {
        file.take(SMALL_FILE * 2).read_to_end(&mut bytes)?;
        return Ok(FirstLook { stamp, looked: Ok(look(bytes.as_slice())?), bytes });
    }
    let mut file = file.take(LARGEST_FILE + 1);
    let looked = look(&mut file)?;
    Ok(FirstLook { stamp, looked: if file.limit() == 0 { Err(too_large) } else { Ok(looked) }, bytes })
}
