//! The approval layer: looks up earlier approvals and asks a human about the rest.

use std::sync::Arc;
use std::time::Duration;

use policy::{Decision, Origin, Verdict};
use store_api::Lease;
use tool::{BoxFuture, Effect, PlanContext, PreparedCall, Retry, SessionId, ToolError};

use super::flow::{ApprovalFlow, ApprovalOutcome, AskingCall, Periods, QuestionSource, ReadyQuestion};
use super::preview::{Preview, PreviewedCall};
use super::question::BoundItem;
use super::stored::{stored, unreadable};
use super::{Binding, ForeseenWrites, leases};
use crate::call::Call;
use crate::{Engine, reach};

/// Time in which the picture of a question is taken, or it has none.
const PICTURE_TIME: Duration = Duration::from_secs(3);

/// An approval of a call.
pub(crate) struct CallApproval {
    /// Name of the person who approved.
    pub(crate) by: String,
    /// Writes of the call's commands that the approval covers.
    pub(crate) foreseen: ForeseenWrites,
}

/// Source of the question about a call.
struct CallQuestion<'a> {
    engine: &'a Arc<Engine>,
    call: &'a Call,
    decision: &'a Decision,
    binding: &'a Binding,
    /// The call, ready to run. The preview borrows it for a moment.
    prepared: Option<PreparedCall>,
    /// Writes that the approval covers, as of the last inspection.
    foreseen: ForeseenWrites,
}

impl QuestionSource for CallQuestion<'_> {
    fn question(&mut self) -> BoxFuture<'_, Result<ReadyQuestion, ToolError>> {
        Box::pin(async {
            let (engine, call) = (self.engine, self.call);
            let prepared =
                self.prepared.take().ok_or_else(|| ToolError::internal("the call was not prepared"))?;
            let (preview, prepared) = engine.build_preview(call, prepared).await?;
            let picture = engine.build_picture(call, &prepared).await;
            let preview = engine.with_picture(preview, picture);
            self.prepared = Some(prepared);
            Ok(ReadyQuestion {
                approval: engine.question(call, self.decision, preview, self.binding),
                request: self.binding.request.clone(),
                shape: call.rules(engine).shape(&call.policy_request(&call.tool)),
            })
        })
    }

    fn bound_now(&mut self) -> BoxFuture<'_, Result<Vec<BoundItem>, ToolError>> {
        Box::pin(async {
            let parts = reach::AccessScope::lead_again(&self.call.effects);
            let now = self.engine.bind_parts(self.call, parts).await?;
            self.foreseen = now.foreseen;
            Ok(now.bound)
        })
    }
}

