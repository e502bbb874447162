//! Durable state of the runtime: the audit log, approvals, outputs stored by reference, blobs,
//! checkpoints, memories, trusted files.
//!
//! The state is one SQLite file in WAL mode and a folder of blobs, shared safely by several
//! processes at once:
//!
//! ```text
//! handfast.db  the tables (with -wal and -shm files while it is in use)
//! audit.head   the number of audit rows, and the hash of the last one
//! attention.0 …   locked by processes that watch approvals as they arrive
//! blobs/ab/ab12…  content by its hash; `.zst` if compressed, `.pack` for many small contents
//! ```
//!
//! This crate is the only one that knows the schema of the state, and its interface contains no SQL
//! types. It reads no clock and makes no ids: callers pass both. It knows no policy and no async
//! runtime. All functions block on the disk, except [`Audit::append`], whose receipt can be awaited.

mod approvals;
mod audit;
mod blob_writer;
mod blobs;
mod checking;
mod checkpoints;
mod chores;
mod database;
mod hash_prefixes;
mod leases;
mod memories;
mod outputs;
mod pack_reader;
mod packs;
mod trust;
mod watcher_marks;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use store_api::{Chore, StoreError};

use database::{Access, Database};
use store_api::{
    AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, AuditRow, BlobRef, Cause, ChangeOutcome,
    Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState, Chore, Durability, EarlierAnswer,
    Fault, Filter, Hash, HashSyntaxError, HeadFileState, Kind, Lease, LeaseKind, Memory, MemoryCaller,
    MemoryVersion, Output, PruneResult, ROW_BYTES_MAX, Receipt, RecordedRow, Retention, StoreError,
    Unembedded, Verification,
};

pub use approvals::Approvals;
pub use audit::Audit;
pub use blob_writer::{BlobWriter, Reader};
pub use blobs::Blobs;
pub use checkpoints::Checkpoints;
pub use leases::Leases;
pub use memories::{FoundMemories, Memories, QueryVector};
pub use outputs::Outputs;
pub use trust::Trust;
pub use watcher_marks::{WaitingMark, Watch, WatcherMark};

/// An open state folder. Share it behind an `Arc`; it starts no thread before the first audit row.
pub struct Store {
    audit: Audit,
    outputs: Outputs,
    checkpoints: Checkpoints,
    trust: Trust,
    approvals: Approvals,
    leases: Leases,
    memories: Memories,
    folder: PathBuf,
    blobs: Arc<Blobs>,
    database: Arc<Database>,
}

/// Returns the folder for temporary files in a state folder. Pruning removes the files of killed
/// processes there.
pub fn spool(folder: &Path) -> PathBuf {
    folder.join(BLOBS).join(blobs::INCOMING)
}

/// Name of the folder for blobs in the state folder.
const BLOBS: &str = "blobs";

/// Bytes for the rows that end a call: twice those of the longest audit row, and a page of every
/// table and index.
const ROOM_OF_CALL: u64 = 1024 * 1024;

/// Bytes for one path of a checkpoint, whose row is written again when the change is done.
const ROOM_OF_PATH: u64 = 1024;

