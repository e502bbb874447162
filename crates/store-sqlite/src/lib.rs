//! The runtime's durable state (`store-api`) in SQLite.
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

mod agents;
mod approvals;
mod audit;
mod blob_writer;
mod blobs;
mod checking;
mod checkpoints;
mod chores;
mod columns;
mod database;
mod hash_prefixes;
mod leases;
mod mail;
mod memories;
mod outputs;
mod pack_reader;
mod packs;
mod schedules;
mod spending;
mod trust;
mod watcher_marks;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use store_api::{
    AgentStore, Approvals, AuditLog, Blobs, Checkpoints, Chore, Chores, Cover, Leases, MailStore, Memories,
    Outputs, Presence, Schedules, SpendingStore, Store, StoreError, Trust, WaitingMark, Watch, WatcherMark,
};

use agents::SqliteAgents;
use approvals::SqliteApprovals;
use audit::SqliteAudit;
use blobs::BlobFolder;
use checkpoints::SqliteCheckpoints;
use database::{Access, Database};
use leases::SqliteLeases;
use mail::SqliteMail;
use memories::SqliteMemories;
use outputs::SqliteOutputs;
use schedules::SqliteSchedules;
use spending::SqliteSpending;
use trust::SqliteTrust;

/// An open state folder. Share it behind an `Arc`; it starts no thread before the first audit row.
pub struct SqliteStore {
    audit: SqliteAudit,
    outputs: SqliteOutputs,
    checkpoints: SqliteCheckpoints,
    trust: SqliteTrust,
    approvals: SqliteApprovals,
    leases: SqliteLeases,
    memories: SqliteMemories,
    schedules: SqliteSchedules,
    agents: SqliteAgents,
    mail: SqliteMail,
    spending: SqliteSpending,
    folder: PathBuf,
    blobs: Arc<BlobFolder>,
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

impl SqliteStore {
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
        let database = Arc::new(Database::open(folder, access, || SqliteAudit::create_head(&head))?);
        let blobs = Arc::new(BlobFolder::new(folder.join(BLOBS), Arc::clone(&database)));
        Ok(Self {
            audit: SqliteAudit::new(Arc::clone(&database), head),
            outputs: SqliteOutputs::new(Arc::clone(&database), Arc::clone(&blobs)),
            checkpoints: SqliteCheckpoints::new(Arc::clone(&database)),
            trust: SqliteTrust::new(Arc::clone(&database)),
            approvals: SqliteApprovals::new(Arc::clone(&database)),
            leases: SqliteLeases::new(Arc::clone(&database)),
            memories: SqliteMemories::new(Arc::clone(&database)),
            schedules: SqliteSchedules::new(Arc::clone(&database)),
            agents: SqliteAgents::new(Arc::clone(&database)),
            mail: SqliteMail::new(Arc::clone(&database)),
            spending: SqliteSpending::new(Arc::clone(&database)),
            folder: folder.to_owned(),
            blobs,
            database,
        })
    }
}

impl Store for SqliteStore {
    fn cover_rows(&self, cover: Box<Cover>) {
        self.database.cover_with(cover);
    }

    fn audit(&self) -> &dyn AuditLog {
        &self.audit
    }

    fn blobs(&self) -> &dyn Blobs {
        self.blobs.as_ref()
    }

    fn outputs(&self) -> &dyn Outputs {
        &self.outputs
    }

    fn checkpoints(&self) -> &dyn Checkpoints {
        &self.checkpoints
    }

    fn trust(&self) -> &dyn Trust {
        &self.trust
    }

    fn approvals(&self) -> &dyn Approvals {
        &self.approvals
    }

    fn leases(&self) -> &dyn Leases {
        &self.leases
    }

    fn memories(&self) -> &dyn Memories {
        &self.memories
    }

    fn schedules(&self) -> &dyn Schedules {
        &self.schedules
    }

    fn agents(&self) -> &dyn AgentStore {
        &self.agents
    }

    fn mail(&self) -> &dyn MailStore {
        &self.mail
    }

    fn spending(&self) -> &dyn SpendingStore {
        &self.spending
    }

    /// Runs a WAL checkpoint, as far as other processes do not prevent it.
    fn move_log(&self) -> Result<(), StoreError> {
        self.database.move_log()
    }

    fn require_room(&self, paths: usize) -> Result<(), StoreError> {
        let failed = |error: rustix::io::Errno| StoreError::from_io(&self.folder, error.into());
        let disk = rustix::fs::statvfs(&self.folder).map_err(failed)?;
        let needed = (paths as u64).saturating_mul(ROOM_OF_PATH).saturating_add(ROOM_OF_CALL);
        if disk.f_bavail.saturating_mul(disk.f_frsize) < needed {
            return Err(failed(rustix::io::Errno::NOSPC));
        }
        Ok(())
    }

    /// Writes the queued audit rows, and ends the writer thread.
    fn close(&self) -> Result<(), StoreError> {
        let result = self.audit.close();
        self.database.close_idle();
        result
    }
}

impl Presence for SqliteStore {
    fn watch(&self) -> Result<Watch, StoreError> {
        let mut commits = watcher_marks::Commits::new(Arc::clone(&self.database))?;
        Ok(Watch::new(move || commits.have_come()))
    }

    fn pay_attention(&self, workspace: Option<&Path>) -> Result<WatcherMark, StoreError> {
        watcher_marks::watch(&self.folder, workspace).map(WatcherMark::new)
    }

    fn has_attention(&self, workspace: &Path) -> bool {
        watcher_marks::is_watched(&self.folder, workspace)
    }

    fn wait_for(&self, question: &str, call: &str) -> Result<WaitingMark, StoreError> {
        watcher_marks::WaitingFile::create(&self.folder, question, call).map(WaitingMark::new)
    }

    fn waited_for(&self) -> HashSet<String> {
        watcher_marks::waited_for(&self.folder)
    }
}

impl Chores for SqliteStore {
    fn is_due(&self, chore: Chore, every: SignedDuration, now: Timestamp) -> Result<bool, StoreError> {
        chores::is_due(chore, &self.folder, every, now)
    }

    fn begin(&self, chore: Chore, now: Timestamp) -> Result<(), StoreError> {
        chores::begin(chore, &self.folder, now)
    }
}

impl Drop for SqliteStore {
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
