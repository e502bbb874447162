//! Decisions on calls that are made later on behalf of a caller, and the limits that those calls get.

use std::sync::Arc;

use policy::{Ceiling, EffectKind, EffectKinds, FrozenCeiling, Part, Policy, Verdict};
use serde_json::Value;
use tool::{Code, ForeseenCall, LaterCalls, ToolError};

use crate::Engine;
use crate::call::Call;

/// Kinds of effects that a program in a cell can have besides reading files.
const OF_PROGRAMS: [EffectKind; 5] =
    [EffectKind::Read, EffectKind::Write, EffectKind::Delete, EffectKind::Connect, EffectKind::UseSecret];

/// Decisions on behalf of one caller.
pub(crate) struct CallsOnBehalf {
    engine: Arc<Engine>,
    rules: Arc<Policy>,
    ceiling: Ceiling,
}

impl CallsOnBehalf {
    pub(crate) fn of(engine: &Arc<Engine>, call: &Call) -> Arc<dyn LaterCalls> {
        Arc::new(Self { engine: engine.clone(), rules: call.rules(engine), ceiling: call.ceiling.clone() })
    }

    /// Refuses a tool whose arguments have secrets: a call that is made later is stored as it is.
    fn refuse_secrets(&self, tool: &str, arguments: &Value) -> Result<(), ToolError> {
        let found = self.engine.registry.find(&mut tool.to_owned(), &mut arguments.clone())?;
        if !found.takes_secrets() {
            return Ok(());
        }
        let message =
            format!("denied: the arguments of {} have a secret, which no schedule stores", found.name());
        Err(ToolError::new(Code::Permission, message).hint("make the call now"))
    }

    fn frozen(&self) -> Result<FrozenCeiling, ToolError> {
        FrozenCeiling::of(&self.ceiling, &self.rules).ok_or_else(|| {
            let message = "denied: this caller has rules of its own, under which nothing can be scheduled";
            ToolError::new(Code::Permission, message).hint("its creator can schedule the task")
        })
    }
}

impl LaterCalls for CallsOnBehalf {
    fn foresee(&self, tool: &str, arguments: Value) -> Result<ForeseenCall, ToolError> {
        let frozen = self.frozen()?;
        self.refuse_secrets(tool, &arguments)?;
        let (checked, _, parts) = self.engine.covered_check_by(&self.rules, tool, arguments)?;
        let ceiling = json(&frozen.limited_to(checked.level, kinds(&parts)))?;
        Ok(ForeseenCall { is_denied: checked.decision == Verdict::Deny, reason: checked.reason, ceiling })
    }

    fn ceiling(&self) -> Result<Value, ToolError> {
        json(&self.frozen()?)
    }
}

/// Returns the kinds of effects that a call of this plan may have.
fn kinds(parts: &[Part]) -> EffectKinds {
    let mut kinds: Vec<EffectKind> = parts.iter().map(|part| EffectKind::of(&part.effect)).collect();
    if kinds.contains(&EffectKind::Run) {
        kinds.extend(OF_PROGRAMS);
    }
    EffectKinds::of(&kinds)
}

fn json(frozen: &FrozenCeiling) -> Result<Value, ToolError> {
    serde_json::to_value(frozen)
        .map_err(|error| ToolError::internal("the limits cannot be written as JSON").because(error))
}
