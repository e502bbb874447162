//! Connections of one call's commands to hosts on no list, and actions at hosts where it uses a login:
//! each is held until a human has answered, or refused at once if nobody can be asked.
//!
//! Connections that are held together become one question, and the answer counts for the rest of the
//! call. While a connection is held, the deadline of the call rests.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandbox::CellProcesses;
use tokio::sync::{Mutex as Turn, Notify, watch};
use tool::{Timer, ToolError};

use crate::approvals::{ApprovalOutcome, ConnectionAsker, HostConnection, MAX_LISTED};

/// Time without a further connection after which a question is asked. Programs that need several
/// hosts usually connect to all of them within a few milliseconds.
const QUIET_FOR: Duration = Duration::from_millis(100);

/// Maximum number of such times before a question.
const MAX_WAITS: usize = 10;

/// Number of questions of a call that list their hosts. The next one is about every host.
const MAX_QUESTIONS: usize = 3;

/// Maximum number of actions that wait for an answer at once, or that one question is about.
const MAX_ACTIONS: usize = 10;

/// Maximum number of connections that are remembered for one call; further ones are refused.
const MAX_REMEMBERED: usize = 1024;

/// Maximum number of hosts that an answer names as reached.
const MAX_REACHED: usize = 100;

/// The connections of one call.
pub(crate) struct CallConnections {
    /// Cells of the call.
    pub(crate) cells: Arc<CellProcesses>,
    asker: ConnectionAsker,
    state: Mutex<State>,
    /// Lock held while one connection decides for all that are held.
    turn: Turn<()>,
    hold: HoldTime,
    /// True if the cells outlive the call, and belong to the next one then.
    are_shared: bool,
    ended: watch::Sender<bool>,
}

type ConnectionDecision = Result<(), String>;

#[derive(Default)]
struct State {
    decided: HashMap<HostConnection, ConnectionDecision>,
    /// Hosts and ports that the decision about the call covers.
    covered: BTreeSet<(String, u16)>,
    every_host: Option<ConnectionDecision>,
    /// Held connections without a decision.
    held: BTreeSet<HostConnection>,
    /// Connections that were refused because nobody could be asked.
    refused: BTreeSet<HostConnection>,
    reached: BTreeSet<String>,
    /// Number of questions that were asked.
    questions: usize,
    /// Number of those about connections.
    host_questions: usize,
    /// Connections of a question that nobody answered, and its id.
    unanswered: Option<(String, BTreeSet<HostConnection>)>,
    /// True if the answers to equal calls were taken.
    has_looked: bool,
}

impl State {
    /// Holds a connection or an action.
    ///
    /// # Errors
    /// Returns a reason if too many are held, or remembered.
    fn hold(&mut self, connection: &HostConnection) -> ConnectionDecision {
        if self.held.len() + self.decided.len() >= MAX_REMEMBERED {
            return Err(format!("{} is one of too many hosts of this call", connection.place()));
        }
        if connection.action.is_some() {
            let waiting = self.held.iter().chain(&self.refused);
            let others = waiting.filter(|other| other.action.is_some() && *other != connection).count();
            if others >= MAX_ACTIONS {
                return Err(format!("more than {MAX_ACTIONS} actions of this call wait for an approval"));
            }
        }
        self.held.insert(connection.clone());
        Ok(())
    }
}

/// Result of a call's connections.
#[derive(Default)]
pub(crate) struct ConnectionSummary {
    /// Hosts that the call's commands could reach, as `HOST:PORT`.
    pub(crate) reached: Vec<String>,
    /// Message about connections that wait for an approval.
    pub(crate) note: Option<String>,
}

impl CallConnections {
    pub(crate) fn new(asker: ConnectionAsker) -> Self {
        Self::of(asker, Arc::default(), false)
    }

