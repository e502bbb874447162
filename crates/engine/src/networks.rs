//! Networks of sessions: the commands of one session reach each other's servers, and no other
//! session's. If the policy lists hosts, a session's network has a way out to them.
//!
//! Each network has a spawner whose cells wait in it. With several sessions, one spare network is
//! prepared for the next session that runs a command. A session that runs nothing for a while
//! releases its network ([`Networks::rest`]) and gets another one with its next command. A network
//! without commands holds nothing to lose.

mod owned;
mod resting;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Weak};
use std::time::Instant;

use egress::{Carrier, Listeners, ServedNetwork};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use policy::{Ceiling, Policy};
use sandbox::{
    CellHost, CellProcesses, CellSpec, EgressListeners, Isolation, SandboxError, SessionNetwork, Spawner,
};
use tool::{Clock, NetworkLimit, Owner, Threads, Timer};

use crate::connections::CallConnections;
use crate::egress_gate::{GateDeps, WayOut};
use crate::placeholders::SessionPlaceholders;
use crate::snapshot::Snapshots;

/// Ports at which connections of programs without proxy support are accepted, in addition to those
/// that the policy names.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// Maximum number of ceilings under which one session can have ways out.
const MAX_CEILINGS: usize = 16;

/// Maximum number of networks of tools without hosts in one session.
const MAX_APART: usize = 4;

/// Part of the names of these networks, after that of the session.
const APART: &str = "apart";

/// Maximum number of limits of tools that are kept.
const MAX_LIMITS: usize = 256;

/// The networks of the sessions of one runtime.
pub(crate) struct Networks {
    deps: NetworkDeps,
    state: Mutex<State>,
    /// Lock held while a network is made, so that a session gets only one.
    making: Mutex<()>,
}

/// Parts of the runtime that the networks work with.
pub(crate) struct NetworkDeps {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) threads: Threads,
    /// Folders for the changes of commands, some of which are mounted in cells that wait.
    pub(crate) snapshots: Option<Arc<Snapshots>>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, OfSession>,
    /// Spawner that the program was started with, which lives as long as the program.
    first: Option<Arc<Spawner>>,
    /// Spawner whose network belongs to no session yet.
    spare: Option<Arc<Spawner>>,
    /// True if a spare spawner is being made.
    is_making_spare: bool,
    /// True if a task will check for networks to release.
    is_resting: bool,
    /// True after the end of the runtime: no network is made any more.
    is_closed: bool,
    /// Number of uses by all sessions.
    uses: u64,
    /// Ceilings of each bounded owner for which the session has a network.
    ceilings: HashMap<String, Vec<Ceiling>>,
    /// Carrier of the connections, from the first way out on.
    carrier: Option<(Carrier, Timestamp)>,
    /// Policy that every way out obeys, after a change of the policy.
    policy: Option<Arc<Policy>>,
    /// Policies limited to the hosts of a tool, each with the policy that it was made of. Ceilings are
    /// compared by the identity of their policies.
    limited: Vec<(Arc<Policy>, NetworkLimit, Arc<Policy>)>,
}

impl State {
    /// Makes the way out of a session obey the policy in force, under the ceiling of its owner.
    fn follow(&self, owner: &str, way_out: &WayOut) {
        let Some(policy) = &self.policy else { return };
        let of_owner = |(name, ceilings): (&String, &Vec<Ceiling>)| {
            let at = (0..ceilings.len()).find(|at| under(name, *at) == owner)?;
            ceilings.get(at).cloned()
        };
        let ceiling = self.ceilings.iter().find_map(of_owner);
        way_out.follow(ceiling.map_or_else(|| policy.clone(), |ceiling| Arc::new(policy.under(&ceiling))));
    }
}

/// Resources for the commands of a session.
struct OfSession {
    /// Guard held by each call that runs a command.
    in_use: InUse,
    network: Option<Shared>,
    way_out: Option<(Arc<WayOut>, ServedNetwork)>,
    /// Placeholders that its programs were given. Their meaning lasts as long as the session.
    given: Arc<SessionPlaceholders>,
    /// Cells of its browser.
    browser: Arc<CellProcesses>,
    /// Cells of its other long-lived programs, by their names.
    services: HashMap<String, Arc<CellProcesses>>,
    /// Number and time of its last use.
    used: (u64, Instant),
    /// Owner of the network, and the time at which the owner first used one.
    owner: Owner,
    since: Timestamp,
}

