//! The way out of a session's network: the hosts that the policy allows to the session's commands,
//! and the records of their connections.
//!
//! A command is decided on before it runs, but its connections are known only while it runs. Each
//! connection is therefore checked against the same lists at that time, and written into the audit.
//! The next response of a command reports refused connections to the agent.

mod requests;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use egress::{
    Authority, BegunRequest, Cover, Gate, GateEvent, Peer, Position, RequestVerdict, Secret, Verdict, Way,
};
use fetch::address::Host;
use fetch::dial::{Permission, System};
use parking_lot::Mutex;
use policy::{AddressVerdict, ConnectionVerdict, Policy};
use sandbox::{CellConnection, CellProcesses, CellSpec};
use serde_json::json;
use store_api::{AuditRow, Durability, Kind, Store};
use tokio::sync::Semaphore;
use tool::{Clock, Code, Effect, EffectState};
use vault::Vault;

use crate::Redactor;
use crate::approvals::{HostConnection, place};
use crate::connection_owner::ConnectionOwners;
use crate::connections::CallConnections;
use crate::placeholders::{Placeholders, SessionPlaceholders};
use crate::redact::Pieces;
use crate::rules_in_force::RulesInForce;

/// Tool name in the row of a connection that a command made, or was refused.
pub(crate) const CONNECTIONS: &str = "cell_connect";

/// Maximum number of refusals that one response names; it gives the number of the others.
const MAX_TOLD: usize = 10;
/// Time after which the same refusal is written into the audit again. Until then it is counted,
/// because a loop must not fill the audit.
const SAME_AGAIN: Duration = Duration::from_mins(1);
/// Maximum number of requests that are judged at once.
const AT_ONCE: usize = 4;
/// Maximum number of refusals that are remembered for counting.
const MAX_REMEMBERED: usize = 1024;

/// Parts from which every way out is built.
#[derive(Clone)]
pub(crate) struct GateDeps {
    pub(crate) policy: RulesInForce,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) vault: Option<Arc<Vault>>,
    pub(crate) workspace: PathBuf,
    /// Folder for the certificates that programs are to trust.
    pub(crate) folder: Option<PathBuf>,
}

/// Gate of one session's network.
pub(crate) struct WayOut {
    around: GateDeps,
    session: String,
    refused: Mutex<RefusalLog>,
    owners: ConnectionOwners,
    /// Hosts and ports that a human has allowed to a call in this network.
    approved: Mutex<HashSet<(String, u16)>>,
    /// Permits to judge requests, which takes memory and a thread.
    judging: Semaphore,
    given: Arc<SessionPlaceholders>,
    /// Cells of the session's browser, which gets no placeholders.
    browser: Arc<CellProcesses>,
    /// Secrets that the session's programs may use, set by the first command for which such a
    /// secret exists.
    secrets: OnceLock<Arc<Placeholders>>,
}

#[derive(Default)]
struct RefusalLog {
    /// Refusals that were not reported to the agent yet; `more` counts the others.
    told: Vec<String>,
    more: usize,
    /// Reasons that the answer of a call reports in its own words.
    told_by_calls: HashSet<String>,
    /// Time at which each refusal was last recorded, and the number of repetitions since then.
    written: HashMap<(String, u16), (Instant, u64)>,
}

impl RefusalLog {
    /// Records that the answer of a call reports this reason.
    fn is_told_by_call(&mut self, reason: &str) {
        if self.told_by_calls.len() >= MAX_REMEMBERED {
            self.told_by_calls.clear();
        }
        self.told_by_calls.insert(reason.to_owned());
    }

    /// Stores a refusal for the agent, unless the answer of a call reports its reason.
    fn tell(&mut self, note: String, reason: &str) {
        if self.told_by_calls.contains(reason) || self.told.contains(&note) {
            return;
        }
        if self.told.len() < MAX_TOLD { self.told.push(note) } else { self.more += 1 }
    }

