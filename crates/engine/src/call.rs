//! The state of one call on its way through the layers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use policy::{Ceiling, Decision, Part};
use sandbox::{CellProcesses, CellSource};
use serde_json::Value;
use tool::{
    ByteReservation, CallId, CallResult, CallerForms, CallerModel, Changes, EffectState, KeptOutput, Level,
    Meta, Outcome, Owner, Presentation, Progress, SessionId, Stop, ToolError,
};

use crate::approvals::{EffectivePolicy, ForeseenWrites};
use crate::checkpoint_rows::Author;
use crate::connections::CallConnections;
use crate::db_change::DbChanges;
use crate::digest::digest;
use crate::networks::InUse;
use crate::trace::TraceDraft;
use crate::{Asker, Budget, CallRequest, Door, SentSecrets};

/// Returns the owners that background commands of a session may have: one for unbounded callers and
/// one for callers under a ceiling.
pub(crate) fn owners(session: &SessionId) -> [String; 2] {
    [session.0.clone(), format!("{BOUNDED}{}", session.0)]
}

/// Returns the session of such an owner.
pub(crate) fn session_of(owner: &str) -> SessionId {
    SessionId(owner.strip_prefix(BOUNDED).unwrap_or(owner).to_owned())
}

/// Beginning of the name that owns the background commands of callers under a ceiling.
const BOUNDED: &str = "bounded ";

/// The call that a dry run tries.
pub(crate) struct DryRunCall {
    pub(crate) level: Level,
    pub(crate) effects: Vec<Part>,
    pub(crate) undoable: bool,
}

/// One call on its way through the layers. Each layer adds its results.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) session: SessionId,
    /// Owner of everything that outlives the session.
    pub(crate) holder: Option<SessionId>,
    /// Call on behalf of which the caller acts.
    pub(crate) parent: Option<CallId>,
    /// Name of the agent whose memory the call sees, if it is not that of its session.
    pub(crate) memory: Option<Arc<str>>,
    pub(crate) door: Door,
    /// Name of the user whom Handfast runs as.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) dialect: &'static str,
    pub(crate) asker: Arc<dyn Asker>,
    /// Model that the caller's program offers.
    pub(crate) model: Option<Arc<dyn CallerModel>>,
    /// Forms that the caller's program shows for servers.
    pub(crate) forms: Option<Arc<dyn CallerForms>>,
    pub(crate) stop: Stop,
    pub(crate) progress: Arc<dyn Progress>,
    /// Name of the tool as the caller gave it, later the canonical name.
    pub(crate) tool: String,
    pub(crate) presentation: Presentation,
    pub(crate) cache: bool,
    /// Arguments of the call. The plan layer takes them.
    pub(crate) arguments: Value,
    /// Arguments as the audit may see them: secrets covered, long texts cut.
    pub(crate) noted_arguments: Value,
    /// Secrets among the arguments.
    pub(crate) sent: SentSecrets,
    /// BLAKE3 digest of the whole arguments, hexadecimal.
    pub(crate) arguments_digest: String,
    pub(crate) level: Level,
    pub(crate) timeout: Duration,
    /// Duration of the run.
    pub(crate) ran: Duration,
    /// Exit code of its command, if it ran one that ended without being stopped.
    pub(crate) exit_code: Option<i64>,
    pub(crate) effects: Vec<Part>,
    /// True if everything that the call changes can be undone.
    pub(crate) undoable: bool,
    /// True if the answer contains the difference that the call makes.
    pub(crate) shows_difference: bool,
    /// The call that a dry run tries.
    pub(crate) dry_run: Option<DryRunCall>,
    /// True if what the call starts outlives the call.
    pub(crate) background: bool,
    /// True if what the call starts outlives its session too.
    pub(crate) outlives_session: bool,
    /// True if the processes of the call have no network, whatever the rules allow.
    pub(crate) without_network: bool,
    pub(crate) decision: Option<Decision>,
    /// Upper limit on what the caller may do.
    pub(crate) ceiling: Ceiling,
    /// Budget of the caller.
    pub(crate) budget: Budget,
    /// Rules of the call, if they differ from the engine's: with leased patterns, or under a
    /// ceiling.
    pub(crate) leased: Option<Arc<EffectivePolicy>>,
    pub(crate) approved_by: Option<String>,
    /// Writes of its commands that the approval covers.
    pub(crate) foreseen: ForeseenWrites,
    pub(crate) intent_recorded: bool,
    pub(crate) sandbox: Option<Vec<String>>,
    pub(crate) changes: Option<Changes>,
    /// Id of the checkpoint, if something changed that can be undone.
    pub(crate) checkpoint: Option<String>,
    /// Checkpoints that the call reverts, as reported by its tool.
    pub(crate) undoes: Arc<Mutex<Option<String>>>,
    /// Changes that the call makes in databases.
    pub(crate) of_data: DbChanges,
    pub(crate) cached: bool,
    pub(crate) truncated: bool,
    pub(crate) outputs: Vec<KeptOutput>,
    pub(crate) warnings: Vec<String>,
    pub(crate) held: ByteReservation,
    /// Connections of its commands, if they may reach hosts.
    pub(crate) connections: Option<Arc<CallConnections>>,
    /// Hosts that its commands could reach, as `HOST:PORT`.
    pub(crate) reached: Vec<String>,
    /// Processes of the session's browser, if the call uses it.
    pub(crate) browser_processes: Option<Arc<CellProcesses>>,
    /// Bytes of memory that they use at the end of the call.
    pub(crate) browser_bytes: Option<u64>,
    /// Guard that keeps the network of its commands open.
    pub(crate) network_in_use: Option<InUse>,
    /// Source of the cell of the long-lived program that the call uses.
    pub(crate) lasting_cell: Option<Arc<CellSource>>,
    /// Data for a trace of the call, if calls are traced.
    pub(crate) noted: Option<Box<TraceDraft>>,
    started_at: Timestamp,
    started: Instant,
}

