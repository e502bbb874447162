//! Dry runs: calls that are only tried.
//!
//! The policy decides on the effects that trying the call has: reads. The policy also judges the
//! call itself. A denial ends the dry run as it would end the call. If a human would be asked, the
//! answer reports so. Roots of a dry run change nothing, and its draft next to the workspace is
//! shown and discarded. A dry run of a command is different: the command runs, on an overlay.

use std::sync::Arc;

use policy::{Decision, Policy, Verdict};
use roots::Roots;
use tool::{Code, Data, Plan, Spec, ToolError};

use crate::Engine;
use crate::call::{Call, DryRunCall};
use crate::reach::AccessScope;
use crate::snapshot::Preview;

impl Engine {
    /// Returns the call that the plan tries, with its effects, if the plan is a dry run.
    pub(crate) fn planned_dry_run(&self, spec: &Spec, plan: &Plan) -> Option<DryRunCall> {
        let plan = plan.dry_run.as_deref()?;
        let effects = AccessScope::resolve(plan);
        let undoable = self.is_undoable(spec, &effects, plan);
        Some(DryRunCall { level: plan.level.unwrap_or(spec.level), effects, undoable })
    }

    /// Applies the policy to the call that the dry run tries.
    ///
    /// # Errors
    /// `EPERMISSION` if that call is denied.
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

    /// Returns the rules with the leases of the session, if there are any.
    async fn leased(&self, call: &Call) -> Result<Option<Arc<Policy>>, ToolError> {
        let leases = self.leases_in_force(&call.session).await?;
        let Some(leased) = self.leases.rules(&leases, &self.policy, &self.denied, &self.place)? else {
            return Ok(None);
        };
        Ok(Some(self.under_ceiling(call, leased)?.policy.clone()))
    }

    /// Returns the roots of a dry run: those that the call itself would have after an approval, but
    /// without any change.
    pub(crate) fn roots_to_try(&self, call: &Call, tried: &DryRunCall) -> Result<Roots, ToolError> {
        Ok(call.reach(self).roots(&tried.effects, true, None)?.for_dry_run())
    }
}

/// Builds the answer: the difference that the call would make, or the error that it would be
/// refused with.
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

/// Adds the difference to the tool's data.
pub(crate) fn with_difference(data: Data, diff: String) -> Result<Data, ToolError> {
    let mut data = data
        .into_value()
        .map_err(|error| ToolError::internal("the tool's output cannot be read").because(error))?;
    if let Some(fields) = data.as_object_mut() {
        fields.insert("diff".to_owned(), diff.into());
    }
    Ok(data.into())
}

/// Builds the error of a denied call.
pub(crate) fn denied(decision: &Decision) -> ToolError {
    let error = ToolError::new(Code::Permission, format!("denied: {}", decision.reason));
    match &decision.hint {
        Some(hint) => error.hint(hint.clone()),
        None => error,
    }
}

fn would_be_asked(why: &str) -> String {
    format!("the call itself needs approval: {why}")
}