    /// Counts a refusal. If it must be written into the audit, returns the number of its repetitions
    /// since the last row.
    fn count(&mut self, what: String, port: u16) -> Option<u64> {
        if self.written.len() >= MAX_REMEMBERED {
            self.written.clear();
        }
        let now = Instant::now();
        let (last, since) = self.written.entry((what, port)).or_insert((now, u64::MAX));
        if *since != u64::MAX && now.duration_since(*last) < SAME_AGAIN {
            *since += 1;
            return None;
        }
        let repeated = if *since == u64::MAX { 0 } else { *since };
        (*last, *since) = (now, 0);
        Some(repeated)
    }
}

impl WayOut {
    pub(crate) fn of(
        around: GateDeps,
        session: &str,
        (given, browser): (Arc<SessionPlaceholders>, Arc<CellProcesses>),
    ) -> Self {
        let (session, refused) = (session.to_owned(), Mutex::default());
        Self {
            around,
            session,
            refused,
            owners: ConnectionOwners::default(),
            approved: Mutex::default(),
            judging: Semaphore::new(AT_ONCE),
            given,
            browser,
            secrets: OnceLock::new(),
        }
    }

    /// Registers a call whose commands run in this network.
    pub(crate) fn add(&self, connections: Arc<CallConnections>) {
        self.owners.add(connections);
    }

    /// Decides a connection to a host on no list.
    async fn ask(&self, host: &str, port: u16, peer: Peer, unlisted: String) -> Result<(), String> {
        let Some((call, program)) = self.owners.find(peer).await else {
            // A command that passes as read-only is not registered, so its connections end here.
            return Err(unlisted);
        };
        let decided =
            call.decide(HostConnection { host: host.to_owned(), port, program, action: None }).await;
        match &decided {
            Ok(()) => {
                self.approved.lock().insert((host.to_owned(), port));
                call.note_reached(place(host, port));
            }
            Err(reason) => self.refused.lock().is_told_by_call(reason),
        }
        decided
    }

    /// Returns true if the programs of commands may send secrets to the host.
    fn opens(&self, host: &Host) -> bool {
        self.secrets.get().is_some_and(|secrets| secrets.belong_to(host))
    }

    /// Returns true if the browser has the connection.
    async fn is_of_browser(&self, peer: Peer) -> bool {
        if self.browser.is_empty() {
            return false;
        }
        let (cells, connection) =
            (self.browser.clone(), CellConnection { client: peer.client, server: peer.server });
        let found = tokio::task::spawn_blocking(move || cells.program_of(&connection).is_some());
        // If the search panics, the connection is one of a command, which is judged.
        found.await.unwrap_or(false)
    }

    /// Gives a cell the placeholders of the secrets that its programs may use. Blocks while files
    /// are read.
    ///
    /// # Errors
    /// Returns the reason why the cell has no placeholders, in words for the agent.
    pub(crate) fn hand_out(&self, cell: &mut CellSpec) -> Result<(), String> {
        let GateDeps { policy, vault, folder, clock, .. } = &self.around;
        let (Some(vault), Some(folder)) = (vault, folder) else { return Ok(()) };
        let now = clock.now();
        if self.secrets.get().is_none()
            && let Some(secrets) = Placeholders::of(vault, policy, folder, &self.given, now)?
        {
            // Another command of the session may have set them first, and then its set is used.
            let _second = self.secrets.set(Arc::new(secrets));
        }
        let Some(secrets) = self.secrets.get() else { return Ok(()) };
        let variables = secrets.variables(now, &cell.environment)?;
        cell.read_only.extend(secrets.files());
        cell.environment.extend(variables);
        Ok(())
    }

    /// Obeys this policy from now on.
    pub(crate) fn follow(&self, policy: Arc<Policy>) {
        self.around.policy.set(policy);
    }

    /// Ends the session.
    pub(crate) fn close(&self) {
        if let Some(secrets) = self.secrets.get() {
            secrets.close();
        }
    }

