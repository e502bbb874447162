//! The life of a call. Every call, from every door, goes through these layers in this order.
//!
//! | layer | task |
//! |---|---|
//! | parse | finds the tool, validates the arguments by its schema, translates them from the caller's dialect |
//! | plan | turns the arguments into effects, and resolves their paths |
//! | decide | asks the policy |
//! | approve | asks a human if the policy decides `check` |
//! | admit | waits for a place |
//! | recall | answers from the cache if the caller opted in |
//! | record intent | records the effects before they happen |
//! | checkpoint | takes a snapshot for a command or a draft, or saves the files that a tool changes itself |
//! | run | runs the tool under a deadline |
//! | swap in | saves the replaced files and puts the changes into the workspace, all of them or none |
//! | shape | converts the answer to the caller's dialect |
//! | cover | covers secrets, bounds the text, stores the whole by reference |
//! | record outcome | records the result |

mod recall;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use store_api::{Durability, Kind};
use tool::{
    AnyTool, CallResult, Code, Context, Data, EffectState, FullOutput, Lane, Outcome, PlanContext,
    PreparedCall, ShapeFacts, StopReason, ToolError,
};

use crate::admit::AdmittedCall;
use crate::bounded_output::Reference;
use crate::call::Call;
use crate::cell_spec::CellSpecTask;
use crate::commit_changes::{SavedState, ToolRun};
use crate::denied::OwnChange;
use crate::dry_run::denied;
use crate::reach::AccessScope;
use crate::redact::SentSecrets;
use crate::snapshot::ChangedBy;
use crate::stopping::{requested, start};
use crate::summary::summarized;
use crate::trace::Stage;
use crate::{Engine, bounded_output, record, retained_output};

/// Time for a tool to end after a stop request. A cell's command gets 200 ms of it after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Time in which a tool completes its plan by the present state of a page.
const PLAN_NOW: Duration = Duration::from_secs(10);

fn took_too_long() -> ToolError {
    ToolError::new(Code::Timeout, format!("the page did not answer within {} seconds", PLAN_NOW.as_secs()))
        .hint("the page may be busy; read it, or open it again with browser_navigate")
}

fn ends_with_session() -> ToolError {
    let message = "no program can outlive this session, because Handfast ends with the session";
    ToolError::new(Code::Unavailable, message)
        .hint("leave `keep` out; `handfast up` keeps programs of sessions over HTTP, which belong to a token")
}

fn shape(
    call: &mut Call,
    tool: &Arc<dyn AnyTool>,
    produced: Result<Data, ToolError>,
) -> Result<Data, ToolError> {
    let mut told = ShapeFacts { ran: call.ran, warnings: Vec::new() };
    let shaped = tool.shape(produced, &mut told);
    call.warnings.append(&mut told.warnings);
    shaped
}

/// Returns the exit code of a command, as its tool reports it.
fn exit_code(produced: &Result<Data, ToolError>) -> Option<i64> {
    let data = match produced {
        Ok(Data::Value(data)) => data,
        Ok(Data::Written(_)) => return None,
        Err(error) => error.data.as_ref()?,
    };
    data.get("exit_code")?.as_i64()
}

impl Engine {
    /// Runs a whole life. Never fails: the result has the error. `refused`: the door could not read
    /// it.
    pub(crate) async fn life(self: Arc<Self>, mut call: Call, refused: Option<ToolError>) -> CallResult {
        let lived = match refused {
            Some(error) => Err(error),
            None => self.layers(&mut call).await,
        };
        call.fail();
        let outcome = match lived {
            Ok(data) => Outcome::Ok(data),
            Err(error) => Outcome::Err(self.cover_error(error, &call.sent)),
        };
        for warning in &mut call.warnings {
            *warning = self.program().put_into(warning).into_owned();
        }
        let outcome = self.record_outcome(&call, outcome).await;
        if let Some(tracer) = &self.tracer
            && let Some(trace) = call.trace(&outcome, &self.redactor)
        {
            tracer.ended(trace);
        }
        call.browser_bytes = Self::browser_bytes(call.browser_processes.take()).await;
        let command = self.summarizer.as_ref().and_then(|_| summarized(&call, &self.redactor));
        let broken_off = call.broken_off();
        self.summed_up(command, call.answered(outcome, self.clock.now()), broken_off).await
    }

