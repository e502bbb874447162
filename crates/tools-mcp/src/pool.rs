//! Running servers, by their owners.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use mcp_client::restart::{BackoffRules, RecycleRules, Restarts, StartDecision};
use parking_lot::Mutex;
use sandbox::CellSource;
use tokio::sync::Mutex as Turn;
use tool::{Context, Owner, Resource, ResourcePool, ResourceUsage, ToolError};

use crate::connection::{Connection, Start};
use crate::failure;
use crate::parts::ServersParts;
use crate::settings::ServerSettings;

/// Maximum number of servers that run at once in a runtime.
const MOST_RUNNING: usize = 64;

/// Longest wait before a start that a call waits for. A longer one is an error.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Owner of the servers that serve every session.
const EVERYBODY: &str = "";

/// Servers of a runtime, by the name of their owner and their key.
#[derive(Default)]
pub(crate) struct Pool {
    slots: Mutex<HashMap<(String, String), Arc<Slot>>>,
    is_closed: AtomicBool,
}

/// Place of one server of one owner.
struct Slot {
    owner: Owner,
    since: Timestamp,
    server: String,
    running: Turn<Option<Arc<Connection>>>,
    /// Copy of the connection for callers that do not wait.
    now: Mutex<Option<Arc<Connection>>>,
    restarts: Mutex<Restarts>,
    /// True if a caller wants its failures forgotten.
    is_forgiven: AtomicBool,
}

impl Slot {
    fn runs(&self) -> Option<Arc<Connection>> {
        self.now.lock().clone().filter(|connection| connection.client.closed().is_none())
    }
}

impl Pool {
    /// Returns the connection of the call's owner to a server, and begins it if there is none. The second value is
    /// true if it has just begun.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the server does not start, or failed so often that it must wait.
    pub(crate) async fn connection(
        &self,
        parts: &ServersParts,
        settings: &ServerSettings,
        context: &Context,
    ) -> Result<(Arc<Connection>, bool), ToolError> {
        let source = context.service::<CellSource>()?;
        let is_shared = settings.is_shared && source.may_share();
        let slot = self.slot(&source, settings, context, is_shared);
        let mut running = slot.running.lock().await;
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(failure::unavailable(&settings.key, "the runtime ends"));
        }
        let (rules, now) = (BackoffRules::default(), parts.timer.now());
        if let Some(connection) = running.as_ref() {
            if connection.client.closed().is_none() {
                return Ok((connection.clone(), false));
            }
            let used = connection.client.server_use();
            let is_idle = now.saturating_duration_since(used.last_used) >= RecycleRules::default().idle;
            let mut restarts = slot.restarts.lock();
            if is_idle { restarts.ended() } else { restarts.failed(&rules, now, jitter(context)) }
        }
        (*running, *slot.now.lock()) = (None, None);
        if slot.is_forgiven.swap(false, Ordering::SeqCst) {
            slot.restarts.lock().forgive();
        }
        let decided = slot.restarts.lock().decide(&rules, now);
        match decided {
            StartDecision::Now => {}
            StartDecision::After(wait) if wait <= LONGEST_PAUSE => parts.timer.sleep(wait).await,
            StartDecision::After(wait) => {
                let problem = format!("it failed; it may start again in {} ms", wait.as_millis());
                return Err(failure::unavailable(&settings.key, &problem));
            }
            StartDecision::Quarantined { failures } => {
                let problem =
                    format!("it failed {failures} times in a row; `mcp_servers` with its name tries again");
                return Err(failure::unavailable(&settings.key, &problem));
            }
        }
        if self.number_of_running() >= MOST_RUNNING {
            return Err(failure::unavailable(&settings.key, &format!("{MOST_RUNNING} servers run already")));
        }
        slot.restarts.lock().started(now);
        let start = Start { parts, settings, context, source, is_shared };
        // Boxed, because every call would be as large as this start.
        let begun = Box::pin(Connection::begin(&start)).await;
        let connection = begun.map(Arc::new).inspect_err(|_| {
            slot.restarts.lock().failed(&rules, parts.timer.now(), jitter(context));
        })?;
        *running = Some(connection.clone());
        *slot.now.lock() = Some(connection.clone());
        if self.is_closed.load(Ordering::SeqCst) {
            // The end of the runtime did not see it.
            (*running, *slot.now.lock()) = (None, None);
            return Err(failure::unavailable(&settings.key, "the runtime ends"));
        }
        Ok((connection, true))
    }

    /// Forgets the failures of a server.
    pub(crate) fn forgive(&self, server: &str) {
        for slot in self.slots.lock().values().filter(|slot| slot.server == server) {
            slot.is_forgiven.store(true, Ordering::SeqCst);
        }
    }

    /// Returns the number of processes and connections of a server.
    pub(crate) fn running(&self, server: &str) -> usize {
        let slots = self.slots.lock();
        slots.values().filter(|slot| slot.server == server && slot.runs().is_some()).count()
    }

    fn number_of_running(&self) -> usize {
        self.slots.lock().values().filter(|slot| slot.runs().is_some()).count()
    }

    fn slot(
        &self,
        source: &CellSource,
        settings: &ServerSettings,
        context: &Context,
        is_shared: bool,
    ) -> Arc<Slot> {
        let (name, owner) = if is_shared {
            (EVERYBODY, Owner::Runtime)
        } else {
            (source.owner(), Owner::Session(context.session.clone()))
        };
        let new = || {
            Arc::new(Slot {
                owner,
                since: context.clock.now(),
                server: settings.key.clone(),
                running: Turn::default(),
                now: Mutex::default(),
                restarts: Mutex::default(),
                is_forgiven: AtomicBool::new(false),
            })
        };
        self.slots.lock().entry((name.to_owned(), settings.key.clone())).or_insert_with(new).clone()
    }

    fn take(&self, owner: &Owner) -> Vec<Arc<Slot>> {
        let mut slots = self.slots.lock();
        let ending: Vec<_> = slots
            .iter()
            .filter(|(_, slot)| owner.includes(&slot.owner))
            .map(|(key, _)| key.clone())
            .collect();
        ending.into_iter().filter_map(|key| slots.remove(&key)).collect()
    }
}

/// Returns a number below 1,000 that differs from call to call.
fn jitter(context: &Context) -> u32 {
    let hash = blake3::hash(context.call.0.as_bytes());
    let [first, second, ..] = *hash.as_bytes();
    u32::from(u16::from_le_bytes([first, second])) % 1_000
}

impl ResourcePool for Pool {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        let shown = |slot: Arc<Slot>| {
            let connection = slot.runs()?;
            let facts = connection.client.facts();
            Some(Resource {
                kind: "MCP server",
                owner: slot.owner.clone(),
                since: slot.since,
                description: format!("{}: {} {}", slot.server, facts.name, facts.version),
                // The thread that supervises the cell.
                usage: ResourceUsage {
                    threads: u64::from(connection.is_program()),
                    ..ResourceUsage::default()
                },
            })
        };
        slots.into_iter().filter_map(shown).collect()
    }

    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.is_closed.store(true, Ordering::SeqCst);
        }
    }

    fn join(&self, owner: &Owner) {
        for slot in self.take(owner) {
            let connection = slot.now.lock().take();
            if let Some(connection) = connection {
                connection.end();
            }
        }
    }
}