impl Engine {
    /// Asks about the call. Returns the approval together with the prepared call.
    ///
    /// # Errors
    /// The error that the call ends with, if it is not approved or if what was shown has changed
    /// since.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        call: &Call,
        decision: &Decision,
        prepared: PreparedCall,
    ) -> Result<(CallApproval, PreparedCall), ToolError> {
        let binding = self.bind(call).await?;
        let is_leasable = !decision.terminal_only && binding.unnamed.is_none();
        let foreseen = ForeseenWrites::default();
        let mut source = CallQuestion {
            engine: self,
            call,
            decision,
            binding: &binding,
            prepared: Some(prepared),
            foreseen,
        };
        let outcome = self.approval_flow(call).approve(&binding, is_leasable, &mut source).await?;
        let CallQuestion { prepared, foreseen, .. } = source;
        let by = match outcome {
            ApprovalOutcome::Approved { by } => by,
            ApprovalOutcome::Denied { by, message } => return Err(denied(&by, message.as_deref())),
            ApprovalOutcome::Open { id, hint } => {
                let mut error = needs_approval(decision).retry(Retry::AfterMs(ASK_AGAIN_MS)).hint(format!(
                    "{hint}; after the user runs `handfast approvals approve {id}`, the same call \
                     passes once"
                ));
                error.approval_id = Some(id);
                return Err(error);
            }
            ApprovalOutcome::Closed { hint, retry } => {
                return Err(needs_approval(decision).retry(retry).hint(hint));
            }
            ApprovalOutcome::Drifted { what } => return Err(drifted(&what)),
        };
        let prepared = prepared.ok_or_else(|| ToolError::internal("the call was not prepared"))?;
        Ok((CallApproval { by, foreseen }, prepared))
    }

    /// Returns the flow of an approval for this call.
    pub(crate) fn approval_flow<'a>(&'a self, call: &'a Call) -> ApprovalFlow<'a> {
        ApprovalFlow {
            store: &self.store,
            clock: self.clock.as_ref(),
            redactor: &self.redactor,
            signals: &self.answers,
            workspace: &self.place.workspace,
            periods: Periods::default(),
            caller: AskingCall {
                id: &call.id,
                session: &call.session,
                door: call.door,
                dialect: call.dialect,
                asker: call.asker.as_ref(),
                stop: &call.stop,
            },
        }
    }

    /// Builds the preview of the call on a thread that may block.
    async fn build_preview(
        self: &Arc<Self>,
        call: &Call,
        prepared: PreparedCall,
    ) -> Result<(Option<Preview>, PreparedCall), ToolError> {
        let (parts, reach, rules) = (&call.effects[..], call.reach(self), call.rules(self));
        let asking = PreviewedCall { parts, reach, rules, stop: call.stop.clone() };
        let source = self.preview_source(&asking, &prepared.plan)?;
        let engine = self.clone();
        let looked = tokio::task::spawn_blocking(move || (engine.preview(source, &prepared), prepared));
        let (preview, prepared) = looked
            .await
            .map_err(|panic| ToolError::internal("the call could not be inspected").because(panic))?;
        Ok((preview?, prepared))
    }

    /// Takes the picture of what the call is about, and returns a line that says where it is; `None` if the
    /// call has none, or if none can be taken in time.
    async fn build_picture(self: &Arc<Self>, call: &Call, prepared: &PreparedCall) -> Option<String> {
        let pictures = self.pictures.clone()?;
        let owner = self.network_owner(call);
        let now = PlanContext { owner: &owner, place: &self.place, services: &self.services };
        let picture = tokio::time::timeout(PICTURE_TIME, prepared.picture(&now)).await.ok()??;
        let (id, time) = (call.id.clone(), self.clock.now());
        let stored = tokio::task::spawn_blocking(move || {
            let shows = picture.shows;
            pictures.add(&id, &picture, time).map(|path| format!("picture of {shows}: {}", path.display()))
        });
        Some(match stored.await {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => format!("no picture: it cannot be stored: {error}"),
            Err(panic) => format!("no picture: {panic}"),
        })
    }

    /// Puts the line about the picture before the rest of a preview.
    fn with_picture(&self, preview: Option<Preview>, picture: Option<String>) -> Option<Preview> {
        let Some(line) = picture else { return preview };
        let first = self.cut(line);
        Some(match preview {
            Some(preview) => Preview { text: first.text + &preview.text, ..preview },
            None => first,
        })
    }

    /// Returns the leases in force here and now for calls of this session.
    pub(crate) async fn leases_in_force(&self, session: &SessionId) -> Result<Vec<Lease>, ToolError> {
        leases::in_force(&self.store, session, &self.place.workspace, self.clock.now()).await
    }

    /// Returns the leases in force here and now for calls of every session. Blocks.
    pub(crate) fn leases_for_all(&self) -> Result<Vec<Lease>, ToolError> {
        self.store.leases().in_force("", &self.place.workspace, self.clock.now()).map_err(unreadable)
    }

    /// Returns the decision under the rules with leases. Calls that run commands get the leased
    /// rules even if they pass without them, because a lease may add a folder.
    pub(crate) async fn decide_with_leases(
        &self,
        call: &mut Call,
        decision: Decision,
    ) -> Result<Decision, ToolError> {
        let runs = call.effects.iter().any(|part| matches!(part.effect, Effect::Run { .. }));
        if decision.verdict == Verdict::Deny || (decision.verdict == Verdict::Pass && !runs) {
            return Ok(decision);
        }
        let leases = self.leases_in_force(&call.session).await?;
        let Some(leased) = self.leases.rules(&leases, &self.policy, &self.denied, &self.place)? else {
            return Ok(decision);
        };
        let leased = self.under_ceiling(call, leased)?;
        let with = leased.policy.decide(&call.policy_request(&call.tool));
        if let Origin::Lease(id) = &with.rule.origin {
            let (id, now) = (id.to_string(), self.clock.now());
            // The lease may have been revoked in the meantime.
            if !stored(&self.store, move |store| store.leases().note_use(&id, now)).await? {
                return Ok(decision);
            }
        }
        call.leased = Some(leased);
        Ok(with)
    }

    pub(crate) async fn bind(&self, call: &Call) -> Result<Binding, ToolError> {
        self.bind_parts(call, call.effects.clone()).await
    }

    async fn bind_parts(&self, call: &Call, parts: Vec<policy::Part>) -> Result<Binding, ToolError> {
        let (tool, arguments) = (call.tool.clone(), call.arguments_digest.clone());
        let (policy, cell, place) = (call.rules(self), self.cell.clone(), self.place.clone());
        let named = call.decision.as_ref().map(|decision| decision.named.clone()).unwrap_or_default();
        tokio::task::spawn_blocking(move || {
            Binding::of(&tool, &arguments, (&parts, &named), &policy, &cell, &place)
        })
        .await
        .map_err(|panic| ToolError::internal("the call could not be inspected").because(panic))
    }
}

/// Milliseconds after which a caller may repeat a call whose question is open. A person needs at
/// least that long to read and answer a question. Until it is answered, a repeated call finds the
/// same question.
const ASK_AGAIN_MS: u64 = 15_000;

fn needs_approval(decision: &Decision) -> ToolError {
    ToolError::new(tool::Code::Approval, format!("this call needs approval: {}", decision.reason))
}

fn denied(by: &str, message: Option<&str>) -> ToolError {
    let said = message.map(|message| format!(": {message}")).unwrap_or_default();
    ToolError::new(tool::Code::Permission, format!("{by} said no{said}"))
        .hint("do not repeat the call; ask the user what to do instead")
}

fn drifted(what: &str) -> ToolError {
    let message =
        format!("{what} has changed since the approval was requested, so the approval does not apply");
    ToolError::new(tool::Code::Permission, message)
        .retry(Retry::Now)
        .hint("repeat the call to ask about the current state")
}
