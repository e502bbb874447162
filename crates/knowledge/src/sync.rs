//! Bringing the index up to what the files are now.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::chunk::{Chunk, chunks};
use crate::decoding::{AsUtf8, Looked, look};
use crate::error::IndexError;
use crate::file::{self, Change, Known};
use crate::{Hash, Index, Listed, Shelf, ShelfError, Stamp};

/// The largest file that is read, in bytes: a shelf of books.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;

/// Files of one base.
const MOST_FILES: usize = 200_000;

/// A file whose chunks are held in memory before they go in, and bytes of such files that go in at once.
const SMALL_FILE: u64 = 1024 * 1024;
const AT_ONCE: u64 = 4 * 1024 * 1024;
const FILES_AT_ONCE: usize = 256;

/// Files that are named as left out.
const MOST_LEFT: usize = 50;

/// A file that changed less than this long ago, in seconds, may change again without its stamp showing it.
const FRESH: i64 = 2;

/// What to bring up to date.
pub struct Wanted<'a> {
    /// Every file is read again, also one whose stamp is as it was.
    pub all: bool,
    /// Only this file, or what is below this folder.
    pub under: Option<&'a Path>,
    /// The time: seconds since the Unix epoch.
    pub now_seconds: i64,
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Told how many files are done, of how many that have to be read.
    pub progress: &'a dyn Fn(u64, u64),
}

/// What came of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Synced {
    /// Files there are.
    pub files: u64,
    /// Files whose chunks were made anew.
    pub files_indexed: u64,
    /// Chunks that were not there before.
    pub chunks_created: u64,
    /// Files that are no more, and were taken out.
    pub files_removed: u64,
    /// Files that are left out, or not quite as they are, with the reason; the first ones.
    pub left: Vec<Left>,
    /// How many there are of them in all.
    pub left_in_all: u64,
}

/// A file with which not all is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Relative to the base.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl Synced {
    fn left(&mut self, path: &Path, why: &str) {
        self.left_in_all += 1;
        if self.left.len() < MOST_LEFT {
            self.left.push(Left { path: path.to_owned(), why: why.to_owned() });
        }
    }
}

/// What was found out about a small file before anything is written.
struct Read1 {
    path: PathBuf,
    stamp: Stamp,
    hash: Hash,
    note: Option<String>,
    chunks: Vec<Chunk>,
}

impl Index {
    /// Brings the index up to what the files are now: by size and time, then by content, and only what changed is read.
    ///
    /// # Errors
    /// Where the base cannot be listed, `under` names nothing, or the index cannot be written. What is done is kept.
    pub fn sync(&self, shelf: &dyn Shelf, wanted: &Wanted<'_>) -> Result<Synced, IndexError> {
        let known = self.with(&mut |connection| Ok(file::known(connection, wanted.under)?))?;
        let mut synced = Synced::default();
        let (todo, seen) = look_around(shelf, wanted, &known, &mut synced)?;
        if synced.files == 0 && known.is_empty() && synced.left_in_all == 0 && wanted.under.is_some() {
            return Err(IndexError::shelf(wanted.under.unwrap_or(Path::new("")), ShelfError::Gone));
        }
        let gone: Vec<i64> = known
            .iter()
            .filter(|(path, _)| !seen.contains(*path))
            // What may not be seen is not gone, and somebody else may see it.
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
        let mut waiting: Vec<Read1> = Vec::new();
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

    /// Reads one file. A small one is given back to be put in with others; a large one goes in by itself, piece by piece.
    fn file(
        &self,
        shelf: &dyn Shelf,
        path: &Path,
        before: Option<&Known>,
        wanted: &Wanted<'_>,
        synced: &mut Synced,
    ) -> Result<Option<Read1>, IndexError> {
        let At { stamp, looked, bytes } = match look_at(shelf, path) {
            Ok(found) => found,
            Err(ShelfError::Stopped) => return Err(IndexError::Stopped),
            // It went meanwhile; the next run takes it out.
            Err(ShelfError::Gone) => return Ok(None),
            Err(error) => {
                synced.left(path, &error.to_string());
                return Ok(None);
            }
        };
        let stamp = Stamp {
            // So that it is looked at again.
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
                    None => Some("left out: it is no text, but binary".to_owned()),
                    Some(encoding) if encoding == encoding_rs::UTF_8 => None,
                    Some(encoding) => Some(format!("read as {}, for it is not UTF-8", encoding.name())),
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
        let mut read = Read1 { path: path.to_owned(), stamp, hash, note, chunks: Vec::new() };
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

    /// Puts files in, all of each or nothing.
    fn put(&self, waiting: &mut Vec<Read1>, synced: &mut Synced) -> Result<(), IndexError> {
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

    /// Vectors of texts that no file has any more.
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

/// The files that have to be read, and all that there are.
fn look_around(
    shelf: &dyn Shelf,
    wanted: &Wanted<'_>,
    known: &HashMap<PathBuf, Known>,
    synced: &mut Synced,
) -> Result<(Vec<PathBuf>, HashSet<PathBuf>), IndexError> {
    let mut todo = Vec::new();
    let mut seen = HashSet::with_capacity(known.len());
    shelf
        .list(wanted.under, &mut |path, listed| {
            let stamp = match listed {
                Listed::File(stamp) => stamp,
                Listed::Link => {
                    synced.left(path, "left out: a link; copy the file, or move it here");
                    return Ok(());
                }
                Listed::Special => {
                    synced.left(path, "left out: it is no regular file");
                    return Ok(());
                }
            };
            synced.files += 1;
            if seen.len() >= MOST_FILES {
                synced.left(path, &format!("left out: there are more than {MOST_FILES} files"));
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

/// What was found out about a file.
struct At {
    stamp: Stamp,
    /// What it is, or why it is not read.
    looked: Result<Looked, String>,
    /// All of a small one, so that it is read once.
    bytes: Vec<u8>,
}

fn look_at(shelf: &dyn Shelf, path: &Path) -> Result<At, ShelfError> {
    let (stamp, file) = shelf.open(path)?;
    let too_large = format!("left out: it has more than {} MiB", LARGEST_FILE / (1024 * 1024));
    let mut bytes = Vec::new();
    if stamp.size > LARGEST_FILE {
        return Ok(At { stamp, looked: Err(too_large), bytes });
    }
    // It may grow while it is read.
    if stamp.size <= SMALL_FILE {
        file.take(SMALL_FILE * 2).read_to_end(&mut bytes)?;
        return Ok(At { stamp, looked: Ok(look(bytes.as_slice())?), bytes });
    }
    let mut file = file.take(LARGEST_FILE + 1);
    let looked = look(&mut file)?;
    Ok(At { stamp, looked: if file.limit() == 0 { Err(too_large) } else { Ok(looked) }, bytes })
}