impl OfSession {
    fn new(owner: Owner, since: Timestamp, now: Instant) -> Self {
        let (in_use, given, browser) = (InUse::default(), Arc::default(), Arc::default());
        let services = HashMap::new();
        Self { in_use, network: None, way_out: None, given, browser, services, used: (0, now), owner, since }
    }
}

/// Guard that keeps the network of a session open.
#[derive(Clone, Default)]
pub(crate) struct InUse(Arc<()>);

/// A network that the cells of a session share.
#[derive(Clone)]
enum Shared {
    /// Network with waiting cells.
    WithCells(Arc<Spawner>),
    /// Network in which each cell is made when it is needed.
    Alone(SessionNetwork),
}

impl Shared {
    fn put_into(self, host: &mut CellHost) {
        match self {
            Self::WithCells(spawner) => {
                host.spawner = Some(spawner);
                host.network = None;
            }
            Self::Alone(network) => host.network = Some(network),
        }
    }
}

impl Networks {
    /// Starts with a spawner whose network belongs to no session yet.
    pub(crate) fn new(first: Option<Arc<Spawner>>, deps: NetworkDeps) -> Arc<Self> {
        let state = State { spare: first.clone(), first, ..State::default() };
        Arc::new(Self { deps, state: Mutex::new(state), making: Mutex::default() })
    }

    /// Registers a use of a session's network. A session without a network gets the spare one, if
    /// there is one.
    pub(crate) fn enter(&self, name: &str, owner: Owner) -> InUse {
        let (since, now) = (self.deps.clock.now(), self.deps.timer.now());
        let mut state = self.state();
        state.uses += 1;
        let State { sessions, spare, uses, .. } = &mut *state;
        let session = sessions.entry(name.to_owned()).or_insert_with(|| OfSession::new(owner, since, now));
        session.used = (*uses, now);
        session.network = session.network.take().or_else(|| spare.take().map(Shared::WithCells));
        session.in_use.clone()
    }

    /// Registers a use of the network that a tool without hosts has for itself, so that its cells can wait in it.
    /// Returns the network's name, or `None` if the session has enough of them.
    pub(crate) fn enter_apart(&self, session: &str, tool: &str, owner: Owner) -> Option<(String, InUse)> {
        let (since, now) = (self.deps.clock.now(), self.deps.timer.now());
        let all = format!("{session} {APART}");
        let name = format!("{all} {tool}");
        let mut state = self.state();
        state.uses += 1;
        let State { sessions, uses, .. } = &mut *state;
        let others = sessions
            .iter()
            .filter(|(other, of)| **other != name && other.starts_with(&all) && of.network.is_some())
            .count();
        if others >= MAX_APART {
            return None;
        }
        let session = sessions.entry(name.clone()).or_insert_with(|| OfSession::new(owner, since, now));
        session.used = (*uses, now);
        Some((name, session.in_use.clone()))
    }

    /// Returns the spawner of the session's network, if there is one by now.
    pub(crate) fn spawner(&self, owner: &str) -> Option<Arc<Spawner>> {
        match &self.state().sessions.get(owner)?.network {
            Some(Shared::WithCells(spawner)) => Some(spawner.clone()),
            Some(Shared::Alone(_)) | None => None,
        }
    }

    /// Puts the cell into the network of its session. Blocks while the network is made.
    ///
    /// # Errors
    /// Fails if this machine refuses a network.
    pub(crate) fn settle(self: &Arc<Self>, owner: &str, host: &mut CellHost) -> Result<(), SandboxError> {
        let shared = self.of(owner, &host.isolation, host.spawner.is_some())?;
        shared.put_into(host);
        Ok(())
    }

