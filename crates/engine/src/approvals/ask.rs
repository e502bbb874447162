//! The approval layer: looks up earlier approvals and asks a human about the rest.

use std::sync::Arc;

use policy::{Decision, Origin, Verdict};
use store_api::{EarlierAnswer, Lease, LeaseKind, Store, StoreError};
use tool::{Effect, PreparedCall, Retry, SessionId, ToolError};

use super::preview::{Preview, PreviewedCall};
use super::question::Approval;
use super::{Binding, ForeseenWrites, QuestionOutcome};
use crate::call::Call;
use crate::{Engine, reach};

/// An approval of a call.
pub(crate) struct CallApproval {
    /// Name of the person who approved.
    pub(crate) by: String,
    /// Writes of the call's commands that the approval covers.
    pub(crate) foreseen: ForeseenWrites,
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
        let (by, prepared) = self.find_or_ask(call, decision, prepared, &binding).await?;
        // The approval covers what was shown. A later change makes it another call.
        let parts = reach::AccessScope::lead_again(&call.effects);
        let now = self.bind_parts(call, parts).await?;
        match Binding::drift(&binding.bound, &now.bound) {
            Some(what) => Err(drifted(&what)),
            None => Ok((CallApproval { by, foreseen: now.foreseen }, prepared)),
        }
    }

    async fn find_or_ask(
        self: &Arc<Self>,
        call: &Call,
        decision: &Decision,
        prepared: PreparedCall,
        binding: &Binding,
    ) -> Result<(String, PreparedCall), ToolError> {
        let (workspace, plan, request) =
            (self.place.workspace.clone(), binding.plan.clone(), binding.request.clone());
        let now = self.clock.now();
        let earlier =
            self.stored(move |store| store.approvals().earlier(&workspace, &plan, &request, now)).await?;
        match earlier {
            EarlierAnswer::None => {}
            EarlierAnswer::Approved(row) => {
                self.note_approval("approval_use", call, &row.id, None).await?;
                return Ok((row.answered_by.unwrap_or_default(), prepared));
            }
            EarlierAnswer::Denied(row) => {
                return Err(denied(&row.answered_by.unwrap_or_default(), row.message.as_deref()));
            }
            EarlierAnswer::Drifted(row) => {
                let before: Option<Approval> = serde_json::from_str(&row.question).ok();
                let what = before.and_then(|before| Binding::drift(&before.bound, &binding.bound));
                return Err(drifted(what.as_deref().unwrap_or("the state that the call would find")));
            }
        }
        // An approval with a wider reach came with one for this call, which is used first.
        if !decision.terminal_only
            && binding.unnamed.is_none()
            && let Some(by) = self.leased_exactly(call, &binding.effects).await?
        {
            return Ok((by, prepared));
        }
        let (preview, prepared) = self.build_preview(call, prepared).await?;
        let approval = self.question(call, decision, preview, binding);
        let shape = call.rules(self).shape(&call.policy_request(&call.tool));
        match self.put(call, approval, &binding.request, &shape).await? {
            QuestionOutcome::Yes(by) => Ok((by, prepared)),
            QuestionOutcome::No { by, message } => Err(denied(&by, message.as_deref())),
            QuestionOutcome::Open { id, hint } => {
                let mut error = needs_approval(decision).retry(Retry::AfterMs(ASK_AGAIN_MS)).hint(format!(
                    "{hint}; after the user runs `handfast approvals approve {id}`, the same call \
                     passes once"
                ));
                error.approval_id = Some(id);
                Err(error)
            }
            QuestionOutcome::Closed { hint, retry } => Err(needs_approval(decision).retry(retry).hint(hint)),
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

    /// Returns the grantor, scope and id of an exact lease that covers these effects, if there is
    /// one.
    pub(super) async fn leased_exactly(
        &self,
        call: &Call,
        effects: &str,
    ) -> Result<Option<String>, ToolError> {
        let leases = self.leases_in_force(&call.session).await?;
        let covers = |lease: &&Lease| lease.kind == LeaseKind::Exact && lease.pattern == effects;
        let Some(lease) = leases.iter().find(covers) else { return Ok(None) };
        let (id, now) = (lease.id.clone(), self.clock.now());
        // The lease may have been revoked in the meantime.
        let counts = self.stored(move |store| store.leases().note_use(&id, now)).await?;
        Ok(counts.then(|| format!("{}, for the {} (lease {})", lease.granted_by, lease.scope, lease.id)))
    }

    /// Returns the leases in force here and now for calls of this session.
    pub(crate) async fn leases_in_force(&self, session: &SessionId) -> Result<Vec<Lease>, ToolError> {
        let (session, workspace, now) = (session.clone(), self.place.workspace.clone(), self.clock.now());
        self.stored(move |store| store.leases().in_force(&session.0, &workspace, now)).await
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
            if !self.stored(move |store| store.leases().note_use(&id, now)).await? {
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

    /// Runs `work`, which blocks on the store, on a thread that may block.
    pub(crate) async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || work(store.as_ref()))
            .await
            .map_err(|panic| ToolError::internal("the approvals could not be read").because(panic))?
            .map_err(unreadable)
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

fn unreadable(error: StoreError) -> ToolError {
    let message = format!("the approvals cannot be used, so nothing was done: {error}");
    ToolError::new(tool::Code::Runtime, message).because(error)
}