    async fn layers(self: &Arc<Self>, call: &mut Call) -> Result<Data, ToolError> {
        call.enter(Stage::Decide);
        let tool = self.parse(call)?;
        let prepared = self.plan(call, &tool).await?;
        self.note_what_runs(call, tool.spec(), &prepared.plan).await?;
        let prepared = self.decide(call, &tool, prepared).await?;
        let prepared = self.approve(call, prepared).await?;
        call.enter(Stage::Admit);
        let admitted = self.admit(call, &tool, &prepared).await?;
        call.leave();
        let looked = self.look(call, &tool).await?;
        if let Some(answer) = looked.as_ref().and_then(|looked| looked.recall(call, self.timer.now())) {
            return Ok(answer);
        }
        self.show_what_it_is_about(call, tool.spec().lane)?;
        // Specify the cell concurrently, because neither step needs the other.
        let cell = self.specify(call, tool.spec().lane);
        self.prepare_lasting(call, tool.spec().lane);
        self.prepare_script(call, tool.spec().lane)?;
        self.record_intent(call, &tool).await?;
        let before = self.checkpoint(call, &prepared, &tool).await?;
        let mut ran = self.run(call, &tool, prepared, &before, cell).await?;
        let has_run = ran.result.output.is_ok();
        let full_outputs = std::mem::take(&mut ran.result.full_outputs);
        let produced = self.swap_in(call, before, ran).await;
        let produced = self.undo_data(call, produced).await;
        if tool.spec().lane == Lane::Command {
            call.exit_code = exit_code(&produced);
            let told = self.told_by_read_only_roots(call);
            call.warnings.extend(told);
        }
        if has_run && produced.is_err() {
            call.fail();
        } else {
            call.leave();
        }
        let produced = shape(call, &tool, produced);
        let answer = self.cover(call, &tool, (produced, full_outputs), admitted).await?;
        if let Some(looked) = looked {
            self.remember(call, &answer, looked).await;
        }
        Ok(answer)
    }

    fn parse(&self, call: &mut Call) -> Result<Arc<dyn AnyTool>, ToolError> {
        if call.arguments.is_null() {
            // A caller may omit the arguments of a tool without required fields.
            call.arguments = Value::Object(serde_json::Map::new());
        }
        self.redactor.refresh();
        self.registry.spell(&call.tool, &mut call.arguments);
        self.note_arguments(call);
        call.sent = self.redactor.sent_in(&call.arguments);
        // Cover secrets before the name is cut for an answer. No tool has such a name.
        if let Some(covered) = self.redactor.text(&call.tool) {
            call.tool = covered;
        }
        let named = call.tool.clone();
        let found = self.registry.find(&mut call.tool, &mut call.arguments);
        if let Some(canonical) = self.registry.canonical(&call.tool) {
            canonical.clone_into(&mut call.tool);
        }
        if call.tool != named {
            // The call is that of another tool from here on, for the audit too.
            self.note_arguments(call);
        }
        let tool = found?;
        call.presentation = tool.spec().presentation;
        call.note_tool(tool.name(), tool.spec().name);
        Ok(tool)
    }

