//! The last word on what a caller gets of a command, where a dialect settles that.

use policy::Part;
use tool::{CallResult, CommandLine, Effect};

use crate::Engine;
use crate::redact::Redactor;

/// Sums up what commands printed, whatever door the call came through.
pub trait Summarizer: Send + Sync {
    /// Puts a summary in the place of what a command printed. The command and the result have their secrets covered. Blocks.
    fn sum_up(&self, command: &str, result: &mut CallResult);
}

/// The line of the command that a call runs, with secrets covered; none where it runs none.
pub(crate) fn command_of(effects: &[Part], redactor: &Redactor) -> Option<String> {
    let line = effects.iter().find_map(|part| match &part.effect {
        Effect::Run { command: CommandLine::Shell(line), .. } => Some(line.clone()),
        Effect::Run { command: CommandLine::Argv(words), .. } => Some(words.join(" ")),
        _ => None,
    })?;
    Some(redactor.text(&line).unwrap_or(line))
}

impl Engine {
    /// Sums a result up where that is settled. Where it breaks off, `otherwise` is answered: the whole would be too much.
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
