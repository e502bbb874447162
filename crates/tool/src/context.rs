use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fs::File;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;

use crate::{CallId, Code, Effect, Level, Place, SessionId, Stop, ToolError};

/// What the runtime hands to a tool for one call.
pub struct Context {
    /// The call.
    pub call: CallId,
    /// Who called.
    pub session: SessionId,
    /// Where it happens.
    pub place: Place,
    /// The signal that ends the call early.
    pub stop: Stop,
    /// How long the call may take in all.
    pub timeout: Duration,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where progress goes.
    pub progress: Arc<dyn Progress>,
    /// Whether the caller shows its model pictures that an answer holds.
    pub shows_pictures: bool,
    /// The mechanisms of the runtime, by type: the roots, the cell, the catalogue, ...
    pub services: Services,
    wholes: Mutex<Vec<Whole>>,
    enforced: Mutex<Option<Vec<String>>>,
    warnings: Mutex<Vec<String>>,
    missed_hosts: Mutex<Option<Vec<String>>>,
    discard: AtomicBool,
    snapshot: Mutex<Option<SnapshotUse>>,
    snapshot_refused: AtomicBool,
    only_shown: AtomicBool,
}

/// That a call ran on a snapshot of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotUse {
    /// When it was taken, as the file system stamps changes: what others changed at this time or later is not in it.
    pub taken_at: SystemTime,
    /// Whether the call could change nothing else.
    pub nothing_else: bool,
}

/// A text that did not fit into memory, whole, in a file.
#[derive(Debug)]
pub struct Whole {
    /// The field of the output that holds the shortened text.
    pub field: &'static str,
    /// The whole text, positioned at its start.
    pub file: File,
    /// Bytes that were produced, more than the file holds where the disk limit was reached.
    pub bytes: u64,
    /// Lines that were produced; one without a newline at its end counts.
    pub lines: u64,
    /// Bytes that the file holds.
    pub kept_bytes: u64,
}

impl Context {
    /// A context without progress; the engine and tests fill in the rest.
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
            progress: Arc::new(Unreported),
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

    /// A mechanism of the runtime.
    ///
    /// # Errors
    /// `EUNAVAILABLE` where this runtime was composed without it.
    pub fn service<T: Any + Send + Sync>(&self) -> Result<Arc<T>, ToolError> {
        self.services.get::<T>()
    }

    /// Says what the cell of this call really enforced, for `meta.sandbox` and the audit.
    pub fn report_enforced(&self, facts: Vec<String>) {
        *self.enforced.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }

