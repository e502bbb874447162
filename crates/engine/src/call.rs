use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use policy::{Ceiling, Decision, Part, Policy};
use serde_json::Value;
use tool::{
    CallId, CallResult, Changes, EffectState, Held, KeptOutput, Level, Meta, Outcome, Presentation, Progress,
    SessionId, Stop, ToolError,
};

use crate::approvals::{Foreseen, Leased};
use crate::data::OfData;
use crate::dry_run::Tried;
use crate::networks::InUse;
use crate::reach::Reach;
use crate::saving::Author;
use crate::trace::Noted;
use crate::{Asker, CallRequest, Door, Engine, Sent, record};

/// To whom background commands of a session may belong.
pub(crate) fn owners(session: &SessionId) -> [String; 2] {
    [session.0.clone(), format!("bounded {}", session.0)]
}

/// One call on its way through the layers, each of which adds what it found out.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) session: SessionId,
    /// To whom belongs what outlives the session.
    pub(crate) holder: Option<SessionId>,
    pub(crate) door: Door,
    /// The name of the user whom Handfast runs as.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) dialect: &'static str,
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) stop: Stop,
    pub(crate) progress: Arc<dyn Progress>,
    /// What the caller named, and once it was found the canonical name.
    pub(crate) tool: String,
    pub(crate) presentation: Presentation,
    pub(crate) cache: bool,
    /// Taken by the plan layer.
    pub(crate) arguments: Value,
    /// The arguments as the audit may see them: secrets covered, long texts cut.
    pub(crate) noted_arguments: Value,
    /// The secrets among them.
    pub(crate) sent: Sent,
    /// BLAKE3 of the whole arguments, hexadecimal.
    pub(crate) arguments_digest: String,
    pub(crate) level: Level,
    pub(crate) timeout: Duration,
    /// How long it ran.
    pub(crate) ran: Duration,
    /// With what its command ended, where it ran one that ended by itself.
    pub(crate) exit_code: Option<i64>,
    pub(crate) effects: Vec<Part>,
    /// Whether everything that it changes can be undone.
    pub(crate) undoable: bool,
    /// Whether the difference that it makes stands in its answer.
    pub(crate) shows_difference: bool,
    /// Of a dry run: the call that it tries.
    pub(crate) dry_run: Option<Tried>,
    /// The arguments of a command, in case it has to be run in another way than was decided on.
    pub(crate) again: Value,
    /// What it starts outlives it.
    pub(crate) background: bool,
    /// What it starts outlives its session too.
    pub(crate) outlives_session: bool,
    pub(crate) decision: Option<Decision>,
    /// What its caller may at most do.
    pub(crate) ceiling: Ceiling,
    /// Its rules, where they are not those of the engine: what is leased to it by pattern, what its ceiling takes away.
    pub(crate) leased: Option<Arc<Leased>>,
    pub(crate) approved_by: Option<String>,
    /// What its commands may write because of that.
    pub(crate) foreseen: Foreseen,
    pub(crate) intent_recorded: bool,
    pub(crate) sandbox: Option<Vec<String>>,
    pub(crate) changes: Option<Changes>,
    /// The id of the checkpoint, where something changed that can be undone.
    pub(crate) checkpoint: Option<String>,
    /// The checkpoints that the call takes back, said by its tool.
    pub(crate) undoes: Arc<Mutex<Option<String>>>,
    /// What it changes in databases.
    pub(crate) of_data: OfData,
    pub(crate) cached: bool,
    pub(crate) truncated: bool,
    pub(crate) outputs: Vec<KeptOutput>,
    pub(crate) warnings: Vec<String>,
    pub(crate) held: Held,
    /// Keeps the network of its commands.
    pub(crate) network_in_use: Option<InUse>,
    /// What a trace will tell of it, where somebody follows calls.
    pub(crate) noted: Option<Box<Noted>>,
    started_at: Timestamp,
    started: Instant,
}

