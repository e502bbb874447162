//! A snapshot of a database as a file: to store, to inspect, and to restore.
//!
//! A snapshot is stored in pieces of a fixed size. Two snapshots of a database share their equal pieces.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempPath;

use crate::full_copy::{LARGEST_SAVED, busy, digest, size};
use crate::open::{StopCheck, interrupt_where};
use crate::write::KeepError;
use crate::{Database, DatabaseError};

/// Size of a piece in bytes; the last piece may be smaller. The engine's store compresses this much
/// at a time.
const PIECE: u64 = 512 * 1024;

/// Pages that are copied between two checks for a stop of the call.
const PAGES_BETWEEN_LOOKS: i32 = 250;

/// Hash of a piece, by which its store finds the piece again.
pub type PieceHash = [u8; 32];

/// A function that writes the content of these pieces, one after the other.
pub type ReadPieces = Arc<dyn Fn(&[PieceHash], &mut dyn Write) -> Result<(), KeepError> + Send + Sync>;

/// A snapshot of a database.
#[derive(Clone)]
pub struct Image {
    source: Source,
    /// Digest of the schema and rows; `None` for the first format of checkpoints.
    digest: Option<[u8; 32]>,
}

#[derive(Clone)]
enum Source {
    /// A temporary file of this process, removed with its last reference.
    Here(Arc<TempPath>),
    /// Pieces in a store.
    Kept(Arc<[PieceHash]>, ReadPieces),
    /// The first format; empty for an empty database.
    Bytes(Arc<[u8]>),
}

/// A writable copy, whose file is removed on drop.
pub(crate) struct Copy {
    // Declared first: the connection must close before its file is removed.
    pub(crate) connection: Connection,
    pub(crate) path: TempPath,
}

/// A file writer that fails once the call is stopped.
struct StoppableWriter<'a> {
    file: BufWriter<File>,
    stopped: &'a StopCheck,
}

impl Write for StoppableWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.stopped)() {
            return Err(io::Error::other("the call was stopped"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// One piece of a snapshot.
pub struct Piece {
    path: Arc<TempPath>,
    start: u64,
}

impl Piece {
    /// Opens the content of the piece.
    pub fn read(&self) -> io::Result<impl Read + use<>> {
        let mut file = File::open(&*self.path)?;
        file.seek(SeekFrom::Start(self.start))?;
        Ok(file.take(PIECE))
    }
}

impl Image {
    /// Creates a snapshot from the hashes of all its pieces.
    pub(crate) fn kept(pieces: Arc<[PieceHash]>, digest: [u8; 32], read: ReadPieces) -> Self {
        Self { source: Source::Kept(pieces, read), digest: Some(digest) }
    }

    /// Creates a snapshot of the first format.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { source: Source::Bytes(bytes.into()), digest: None }
    }

    /// Returns the pieces in order. The snapshot must be a file of this process: stored snapshots
    /// are not stored again.
    pub(crate) fn pieces(&self) -> Result<Vec<Piece>, DatabaseError> {
        let Source::Here(path) = &self.source else { return Err(DatabaseError::SavedDamaged) };
        let found = fs::metadata(&**path);
        let found = found.map_err(|source| DatabaseError::Io { path: path.to_path_buf(), source })?;
        let length = found.len();
        let starts = (0..length.div_ceil(PIECE)).map(|number| number * PIECE);
        Ok(starts.map(|start| Piece { path: path.clone(), start }).collect())
    }

    /// Returns the digest of the content, if known.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        self.digest
    }
}

impl Database {
    /// Takes a snapshot of the state that the connection sees. `digest` is the digest of that state.
    pub(crate) fn image(
        &self,
        connection: &Connection,
        digest: [u8; 32],
        stopped: &StopCheck,
    ) -> Result<Image, DatabaseError> {
        let path = self.spooled(connection, stopped)?;
        Ok(Image { source: Source::Here(Arc::new(path)), digest: Some(digest) })
    }

    /// Copies the state that the connection sees.
    pub(crate) fn copy_of(
        &self,
        connection: &Connection,
        stopped: &StopCheck,
    ) -> Result<Copy, DatabaseError> {
        self.opened(self.spooled(connection, stopped)?)
    }