    /// Takes the refusals since the last call of this method, as notes for the agent.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        let mut refused = self.refused.lock();
        let mut notes = std::mem::take(&mut refused.told);
        let more = std::mem::take(&mut refused.more);
        if more > 0 {
            notes.push(format!("{more} more connections were refused"));
        }
        notes
    }

    /// Stores a refusal for the agent. If it must be written into the audit, returns the number of
    /// its repetitions since the last row.
    fn refuse(&self, met: &GateEvent, reason: &str) -> Option<u64> {
        let place = if met.port == 0 { met.host.clone() } else { format!("{}:{}", met.host, met.port) };
        let mut refused = self.refused.lock();
        let note = format!("a connection to {place} was refused: {reason}");
        refused.tell(note, reason);
        refused.count(met.host.clone(), met.port)
    }

    /// Records that a secret is about to be sent. The row is on the disk when this method succeeds.
    async fn note_use(&self, name: &str, host: &str, place: Position) -> io::Result<()> {
        let way = match place {
            Position::Header => "header",
            Position::Query => "query",
            Position::Body => "body",
        };
        let effect = Effect::UseSecret { name: name.to_owned(), host: host.to_owned() };
        let row = self.row(way, &effect, None, 0);
        self.around.store.audit().append(row, Durability::Flushed).await.map(drop).map_err(io::Error::other)
    }

    fn row(&self, way: &str, effect: &Effect, refused: Option<&str>, repeated: u64) -> AuditRow {
        let GateDeps { redactor, clock, workspace, .. } = &self.around;
        let id = crate::new_call_id(clock.as_ref());
        let mut row = AuditRow::new(Kind::Call, clock.now(), &id.0, "cell", "handfast", CONNECTIONS);
        row.session = Some(self.session.clone());
        let mut plan = json!({
            "arguments": { "way": way },
            "effects": [effect],
            "workspace": tool::path_text(workspace),
        });
        redactor.value(&mut plan["effects"]);
        if repeated > 0 {
            plan["arguments"]["repeated"] = repeated.into();
        }
        row.plan = Some(plan.to_string());
        let (decision, outcome, effect) = match refused {
            None => ("pass", "ok", EffectState::Done),
            Some(reason) => {
                row.rule = Some(redactor.text(reason).unwrap_or_else(|| reason.to_owned()));
                ("deny", Code::Permission.as_str(), EffectState::None)
            }
        };
        row.decision = Some(decision.to_owned());
        row.outcome = Some(outcome.to_owned());
        row.effect = Some(effect.as_str().to_owned());
        row
    }
}

impl Gate for WayOut {
    type Resolver = System;

    async fn judge(&self, host: &Host, port: u16, peer: Peer) -> Verdict {
        let name = host.to_string();
        let policy = self.around.policy.get();
        let decided = match policy.connection_verdict(&name, port) {
            ConnectionVerdict::Allowed => {
                if let Some((call, _)) = self.owners.find_if_listed(peer).await {
                    call.note_reached(place(&name, port));
                }
                Ok(())
            }
            ConnectionVerdict::Ask(unlisted) => self.ask(&name, port, peer, unlisted).await,
            ConnectionVerdict::Denied(reason) => Err(reason),
        };
        match decided {
            // A page has no placeholders, and its browser does not know the session's authority.
            Ok(()) if self.opens(host) && !self.is_of_browser(peer).await => Verdict::Opened,
            Ok(()) => Verdict::Through,
            Err(reason) => Verdict::Refused(reason),
        }
    }

    fn knows(&self, host: &Host) -> bool {
        let host = host.to_string();
        !is_asked_by_habit(&host) && self.around.policy.get().resolves_host(&host)
    }

    fn permission(&self, host: &Host, port: u16) -> Permission {
        let host = host.to_string();
        let approved = self.approved.lock().contains(&(host.clone(), port));
        permission(self.around.policy.get(), host, port, approved)
    }

    fn resolver(&self) -> &System {
        &System
    }

