//! The context that a tool gets for one call.

use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fs::File;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use crate::{BoxFuture, CallId, Code, Effect, Level, Place, SessionId, Stop, ToolError};

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
    warnings: Mutex<Vec<String>>,
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
            warnings: Mutex::default(),
        }
    }

    /// Returns a service of the runtime.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if this runtime was composed without the service.
    pub fn service<T: Any + Send + Sync>(&self) -> Result<Arc<T>, ToolError> {
        self.services.get::<T>()
    }

    /// Adds a warning about a problem besides the call itself. The response carries it in
    /// `meta.warnings`, also if the run does not return, so warnings are no part of its result.
    pub fn warn(&self, warning: String) {
        self.warnings.lock().push(warning);
    }

    /// Takes the warnings, for the layer that adds them to the response.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
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

/// Waits for moments. A trait, so that tests decide when time has passed.
pub trait Timer: Send + Sync {
    /// Returns the present moment of a clock that never goes back.
    fn now(&self) -> Instant;

    /// Returns a future that ends at the moment.
    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()>;

    /// Returns a future that ends after the duration.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // A moment beyond the clock's range is never reached.
        match self.now().checked_add(duration) {
            Some(moment) => self.sleep_until(moment),
            None => Box::pin(std::future::pending()),
        }
    }
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
pub struct Catalogue {
    list: Lister,
    failed: Lister,
}

/// Function that makes entries of the catalogue.
type Lister = Arc<dyn Fn() -> Vec<CatalogueEntry> + Send + Sync>;

impl Catalogue {
    /// Creates a catalogue that calls `list` for each request, because a tool's description may
    /// change with the machine.
    pub fn new(list: impl Fn() -> Vec<CatalogueEntry> + Send + Sync + 'static) -> Self {
        Self { list: Arc::new(list), failed: Arc::new(Vec::new) }
    }

    /// Adds the tools that nobody can call at present, such as a plugin in quarantine.
    #[must_use]
    pub fn with_failed(self, list: impl Fn() -> Vec<CatalogueEntry> + Send + Sync + 'static) -> Self {
        Self { failed: Arc::new(list), ..self }
    }

    /// Returns the entries of the tools that nobody can call at present.
    pub fn failed(&self) -> Vec<CatalogueEntry> {
        (self.failed)()
    }

    /// Returns the current entries.
    pub fn entries(&self) -> Vec<CatalogueEntry> {
        (self.list)()
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

/// Decisions on calls that somebody makes later on behalf of the caller, such as a schedule.
pub trait LaterCalls: Send + Sync {
    /// Decides on a call without making it, as if the caller made the call now.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown tool, `EVALIDATION` for invalid arguments.
    fn foresee(&self, tool: &str, arguments: Value) -> Result<ForeseenCall, ToolError>;

    /// Returns the upper limit of what the caller may do now, as JSON that only the runtime reads.
    ///
    /// # Errors
    /// `EPERMISSION` if the caller has limits that cannot be stored.
    fn ceiling(&self) -> Result<Value, ToolError>;
}

/// Decision on a call that is made later.
#[derive(Debug, Clone)]
pub struct ForeseenCall {
    /// True if the call would be denied now.
    pub is_denied: bool,
    /// Reason for the decision.
    pub reason: String,
    /// Upper limit of what the call may do: that of the caller, narrowed to the call's level and to its
    /// kinds of effects. JSON that only the runtime reads.
    pub ceiling: Value,
}

/// Knowledge of programs that commands cannot find.
pub trait MissingPrograms: Send + Sync {
    /// Returns the reason why commands do not find a program that this machine may have, with the
    /// remedy. `name` is a name without slashes. Returns `None` if nothing is known about it.
    fn advice(&self, name: &str) -> Option<String>;
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
