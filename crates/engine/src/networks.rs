//! Which network the commands of a session are in: those of one session reach each other's servers, and nobody else's. Where the
//! policy lists hosts, a session's network has a way out to these.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use egress::{Carrier, Listeners, Serving};
use policy::Ceiling;
use sandbox::{CellSpec, Doors, SandboxError, SessionNetwork};

use crate::way_out::{Around, WayOut};

/// Ports at which a program that knows of no proxy is met, beside those that the policy names.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// Ceilings under which one session can have ways out.
const MOST_CEILINGS: usize = 16;

/// The networks of the sessions of one runtime.
#[derive(Default)]
pub(crate) struct Networks(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whose the spawner's network is: that of the session which ran a command first. It is nobody else's afterwards, because a
    /// command that is being stopped may be in it still.
    of_spawner: Option<String>,
    others: HashMap<String, SessionNetwork>,
    ways_out: HashMap<String, (Arc<WayOut>, Serving)>,
    /// Under which ceilings there is a network of a session's, by its bounded owner.
    ceilings: HashMap<String, Vec<Ceiling>>,
    /// What carries the connections, from the first way out on.
    carrier: Option<Carrier>,
}

impl State {
    /// The network of a session of its own; none for the one that has the spawner's.
    fn of(&mut self, owner: &str, spawner: bool) -> Result<Option<SessionNetwork>, SandboxError> {
        if spawner && self.of_spawner.get_or_insert_with(|| owner.to_owned()) == owner {
            return Ok(None);
        }
        if let Some(network) = self.others.get(owner) {
            return Ok(Some(network.clone()));
        }
        let made = SessionNetwork::make()?;
        self.others.insert(owner.to_owned(), made.clone());
        Ok(Some(made))
    }
}

impl Networks {
    /// The network of a session of its own; none for the one that has the spawner's.
    ///
    /// # Errors
    /// Where this machine refuses one.
    pub(crate) fn of(&self, owner: &str) -> Result<Option<SessionNetwork>, SandboxError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of(owner, true)
    }

    /// Whose the network is of who acts under this ceiling on behalf of the owner; none where there are too many.
    pub(crate) fn owner_under(&self, owner: &str, ceiling: Ceiling) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.ceilings.entry(owner.to_owned()).or_default();
        let at = known.iter().position(|one| *one == ceiling).or_else(|| {
            let is_room = known.len() < MOST_CEILINGS;
            is_room.then(|| known.push(ceiling)).map(|()| known.len() - 1)
        })?;
        Some(under(owner, at))
    }

    /// Puts the cell into the network of its session, and opens a way out of that where there is none yet.
    ///
    /// # Errors
    /// Why there is none, in words for the agent. The cell has what could be had.
    pub(crate) fn settle_with_way_out(
        &self,
        owner: &str,
        cell: &mut CellSpec,
        around: &Around,
    ) -> Result<(), String> {
        let because = |why: String| format!("no host can be reached from this command: {why}");
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.of(owner, cell.spawner.is_some()) {
            Ok(network) => cell.network = network,
            Err(error) => {
                cell.spawner = None;
                return Err(because(error.to_string()));
            }
        }
        if !state.ways_out.contains_key(owner) {
            let way_out = state.open(owner, cell, around).map_err(because)?;
            state.ways_out.insert(owner.to_owned(), way_out);
        }
        cell.has_doors = true;
        for (name, value) in egress::variables(sandbox::PROXY_PORT) {
            cell.environment.insert(OsString::from(name), OsString::from(value));
        }
        let way_out = state.ways_out.get(owner).map(|(way_out, _)| way_out.clone());
        drop(state);
        way_out.map_or(Ok(()), |way_out| way_out.hand_out(cell))
    }

    /// What was refused to the commands of a session since this was asked last.
    pub(crate) fn take_notes(&self, owner: &str) -> Vec<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.ways_out.get(owner).map(|(way_out, _)| way_out.take_notes()).unwrap_or_default()
    }

    /// Whether the session has the spawner's network, and with it the cells that wait. The first session that asks has.
    pub(crate) fn is_of_spawner(&self, owner: &str) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.of_spawner.get_or_insert_with(|| owner.to_owned()) == owner
    }

    /// The session has ended.
    pub(crate) fn forget(&self, owner: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ceilings = state.ceilings.remove(owner).map_or(0, |ceilings| ceilings.len());
        for owner in (0..ceilings).map(|at| under(owner, at)).chain([owner.to_owned()]) {
            state.others.remove(&owner);
            if let Some((way_out, _)) = state.ways_out.remove(&owner) {
                way_out.close();
            }
        }
    }

    /// Every session has ended.
    pub(crate) fn close(&self) {
        let ways_out = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).ways_out);
        for (way_out, _) in ways_out.values() {
            way_out.close();
        }
    }
}

fn under(owner: &str, ceiling: usize) -> String {
    format!("{owner} under {ceiling}")
}

impl Drop for Networks {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn open(
        &mut self,
        owner: &str,
        cell: &CellSpec,
        around: &Around,
    ) -> Result<(Arc<WayOut>, Serving), String> {
        let mut ports = around.policy.named_ports();
        // The proxy has a door of its own, and questions for names another.
        ports.retain(|port| *port != sandbox::PROXY_PORT);
        ports.extend(USUAL_PORTS);
        ports.sort_unstable();
        ports.dedup();
        let opened = match (&cell.network, &cell.spawner) {
            (Some(network), _) => network.open_doors(&ports).map(Some),
            (None, Some(spawner)) => spawner.open_doors(&ports),
            (None, None) => Ok(None),
        };
        let opened = opened.map_err(|error| error.to_string())?;
        let Doors { proxy, everywhere, names } =
            opened.ok_or_else(|| "the commands of this session share no network".to_owned())?;
        let carrier = match self.carrier.take() {
            Some(carrier) => carrier,
            None => Carrier::start().map_err(|error| error.to_string())?,
        };
        let way_out = Arc::new(WayOut::of(around.clone(), owner));
        let serving = carrier.serve(Listeners { proxy, everywhere, names }, way_out.clone());
        self.carrier = Some(carrier);
        Ok((way_out, serving.map_err(|error| error.to_string())?))
    }
}