    /// Restores a snapshot to a copy and verifies its digest.
    pub(crate) fn copy(&self, image: &Image, stopped: &StopCheck) -> Result<Copy, DatabaseError> {
        let path = self.spool_file()?;
        let failed = |source| DatabaseError::Io { path: path.to_path_buf(), source };
        match &image.source {
            Source::Here(from) => fs::copy(&**from, &path).map(drop).map_err(failed)?,
            Source::Bytes(bytes) => fs::write(&path, bytes).map_err(failed)?,
            Source::Kept(pieces, read) => {
                let file = File::options().write(true).open(&path).map_err(failed)?;
                let mut file = StoppableWriter { file: BufWriter::new(file), stopped };
                read(pieces, &mut file).map_err(|error| {
                    if stopped() { DatabaseError::Stopped } else { DatabaseError::SavedGone(error) }
                })?;
                file.flush().map_err(failed)?;
            }
        }
        let opened = self.opened(path).and_then(|mut copy| {
            interrupt_where(&mut copy.connection, Some(stopped)).map_err(|error| self.error(error))?;
            let found = digest(&copy.connection).map_err(|error| self.error(error))?;
            Ok((copy, found))
        });
        match opened {
            Ok((copy, found)) if image.digest.is_none_or(|saved| saved == found) => Ok(copy),
            Err(DatabaseError::Stopped) => Err(DatabaseError::Stopped),
            // Any error here concerns the snapshot, not the database.
            Ok(_) | Err(_) => Err(DatabaseError::SavedDamaged),
        }
    }

    fn opened(&self, path: TempPath) -> Result<Copy, DatabaseError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(|error| self.error(error))?;
        // Unsynced writes are safe: after a crash, no one reads this file.
        connection.pragma_update(None, "synchronous", "OFF").map_err(|error| self.error(error))?;
        Ok(Copy { connection, path })
    }

    /// Copies the state that the connection sees to a temporary file.
    fn spooled(&self, connection: &Connection, stopped: &StopCheck) -> Result<TempPath, DatabaseError> {
        let failed = |error| self.error(error);
        let size = size(connection).map_err(failed)?;
        if size > LARGEST_SAVED {
            let most = LARGEST_SAVED >> 30;
            return Err(DatabaseError::TooLarge(format!("the database is larger than {most} GiB")));
        }
        let path = self.spool_file()?;
        if size == 0 {
            return Ok(path);
        }
        let mut copy = self.opened(path)?;
        copy.connection.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(())).map_err(failed)?;
        let backup = Backup::new(connection, &mut copy.connection).map_err(failed)?;
        self.step(&backup, stopped)?;
        drop(backup);
        let Copy { connection, path } = copy;
        connection.close().map_err(|(_, error)| failed(error))?;
        // The header of a copy from a WAL database requests WAL mode (bytes 18 and 19 of the file
        // format). Reset the bytes, so that the copy needs no log.
        let file = File::options().write(true).open(&path);
        file.and_then(|file| file.write_all_at(&[1, 1], 18))
            .map_err(|source| DatabaseError::Io { path: path.to_path_buf(), source })?;
        Ok(path)
    }

    /// Runs the backup to its end.
    pub(crate) fn step(&self, backup: &Backup<'_, '_>, stopped: &StopCheck) -> Result<(), DatabaseError> {
        loop {
            let stepped = self.wait(stopped, || match backup.step(PAGES_BETWEEN_LOOKS)? {
                StepResult::Busy | StepResult::Locked => Err(busy()),
                other => Ok(other),
            })?;
            if stepped == StepResult::Done {
                return Ok(());
            }
            if stopped() {
                return Err(DatabaseError::Stopped);
            }
        }
    }

    /// Creates an empty temporary file, private to this process, in the spool folder.
    fn spool_file(&self) -> Result<TempPath, DatabaseError> {
        let failed = |source| DatabaseError::Io { path: self.spool.clone(), source };
        if !self.spool.is_dir() {
            use std::os::unix::fs::DirBuilderExt;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.spool).map_err(failed)?;
        }
        Ok(tempfile::NamedTempFile::new_in(&self.spool).map_err(failed)?.into_temp_path())
    }
}
