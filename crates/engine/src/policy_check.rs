//! The decision of the policy on a call that is not made.

use std::sync::Arc;

use policy::Policy;
use serde::Serialize;
use serde_json::{Value, json};
use tool::{PreparedCall, Stop, ToolError};

use crate::approvals::PreviewedCall;
use crate::{Engine, Principal, reach};

/// Decision of the policy on a call (`handfast check`).
#[derive(Debug, Serialize)]
pub struct PolicyCheck {
    /// Verdict: `pass`, `check` or `deny`.
    pub decision: policy::Verdict,
    /// Level of the call.
    pub level: tool::Level,
    /// Mode, which determines when humans are asked.
    pub mode: policy::Mode,
    /// Name of the profile that decided.
    pub profile: String,
    /// Rule that decided, with the place where it is written.
    pub rule: String,
    /// Line of the decision list that applied, from 1 to 10.
    pub line: u8,
    /// Reason for the decision.
    pub reason: String,
    /// Hint at what would change the decision; null if the call passes.
    pub hint: Option<String>,
    /// Part of the call that decided: an effect, or one command of a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// List entries with which the call would pass. Absent if the call passes, or if no entry would
    /// help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes_with: Option<Vec<policy::Suggestion>>,
    /// Enforcement of each rule of `deny_exec_command`, one line each, with what evades it. Empty
    /// unless the call runs a command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_commands: Vec<String>,
    /// Preview for a human, in addition to the effects, if one is asked: the difference that the
    /// call makes, or the command as it was parsed. For the user only, because it may contain data
    /// that a call may not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Number of lines that were left out at the end of the preview, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_more_lines: Option<u64>,
    /// All effects of the call, as an array. Secrets are covered, as in every field here.
    pub effects: Value,
}

impl Engine {
    /// Decides on a call without making it. Looks paths up, changes nothing, records nothing.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown tool, `EVALIDATION` for invalid arguments.
    pub fn check(&self, tool: &str, arguments: Value) -> Result<PolicyCheck, ToolError> {
        let latest = self.successor();
        let checked = latest.as_deref().unwrap_or(self).covered_check(tool, arguments)?;
        Ok(checked.0)
    }

    /// Decides like [`Engine::check`] for a caller under a ceiling, and returns which questions of
    /// sub-agents the rules of that caller let the agents above them answer.
    ///
    /// # Errors
    /// The errors of [`Engine::check`].
    pub fn check_within(
        &self,
        ceiling: &policy::Ceiling,
        tool: &str,
        arguments: Value,
    ) -> Result<(PolicyCheck, policy::ParentAnswers), ToolError> {
        let latest = self.successor();
        let engine = latest.as_deref().unwrap_or(self);
        let rules = Arc::new(engine.policy.under(ceiling));
        let checked = engine.covered_check_by(&rules, tool, arguments)?;
        Ok((checked.0, rules.parent_may_answer()))
    }

    /// Returns the principal that makes a running call; `None` if the call does not run.
    pub fn principal_of(&self, call: &tool::CallId) -> Option<Principal> {
        self.running.principal_of(call)
    }

    /// Returns the name of the profile in force, also after a change of the configuration.
    pub fn profile_now(&self) -> String {
        let latest = self.successor();
        latest.as_deref().unwrap_or(self).policy.profile().to_owned()
    }

    fn covered_check(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<(PolicyCheck, PreparedCall, Vec<policy::Part>), ToolError> {
        self.covered_check_by(&self.policy, tool, arguments)
    }

    /// Decides by these rules. Covers secrets in the error.
    pub(crate) fn covered_check_by(
        &self,
        rules: &Arc<Policy>,
        tool: &str,
        arguments: Value,
    ) -> Result<(PolicyCheck, PreparedCall, Vec<policy::Part>), ToolError> {
        self.redactor.refresh();
        let sent = self.redactor.sent_in(&json!([tool, arguments]));
        self.checked(rules, tool, arguments).map_err(|error| self.cover_error(error, &sent))
    }

    /// Decides like [`Engine::check`], and adds the preview that a human would see. The caller must
    /// be the user.
    ///
    /// # Errors
    /// The errors of [`Engine::check`], and `ENOTFOUND` if the changes to apply do not exist.
    pub fn check_for_user(&self, tool: &str, arguments: Value) -> Result<PolicyCheck, ToolError> {
        let latest = self.successor();
        let engine = latest.as_deref().unwrap_or(self);
        let (mut checked, prepared, parts) = engine.covered_check(tool, arguments)?;
        if checked.decision == policy::Verdict::Check {
            let (rules, stop) = (engine.policy.clone(), Stop::default());
            let asking = PreviewedCall { parts: &parts, reach: &engine.reach, rules, stop };
            if let Some(preview) =
                engine.preview(engine.preview_source(&asking, &prepared.plan)?, &prepared)?
            {
                checked.preview_more_lines = Some(preview.more_lines).filter(|more| *more > 0);
                checked.preview = Some(preview.text);
            }
        }
        Ok(checked)
    }

    fn checked(
        &self,
        rules: &Arc<Policy>,
        tool: &str,
        mut arguments: Value,
    ) -> Result<(PolicyCheck, PreparedCall, Vec<policy::Part>), ToolError> {
        let tool = self.registry.find(&mut tool.to_owned(), &mut arguments)?;
        let prepared = tool.prepare(arguments, &self.place)?;
        let plan = &prepared.plan;
        let mut effects = reach::AccessScope::resolve(plan);
        self.note_callers_now(rules, tool.spec(), &prepared, &mut effects)?;
        let level = plan.level.unwrap_or(tool.spec().level);
        let request = policy::Request {
            tool: tool.spec().name,
            level,
            parts: &effects,
            undoable_in_force: self.is_undoable(tool.spec(), &effects, plan),
            background: plan.background,
        };
        let mut decision = rules.decide(&request);
        if decision.verdict == policy::Verdict::Check {
            // Leases of a single session are not known here.
            let leases = self.leases_for_all()?;
            if let Some(leased) = self.leases.rules(&leases, rules, &self.denied, &self.place)? {
                decision = leased.policy.decide(&request);
            }
        }
        let passes_with =
            if decision.verdict == policy::Verdict::Pass { None } else { rules.would_pass_with(&request) };
        let hint = match &passes_with {
            Some(entries) => {
                let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
                Some(format!("it would pass with {} of profile `{}`", entries.join(" and "), rules.profile()))
            }
            None => decision.hint,
        };
        let mut shown = serde_json::to_value(&effects)
            .map_err(|error| ToolError::internal("the effects cannot be written as JSON").because(error))?;
        self.redactor.refresh();
        self.redactor.value(&mut shown);
        let runs_a_command = effects.iter().any(|part| matches!(part.effect, tool::Effect::Run { .. }));
        let denied_commands = if runs_a_command { self.programs.found().told.clone() } else { Vec::new() };
        let covered = |suggestion: policy::Suggestion| policy::Suggestion {
            entry: self.covered(suggestion.entry),
            ..suggestion
        };
        let checked = PolicyCheck {
            decision: decision.verdict,
            level: decision.level,
            mode: rules.mode(),
            profile: rules.profile().to_owned(),
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
