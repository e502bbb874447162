//! All that a database held at one moment, as a file: to be kept, to be looked at, and to be put back.
//!
//! A large one is kept in pieces of one size, so that of two images of a database only the pieces that differ take room twice.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempPath;

use crate::open::{Stopped, interrupt_where};
use crate::whole::{LARGEST_SAVED, busy, digest, size};
use crate::write::KeepError;
use crate::{Database, DatabaseError};

/// Bytes of a piece; of the last one fewer. It is what the engine's store compresses in one go.
const PIECE: u64 = 512 * 1024;

/// Pages that are copied between two looks at whether the call was stopped.
const PAGES_BETWEEN_LOOKS: i32 = 250;

/// The hash of a piece, by which whoever keeps it finds it again.
pub type PieceHash = [u8; 32];

/// Writes what these pieces hold, one behind the other.
pub type ReadPieces = Arc<dyn Fn(&[PieceHash], &mut dyn Write) -> Result<(), KeepError> + Send + Sync>;

/// What a database held.
#[derive(Clone)]
pub struct Image {
    source: Source,
    /// Of its schema and rows; none of what the first format of checkpoints kept.
    digest: Option<[u8; 32]>,
}

#[derive(Clone)]
enum Source {
    /// A file of this process, which goes with the last that names it.
    Here(Arc<TempPath>),
    /// What somebody keeps.
    Kept(Arc<[PieceHash]>, ReadPieces),
    /// As the first format has it; nothing where the database was empty.
    Bytes(Arc<[u8]>),
}

/// A copy that can be changed, and goes with it.
pub(crate) struct Copy {
    // Closed before its file goes.
    pub(crate) connection: Connection,
    pub(crate) path: TempPath,
}

/// A file that is written until the call is stopped.
struct Stoppable<'a> {
    file: BufWriter<File>,
    stopped: &'a Stopped,
}

impl Write for Stoppable<'_> {
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

/// One piece of an image.
pub struct Piece {
    path: Arc<TempPath>,
    start: u64,
}

impl Piece {
    /// What it holds.
    pub fn read(&self) -> io::Result<impl Read + use<>> {
        let mut file = File::open(&*self.path)?;
        file.seek(SeekFrom::Start(self.start))?;
        Ok(file.take(PIECE))
    }
}

impl Image {
    /// The one of which these are all the pieces.
    pub(crate) fn kept(pieces: Arc<[PieceHash]>, digest: [u8; 32], read: ReadPieces) -> Self {
        Self { source: Source::Kept(pieces, read), digest: Some(digest) }
    }

    /// One of the first format.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { source: Source::Bytes(bytes.into()), digest: None }
    }

    /// Its pieces in their order. It must lie here: what is saved already is saved no second time.
    pub(crate) fn pieces(&self) -> Result<Vec<Piece>, DatabaseError> {
        let Source::Here(path) = &self.source else { return Err(DatabaseError::SavedDamaged) };
        let found = fs::metadata(&**path);
        let found = found.map_err(|source| DatabaseError::Io { path: path.to_path_buf(), source })?;
        let length = found.len();
        let starts = (0..length.div_ceil(PIECE)).map(|number| number * PIECE);
        Ok(starts.map(|start| Piece { path: path.clone(), start }).collect())
    }

    /// The digest of what it holds, where it is known.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        self.digest
    }
}

impl Database {
    /// What a connection sees, which has that digest.
    pub(crate) fn image(
        &self,
        connection: &Connection,
        digest: [u8; 32],
        stopped: &Stopped,
    ) -> Result<Image, DatabaseError> {
        let path = self.spooled(connection, stopped)?;
        Ok(Image { source: Source::Here(Arc::new(path)), digest: Some(digest) })
    }

    /// A copy of what a connection sees.
    pub(crate) fn copy_of(&self, connection: &Connection, stopped: &Stopped) -> Result<Copy, DatabaseError> {
        self.opened(self.spooled(connection, stopped)?)
    }

    /// A copy of an image, which is what was saved.
    pub(crate) fn copy(&self, image: &Image, stopped: &Stopped) -> Result<Copy, DatabaseError> {
        let path = self.spool_file()?;
        let failed = |source| DatabaseError::Io { path: path.to_path_buf(), source };
        match &image.source {
            Source::Here(from) => fs::copy(&**from, &path).map(drop).map_err(failed)?,
            Source::Bytes(bytes) => fs::write(&path, bytes).map_err(failed)?,
            Source::Kept(pieces, read) => {
                let file = File::options().write(true).open(&path).map_err(failed)?;
                let mut file = Stoppable { file: BufWriter::new(file), stopped };
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
            // Whatever the engine says of it, this is not the database itself.
            Ok(_) | Err(_) => Err(DatabaseError::SavedDamaged),
        }
    }

    fn opened(&self, path: TempPath) -> Result<Copy, DatabaseError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(|error| self.error(error))?;
        // What breaks off leaves a file that nobody reads.
        connection.pragma_update(None, "synchronous", "OFF").map_err(|error| self.error(error))?;
        Ok(Copy { connection, path })
    }

    /// A file with all that a connection sees.
    fn spooled(&self, connection: &Connection, stopped: &Stopped) -> Result<TempPath, DatabaseError> {
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
        // One copied from a database with a log says so in its header (bytes 18 and 19 of the file format), and would get one.
        let file = File::options().write(true).open(&path);
        file.and_then(|file| file.write_all_at(&[1, 1], 18))
            .map_err(|source| DatabaseError::Io { path: path.to_path_buf(), source })?;
        Ok(path)
    }

    /// Copies page after page, to the end.
    pub(crate) fn step(&self, backup: &Backup<'_, '_>, stopped: &Stopped) -> Result<(), DatabaseError> {
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

    /// An empty file of this process alone, on the disk that its state is on.
    fn spool_file(&self) -> Result<TempPath, DatabaseError> {
        let failed = |source| DatabaseError::Io { path: self.spool.clone(), source };
        if !self.spool.is_dir() {
            use std::os::unix::fs::DirBuilderExt;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.spool).map_err(failed)?;
        }
        Ok(tempfile::NamedTempFile::new_in(&self.spool).map_err(failed)?.into_temp_path())
    }
}
