//! The context that a tool gets for one call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fs::File;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{CallId, Code, Effect, Level, Place, SessionId, Stop, ToolError};

/// Context of one call, which the runtime passes to the tool.
pub struct Context {
    /// Id of the call.
    pub call: CallId,
    /// Session of the caller.
    pub session: SessionId,
    /// Workspace to which relative paths refer.
    pub place: Place,
    /// Signal that ends the call early.
    pub stop: Stop,
    /// Maximum duration of the call.
    pub timeout: Duration,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Receiver of progress reports.
    pub progress: Arc<dyn Progress>,
    /// True if the caller shows its model the pictures in a response.
    pub shows_pictures: bool,
    /// Services of the runtime, by type: the roots, the cell, the catalogue, ...
    pub services: Services,
    wholes: Mutex<Vec<FullOutput>>,
    enforced: Mutex<Option<Vec<String>>>,
    warnings: Mutex<Vec<String>>,
    missed_hosts: Mutex<Option<Vec<String>>>,
    discard: AtomicBool,
    snapshot: Mutex<Option<SnapshotUse>>,
    snapshot_refused: AtomicBool,
    only_shown: AtomicBool,
}

/// Record of a call that ran on a snapshot of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotUse {
    /// Time of the snapshot by the clock of the file system. Changes that others made at this time
    /// or later are not in it.
    pub taken_at: SystemTime,
    /// True if the call could change files in its snapshot alone.
    pub nothing_else: bool,
}

/// Full text of a shortened output field, stored in a file because it did not fit into memory.
#[derive(Debug)]
pub struct FullOutput {
    /// Field of the output that holds the shortened text.
    pub field: &'static str,
    /// File with the full text, positioned at its start.
    pub file: File,
    /// Number of bytes that were produced; larger than the file if the disk limit was reached.
    pub bytes: u64,
    /// Number of lines that were produced. A last line without a newline counts.
    pub lines: u64,
    /// Number of bytes in the file.
    pub kept_bytes: u64,
}

impl Context {
    /// Creates a context without progress reports. The engine and tests fill in the rest.
    pub fn new(
        call: CallId,
        session: SessionId,
        place: Place,
        timeout: Duration,
        clock: Arc<dyn Clock>,
        services: Services,
    ) -> Self {
        Self {
            call,
            session,
            place,
            stop: Stop::default(),
            timeout,
            clock,
            progress: Arc::new(NoProgress),
            shows_pictures: false,
            services,
            wholes: Mutex::default(),
            enforced: Mutex::default(),
            warnings: Mutex::default(),
            missed_hosts: Mutex::default(),
            discard: AtomicBool::new(false),
            snapshot: Mutex::default(),
            snapshot_refused: AtomicBool::new(false),
            only_shown: AtomicBool::new(false),
        }
    }

    /// Returns a service of the runtime.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if this runtime was composed without the service.
    pub fn service<T: Any + Send + Sync>(&self) -> Result<Arc<T>, ToolError> {
        self.services.get::<T>()
    }

    /// Reports the limits that the cell of this call enforced, for `meta.sandbox` and the audit.
    pub fn report_enforced(&self, facts: Vec<String>) {
        *self.enforced.lock() = Some(facts);
    }

    /// Returns the limits that the cell enforced, or `None` if the call used no cell.
    pub fn enforced(&self) -> Option<Vec<String>> {
        self.enforced.lock().clone()
    }

    /// Adds a warning about a problem besides the call itself. The response carries it in
    /// `meta.warnings`.
    pub fn warn(&self, warning: String) {
        self.warnings.lock().push(warning);
    }

    /// Takes the warnings, for the layer that adds them to the response.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Reports that a command could not reach other machines: these hosts, or an unnamed one if the
    /// list is empty.
    pub fn report_missed_hosts(&self, hosts: Vec<String>) {
        *self.missed_hosts.lock() = Some(hosts);
    }

    /// Takes the hosts that were not reached, for the layer that knows which hosts are listed.
    pub fn take_missed_hosts(&self) -> Option<Vec<String>> {
        self.missed_hosts.lock().take()
    }

    /// Reports that the call ran on its snapshot, and that every process that could change the
    /// snapshot has ended.
    pub fn used_snapshot(&self, used: SnapshotUse) {
        *self.snapshot.lock() = Some(used);
    }

    /// Returns the record of the snapshot that the call ran on.
    pub fn snapshot_use(&self) -> Option<SnapshotUse> {
        *self.snapshot.lock()
    }

    /// Reports that the call could not run on a snapshot and therefore did nothing. The call may
    /// change the workspace directly only after a decision about that.
    pub fn refuse_snapshot(&self) {
        self.snapshot_refused.store(true, Ordering::SeqCst);
    }

    /// Returns true if the call refused to run on a snapshot.
    pub fn snapshot_is_refused(&self) -> bool {
        self.snapshot_refused.load(Ordering::SeqCst)
    }

    /// Asks to show the changes in the snapshot without committing them. The changes are kept
    /// aside, and their diff becomes the field `diff` of the output.
    pub fn only_show_changes(&self) {
        self.only_shown.store(true, Ordering::SeqCst);
    }