    async fn plan(&self, call: &mut Call, tool: &Arc<dyn AnyTool>) -> Result<PreparedCall, ToolError> {
        let mut prepared = tool.prepare(std::mem::take(&mut call.arguments), &self.place)?;
        if prepared.plans_now() {
            let owner = self.network_owner(call);
            let now = PlanContext { owner: &owner, place: &self.place, services: &self.services };
            tokio::select! {
                completed = tokio::time::timeout(PLAN_NOW, prepared.complete(&now)) => {
                    completed.unwrap_or_else(|_| Err(took_too_long()))?;
                }
                reason = requested(&call.stop) => return Err(reason.into()),
            }
        }
        call.level = prepared.plan.level.unwrap_or(tool.spec().level);
        call.timeout = prepared.timeout.unwrap_or(tool.spec().timeout.default).min(tool.spec().timeout.max);
        call.background = prepared.plan.background;
        call.outlives_session = prepared.plan.outlives_session;
        if call.outlives_session && call.holder.is_none() {
            return Err(ends_with_session());
        }
        call.effects = AccessScope::resolve(&prepared.plan);
        call.undoable = self.is_undoable(tool.spec(), &call.effects, &prepared.plan);
        call.shows_difference = tool.shows_difference();
        call.dry_run = self.planned_dry_run(tool.spec(), &prepared.plan);
        if let Some(limit) = &prepared.plan.network {
            self.limit_network(call, limit)?;
        }
        Ok(prepared)
    }

    async fn decide(
        self: &Arc<Self>,
        call: &mut Call,
        tool: &Arc<dyn AnyTool>,
        prepared: PreparedCall,
    ) -> Result<PreparedCall, ToolError> {
        self.stand_under_ceiling(call)?;
        let prepared = self.note_callers(call, tool.spec(), prepared).await?;
        self.foresee(call).await?;
        let mut decision = call.rules(self).decide(&call.policy_request(tool.spec().name));
        decision = self.decide_with_leases(call, decision).await?;
        let error = (decision.verdict == policy::Verdict::Deny).then(|| denied(&decision));
        call.decision = Some(decision);
        error.map_or(Ok(prepared), Err)
    }

    async fn approve(
        self: &Arc<Self>,
        call: &mut Call,
        prepared: PreparedCall,
    ) -> Result<PreparedCall, ToolError> {
        let Some(decision) =
            call.decision.clone().filter(|decision| decision.verdict == policy::Verdict::Check)
        else {
            return Ok(prepared);
        };
        call.enter(Stage::Approve);
        let (agreed, prepared) = self.ask(call, &decision, prepared).await?;
        call.approved_by = Some(agreed.by);
        call.foreseen = agreed.foreseen;
        Ok(prepared)
    }

    async fn admit(
        &self,
        call: &mut Call,
        tool: &Arc<dyn AnyTool>,
        prepared: &PreparedCall,
    ) -> Result<AdmittedCall, ToolError> {
        if let Some(left) = call.budget.spend_call(self.clock.now())? {
            call.timeout = call.timeout.min(left);
        }
        let expected = self.lanes.expected(prepared, &call.effects);
        let admitted = self.lanes.admit(&call.session, tool.spec().lane, expected, &call.stop).await;
        admitted.inspect_err(|_| call.budget.return_call())
    }

    async fn record_intent(&self, call: &mut Call, tool: &Arc<dyn AnyTool>) -> Result<(), ToolError> {
        if tool.spec().class.reads_only || call.dry_run.is_some() {
            return Ok(());
        }
        let leaves = self.leaves_the_machine(call, tool.spec().lane);
        let durability = if leaves { Durability::Flushed } else { Durability::Committed };
        call.enter(Stage::RecordIntent);
        let row = self.audit_row(Kind::Intent, call);
        let recorded = match self.store.require_room(0) {
            Ok(()) => self.store.audit().append(row, durability).await.map(drop),
            Err(full) => Err(full),
        };
        recorded.map_err(|error| {
            let message = format!("the audit cannot be written, so nothing was done: {error}");
            ToolError::new(Code::Runtime, message).because(error)
        })?;
        call.intent_recorded = true;
        Ok(())
    }

