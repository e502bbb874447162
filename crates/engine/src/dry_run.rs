//! Dry runs: a call that is only tried.
//!
//! It is decided on as what trying it reads. What the policy says to the call itself is said, too: a denial ends the dry run
//! as it would end the call, and that a human would be asked is told. Its roots change nothing, and what it lays out beside
//! the workspace is shown and let go. A dry run of a command is another matter: that one runs, on an overlay.

use std::sync::Arc;

use policy::{Decision, Part, Policy, Verdict};
use roots::Roots;
use tool::{Code, Data, Level, Plan, Spec, ToolError};

use crate::Engine;
use crate::call::Call;
use crate::reach::Reach;
use crate::snapshot::Preview;

/// The call that a dry run tries.
pub(crate) struct Tried {
    level: Level,
    pub(crate) effects: Vec<Part>,
    undoable: bool,
}

impl Engine {
    /// What would be decided on, were the call made.
    pub(crate) fn tried(&self, spec: &Spec, plan: &Plan) -> Option<Tried> {
        let plan = plan.dry_run.as_deref()?;
        let effects = Reach::lead(plan);
        let undoable = self.is_undoable(spec, &effects, plan);
        Some(Tried { level: plan.level.unwrap_or(spec.level), effects, undoable })
    }

    /// Says what the policy would say to the call itself.
    ///
    /// # Errors
    /// `EPERMISSION` where it is denied.
    pub(crate) async fn foresee(&self, call: &mut Call) -> Result<(), ToolError> {
        let Some(tried) = &call.dry_run else { return Ok(()) };
        let request = policy::Request {
            tool: &call.tool,
            level: tried.level,
            parts: &tried.effects,
            undoable_in_force: tried.undoable,
            background: false,
        };
        let mut decision = call.rules(self).decide(&request);
        if decision.verdict == Verdict::Check
            && let Some(leased) = self.leased(call).await?
        {
            decision = leased.decide(&request);
        }
        match decision.verdict {
            Verdict::Pass => {}
            Verdict::Check => call.warnings.push(would_be_asked(&decision.reason)),
            Verdict::Deny => {
                let error = denied(&decision);
                call.decision = Some(decision);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The rules with what is leased to the session, where anything is.
    async fn leased(&self, call: &Call) -> Result<Option<Arc<Policy>>, ToolError> {
        let leases = self.leases_in_force(&call.session).await?;
        let Some(leased) = self.leases.rules(&leases, &self.policy, &self.denied, &self.place)? else {
            return Ok(None);
        };
        Ok(Some(self.under_ceiling(call, leased)?.policy.clone()))
    }

    /// The roots of a dry run: those that the call itself would have after a yes, and nothing can change in them.
    pub(crate) fn roots_to_try(&self, call: &Call, tried: &Tried) -> Result<Roots, ToolError> {
        Ok(call.reach(self).roots(&tried.effects, true, None)?.for_dry_run())
    }
}

/// What would change as the answer, or what the call itself would be refused for.
pub(crate) fn answer(
    call: &mut Call,
    preview: Preview,
    produced: Result<Data, ToolError>,
) -> Result<Data, ToolError> {
    let data = produced?;
    if let Some(error) = preview.refused {
        return Err(error);
    }
    call.warnings.extend(preview.held.iter().map(|held| would_be_asked(held)));
    with_difference(data, preview.diff)
}

/// Adds the difference to what the tool has produced.
pub(crate) fn with_difference(data: Data, diff: String) -> Result<Data, ToolError> {
    let mut data = data
        .into_value()
        .map_err(|error| ToolError::internal("the tool's output cannot be read").because(error))?;
    if let Some(fields) = data.as_object_mut() {
        fields.insert("diff".to_owned(), diff.into());
    }
    Ok(data.into())
}

/// The error of a denied call.
pub(crate) fn denied(decision: &Decision) -> ToolError {
    let error = ToolError::new(Code::Permission, format!("denied: {}", decision.reason));
    match &decision.hint {
        Some(hint) => error.hint(hint.clone()),
        None => error,
    }
}

fn would_be_asked(why: &str) -> String {
    format!("before the call itself, a human must agree: {why}")
}
