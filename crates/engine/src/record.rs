//! Audit rows of calls. Every argument is redacted before it gets here.

use std::path::Path;

use serde_json::{Value, json};
use store_api::{AuditRow, Kind};
use tool::{EffectState, Outcome};

use jiff::Timestamp;

use crate::Engine;
use crate::call::Call;
use crate::digest::digest;
use crate::redact::Redactor;

/// Maximum number of characters of one argument in the audit. A longer argument is cut; the digest
/// covers all of it.
const ARGUMENT_CHARACTERS: usize = 1_000;
/// Maximum number of characters of a tool's name in the audit, because a caller can send any text
/// as the name.
const NAME_CHARACTERS: usize = 100;
/// Maximum number of bytes of the plan in the audit, below the limit of one row.
const PLAN_BYTES: usize = 256 * 1024;

impl Engine {
    /// Records the arguments for the audit and for binding an approval to them, before the tool
    /// takes them. Both leave out secret arguments, because a digest of a secret would allow
    /// guesses to be checked.
    pub(crate) fn note_arguments(&self, call: &mut Call) {
        let shown = self.registry.without_secrets(&call.tool, &call.arguments);
        call.arguments_digest = digest(&shown);
        call.noted_arguments = abbreviated(&shown, &self.redactor);
    }
}

impl Engine {
    /// Creates the audit row of a call in its current state.
    pub(crate) fn audit_row(&self, kind: Kind, call: &Call) -> AuditRow {
        row(kind, call, &self.place.workspace, &self.redactor, self.clock.now())
    }
}

fn row(kind: Kind, call: &Call, workspace: &Path, redactor: &Redactor, now: Timestamp) -> AuditRow {
    let tool = redactor.text(&call.tool).unwrap_or_else(|| call.tool.clone());
    let tool: String = tool.chars().take(NAME_CHARACTERS).collect();
    let mut row = AuditRow::new(kind, now, &call.id.0, call.door.as_str(), call.dialect, &tool);
    row.session = Some(call.session.0.clone());
    row.plan = Some(plan(call, workspace, redactor));
    row.decision = call.decision.as_ref().map(|decision| decision.verdict.as_str().to_owned());
    row.rule = call.decision.as_ref().map(|decision| decision.rule.to_string());
    row.approved_by.clone_from(&call.approved_by);
    row
}

/// Adds the outcome of the call.
pub(crate) fn add_outcome(row: &mut AuditRow, call: &Call, outcome: &Outcome) {
    row.duration = Some(call.elapsed());
    row.sandbox = call.sandbox.as_ref().map(|facts| facts.join(", "));
    row.output_ref = call.outputs.first().map(|kept| kept.output_ref.clone());
    let (code, effect) = match outcome {
        Outcome::Ok(_) if call.intent_recorded => ("ok", EffectState::Done),
        Outcome::Ok(_) => ("ok", EffectState::None),
        Outcome::Err(error) => (error.code.as_str(), error.effect),
    };
    row.outcome = Some(code.to_owned());
    row.effect = Some(effect.as_str().to_owned());
}

fn plan(call: &Call, workspace: &Path, redactor: &Redactor) -> String {
    let workspace = tool::path_text(workspace);
    let mut plan =
        json!({ "arguments": call.noted_arguments, "effects": call.effects, "workspace": workspace });
    redactor.value(&mut plan["effects"]);
    if let Some(user) = &call.user {
        plan["user"] = json!(redactor.text(user).unwrap_or_else(|| user.to_string()));
    }
    if let Some(parent) = &call.parent {
        plan["parent"] = json!(parent.0);
    }
    if !call.reached.is_empty() {
        plan["reached"] = json!(call.reached);
    }
    // Set in the row that records how a call ended.
    if let Some(code) = call.exit_code {
        plan["exit_code"] = json!(code);
    }
    let text = plan.to_string();
    if text.len() <= PLAN_BYTES {
        return text;
    }
    let left_out = text.len();
    let mut short =
        json!({ "effects": call.effects.len(), "left_out_bytes": left_out, "workspace": workspace });
    if let Some(parent) = plan.get_mut("parent") {
        short["parent"] = parent.take();
    }
    short.to_string()
}

/// Returns a copy with redacted secrets and with every long text cut, however large the value is.
// BOUNDED: by the depth of JSON that is read, 128.
pub(crate) fn abbreviated(value: &Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => {
            // The text is redacted before it is cut, because a cut through a secret would leave a
            // part that no longer matches.
            let covered = redactor.text(text);
            let shown = covered.as_deref().unwrap_or(text);
            match shown.char_indices().nth(ARGUMENT_CHARACTERS) {
                Some((end, _)) => {
                    Value::String(format!("{}[... {} bytes in all]", &shown[..end], text.len()))
                }
                None => Value::String(shown.to_owned()),
            }
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| abbreviated(item, redactor)).collect()),
        Value::Object(map) => {
            let short = |key: &String| redactor.text(key).unwrap_or_else(|| key.clone());
            Value::Object(map.iter().map(|(key, item)| (short(key), abbreviated(item, redactor))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_argument_is_cut_and_a_secret_in_it_is_covered_first() {
        let redactor = Redactor::new([("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned())]);
        let long = format!("sk-1234567890abcdef {}", "ä".repeat(5_000));
        let short = abbreviated(&json!({"content": long, "n": 3}), &redactor);
        let text = short["content"].as_str().unwrap();
        assert!(text.starts_with("[SECRET:TOKEN] ä"), "{text}");
        assert!(text.ends_with(&format!("[... {} bytes in all]", long.len())), "{text}");
        assert_eq!(short["n"], 3);
    }

    #[test]
    fn a_secret_that_the_cut_would_split_does_not_show_its_first_half() {
        let redactor = Redactor::new([("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned())]);
        let text = format!("{}sk-1234567890abcdef{}", "x".repeat(ARGUMENT_CHARACTERS - 10), "y".repeat(100));
        let short = abbreviated(&json!(text), &redactor).to_string();
        assert!(!short.contains("sk-123"), "{short}");
    }
}