    async fn checkpoint(
        self: &Arc<Self>,
        call: &mut Call,
        prepared: &PreparedCall,
        tool: &Arc<dyn AnyTool>,
    ) -> Result<SavedState, ToolError> {
        if tool.spec().class.reads_only {
            return Ok(SavedState::Nothing);
        }
        call.enter(Stage::Checkpoint);
        let Some(snapshots) = self.snapshots.as_ref().filter(|_| prepared.plan.on_snapshot) else {
            return Ok(self
                .save_directly(call, prepared)
                .await?
                .map_or(SavedState::Nothing, SavedState::Direct));
        };
        let names_all = |part: &policy::Part| {
            part.effect
                .path()
                .is_some_and(|(access, path)| access == tool::Access::Write && path == self.place.workspace)
        };
        if let Some(id) = prepared.plan.applies.clone() {
            return snapshots.taken_up(id, call.timeout, &call.stop).await.map(SavedState::Kept);
        }
        let by = match tool.spec().lane {
            Lane::Command => ChangedBy::Command,
            _ if call.changing().iter().any(names_all) => ChangedBy::Restoration,
            _ => ChangedBy::Draft,
        };
        // A cell with a network of its own is none of those that wait.
        let apart = by == ChangedBy::Command && self.is_apart(call);
        let spawner = if apart { None } else { self.networks.spawner(&self.network(call).owner) };
        let taken = snapshots.taken(by, spawner, call.timeout, &call.stop).await;
        taken.map(SavedState::Snapshot)
    }

    async fn run(
        self: &Arc<Self>,
        call: &mut Call,
        tool: &Arc<dyn AnyTool>,
        prepared: PreparedCall,
        before: &SavedState,
        cell: Option<CellSpecTask>,
    ) -> Result<ToolRun, ToolError> {
        call.enter(Stage::Run);
        let context = Arc::new(self.context(call, tool.spec(), before, cell).await?);
        let began = Instant::now();
        let own = OwnChange::begin(&self.denied, &call.effects).await;
        let mut deadline = self.deadline(call);
        let mut task = start(prepared, context.clone());
        let ended = tokio::select! {
            ended = &mut task => Some(ended),
            () = &mut deadline => {
                call.stop.request(StopReason::Deadline);
                tokio::time::timeout(GRACE, &mut task).await.ok()
            }
            _ = requested(&call.stop) => tokio::time::timeout(GRACE, &mut task).await.ok(),
        };
        let has_ended = ended.is_some();
        let read_only = tool.spec().class.reads_only || call.dry_run.is_some();
        let unsure = if read_only { EffectState::None } else { EffectState::Maybe };
        let mut result = match ended {
            Some(Ok(result)) => result,
            Some(Err(panic)) => {
                let error =
                    ToolError::internal(format!("{} failed", call.tool)).effect(unsure).because(panic);
                Err(error).into()
            }
            None => {
                let reason = call.stop.requested().unwrap_or(StopReason::Deadline);
                Err(ToolError::from(reason).effect(unsure)).into()
            }
        };
        if !read_only && !call.passed_as_reading() {
            self.cache.clear();
        }
        call.ran = began.elapsed();
        if let Some(own) = own {
            own.end().await;
        }
        let cell = context.service().ok().zip(context.service::<sandbox::CellHost>().ok());
        self.look_after(&context, cell.as_ref().map(|(_, host)| host.as_ref())).await;
        if tool.spec().lane == Lane::Command {
            self.tend_homes();
            self.networks.rest_soon();
        }
        call.sandbox = result.sandbox.take();
        self.settle_connections(call).await;
        let told = self.told_by_network(call, result.missed_hosts.take());
        call.warnings.extend([context.take_warnings(), told].concat());
        if result.output.is_err() {
            call.fail();
        }
        Ok(ToolRun { result, has_ended, cell })
    }

    /// Judges the files that a command wrote directly, after it has ended and before its answer.
    async fn look_after(self: &Arc<Self>, context: &Context, cell: Option<&sandbox::CellHost>) {
        // A background command is judged by the calls that ask about it.
        let masks = cell.and_then(|cell| cell.late_masks.clone()).filter(|masks| masks.have_ended());
        let Some(masks) = masks else { return };
        if masks.write_anything_directly() {
            let engine = self.clone();
            // If it panics, the next inspection makes up for it.
            let _ = tokio::task::spawn_blocking(move || engine.denied.settle()).await;
        }
        masks.take_notes().into_iter().for_each(|note| context.warn(note));
    }

