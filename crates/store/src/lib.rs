//! Everything durable of the runtime: the audit log, approvals, outputs kept by reference, blobs, trusted files.
//!
//! One SQLite file in WAL mode and a folder of blobs, shared safely by several processes at once:
//!
//! ```text
//! handfast.db     the tables (with -wal and -shm beside it while it is in use)
//! audit.head      how many audit rows there are, and the hash of the last one
//! attention.0 …   locked by those who look at approvals as they come
//! blobs/ab/ab12…  content by its hash; `.zst` where it is compressed, `.pack` where it is many small ones
//! ```
//!
//! It is the only crate that knows SQL and SQLite, and none of its types is in this interface. It reads no
//! clock and makes no ids: both are handed in. It knows no other crate of the workspace and no async
//! runtime; its functions block on the disk, except [`Audit::append`], whose receipt can be awaited.

mod approvals;
mod attention;
mod audit;
mod blobs;
mod checking;
mod checkpoints;
mod chores;
mod database;
mod error;
mod hash;
mod keys;
mod leases;
mod memories;
mod outputs;
mod packs;
mod saver;
mod trust;
mod unpacking;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use database::{Access, Database};

pub use approvals::{Answered, ApprovalAnswer, ApprovalRow, ApprovalState, Approvals, Earlier};
pub use attention::{Attention, Waiting, Watch};
pub use audit::{
    Audit, AuditRow, Durability, Fault, Filter, HeadFileState, Kind, ROW_BYTES_MAX, Receipt, Recorded,
    Verification,
};
pub use blobs::{BlobRef, Blobs};
pub use checking::Checked;
pub use checkpoints::{Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState, Checkpoints};
pub use chores::Chore;
pub use error::{Cause, StoreError};
pub use hash::{Hash, HashSyntaxError};
pub use leases::{Lease, LeaseKind, Leases};
pub use memories::{
    FoundMemories, Meaning, Memories, Memory, MemoryVersion, Remembered, Remembering, Unread,
};
pub use outputs::{Output, Outputs, Pruned, Retention};
pub use saver::{Reader, Saver};
pub use trust::Trust;

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

/// Where files of a state folder may lie while something is done with them. What a killed process left there, pruning removes.
pub fn spool(folder: &Path) -> PathBuf {
    folder.join(BLOBS).join(blobs::INCOMING)
}

/// Where in the state folder the blobs lie.
const BLOBS: &str = "blobs";

/// Bytes for the rows that end a call: twice those of the longest row of the audit, and a page of every table and index.
const ROOM_OF_CALL: u64 = 1024 * 1024;

/// Bytes for one path of a checkpoint, whose row is written again when the change is done.
const ROOM_OF_PATH: u64 = 1024;

impl Store {
    /// Opens the state folder, creating it with mode 0700 and its files with mode 0600, and brings an older
    /// database up to date. A folder that is there keeps its mode.
    ///
    /// A database written by a newer Handfast, one that is damaged, a folder that cannot be written and a
    /// full disk each have an error of their own that says what to do.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_for(folder, Access::Write)
    }

    /// The same for who only reads, or can do without writing: a folder on a read-only file system is opened, too, where whoever wrote
    /// to it last has ended.
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

    /// Covers secrets in the texts of every row of the audit, of the approvals and of the leases that is written from here on. The
    /// first who says how is heard.
    pub fn cover_rows(&self, cover: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        self.database.cover_with(Box::new(cover));
    }

    /// The audit log.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Content by its hash.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Outputs kept by reference.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// What calls changed, so that it can be undone.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Files that the user trusts.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Questions to humans.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// What humans have allowed beyond one call.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// What agents remember.
    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    /// Tells of what others write from now on.
    pub fn watch(&self) -> Result<Watch, StoreError> {
        Watch::new(Arc::clone(&self.database))
    }

    /// Says, for as long as the value lives, that somebody looks at questions as they come, and can answer those of this workspace;
    /// where none is named, those of all.
    pub fn pay_attention(&self, workspace: Option<&Path>) -> Result<Attention, StoreError> {
        Attention::pay(&self.folder, workspace)
    }

    /// Whether anybody looks at questions as they come who can answer those of this workspace.
    pub fn has_attention(&self, workspace: &Path) -> bool {
        Attention::is_paid(&self.folder, workspace)
    }

    /// Says, for as long as the value lives, that a call waits for the answer to a question.
    pub fn wait_for(&self, question: &str, call: &str) -> Result<Waiting, StoreError> {
        Waiting::begin(&self.folder, question, call)
    }

    /// Lists the questions that calls wait for.
    pub fn waited_for(&self) -> HashSet<String> {
        Waiting::all(&self.folder)
    }

    /// Tells whether no process has begun a chore for such a time. In a new folder the time begins now.
    pub fn is_due(&self, chore: Chore, every: SignedDuration, now: Timestamp) -> Result<bool, StoreError> {
        chores::is_due(chore, &self.folder, every, now)
    }

    /// Tells all processes that a chore begins now.
    pub fn begin(&self, chore: Chore, now: Timestamp) -> Result<(), StoreError> {
        chores::begin(chore, &self.folder, now)
    }

    /// Moves what was written lately to its place in the database, as far as nobody hinders it: behind a large change, so that
    /// no later one has to wait for the disk. Blocks.
    pub fn move_log(&self) -> Result<(), StoreError> {
        self.database.move_log()
    }

    /// Makes sure that the disk has room for the rows that tell how a change of so many paths ended. Whoever is about to change
    /// something asks first: a change whose end finds no room is made, and cannot be recorded.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] where there is less, and [`StoreError::File`] where the disk does not answer.
    pub fn require_room(&self, paths: usize) -> Result<(), StoreError> {
        let failed = |error: rustix::io::Errno| StoreError::from_io(&self.folder, error.into());
        let disk = rustix::fs::statvfs(&self.folder).map_err(failed)?;
        let needed = (paths as u64).saturating_mul(ROOM_OF_PATH).saturating_add(ROOM_OF_CALL);
        if disk.f_bavail.saturating_mul(disk.f_frsize) < needed {
            return Err(failed(rustix::io::Errno::NOSPC));
        }
        Ok(())
    }

    /// Writes the audit rows that wait, makes them outlive a power loss, and ends the writer thread. Later
    /// rows are refused; everything else still works. Blocks on the disk. Dropping the store does the same
    /// without saying what failed.
    pub fn close(&self) -> Result<(), StoreError> {
        let result = self.audit.close();
        self.database.close_idle();
        result
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // There is nobody left to tell; who must know calls `close`.
        let _ = self.close();
    }
}

/// Creates the folder so that it outlives a power loss together with the first flushed row.
fn create_durably(folder: &Path) -> Result<(), StoreError> {
    blobs::create_folder(folder)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|error| StoreError::from_io(parent, error))
}