impl Call {
    pub(crate) fn arrived(request: CallRequest, now: Timestamp, id: CallId, is_traced: bool) -> Self {
        let CallRequest { tool, arguments, principal, stop, progress, cache, origin } = request;
        let (ceiling, budget) = (principal.ceiling().clone(), principal.budget().clone());
        Self {
            id,
            session: principal.session,
            // A caller under a ceiling shares nothing with callers without one.
            holder: principal.holder.filter(|_| ceiling.is_unbounded()),
            parent: principal.parent,
            memory: principal.memory,
            door: principal.door,
            user: None,
            dialect: principal.dialect,
            asker: principal.asker,
            model: principal.model,
            forms: principal.forms,
            stop,
            progress,
            tool,
            presentation: Presentation::Record,
            // A cached answer may contain data that a caller under a ceiling may not see.
            cache: cache && ceiling.is_unbounded(),
            arguments,
            noted_arguments: Value::Null,
            sent: SentSecrets::default(),
            arguments_digest: String::new(),
            level: Level::Critical,
            timeout: Duration::ZERO,
            ran: Duration::ZERO,
            exit_code: None,
            effects: Vec::new(),
            undoable: false,
            shows_difference: false,
            dry_run: None,
            background: false,
            outlives_session: false,
            without_network: false,
            decision: None,
            ceiling,
            budget,
            leased: None,
            approved_by: None,
            foreseen: ForeseenWrites::default(),
            intent_recorded: false,
            sandbox: None,
            changes: None,
            checkpoint: None,
            undoes: Arc::default(),
            of_data: DbChanges::default(),
            cached: false,
            truncated: false,
            outputs: Vec::new(),
            warnings: Vec::new(),
            held: ByteReservation::default(),
            connections: None,
            reached: Vec::new(),
            browser_processes: None,
            browser_bytes: None,
            network_in_use: None,
            lasting_cell: None,
            noted: is_traced.then(|| Box::new(TraceDraft::of(origin))),
            started_at: now,
            started: Instant::now(),
        }
    }

    /// Returns the answer for the case that the engine itself fails during the call.
    pub(crate) fn broken_off(&self) -> CallResult {
        let error = ToolError::internal("the call failed inside Handfast").effect(EffectState::Maybe);
        let meta = Meta::arrived(self.id.clone(), self.started_at);
        CallResult {
            outcome: Outcome::Err(error),
            presentation: self.presentation,
            meta,
            held: ByteReservation::default(),
        }
    }

