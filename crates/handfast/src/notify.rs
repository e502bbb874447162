//! The user's own command that is told of each new question. It gets the question and no means to answer.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use engine::QuestionListener;
use parking_lot::{Condvar, Mutex};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::bounded_run::{BoundedRun, run_within};
use crate::report::warn;

/// Time after which the command is killed.
const LONGEST: Duration = Duration::from_secs(10);

/// Time for killing a command.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum number of these commands that run at a time. Further questions are not told.
const AT_A_TIME: usize = 4;

/// Handling of questions to a human, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionHandling {
    /// Command line for `/bin/sh` that gets each new question as one line of JSON on its standard input.
    /// It runs as you, outside any cell, for at most 10 seconds, and its output is discarded.
    #[schemars(extend("x-default" = "none", "examples" = ["notify-send Handfast 'a question waits'"]))]
    pub(crate) notify: Option<String>,
}

/// Returns a listener that starts this command line for each question.
pub(crate) fn notifier(command: String) -> QuestionListener {
    let running = RunningCommands::default();
    Box::new(move |question: &Value| {
        let commands = running.0.clone();
        {
            let mut count = commands.count.lock();
            if *count >= AT_A_TIME {
                return;
            }
            *count += 1;
        }
        let (command, line) = (command.clone(), format!("{question}\n"));
        // The command may be slow, and no call waits for it.
        std::thread::spawn(move || {
            if let Err(why) = notify(&command, line.as_bytes()) {
                warn(&format!("`approvals.notify`: {why}"));
            }
            *commands.count.lock() -= 1;
            commands.changed.notify_all();
        });
    })
}

/// The commands that run. At the end of the runtime this value waits for them, because nobody would kill
/// them afterwards.
#[derive(Default)]
struct RunningCommands(Arc<CommandCount>);

#[derive(Default)]
struct CommandCount {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Drop for RunningCommands {
    fn drop(&mut self) {
        let mut count = self.0.count.lock();
        // Each command is killed at the end of its time.
        let _late = self.0.changed.wait_while_for(&mut count, |count| *count > 0, LONGEST + GRACE);
    }
}

/// Runs the command with the question on its standard input, and waits for its end.
fn notify(command: &str, question: &[u8]) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "the user's own command runs as the user")]
    let mut shell = Command::new("/bin/sh");
    // The output would be kept in memory until the end of the command. The limit on processor time holds
    // where this process is killed before.
    let seconds = LONGEST.as_secs();
    shell.arg("-c").arg(format!("exec >/dev/null 2>&1; ulimit -t {seconds}\n{command}"));
    match run_within(shell, question, LONGEST) {
        Ok(BoundedRun::Ended { status, .. }) if status.success() => Ok(()),
        Ok(BoundedRun::Ended { status, .. }) => Err(format!("the command ended with {status}")),
        Ok(BoundedRun::TimedOut) => {
            Err(format!("the command was killed after {} seconds", LONGEST.as_secs()))
        }
        Err(error) => Err(format!("the command cannot be run: {error}")),
    }
}