impl Call {
    pub(crate) fn arrived(request: CallRequest, now: Timestamp, id: CallId, is_traced: bool) -> Self {
        let CallRequest { tool, arguments, caller, stop, progress, cache, origin } = request;
        Self {
            id,
            session: caller.session,
            // Who acts under a ceiling shares nothing with who does not.
            holder: caller.holder.filter(|_| caller.ceiling.is_unbounded()),
            door: caller.door,
            user: None,
            dialect: caller.dialect,
            asker: caller.asker,
            stop,
            progress,
            tool,
            presentation: Presentation::Record,
            // An answer from the cache may hold what this caller may not see.
            cache: cache && caller.ceiling.is_unbounded(),
            arguments,
            noted_arguments: Value::Null,
            sent: Sent::default(),
            arguments_digest: String::new(),
            level: Level::Critical,
            timeout: Duration::ZERO,
            ran: Duration::ZERO,
            exit_code: None,
            effects: Vec::new(),
            undoable: false,
            shows_difference: false,
            dry_run: None,
            again: Value::Null,
            background: false,
            outlives_session: false,
            decision: None,
            ceiling: caller.ceiling,
            leased: None,
            approved_by: None,
            foreseen: Foreseen::default(),
            intent_recorded: false,
            sandbox: None,
            changes: None,
            checkpoint: None,
            undoes: Arc::default(),
            of_data: OfData::default(),
            cached: false,
            truncated: false,
            outputs: Vec::new(),
            warnings: Vec::new(),
            held: Held::default(),
            network_in_use: None,
            noted: is_traced.then(|| Box::new(Noted::of(origin))),
            started_at: now,
            started: Instant::now(),
        }
    }

    /// The answer for the case that the engine itself breaks off.
    pub(crate) fn broken_off(&self) -> CallResult {
        let error = ToolError::internal("the call broke off inside Handfast").effect(EffectState::Maybe);
        let meta = Meta::arrived(self.id.clone(), self.started_at);
        CallResult {
            outcome: Outcome::Err(error),
            presentation: self.presentation,
            meta,
            held: Held::default(),
        }
    }

    /// How the policy sees the call.
    pub(crate) fn policy_request<'a>(&'a self, tool: &'a str) -> policy::Request<'a> {
        policy::Request {
            tool,
            level: self.level,
            parts: &self.effects,
            undoable_in_force: self.undoable,
            background: self.background,
        }
    }

    /// Whose change it is.
    pub(crate) fn author(&self, now: Timestamp) -> Author {
        let session = Some(self.session.0.clone());
        let undoes = self.undoes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Author { id: self.id.0.clone(), session, tool: self.tool.clone(), now, undoes }
    }

    /// Whether its caller takes an answer from the cache, and one could fit: a call without any effect looks at no file, and nothing
    /// tells whether what it looks at is as it was.
    pub(crate) fn may_be_recalled(&self) -> bool {
        self.cache && !self.effects.is_empty()
    }

    /// What the call changes, or in a dry run would change.
    pub(crate) fn changing(&self) -> &[Part] {
        self.dry_run.as_ref().map_or(&self.effects, |tried| &tried.effects)
    }

    /// Whether it passed because everything that it changes can be undone.
    pub(crate) fn passed_as_undoable(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.line == policy::Line::Undoable)
    }

    /// Whether it passed because all of its commands are known to only read.
    pub(crate) fn passed_as_reading(&self) -> bool {
        let by = self.decision.as_ref().filter(|decision| decision.line == policy::Line::Allowed);
        by.is_some_and(|decision| decision.rule.key == policy::READ_ONLY_COMMANDS)
    }

    /// Whether all that it does is to read, here and from other machines.
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

    /// Exactly this call: the tool, its arguments, its effects.
    pub(crate) fn digest(&self) -> String {
        record::digest(&(&self.tool, &self.arguments_digest, &self.effects))
    }

    /// To whom what the call starts belongs: the holder where it is to outlive the session.
    pub(crate) fn owner(&self) -> String {
        match self.holder.as_ref().filter(|_| self.outlives_session) {
            Some(holder) => holder.0.clone(),
            None => self.owner_in_session(),
        }
    }

    /// To whom the background commands of the session belong. Those of a session may be typed into, and were started under its
    /// own ceiling: a bounded caller never shares them with an unbounded one.
    pub(crate) fn owner_in_session(&self) -> String {
        let [unbounded, bounded] = owners(&self.session);
        if self.ceiling.is_unbounded() { unbounded } else { bounded }
    }

    /// The rules for this call: those of the engine, what is leased to it, and its ceiling.
    pub(crate) fn rules(&self, engine: &Engine) -> Arc<Policy> {
        self.leased.as_ref().map_or_else(|| engine.policy.clone(), |leased| leased.policy.clone())
    }

    /// The roots of these rules.
    pub(crate) fn reach<'a>(&'a self, engine: &'a Engine) -> &'a Reach {
        self.leased.as_ref().map_or(&engine.reach, |leased| &leased.reach)
    }

    /// The end of the life: the result that the door hands out.
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