    /// Creates the connections of a call that uses the long-lived program in these cells.
    pub(crate) fn of_lasting(asker: ConnectionAsker, cells: Arc<CellProcesses>) -> Self {
        Self::of(asker, cells, true)
    }

    fn of(asker: ConnectionAsker, cells: Arc<CellProcesses>, are_shared: bool) -> Self {
        Self {
            cells,
            asker,
            are_shared,
            state: Mutex::default(),
            turn: Turn::default(),
            hold: HoldTime::default(),
            ended: watch::Sender::new(false),
        }
    }

    /// Marks the call as ended, so that nobody is asked about its connections.
    pub(crate) fn end_before_it_begins(&self) {
        self.ended.send_replace(true);
    }

    /// Returns true if the call and all of its commands have ended.
    pub(crate) fn is_over(&self) -> bool {
        *self.ended.borrow() && (self.are_shared || self.cells.is_empty())
    }

    /// Lets connections to a host pass, because the decision about the call covers it.
    pub(crate) fn allow(&self, host: &str, port: u16) {
        self.state.lock().covered.insert((host.to_owned(), port));
    }

    /// Records that a command of the call may reach the host.
    pub(crate) fn note_reached(&self, place: String) {
        let mut state = self.state.lock();
        if state.reached.len() < MAX_REACHED {
            state.reached.insert(place);
        }
    }

    /// Holds the connection until it is decided.
    ///
    /// # Errors
    /// Returns the reason of the refusal, as a sentence for the program and the agent.
    pub(crate) async fn decide(&self, connection: HostConnection) -> ConnectionDecision {
        if let Some(known) = self.known(&connection) {
            return known;
        }
        self.state.lock().hold(&connection)?;
        let _held = self.hold.begin();
        let mut ended = self.ended.subscribe();
        tokio::select! {
            decided = self.in_turn(&connection) => decided,
            // A background command outlives its call.
            _ = ended.wait_for(|ended| *ended), if !*self.ended.borrow() => {
                Err(format!("the call ended before anybody allowed {}", connection.place()))
            }
        }
    }

    /// Returns the decision on a connection or an action. A yes to an action counts once.
    fn known(&self, connection: &HostConnection) -> Option<ConnectionDecision> {
        let mut state = self.state.lock();
        if connection.action.is_none() {
            if state.covered.contains(&(connection.host.clone(), connection.port)) {
                return Some(Ok(()));
            }
            return state.every_host.clone().or_else(|| state.decided.get(connection).cloned());
        }
        let known = state.decided.get(connection).cloned();
        if known == Some(Ok(())) {
            state.decided.remove(connection);
        }
        known
    }

    /// Waits for the turn of this connection and decides all that are held. An earlier turn usually
    /// has decided this one too.
    async fn in_turn(&self, connection: &HostConnection) -> ConnectionDecision {
        let _turn = self.turn.lock().await;
        if let Some(known) = self.known(connection) {
            return known;
        }
        // The question about an equal action may have been answered, and its answer used.
        self.state.lock().hold(connection)?;
        if let Err(error) = self.decide_held().await {
            let reason = format!("{} cannot be asked about: {}", connection.place(), error.message);
            self.set([connection.clone()], &Err(reason));
        }
        self.known(connection).unwrap_or_else(|| Err(format!("{} was not decided on", connection.place())))
    }

    fn set(&self, connections: impl IntoIterator<Item = HostConnection>, decided: &ConnectionDecision) {
        let mut state = self.state.lock();
        for connection in connections {
            state.held.remove(&connection);
            state.decided.insert(connection, decided.clone());
        }
    }