    async fn cover(
        self: &Arc<Self>,
        call: &mut Call,
        tool: &Arc<dyn AnyTool>,
        (produced, full_outputs): (Result<Data, ToolError>, Vec<FullOutput>),
        admitted: AdmittedCall,
    ) -> Result<Data, ToolError> {
        call.held = admitted.into_held(&produced);
        self.redactor.refresh();
        let cap = tool.spec().text;
        let reader = self.registry.name_of(bounded_output::READER);
        let reference = Reference { reader: reader.as_deref(), call: &call.id };
        let (result, shortened) = match produced {
            Ok(data) => {
                let covered = self.redactor.data(data);
                let bound =
                    covered.and_then(|data| bounded_output::bound_data(data, cap, full_outputs, reference));
                let (data, shortened) = bound.map_err(|error| {
                    let effect = if call.intent_recorded { EffectState::Done } else { EffectState::None };
                    ToolError::internal("the tool's output cannot be read").effect(effect).because(error)
                })?;
                (Ok(data), shortened)
            }
            Err(mut error) => {
                let shortened = error.data.as_mut().map(|data| {
                    self.redactor.value(data);
                    bounded_output::bound(data, cap, full_outputs, reference)
                });
                (Err(error), shortened.unwrap_or_default())
            }
        };
        if shortened.is_empty() {
            return result;
        }
        call.truncated = true;
        let (engine, id, session, now) =
            (self.clone(), call.id.clone(), call.session.clone(), self.clock.now());
        let kept = tokio::task::spawn_blocking(move || {
            retained_output::keep(engine.store.as_ref(), &engine.redactor, &id, &session, now, shortened)
        });
        // The call was made and its answer is valid, even if its whole text is lost.
        match kept.await {
            Ok(Ok(outputs)) => call.outputs = outputs,
            Ok(Err(error)) => call.warnings.push(format!("the whole output could not be kept: {error}")),
            Err(panic) => call.warnings.push(format!("the whole output could not be kept: {panic}")),
        }
        result
    }

    async fn record_outcome(&self, call: &Call, outcome: Outcome) -> Outcome {
        let kind = if call.intent_recorded { Kind::Outcome } else { Kind::Call };
        let mut row = self.audit_row(kind, call);
        record::add_outcome(&mut row, call, &outcome);
        // Commit the row after the answer only for a successful read. If the read left the machine,
        // its intent is on the disk.
        let behind = matches!(&outcome, Outcome::Ok(_)) && (!call.intent_recorded || call.only_asks());
        let durability = if behind { Durability::Behind } else { Durability::Committed };
        let Err(unrecorded) = self.store.audit().append(row, durability).await else {
            return outcome;
        };
        match outcome {
            Outcome::Ok(data) => {
                let effect = if call.intent_recorded { EffectState::Done } else { EffectState::None };
                let message = format!("the call ran, but its end cannot be recorded: {unrecorded}");
                let mut error = ToolError::new(Code::Runtime, message).effect(effect).because(unrecorded);
                // Data that cannot be read is left out of an answer that is an error already.
                error.data = data.into_value().ok();
                Outcome::Err(error)
            }
            failed @ Outcome::Err(_) => failed,
        }
    }

    /// Covers the secrets in an error and bounds its message and hint, which may repeat a long
    /// argument.
    pub(crate) fn cover_error(&self, mut error: ToolError, sent: &SentSecrets) -> ToolError {
        self.redactor.refresh();
        error.hint = error.hint.map(|hint| self.program().put_into(&hint).into_owned());
        if let Some(covered) = self.redactor.text_for(&error.message, sent) {
            error.message = covered;
        }
        if let Some(covered) = error.hint.as_deref().and_then(|hint| self.redactor.text_for(hint, sent)) {
            error.hint = Some(covered);
        }
        bounded_output::bound_message(&mut error.message);
        if let Some(hint) = &mut error.hint {
            bounded_output::bound_message(hint);
        }
        error
    }
}
