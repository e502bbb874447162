//! What can go wrong with the state folder, each with the path and with what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hash::Hash;

/// The error below, shared because one failed commit answers every caller whose row was in it.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Everything a store can answer instead of a result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// no space left
    #[error(
        "no space left for {path}; free some space on that disk and try again, nothing recorded so far is lost"
    )]
    DiskFull {
        /// The file or folder that could not grow.
        path: PathBuf,
        /// What the system said.
        source: Cause,
    },
    /// no permission to write, or a read-only file system
    #[error(
        "{path} cannot be written; give your user write permission there, or name another state folder with --state"
    )]
    NotWritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: Cause,
    },
    /// damaged, or not a database at all
    #[error(
        "the database {path} is damaged or is no database; move it away together with its -wal and -shm files \
         (`sqlite3 FILE .recover` may save its rows), and the next start makes a new one"
    )]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What the database engine said.
        source: Cause,
    },
    /// made by a newer Handfast
    #[error(
        "the database {path} has format {found} and this Handfast knows formats up to {known}; use the newer \
         Handfast that wrote it (a server that was started before it has to be started again), or name another \
         state folder with --state"
    )]
    NewerDatabase {
        /// The database.
        path: PathBuf,
        /// The format number in the file.
        found: i64,
        /// The newest format number that this program knows.
        known: i64,
    },
    /// locked for too long
    #[error(
        "the database {path} was locked by another process for 10 seconds; find out which one holds it \
         (`fuser FILE`), then try again"
    )]
    Busy {
        /// The database.
        path: PathBuf,
        /// What the database engine said.
        source: Cause,
    },
    /// any other failure of the database engine
    #[error("the database {path} could not be used")]
    Database {
        /// The database.
        path: PathBuf,
        /// What the database engine said.
        source: Cause,
    },
    /// any other failure of a file or folder
    #[error("{path} could not be used")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: Cause,
    },
    /// the content handed in could not be read
    #[error("the content to be kept could not be read")]
    Content {
        /// What the caller's reader said.
        source: Cause,
    },
    /// the export's target could not be written
    #[error("the exported rows could not be written to their target")]
    Export {
        /// What the caller's writer said.
        source: Cause,
    },
    /// a value that no audit row may have
    #[error("the audit row is refused: its {field} {problem}")]
    RowRefused {
        /// The field of [`AuditRow`](crate::AuditRow).
        field: &'static str,
        /// What is wrong with it, as the end of a sentence.
        problem: &'static str,
    },
    /// a stored audit row cannot be understood
    #[error(
        "audit row {sequence} cannot be read: its {field} has an impossible value; run `handfast audit verify`"
    )]
    BrokenRow {
        /// The row's number.
        sequence: i64,
        /// The column.
        field: &'static str,
    },
    /// too many audit rows wait to be written
    #[error(
        "{rows} audit rows wait to be written, which is the limit; wait for their receipts before adding more"
    )]
    QueueFull {
        /// How many wait.
        rows: usize,
    },
    /// rows whose callers were already answered could not be written
    #[error("{rows} audit rows that were to be written in the background are not on disk")]
    Unwritten {
        /// How many.
        rows: usize,
        /// Why the last attempt failed.
        source: Arc<StoreError>,
    },
    /// closed already
    #[error("the store is closed")]
    Closed,
    /// the writer thread ended without answering
    #[error("the audit writer stopped; restart Handfast, and report this as a defect")]
    WriterStopped,
    /// no such approval
    #[error("there is no approval {id}; `handfast approvals list --all` lists them")]
    ApprovalUnknown {
        /// The id asked for.
        id: String,
    },
    /// no such blob
    #[error("no stored content has the hash {hash}")]
    BlobUnknown {
        /// The hash asked for.
        hash: Hash,
    },
    /// a blob's file has another length than it had when it was stored
    #[error("the stored content {path} has {found} bytes instead of {expected}; delete that file")]
    BlobDamaged {
        /// The blob's file.
        path: PathBuf,
        /// The length in bytes when it was stored.
        expected: u64,
        /// The length in bytes now.
        found: u64,
    },
    /// what was written is not what was handed in
    #[error(
        "the content {hash} was written, and was not the same when it was read back, so nothing was changed; try again, and where \
         it happens twice check the disk (`handfast doctor`) and report it"
    )]
    NotSaved {
        /// The first content that is not as it was.
        hash: Hash,
    },
    /// no such output
    #[error("no output is kept under the id {id:?}: it never was, or it was pruned; run the call again")]
    OutputUnknown {
        /// The id asked for.
        id: String,
    },
    /// an id that is taken
    #[error("an output is already kept under the id {id:?}")]
    OutputExists {
        /// The id.
        id: String,
    },
}

impl StoreError {
    /// Sorts an error of the file system; `path` is what was being used.
    pub(crate) fn from_io(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, source: Arc::new(error) }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotWritable { path, source: Arc::new(error) }
            }
            _ => Self::File { path, source: Arc::new(error) },
        }
    }

    /// Sorts an error of the database engine; `path` is the database.
    pub(crate) fn from_engine(path: &Path, error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        use rusqlite::ffi;

        let path = path.to_owned();
        let extended = error.sqlite_error().map_or(0, |failure| failure.extended_code);
        let code = error.sqlite_error_code();
        let source: Cause = Arc::new(error);
        match code {
            // The shared-memory file beside the database is extended by writing, and answers an I/O error
            // where the database itself would answer "full".
            _ if extended == ffi::SQLITE_IOERR_SHMSIZE => Self::DiskFull { path, source },
            Some(Code::DiskFull) => Self::DiskFull { path, source },
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                Self::NotWritable { path, source }
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Self::Corrupt { path, source },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy { path, source },
            _ => Self::Database { path, source },
        }
    }
}