    async fn decide_held(&self) -> Result<(), ToolError> {
        self.take_earlier().await?;
        let can_ask = self.state.lock().unanswered.is_none() && self.asker.can_ask().await;
        if can_ask {
            self.collect().await;
        }
        let held: Vec<HostConnection> = self.state.lock().held.iter().cloned().collect();
        let mut open = BTreeSet::new();
        for connection in held {
            match self.known(&connection) {
                // This puts back the yes to an action, too.
                Some(known) => self.set([connection], &known),
                None if self.asker.is_leased(&connection).await? => self.set([connection], &Ok(())),
                None => drop(open.insert(connection)),
            }
        }
        if !can_ask {
            return if open.is_empty() { Ok(()) } else { self.refuse(open).await };
        }
        let (actions, unlisted): (BTreeSet<_>, BTreeSet<_>) =
            open.into_iter().partition(|connection| connection.action.is_some());
        for asked in [unlisted, actions] {
            if !asked.is_empty() {
                self.ask(asked).await?;
            }
        }
        Ok(())
    }

    /// Waits until no further connection arrives.
    async fn collect(&self) {
        let mut held = 0;
        for _ in 0..MAX_WAITS {
            tokio::time::sleep(QUIET_FOR).await;
            let now = self.state.lock().held.len();
            if std::mem::replace(&mut held, now) == now {
                break;
            }
        }
    }

    /// Takes the answers that a human gave after an equal call had ended.
    async fn take_earlier(&self) -> Result<(), ToolError> {
        if std::mem::replace(&mut self.state.lock().has_looked, true) {
            return Ok(());
        }
        for answer in self.asker.earlier().await? {
            let decided = if answer.approved { Ok(()) } else { Err(denied(&answer.by, None)) };
            if answer.every_host {
                self.state.lock().every_host = Some(decided);
            } else {
                self.set(answer.connections, &decided);
            }
        }
        Ok(())
    }

    async fn ask(&self, open: BTreeSet<HostConnection>) -> Result<(), ToolError> {
        let is_about_actions = open.iter().any(|connection| connection.action.is_some());
        let (number, host_number) = {
            let mut state = self.state.lock();
            state.questions += 1;
            state.host_questions += usize::from(!is_about_actions);
            (state.questions, state.host_questions)
        };
        let every_host = !is_about_actions && (open.len() > MAX_LISTED || host_number > MAX_QUESTIONS);
        let asked: Vec<HostConnection> = open.iter().cloned().collect();
        let decided = match self.asker.ask(&asked, every_host, number).await? {
            ApprovalOutcome::Approved { .. } => Ok(()),
            ApprovalOutcome::Denied { by, message } => Err(denied(&by, message.as_deref())),
            ApprovalOutcome::Open { id, .. } => {
                for connection in &asked {
                    self.set([connection.clone()], &Err(self.asker.needs_approval(connection, &id)));
                }
                let mut state = self.state.lock();
                state.refused.extend(open.iter().cloned());
                state.unanswered = Some((id, open));
                return Ok(());
            }
            ApprovalOutcome::Closed { hint, .. } => Err(format!("nobody has allowed the connection: {hint}")),
            ApprovalOutcome::Drifted { what } => Err(format!("{what} has changed since the question")),
        };
        if every_host {
            self.state.lock().every_host = Some(decided.clone());
        }
        self.set(asked, &decided);
        Ok(())
    }

    /// Refuses connections about which nobody can be asked now.
    async fn refuse(&self, open: BTreeSet<HostConnection>) -> Result<(), ToolError> {
        let mut id = self.asker.id_of_refused();
        if *self.ended.borrow() {
            // A background command: its call has ended, and cannot report these connections.
            let all: Vec<HostConnection> = open.iter().cloned().collect();
            id = self.asker.leave(format!("{id}{}", self.next_number()), &all, are_many(&all)).await?;
        } else {
            self.state.lock().refused.extend(open.iter().cloned());
        }
        for connection in open {
            let reason = self.asker.needs_approval(&connection, &id);
            self.set([connection], &Err(reason));
        }
        Ok(())
    }

    fn next_number(&self) -> usize {
        let mut state = self.state.lock();
        state.questions += 1;
        state.questions
    }