    /// Returns the call as the policy sees it.
    pub(crate) fn policy_request<'a>(&'a self, tool: &'a str) -> policy::Request<'a> {
        policy::Request {
            tool,
            level: self.level,
            parts: &self.effects,
            undoable_in_force: self.undoable,
            background: self.background,
        }
    }

    /// Returns the author of the call's changes.
    pub(crate) fn author(&self, now: Timestamp) -> Author {
        let session = Some(self.session.0.clone());
        let undoes = self.undoes.lock().clone();
        Author { id: self.id.0.clone(), session, tool: self.tool.clone(), now, undoes }
    }

    /// Returns true if the caller accepts a cached answer and one could fit. A call without effects
    /// names no file, so nothing would show whether its data has changed.
    pub(crate) fn may_be_recalled(&self) -> bool {
        self.cache && !self.effects.is_empty()
    }

    /// Returns the effects of the call, or in a dry run those of the tried call.
    pub(crate) fn changing(&self) -> &[Part] {
        self.dry_run.as_ref().map_or(&self.effects, |tried| &tried.effects)
    }

    /// Returns true if the call passed because everything that it changes can be undone.
    pub(crate) fn passed_as_undoable(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.line == policy::Line::Undoable)
    }

    /// Returns true if the call passed because all of its commands are known to only read.
    pub(crate) fn passed_as_reading(&self) -> bool {
        let by = self.decision.as_ref().filter(|decision| decision.line == policy::Line::Allowed);
        by.is_some_and(|decision| decision.rule.key == policy::READ_ONLY_COMMANDS)
    }

    /// Returns true if the call does nothing but read, here and from other machines.
    pub(crate) fn only_asks(&self) -> bool {
        let reads = |part: &Part| part.effect.only_reads() || part.effect.only_asks();
        self.level == Level::Safe && !self.effects.is_empty() && self.effects.iter().all(reads)
    }

    pub(crate) fn started_at(&self) -> Timestamp {
        self.started_at
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the digest of exactly this call: the tool, its arguments, its effects.
    pub(crate) fn digest(&self) -> String {
        digest(&(&self.tool, &self.arguments_digest, &self.effects))
    }

    /// Returns the owner of what the call starts: the holder if it is to outlive the session.
    pub(crate) fn owner(&self) -> String {
        match self.holder.as_ref().filter(|_| self.outlives_session) {
            Some(holder) => holder.0.clone(),
            None => self.owner_in_session(),
        }
    }

    /// Returns the same owner as lists of resources name it.
    pub(crate) fn resource_owner(&self) -> Owner {
        match self.holder.as_ref().filter(|_| self.outlives_session) {
            Some(holder) => Owner::Holder(holder.clone()),
            None => Owner::Session(self.session.clone()),
        }
    }

    /// Returns the owner of the session's background commands. Callers of one owner can type into
    /// each other's commands, which run under the ceiling that they were started with. A bounded
    /// caller therefore never shares them with an unbounded one.
    pub(crate) fn owner_in_session(&self) -> String {
        let [unbounded, bounded] = owners(&self.session);
        if self.ceiling.is_unbounded() { unbounded } else { bounded }
    }

    /// Ends the call and builds the result that the door returns.
    pub(crate) fn answered(self, outcome: Outcome, now: Timestamp) -> CallResult {
        let mut meta = Meta::arrived(self.id.clone(), self.started_at);
        meta.ended_at = now;
        meta.duration_ms = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(decision) = &self.decision {
            meta.decision = Some(decision.verdict.as_str().to_owned());
            meta.rule = Some(decision.rule.to_string());
        }
        meta.approved_by = self.approved_by;
        meta.sandbox = self.sandbox;
        meta.reached = self.reached;
        meta.browser_bytes = self.browser_bytes;
        meta.changes = self.changes;
        meta.checkpoint = self.checkpoint;
        meta.truncated = self.truncated;
        meta.output_ref = self.outputs.first().map(|kept| kept.output_ref.clone());
        meta.outputs = self.outputs;
        meta.cached = self.cached;
        meta.warnings = self.warnings;
        CallResult { outcome, presentation: self.presentation, meta, held: self.held }
    }
}