    /// Returns true if the changes are only to be shown.
    pub fn changes_are_only_shown(&self) -> bool {
        self.only_shown.load(Ordering::SeqCst)
    }

    /// Asks to discard the changes in the snapshot of the workspace. Has no effect without a snapshot.
    pub fn discard_changes(&self) {
        self.discard.store(true, Ordering::SeqCst);
    }

    /// Returns true if the changes are to be discarded.
    pub fn changes_are_discarded(&self) -> bool {
        self.discard.load(Ordering::SeqCst)
    }

    /// Keeps the full text whose shortened form is in `field` of the output.
    pub fn keep_whole(&self, whole: FullOutput) {
        self.wholes.lock().push(whole);
    }

    /// Takes the full texts, for the layer that stores them.
    pub fn take_wholes(&self) -> Vec<FullOutput> {
        std::mem::take(&mut self.wholes.lock())
    }
}

/// Services of the runtime, by type.
#[derive(Clone, Default)]
pub struct Services(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Services {
    /// Adds a service, and replaces one of the same type.
    pub fn insert<T: Any + Send + Sync>(&mut self, service: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), service);
    }

    /// Returns the service of this type.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the runtime has no service of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Result<Arc<T>, ToolError> {
        self.0.get(&TypeId::of::<T>()).and_then(|service| service.clone().downcast::<T>().ok()).ok_or_else(
            || {
                let name = std::any::type_name::<T>();
                ToolError::new(Code::Unavailable, format!("this runtime has no service {name}"))
            },
        )
    }
}

/// Wall clock. A trait, so that tests can set the time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Receiver of the progress of a long call.
pub trait Progress: Send + Sync {
    /// Reports progress. `done` never decreases; `total` is `None` while unknown.
    fn report(&self, done: u64, total: Option<u64>, message: &str);
}

/// Receiver that discards progress reports.
pub struct NoProgress;

impl Progress for NoProgress {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}
}

/// List of all tools of this runtime, for the tools that list them.
#[derive(Clone)]
pub struct Catalogue(Arc<dyn Fn() -> Vec<CatalogueEntry> + Send + Sync>);

impl Catalogue {
    /// Creates a catalogue that calls `list` for each request, because a tool's description may
    /// change with the machine.
    pub fn new(list: impl Fn() -> Vec<CatalogueEntry> + Send + Sync + 'static) -> Self {
        Self(Arc::new(list))
    }

    /// Returns the current entries.
    pub fn entries(&self) -> Vec<CatalogueEntry> {
        (self.0)()
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        Self::new(Vec::new)
    }
}

/// One tool of the [`Catalogue`].
#[derive(Debug, Clone)]
pub struct CatalogueEntry {
    /// Name of the tool.
    pub name: String,
    /// Short name for people.
    pub title: String,
    /// `built_in` or `plugin`.
    pub kind: &'static str,
    /// Description of the tool.
    pub description: String,
    /// Level of the tool, unless arguments change it.
    pub level: Level,
    /// `ready`, or the reason why the tool cannot be used.
    pub status: String,
    /// Time at which the tool became part of this runtime.
    pub created_at: Timestamp,
    /// JSON Schema of the arguments: an object.
    pub input_schema: Value,
    /// Arguments of the worked example, as JSON.
    pub example: String,
}

/// Decisions of the policy about requests that the plan of a call could not name: the targets of
/// redirections, and the addresses behind a host name. A tool asks before each request.
pub trait Hosts: Send + Sync {
    /// Allows effects that the plan does not name, or refuses them. An effect that needs the
    /// approval of a human is refused, because no human can be asked at this point.
    ///
    /// # Errors
    /// `EPERMISSION`, with the rule and the remedy.
    fn may_also(&self, level: Level, effects: &[Effect]) -> Result<(), ToolError>;

    /// Reports whether the tool may connect to `address`, to which `host` resolves. Returns `None`
    /// if no rule covers the address itself; it must then be an address of the public internet.
    fn may_dial(&self, host: &str, address: IpAddr, port: u16) -> Option<bool>;
}

/// Redaction of the runtime's secrets, for a tool that sends received text to another place than
/// its response. The engine redacts the response itself.
pub trait Redaction: Send + Sync {
    /// Redacts every secret in the text. Returns `None` if the text holds no secret.
    fn text(&self, text: &str) -> Option<String>;

    /// Opens a stream that also redacts secrets that are split between two chunks.
    fn stream(&self) -> Box<dyn CoveredStream>;
}

/// Stream of bytes in which secrets are redacted.
pub trait CoveredStream: Send {
    /// Takes the next chunk and returns the bytes that are final: all but a suffix that may be the
    /// beginning of a secret. If `ended` is true, every byte is final.
    fn next(&mut self, piece: &[u8], ended: bool) -> Vec<u8>;

    /// Returns the number of bytes that are held back.
    fn held(&self) -> usize;

    /// Returns the number of secrets that were redacted so far.
    fn covered(&self) -> u64;
}

/// Kept outputs of earlier calls.
pub trait Outputs: Send + Sync {
    /// Opens a kept output by its reference.
    ///
    /// # Errors
    /// `ENOTFOUND` if the output does not exist (any more), `EVALIDATION` if the text is no reference.
    fn open(&self, reference: &str) -> Result<File, ToolError>;
}
