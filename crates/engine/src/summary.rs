//! Summaries of the output of commands, for dialects that provide them.

use policy::Part;
use tool::{CallResult, CommandLine, Effect};

use crate::Engine;
use crate::call::Call;
use crate::redact::Redactor;

/// Summarizer of the output of commands and of the content of pages, independent of the door.
pub trait Summarizer: Send + Sync {
    /// Replaces the output of a call by a summary. Secrets in the result are redacted. Blocks.
    fn sum_up(&self, call: &SummarizedCall, result: &mut CallResult);
}

/// A call whose result is summarized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummarizedCall {
    /// A command, by its line with secrets redacted.
    Command(String),
    /// Use of a browser.
    Browser,
}

/// Returns what is summarized of a call, or `None` if the call neither runs a command nor uses a browser.
pub(crate) fn summarized(call: &Call, redactor: &Redactor) -> Option<SummarizedCall> {
    let is_service = |part: &Part| matches!(part.effect, Effect::UseTool { .. });
    if call.lasting_cell.is_some() && !call.effects.iter().any(is_service) {
        return Some(SummarizedCall::Browser);
    }
    command_of(&call.effects, redactor).map(SummarizedCall::Command)
}

/// Returns the command line that a call runs, with secrets redacted, or `None` if the call runs no
/// command.
fn command_of(effects: &[Part], redactor: &Redactor) -> Option<String> {
    let line = effects.iter().find_map(|part| match &part.effect {
        Effect::Run { command: CommandLine::Shell(line), .. } => Some(line.clone()),
        Effect::Run { command: CommandLine::Argv(words), .. } => Some(words.join(" ")),
        _ => None,
    })?;
    Some(redactor.text(&line).unwrap_or(line))
}

impl Engine {
    /// Summarizes a result if a summarizer is set. If the summarizer panics, returns `otherwise`,
    /// because the full result would be too large.
    pub(crate) async fn summed_up(
        &self,
        call: Option<SummarizedCall>,
        mut result: CallResult,
        otherwise: CallResult,
    ) -> CallResult {
        let (Some(summarizer), Some(call)) = (self.summarizer.clone(), call) else { return result };
        let summed = tokio::task::spawn_blocking(move || {
            summarizer.sum_up(&call, &mut result);
            result
        });
        summed.await.unwrap_or(otherwise)
    }
}