    async fn note(&self, met: GateEvent) -> io::Result<()> {
        let repeated = match &met.refused {
            Some(_) if met.way == Way::Name && is_asked_by_habit(&met.host) => return Ok(()),
            Some(reason) => match self.refuse(&met, reason) {
                Some(repeated) => repeated,
                None => return Ok(()),
            },
            None => 0,
        };
        // A refused connection has no effect that its row would have to precede. The intent of a call
        // with listed hosts is on the disk, and that of other calls need not be.
        let durability = match &met.refused {
            Some(_) => Durability::Behind,
            None if self.approved.lock().contains(&(met.host.clone(), met.port)) => Durability::Flushed,
            None => Durability::Committed,
        };
        let effect = Effect::Connect { host: met.host, port: met.port, method: None, only_asks: false };
        let row = self.row(met.way.as_str(), &effect, met.refused.as_deref(), repeated);
        self.around.store.audit().append(row, durability).await.map(drop).map_err(io::Error::other)
    }

    fn authority(&self) -> Option<&Authority> {
        self.secrets.get().map(|secrets| &secrets.authority)
    }

    async fn swap(&self, placeholder: &str, host: &Host, place: Position) -> Result<Secret, String> {
        let known = self.secrets.get().and_then(|secrets| Some((secrets, secrets.name_of(placeholder)?)));
        let Some((secrets, name)) = known else {
            return Err("the request contains a placeholder of a secret that does not belong to this \
                 session"
                .to_owned());
        };
        let (secrets, host, now) = (secrets.clone(), host.to_string(), self.around.clock.now());
        let (of, at) = (name.clone(), host.clone());
        // The lookup may read or write the vault, which blocks.
        let value = tokio::task::spawn_blocking(move || secrets.value(&of, &at, place, now)).await;
        let value = value.map_err(|error| error.to_string())??;
        // The redactor must know the value before a response can contain it.
        self.around.redactor.refresh();
        let noted = self.note_use(&name, &host, place).await;
        noted.map_err(|error| format!("the use of the secret {name} cannot be recorded: {error}"))?;
        Ok(Secret::of(value))
    }

    fn judges_requests(&self, host: &Host) -> bool {
        self.secrets.get().is_some_and(|secrets| secrets.has_login_at(host))
    }

    async fn judge_request(
        &self,
        host: &Host,
        port: u16,
        peer: Peer,
        request: BegunRequest,
    ) -> RequestVerdict {
        self.judge_at_forge(host, port, peer, request).await
    }

    fn swaps_bodies(&self, host: &Host) -> bool {
        self.secrets.get().is_some_and(|secrets| secrets.stand_in_bodies(host))
    }

    fn cover(&self) -> Box<dyn Cover> {
        Box::new(Answer(self.around.redactor.pieces()))
    }
}

/// Returns true for names that programs look up without needing them: names for the reverse lookup
/// of addresses, and the cell's own host name.
fn is_asked_by_habit(name: &str) -> bool {
    name == sandbox::HOST_NAME || name.rsplit('.').next() == Some("arpa")
}

/// Redactor of secrets in a response.
struct Answer(Pieces);

impl Cover for Answer {
    fn part(&mut self, part: &[u8], ended: bool) -> Vec<u8> {
        self.0.next(part, ended)
    }

    fn text(&self, text: &str) -> Option<String> {
        self.0.text(text)
    }
}

/// Returns the permission for the addresses to which the host may resolve.
fn permission(policy: Arc<Policy>, host: String, port: u16, approved: bool) -> Permission {
    Permission::judged(move |address| match policy.address_verdict(&host, address, port, approved) {
        AddressVerdict::Denied => Some(false),
        AddressVerdict::Named => Some(true),
        AddressVerdict::Unnamed => None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_listed_name_leads_to_no_address_that_is_denied_at_its_port() {
        let profile =
            json!({"allowed_hosts": ["a.example"], "deny_hosts": ["93.184.216.34:443", "93.184.216.35"]});
        let policy = testkit::policy_of(Path::new("/w"), None, &profile);
        let policy = Arc::new(policy.unwrap());
        for (address, port, may) in [
            ("93.184.216.34", 443, false),
            ("::ffff:93.184.216.34", 443, false),
            ("93.184.216.34", 80, true),
            ("93.184.216.35", 80, false),
            ("93.184.216.36", 443, true),
            ("10.0.0.1", 443, false),
        ] {
            let permission = permission(policy.clone(), "a.example".to_owned(), port, false);
            assert_eq!(permission.covers(address.parse().unwrap()), may, "{address} {port}");
        }
    }
}