    fn of(
        self: &Arc<Self>,
        owner: &str,
        isolation: &Isolation,
        with_cells: bool,
    ) -> Result<Shared, SandboxError> {
        let known = || self.state().sessions.get(owner).and_then(|session| session.network.clone());
        let shared = match known() {
            Some(shared) => shared,
            None => {
                let _alone = self.making.lock();
                // Another command of the session may have been first.
                match known() {
                    Some(shared) => shared,
                    None => self.make(owner, isolation, with_cells)?,
                }
            }
        };
        self.make_spare();
        Ok(shared)
    }

    fn make(&self, owner: &str, isolation: &Isolation, with_cells: bool) -> Result<Shared, SandboxError> {
        let first = self.state().first.clone().filter(|_| with_cells);
        let another = first.and_then(|first| first.another().ok());
        let made = match another {
            Some(spawner) => Shared::WithCells(Arc::new(spawner)),
            None => Shared::Alone(isolation.make_network()?),
        };
        // If the owner has ended meanwhile, the network ends with this command.
        if let Some(session) = self.state().sessions.get_mut(owner) {
            session.network = Some(made.clone());
        }
        Ok(made)
    }

    /// Starts a thread that makes a spare network, if there is none. With one session, as over
    /// stdio, no further session is expected.
    fn make_spare(self: &Arc<Self>) {
        let mut state = self.state();
        let Some(first) = state.first.clone() else { return };
        if state.spare.is_some() || state.sessions.len() < 2 || state.is_closed || state.is_making_spare {
            return;
        }
        state.is_making_spare = true;
        drop(state);
        let networks: Weak<Self> = Arc::downgrade(self);
        let started = self.deps.threads.start("spare-network", Owner::Runtime, move |stop| {
            let made = first.another().ok().map(Arc::new);
            let Some(networks) = networks.upgrade() else { return };
            let mut state = networks.state();
            // If it failed, the next session tries again.
            state.is_making_spare = false;
            state.spare = made.filter(|_| stop.requested().is_none());
        });
        if started.is_err() {
            // The next session makes its network itself.
            self.state().is_making_spare = false;
        }
    }

    /// Returns a policy limited to these hosts and secrets: the same one for the same limit.
    ///
    /// # Errors
    /// Returns the problem if a host is malformed.
    pub(crate) fn limited(&self, policy: &Arc<Policy>, limit: &NetworkLimit) -> Result<Arc<Policy>, String> {
        let limited = &mut self.state().limited;
        limited.retain(|(of, ..)| Arc::ptr_eq(of, policy));
        if let Some((.., known)) = limited.iter().find(|(_, known, _)| known == limit) {
            return Ok(known.clone());
        }
        let made = Arc::new(policy.limited_to(&limit.hosts, &limit.secrets)?);
        if limited.len() < MAX_LIMITS {
            limited.push((policy.clone(), limit.clone(), made.clone()));
        }
        Ok(made)
    }

    /// Returns the owner of the network for callers under this ceiling on behalf of `owner`.
    /// Returns `None` if there are too many ceilings.
    pub(crate) fn owner_under(&self, owner: &str, ceiling: Ceiling) -> Option<String> {
        let mut state = self.state();
        let known = state.ceilings.entry(owner.to_owned()).or_default();
        let at = known.iter().position(|one| *one == ceiling).or_else(|| {
            let is_room = known.len() < MAX_CEILINGS;
            is_room.then(|| known.push(ceiling)).map(|()| known.len() - 1)
        })?;
        Some(under(owner, at))
    }

    /// Puts the cell into the network of its session, and opens a way out if the network has none
    /// yet.
    ///
    /// # Errors
    /// Returns the reason why there is no way out, in words for the agent. The cell is then set up
    /// as far as possible.
    pub(crate) fn settle_with_way_out(
        self: &Arc<Self>,
        owner: &str,
        (cell, host): (&mut CellSpec, &mut CellHost),
        around: &GateDeps,
        connections: Arc<CallConnections>,
    ) -> Result<(), String> {
        let because = |why: String| format!("no host can be reached from this command: {why}");
        if let Err(error) = self.settle(owner, host) {
            host.spawner = None;
            return Err(because(error.to_string()));
        }
        let way_out = self.way_out(owner, host, around).map_err(because)?;
        host.processes = Some(connections.cells.clone());
        way_out.add(connections);
        host.has_egress = true;
        for (name, value) in egress::variables(sandbox::PROXY_PORT) {
            cell.environment.insert(OsString::from(name), OsString::from(value));
        }
        way_out.hand_out(cell)
    }