    /// Ends the call's part: stores one question about every connection that was refused because
    /// nobody could be asked, or that was still held.
    pub(crate) async fn end(&self) -> ConnectionSummary {
        self.ended.send_replace(true);
        let (refused, unanswered, reached) = {
            let mut state = self.state.lock();
            let held = std::mem::take(&mut state.held);
            let mut refused = std::mem::take(&mut state.refused);
            refused.extend(held);
            (refused, state.unanswered.take(), state.reached.iter().cloned().collect())
        };
        if refused.is_empty() {
            return ConnectionSummary { reached, note: None };
        }
        let all: Vec<HostConnection> = refused.iter().cloned().collect();
        let stored = match unanswered.filter(|(_, asked)| *asked == refused) {
            Some((id, _)) => Ok(id),
            // The id was told to the programs already.
            None => self.asker.leave(self.asker.id_of_refused(), &all, are_many(&all)).await,
        };
        let note = match stored {
            Ok(id) => format!(
                "the command could not {}; after the user runs `handfast approvals approve {id}`, the same call \
                 can do so once",
                missed(&all)
            ),
            Err(error) => format!("the question about refused connections is lost: {}", error.message),
        };
        ConnectionSummary { reached, note: Some(note) }
    }

    /// Waits until the call has run for `timeout`, not counting the time for which connections were
    /// held.
    pub(crate) async fn deadline(&self, timer: &dyn Timer, timeout: Duration) {
        let began = timer.now();
        loop {
            let released = self.hold.released.notified();
            let now = timer.now();
            let (held, is_holding) = self.hold.total(now);
            let left = timeout.saturating_add(held).saturating_sub(now.saturating_duration_since(began));
            if is_holding {
                released.await;
            } else if left.is_zero() {
                return;
            } else {
                timer.sleep(left).await;
            }
        }
    }
}

/// Returns what a call could not do, to follow "could not".
fn missed(all: &[HostConnection]) -> String {
    let mut parts: Vec<String> = all
        .iter()
        .filter_map(|one| Some(format!("do this at {}: {}", one.place(), one.action.as_ref()?)))
        .collect();
    let unlisted = all.iter().filter(|one| one.action.is_none());
    let places: BTreeSet<String> = unlisted.map(HostConnection::place).collect();
    if !places.is_empty() {
        let named: Vec<&str> = places.iter().map(String::as_str).take(MAX_LISTED).collect();
        let more = match places.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(format!("connect to {}{more}, which `allowed_hosts` does not list", named.join(", ")));
    }
    parts.join("; nor ")
}

/// Returns true if a question about these is about every host.
fn are_many(all: &[HostConnection]) -> bool {
    all.iter().filter(|connection| connection.action.is_none()).count() > MAX_LISTED
}

fn denied(by: &str, message: Option<&str>) -> String {
    let said = message.map(|message| format!(": {message}")).unwrap_or_default();
    format!("{by} said no{said}")
}

/// Time for which at least one connection of a call was held.
#[derive(Default)]
struct HoldTime {
    state: Mutex<HoldState>,
    released: Notify,
}

#[derive(Default)]
struct HoldState {
    connections: usize,
    since: Option<Instant>,
    before: Duration,
}

/// Mark that a connection is held, until it is dropped.
struct Hold<'a>(&'a HoldTime);

impl HoldTime {
    fn begin(&self) -> Hold<'_> {
        let mut state = self.state.lock();
        state.connections += 1;
        state.since.get_or_insert_with(Instant::now);
        Hold(self)
    }

    /// Returns the whole time until now, and whether a connection is held now.
    fn total(&self, now: Instant) -> (Duration, bool) {
        let state = self.state.lock();
        let current = state.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (state.before + current, state.connections > 0)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.connections -= 1;
        if state.connections == 0
            && let Some(since) = state.since.take()
        {
            state.before += since.elapsed();
            drop(state);
            self.0.released.notify_waiters();
        }
    }
}
