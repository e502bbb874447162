//! The question about held changes: the command, the changed paths, and the diff.

use std::sync::Arc;

use policy::Policy;
use tool::{Code, ToolError};

use super::background_work::blocking;
use crate::approvals::{ApprovalOutcome, Preview, ReadyQuestion};
use crate::call::Call;
use crate::snapshot::{PendingChanges, Question};
use crate::{Approval, Engine};

/// Reason for the question.
const HELD: &str = "the call has run, and some of its changes need approval";

/// Returns the error of a call whose changes wait for an answer, or got none.
pub(super) fn held(what: &str) -> ToolError {
    ToolError::new(Code::Approval, format!("{HELD}: {what}; none of its changes are in the workspace"))
}

impl Engine {
    /// Returns the diff of held changes.
    pub(super) async fn difference(
        self: &Arc<Self>,
        changes: PendingChanges,
        rules: Arc<Policy>,
    ) -> Result<(PendingChanges, Preview), ToolError> {
        let engine = self.clone();
        blocking(move || {
            // The question can be asked without the diff, and then reports the error.
            let difference = changes.preview(&rules, &engine.denied, engine.store.as_ref()).map_or_else(
                |error| format!("the difference cannot be shown: {}", error.message),
                |preview| preview.diff,
            );
            (changes, engine.cut(difference))
        })
        .await
    }

    /// Returns the command of the call on one line.
    pub(super) fn what_ran(&self, call: &Call) -> Option<String> {
        let runs = |part: &&policy::Part| matches!(part.effect, tool::Effect::Run { .. });
        let part = call.effects.iter().find(runs)?;
        Some(self.covered(crate::reach::line(part, &self.place)))
    }

    /// Asks a human about held changes.
    pub(super) async fn ask_about(
        &self,
        call: &Call,
        question: &Question,
        difference: Preview,
    ) -> Result<ApprovalOutcome, ToolError> {
        let covered = |line: &String| self.redactor.text(line).unwrap_or_else(|| line.clone());
        let changed: Vec<String> = question.lines.iter().map(covered).collect();
        let ran = self.what_ran(call);
        let reason = match &ran {
            Some(ran) => format!("{HELD}. Command: {ran}. Changes: {}", changed.join("; ")),
            None => format!("{HELD}: {}", changed.join("; ")),
        };
        let effects = ran.into_iter().chain(changed).collect();
        let approval = Approval {
            id: format!("a{}c", call.id),
            call: call.id.clone(),
            tool: call.tool.clone(),
            level: call.level,
            preview: Some(difference.text),
            preview_more_lines: difference.more_lines,
            reason,
            effects,
            rule: "auto_run".to_owned(),
            once_only: true,
            patterns_in_the_cell: false,
            terminal_only: true,
            offers: Vec::new(),
            pattern_kind: None,
            suggestion: None,
            digest: crate::digest::digest(&(call.digest(), &question.digest)),
            effects_digest: String::new(),
            bound: Vec::new(),
            connections: Vec::new(),
            every_host: false,
            program: self.program().clone(),
        };
        let request = crate::digest::digest(&(&call.digest(), "what it changed"));
        let shape = "what a command changed".to_owned();
        self.approval_flow(call).ask(ReadyQuestion { approval, request, shape }).await
    }
}
