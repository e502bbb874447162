//! Errors of the state folder, each with the path and with advice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hash::Hash;

/// Cause of an error, shared because one failed commit answers every caller whose row was in it.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Error of an operation on a store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk is full.
    #[error(
        "no space left for {path}; free some space on that disk and try again; the existing records \
         are intact"
    )]
    DiskFull {
        /// File or folder that could not grow.
        path: PathBuf,
        /// Error of the system call.
        source: Cause,
    },
    /// Writing is not permitted, or the file system is read-only.
    #[error(
        "{path} cannot be written; give your user write permission there, or choose another state \
         folder with --state"
    )]
    NotWritable {
        /// File or folder that cannot be written.
        path: PathBuf,
        /// Error of the system call.
        source: Cause,
    },
    /// The file is damaged, or is not a database.
    #[error(
        "the database {path} is damaged or is not a database; move it away with its -wal and -shm \
         files (`sqlite3 FILE .recover` may save its rows), and the next start creates a new one"
    )]
    Corrupt {
        /// Path of the database.
        path: PathBuf,
        /// Error of the database engine.
        source: Cause,
    },
    /// The database was made by a newer Handfast.
    #[error(
        "the database {path} has format {found}, but this Handfast supports formats up to {known}; use \
         the newer Handfast that wrote it (restart servers that were started before it), or choose \
         another state folder with --state"
    )]
    NewerDatabase {
        /// Path of the database.
        path: PathBuf,
        /// Format number in the file.
        found: i64,
        /// Newest format number that this program knows.
        known: i64,
    },
    /// Another process locked the database for too long.
    #[error(
        "the database {path} was locked by another process for 10 seconds; find out which one holds it \
         (`fuser FILE`), then try again"
    )]
    Busy {
        /// Path of the database.
        path: PathBuf,
        /// Error of the database engine.
        source: Cause,
    },
    /// Any other failure of the database engine.
    #[error("the database {path} could not be used")]
    Database {
        /// Path of the database.
        path: PathBuf,
        /// Error of the database engine.
        source: Cause,
    },
    /// Any other failure of a file or folder.
    #[error("{path} could not be used")]
    File {
        /// File or folder of the failure.
        path: PathBuf,
        /// Error of the system call.
        source: Cause,
    },
    /// The caller's content could not be read.
    #[error("the content to store could not be read")]
    Content {
        /// Error of the caller's reader.
        source: Cause,
    },
    /// The target of the export could not be written.
    #[error("the exported rows could not be written to their target")]
    Export {
        /// Error of the caller's writer.
        source: Cause,
    },
    /// An audit row contains an invalid value.
    #[error("the audit row is refused: its {field} {problem}")]
    RowRefused {
        /// Field of [`AuditRow`](crate::AuditRow).
        field: &'static str,
        /// Problem with the field, as the end of a sentence.
        problem: &'static str,
    },
    /// A stored audit row cannot be decoded.
    #[error(
        "audit row {sequence} cannot be read: its {field} has an impossible value; run `handfast audit verify`"
    )]
    BrokenRow {
        /// Number of the row.
        sequence: i64,
        /// Column with the impossible value.
        field: &'static str,
    },
    /// Too many audit rows wait to be written.
    #[error(
        "{rows} audit rows are waiting to be written, which is the limit; wait for their receipts \
         before adding more"
    )]
    QueueFull {
        /// Number of waiting rows.
        rows: usize,
    },
    /// Rows whose callers were already answered could not be written.
    #[error("{rows} audit rows that were to be written in the background are not on disk")]
    Unwritten {
        /// Number of lost rows.
        rows: usize,
        /// Error of the last attempt.
        source: Arc<StoreError>,
    },
    /// The store is already closed.
    #[error("the store is closed")]
    Closed,
    /// The writer thread ended without answering.
    #[error("the audit writer stopped; restart Handfast, and report this as a defect")]
    WriterStopped,
    /// The approval does not exist.
    #[error("there is no approval {id}; `handfast approvals list --all` lists them")]
    ApprovalUnknown {
        /// Requested id.
        id: String,
    },
    /// The blob does not exist.
    #[error("no stored content has the hash {hash}")]
    BlobUnknown {
        /// Requested hash.
        hash: Hash,
    },
    /// The file of a blob has another length than when it was stored.
    #[error("the stored content {path} has {found} bytes instead of {expected}; delete that file")]
    BlobDamaged {
        /// File of the blob.
        path: PathBuf,
        /// Length in bytes when it was stored.
        expected: u64,
        /// Length in bytes now.
        found: u64,
    },
    /// Content that was read back after the write differs from the original.
    #[error(
        "the content {hash} differed when read back after writing, so nothing was changed; try again, \
         and if it recurs, check the disk (`handfast doctor`) and report it"
    )]
    NotSaved {
        /// Hash of the first content that differs.
        hash: Hash,
    },
    /// The output does not exist.
    #[error("there is no stored output with the id {id:?}: it never existed or was pruned; repeat the call")]
    OutputUnknown {
        /// Requested id.
        id: String,
    },
    /// The id of a new output is taken.
    #[error("an output is already stored under the id {id:?}")]
    OutputExists {
        /// Id of the output.
        id: String,
    },
    /// A text is longer than the store keeps.
    #[error("the {what} has {bytes} bytes, but at most {most} are stored; shorten it, or store it as a file")]
    TooLong {
        /// Kind of the text.
        what: &'static str,
        /// Length in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        most: usize,
    },
    /// The number of a conversation's entry does not follow the entries before it, or a summary goes beyond
    /// the last one.
    #[error(
        "entry {seq} of the conversation is out of order: its last one is {}; read the conversation again",
        last.map_or("none".to_owned(), |last| last.to_string())
    )]
    EntryOutOfOrder {
        /// Number of the entry.
        seq: u64,
        /// Number of the last entry.
        last: Option<u64>,
    },
}

impl StoreError {
    /// Classifies an error of the file system at `path`.
    pub fn from_io(path: &Path, error: io::Error) -> Self {
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
}