    /// Returns the cells of the session's browser, for a session that has been entered.
    pub(crate) fn browser_cells(&self, owner: &str) -> Arc<CellProcesses> {
        self.state().sessions.get(owner).map(|session| session.browser.clone()).unwrap_or_default()
    }

    /// Returns the cells of a long-lived program of the session, for a session that has been entered.
    pub(crate) fn service_cells(&self, owner: &str, name: &str) -> Arc<CellProcesses> {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(owner) else { return Arc::default() };
        session.services.entry(name.to_owned()).or_default().clone()
    }

    /// Makes the connections of a long-lived program of the session those of a call, if the session has a way out.
    pub(crate) fn use_way_out(&self, owner: &str, connections: Arc<CallConnections>) {
        let state = self.state();
        if let Some((way_out, _)) = state.sessions.get(owner).and_then(|session| session.way_out.as_ref()) {
            way_out.add(connections);
        }
    }

    fn way_out(&self, owner: &str, host: &CellHost, around: &GateDeps) -> Result<Arc<WayOut>, String> {
        let known = || Some(self.state().sessions.get(owner)?.way_out.as_ref()?.0.clone());
        if let Some(way_out) = known() {
            return Ok(way_out);
        }
        let _alone = self.making.lock();
        if let Some(way_out) = known() {
            return Ok(way_out);
        }
        let listeners = open(host, around)?;
        let mut state = self.state();
        let State { sessions, carrier, .. } = &mut *state;
        let session = sessions.get_mut(owner).ok_or("the session of this command has ended")?;
        let (carrier, _) = match carrier {
            Some(started) => started,
            None => {
                let started = Carrier::start().map_err(|error| error.to_string())?;
                carrier.insert((started, self.deps.clock.now()))
            }
        };
        let way_out =
            Arc::new(WayOut::of(around.clone(), owner, (session.given.clone(), session.browser.clone())));
        let serving = carrier.serve(listeners, way_out.clone()).map_err(|error| error.to_string())?;
        session.way_out = Some((way_out.clone(), serving));
        // The call may have begun before the policy changed.
        state.follow(owner, &way_out);
        Ok(way_out)
    }

    /// Makes every way out obey this policy from now on, for commands that run already, too.
    pub(crate) fn follow(&self, policy: &Arc<Policy>) {
        let mut state = self.state();
        state.policy = Some(policy.clone());
        for (owner, session) in &state.sessions {
            if let Some((way_out, _)) = &session.way_out {
                state.follow(owner, way_out);
            }
        }
    }

    /// Returns the refusals of a session's commands since the last call of this method.
    pub(crate) fn take_notes(&self, owner: &str) -> Vec<String> {
        let state = self.state();
        let way_out = state.sessions.get(owner).and_then(|session| session.way_out.as_ref());
        way_out.map(|(way_out, _)| way_out.take_notes()).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn under(owner: &str, ceiling: usize) -> String {
    format!("{owner} under {ceiling}")
}

/// Opens the listeners of egress in the network of the cells.
fn open(host: &CellHost, around: &GateDeps) -> Result<Listeners, String> {
    let mut ports = around.policy.get().named_ports();
    // The proxy has a listener of its own, and so have name queries.
    ports.retain(|port| *port != sandbox::PROXY_PORT);
    ports.extend(USUAL_PORTS);
    ports.sort_unstable();
    ports.dedup();
    let opened = host.open_listeners(&ports).map_err(|error| error.to_string())?;
    let EgressListeners { proxy, everywhere, names } =
        opened.ok_or_else(|| "the commands of this session have no shared network".to_owned())?;
    Ok(Listeners { proxy, everywhere, names })
}