impl Store {
    /// Opens the state folder, and migrates an older database. Creates a missing folder with mode
    /// 0700 and its files with mode 0600. An existing folder keeps its mode.
    ///
    /// A database of a newer Handfast, a damaged database, an unwritable folder and a full disk each
    /// have their own error with advice.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_for(folder, Access::Write)
    }

    /// Opens the state folder for a caller that only reads, or can do without writing. A folder on a
    /// read-only file system can be opened too, if the last process that wrote to it has ended.
    pub fn open_to_read(folder: &Path) -> Result<Self, StoreError> {
        Self::open_for(folder, Access::Read)
    }

    fn open_for(folder: &Path, access: Access) -> Result<Self, StoreError> {
        if !folder.is_dir() {
            create_durably(folder)?;
        }
        let head = folder.join("audit.head");
        let database = Arc::new(Database::open(folder, access, || Audit::create_head(&head))?);
        let blobs = Arc::new(Blobs::new(folder.join(BLOBS), Arc::clone(&database)));
        Ok(Self {
            audit: Audit::new(Arc::clone(&database), head),
            outputs: Outputs::new(Arc::clone(&database), Arc::clone(&blobs)),
            checkpoints: Checkpoints::new(Arc::clone(&database)),
            trust: Trust::new(Arc::clone(&database)),
            approvals: Approvals::new(Arc::clone(&database)),
            leases: Leases::new(Arc::clone(&database)),
            memories: Memories::new(Arc::clone(&database)),
            folder: folder.to_owned(),
            blobs,
            database,
        })
    }

    /// Masks secrets in the texts of all later rows of the audit, the approvals and the leases. The
    /// first call wins.
    pub fn cover_rows(&self, cover: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        self.database.cover_with(Box::new(cover));
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Returns the content stored by hash.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Returns the outputs stored by reference.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Returns the changes made by calls, for undo.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Returns the files that the user trusts.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Returns the questions to humans.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// Returns the permissions that humans have granted beyond one call.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Returns the memories of agents.
    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    /// Begins to watch for commits of other connections.
    pub fn watch(&self) -> Result<Watch, StoreError> {
        Watch::new(Arc::clone(&self.database))
    }

    /// Marks, for the life of the returned value, that somebody watches questions as they arrive.
    /// The watcher can answer those of the named workspace, or of all workspaces without a name.
    pub fn pay_attention(&self, workspace: Option<&Path>) -> Result<WatcherMark, StoreError> {
        WatcherMark::pay(&self.folder, workspace)
    }

    /// Returns true if somebody watches questions who can answer those of this workspace.
    pub fn has_attention(&self, workspace: &Path) -> bool {
        WatcherMark::is_paid(&self.folder, workspace)
    }

    /// Marks, for the life of the returned value, that a call waits for the answer to a question.
    pub fn wait_for(&self, question: &str, call: &str) -> Result<WaitingMark, StoreError> {
        WaitingMark::begin(&self.folder, question, call)
    }

    /// Lists the questions that calls wait for.
    pub fn waited_for(&self) -> HashSet<String> {
        WaitingMark::all(&self.folder)
    }

    /// Returns true if no process has begun the chore for the time `every`. In a new folder, the
    /// time begins now.
    pub fn is_due(&self, chore: Chore, every: SignedDuration, now: Timestamp) -> Result<bool, StoreError> {
        chores::is_due(chore, &self.folder, every, now)
    }

    /// Records for all processes that a chore begins now.
    pub fn begin(&self, chore: Chore, now: Timestamp) -> Result<(), StoreError> {
        chores::begin(chore, &self.folder, now)
    }

    /// Runs a WAL checkpoint, as far as other processes do not prevent it. Call it after a large
    /// change, so that no later change waits for the disk. Blocks.
    pub fn move_log(&self) -> Result<(), StoreError> {
        self.database.move_log()
    }

    /// Checks that the disk has room for the rows that record the end of a change of `paths` paths.
    /// Callers ask before they change anything: otherwise a change could succeed without room to
    /// record its end.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] if there is less room, and [`StoreError::File`] if the disk does not
    /// answer.
    pub fn require_room(&self, paths: usize) -> Result<(), StoreError> {
        let failed = |error: rustix::io::Errno| StoreError::from_io(&self.folder, error.into());
        let disk = rustix::fs::statvfs(&self.folder).map_err(failed)?;
        let needed = (paths as u64).saturating_mul(ROOM_OF_PATH).saturating_add(ROOM_OF_CALL);
        if disk.f_bavail.saturating_mul(disk.f_frsize) < needed {
            return Err(failed(rustix::io::Errno::NOSPC));
        }
        Ok(())
    }

    /// Writes the queued audit rows, makes them survive a power loss, and ends the writer thread.
    /// Later rows are refused; everything else still works. Blocks on the disk. Dropping the store
    /// does the same, but reports no error.
    pub fn close(&self) -> Result<(), StoreError> {
        let result = self.audit.close();
        self.database.close_idle();
        result
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // No caller is left to receive the error; callers that need it use `close`.
        let _ = self.close();
    }
}

/// Creates the folder so that it survives a power loss together with the first flushed row.
fn create_durably(folder: &Path) -> Result<(), StoreError> {
    blobs::create_folder(folder)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|error| StoreError::from_io(parent, error))
}