    /// What was enforced, where a cell was used.
    pub fn enforced(&self) -> Option<Vec<String>> {
        self.enforced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that something beside the call itself went wrong; it comes with the answer, as `meta.warnings`.
    pub fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// What was said so, for the layer that hands it on.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says that a command found no way to other machines: to these hosts, or to one that it does not name.
    pub fn report_missed_hosts(&self, hosts: Vec<String>) {
        *self.missed_hosts.lock().unwrap_or_else(PoisonError::into_inner) = Some(hosts);
    }

    /// Takes what was said so, for the layer that knows which hosts are listed.
    pub fn take_missed_hosts(&self) -> Option<Vec<String>> {
        self.missed_hosts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Says that the call ran on the snapshot that it was given, and that everything which could change it has ended.
    pub fn used_snapshot(&self, used: SnapshotUse) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
    }

    /// Whether that was said.
    pub fn snapshot_use(&self) -> Option<SnapshotUse> {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the call could not run on a snapshot, and so did nothing: it may change the workspace directly only when
    /// that is decided on.
    pub fn refuse_snapshot(&self) {
        self.snapshot_refused.store(true, Ordering::SeqCst);
    }

    /// Whether that was said.
    pub fn snapshot_is_refused(&self) -> bool {
        self.snapshot_refused.load(Ordering::SeqCst)
    }

    /// Says that what the call changed in its snapshot is only to be shown: it is kept aside, and the difference that it
    /// makes becomes the field `diff` of the output.
    pub fn only_show_changes(&self) {
        self.only_shown.store(true, Ordering::SeqCst);
    }

    /// Whether that was said.
    pub fn changes_are_only_shown(&self) -> bool {
        self.only_shown.load(Ordering::SeqCst)
    }

    /// Says that what the call changed in its snapshot of the workspace is not wanted. Without a snapshot this is without effect.
    pub fn discard_changes(&self) {
        self.discard.store(true, Ordering::SeqCst);
    }

    /// Whether that was said.
    pub fn changes_are_discarded(&self) -> bool {
        self.discard.load(Ordering::SeqCst)
    }

    /// Keeps the whole of a text whose shortened form stands in `field` of the output.
    pub fn keep_whole(&self, whole: Whole) {
        self.wholes.lock().unwrap_or_else(PoisonError::into_inner).push(whole);
    }

    /// What was kept, for the layer that stores it.
    pub fn take_wholes(&self) -> Vec<Whole> {
        std::mem::take(&mut self.wholes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The mechanisms of the runtime, by type.
#[derive(Clone, Default)]
pub struct Services(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Services {
    /// Adds a mechanism; one of the same type is replaced.
    pub fn insert<T: Any + Send + Sync>(&mut self, service: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), service);
    }

    /// The mechanism of this type.
    ///
    /// # Errors
    /// `EUNAVAILABLE` where there is none.
    pub fn get<T: Any + Send + Sync>(&self) -> Result<Arc<T>, ToolError> {
        self.0.get(&TypeId::of::<T>()).and_then(|service| service.clone().downcast::<T>().ok()).ok_or_else(
            || {
                let name = std::any::type_name::<T>();
                ToolError::new(Code::Unavailable, format!("this runtime was composed without {name}"))
            },
        )
    }
}

/// The wall clock. A trait, so that tests can set it.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Where a long call reports how far it is.
pub trait Progress: Send + Sync {
    /// Something happened. `done` only grows; `total` is there when known.
    fn report(&self, done: u64, total: Option<u64>, message: &str);
}

/// Nobody wants to know how far a call is.
pub struct Unreported;

impl Progress for Unreported {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}
}

/// Everything this runtime can do, for the tools that list it.
#[derive(Clone)]
pub struct Catalogue(Arc<dyn Fn() -> Vec<CatalogueEntry> + Send + Sync>);

impl Catalogue {
    /// The one that this lists whenever it is asked: what a tool says of itself may change with the machine.
    pub fn new(list: impl Fn() -> Vec<CatalogueEntry> + Send + Sync + 'static) -> Self {
        Self(Arc::new(list))
    }

    /// Everything as it is now.
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
    /// The tool's name.
    pub name: String,
    /// Its short name for people.
    pub title: String,
    /// `built_in` or `plugin`.
    pub kind: &'static str,
    /// What it does.
    pub description: String,
    /// Its level, unless arguments change it.
    pub level: Level,
    /// `ready`, or why it cannot be used.
    pub status: String,
    /// When it became part of this runtime.
    pub created_at: Timestamp,
    /// The JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// Its worked example: the arguments, as JSON.
    pub example: String,
}

/// What the policy says to a call about requests that its plan could not name: where a redirection leads, and what a name leads to.
/// Whoever makes requests asks before each.
pub trait Hosts: Send + Sync {
    /// Whether the call may do this beside what its plan names. Nobody can be asked any more, so what only a human could allow is
    /// refused.
    ///
    /// # Errors
    /// `EPERMISSION`, with the rule and what to do.
    fn may_also(&self, level: Level, effects: &[Effect]) -> Result<(), ToolError>;

    /// Whether `address`, which `host` leads to, may be dialled. None where no rule says anything about the address itself: then it
    /// has to be one of the public internet.
    fn may_dial(&self, host: &str, address: IpAddr, port: u16) -> Option<bool>;
}

/// The secrets that the runtime knows, for a tool that puts elsewhere than into its answer what it was sent. The answer itself is
/// covered by the engine.
pub trait Covering: Send + Sync {
    /// Covers every secret in the text; none where the text holds no secret.
    fn text(&self, text: &str) -> Option<String>;

    /// Begins a stream that covers secrets across the borders of its pieces.
    fn stream(&self) -> Box<dyn CoveredStream>;
}

/// One stream of bytes in which secrets are covered.
pub trait CoveredStream: Send {
    /// Takes the next piece, and gives what is settled: all but what may be the beginning of a secret. With `ended` all is settled.
    fn next(&mut self, piece: &[u8], ended: bool) -> Vec<u8>;

    /// Counts the bytes that are held back.
    fn held(&self) -> usize;

    /// Counts the secrets that were covered so far.
    fn covered(&self) -> u64;
}

/// The kept outputs of earlier calls.
pub trait Outputs: Send + Sync {
    /// Opens a kept output by its reference.
    ///
    /// # Errors
    /// `ENOTFOUND` where there is none (any more), `EVALIDATION` where this is no reference.
    fn open(&self, reference: &str) -> Result<File, ToolError>;
}
