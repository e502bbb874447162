//! What the policy would decide on a call, without the call.

use serde::Serialize;
use serde_json::{Value, json};
use tool::{Prepared, Stop, ToolError};

use crate::approvals::Asking;
use crate::{Engine, reach};

/// What the policy would decide on a call (`handfast check`).
#[derive(Debug, Serialize)]
pub struct Checked {
    /// `pass`, `check` or `deny`.
    pub decision: policy::Verdict,
    /// The level of the call.
    pub level: tool::Level,
    /// When humans are asked.
    pub mode: policy::Mode,
    /// The profile that decided.
    pub profile: String,
    /// The rule that decided, with where it is written.
    pub rule: String,
    /// The line of the decision list that applied, from 1 to 9.
    pub line: u8,
    /// Why.
    pub reason: String,
    /// What would change it; null where the call passes.
    pub hint: Option<String>,
    /// The part of the call that decided: an effect, or one command of a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The entries of lists with which the call would pass; absent where it passes, and where none would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes_with: Option<Vec<policy::Suggestion>>,
    /// For a command: how each rule of `deny_exec_command` holds, and what gets past it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_commands: Vec<String>,
    /// What a human would be shown beside the effects, where one is asked: the difference that the call makes, the command as
    /// it was read. Only for the user: it may hold what a call may not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// How many lines were left out at its end, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_more_lines: Option<u64>,
    /// Everything the call would do: an array of effects. As everything here, with secrets covered.
    pub effects: Value,
}

impl Engine {
    /// What the policy would decide on a call. Looks paths up, changes nothing, records nothing.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown tool, `EVALIDATION` for wrong arguments.
    pub fn check(&self, tool: &str, arguments: Value) -> Result<Checked, ToolError> {
        let checked = self.covered_check(tool, arguments)?;
        Ok(checked.0)
    }

    fn covered_check(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<(Checked, Prepared, Vec<policy::Part>), ToolError> {
        self.redactor.refresh();
        let sent = self.redactor.sent_in(&json!([tool, arguments]));
        self.checked(tool, arguments).map_err(|error| self.cover_error(error, &sent))
    }

    /// The same with what a human would be shown. Whoever calls this is the user.
    ///
    /// # Errors
    /// As [`Engine::check`]; `ENOTFOUND` where changes would be applied that do not lie aside.
    pub fn check_for_user(&self, tool: &str, arguments: Value) -> Result<Checked, ToolError> {
        let checked = self.covered_check(tool, arguments)?;
        let (mut checked, prepared, parts) = checked;
        if checked.decision == policy::Verdict::Check {
            let (rules, stop) = (self.policy.clone(), Stop::default());
            let asking = Asking { parts: &parts, reach: &self.reach, rules, stop };
            if let Some(preview) = self.preview(self.preview_source(&asking, &prepared.plan)?, &prepared)? {
                checked.preview_more_lines = Some(preview.more_lines).filter(|more| *more > 0);
                checked.preview = Some(preview.text);
            }
        }
        Ok(checked)
    }

    fn checked(
        &self,
        tool: &str,
        mut arguments: Value,
    ) -> Result<(Checked, Prepared, Vec<policy::Part>), ToolError> {
        let tool = self.registry.find(&mut tool.to_owned(), &mut arguments)?;
        let prepared = tool.prepare(arguments, &self.place)?;
        let plan = &prepared.plan;
        let effects = reach::Reach::lead(plan);
        let level = plan.level.unwrap_or(tool.spec().level);
        let request = policy::Request {
            tool: tool.spec().name,
            level,
            parts: &effects,
            undoable_in_force: self.is_undoable(tool.spec(), &effects, plan),
            background: plan.background,
        };
        let mut decision = self.policy.decide(&request);
        if decision.verdict == policy::Verdict::Check {
            // What is leased to one session alone is not known here.
            let leases = self.leases_for_all()?;
            if let Some(leased) = self.leases.rules(&leases, &self.policy, &self.denied, &self.place)? {
                decision = leased.policy.decide(&request);
            }
        }
        let passes_with = if decision.verdict == policy::Verdict::Pass {
            None
        } else {
            self.policy.would_pass_with(&request)
        };
        let hint = match &passes_with {
            Some(entries) => {
                let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
                Some(format!(
                    "it passes with {} of profile `{}`",
                    entries.join(" and "),
                    self.policy.profile()
                ))
            }
            None => decision.hint,
        };
        let mut shown = serde_json::to_value(&effects)
            .map_err(|error| ToolError::internal("the effects are no JSON").because(error))?;
        self.redactor.refresh();
        self.redactor.value(&mut shown);
        let runs_a_command = effects.iter().any(|part| matches!(part.effect, tool::Effect::Run { .. }));
        let denied_commands = if runs_a_command { self.programs.found().told.clone() } else { Vec::new() };
        let covered = |suggestion: policy::Suggestion| policy::Suggestion {
            entry: self.covered(suggestion.entry),
            ..suggestion
        };
        let checked = Checked {
            decision: decision.verdict,
            level: decision.level,
            mode: self.policy.mode(),
            profile: self.policy.profile().to_owned(),
            rule: self.covered(decision.rule.to_string()),
            line: decision.line.number(),
            reason: self.covered(decision.reason),
            denied_commands: denied_commands.into_iter().map(|line| self.covered(line)).collect(),
            hint: hint.map(|hint| self.covered(hint)),
            part: decision.part.map(|part| self.covered(part)),
            passes_with: passes_with.map(|entries| entries.into_iter().map(covered).collect()),
            preview: None,
            preview_more_lines: None,
            effects: shown,
        };
        Ok((checked, prepared, effects))
    }
}
