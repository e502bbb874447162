//! Summaries of the output of commands, for dialects that provide them.

use policy::Part;
use tool::{CallResult, CommandLine, Effect};

use crate::Engine;
use crate::redact::Redactor;

/// Summarizer of the output of commands, independent of the door.
pub trait Summarizer: Send + Sync {
    /// Replaces the output of a command by a summary. Secrets in the command and in the result are
    /// redacted. Blocks.
    fn sum_up(&self, command: &str, result: &mut CallResult);
}

/// Returns the command line that a call runs, with secrets redacted, or `None` if the call runs no
/// command.
pub(crate) fn command_of(effects: &[Part], redactor: &Redactor) -> Option<String> {
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
        command: Option<String>,
        mut result: CallResult,
        otherwise: CallResult,
    ) -> CallResult {
        let (Some(summarizer), Some(command)) = (self.summarizer.clone(), command) else { return result };
        let summed = tokio::task::spawn_blocking(move || {
            summarizer.sum_up(&command, &mut result);
            result
        });
        summed.await.unwrap_or(otherwise)
    }
}
