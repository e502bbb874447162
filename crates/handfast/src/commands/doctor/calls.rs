//! Calls in a temporary runtime.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{CallRequest, Door, NoAsker, Principal};
use policy::Mode;
use serde_json::{Value, json};
use tool::{Outcome, ToolError};

use crate::browser_program::chosen;
use crate::cli::Global;
use crate::commands::{Failure, tokio_runtime};
use crate::compose::{RuntimeOptions, compose};

/// Folders that replace those of the user.
#[derive(Default)]
pub(super) struct Places {
    /// Folder of the configuration.
    pub(super) configuration: Option<PathBuf>,
    /// Home folder.
    pub(super) home: Option<PathBuf>,
    /// Program of the browser.
    pub(super) browser: Option<PathBuf>,
}

/// A call to make.
pub(super) struct Trial {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// Runs each program with its arguments, in a new workspace in an empty folder, and returns the output of
/// each.
pub(super) fn make_calls(
    folder: &Path,
    places: Places,
    commands: &[(String, Vec<String>)],
) -> Result<Vec<String>, Failure> {
    let trials: Vec<Trial> = commands
        .iter()
        .map(|(program, words)| Trial {
            tool: "shell_execute",
            arguments: json!({ "command": program, "argv": words }),
        })
        .collect();
    let answers = make_trial(folder, places, &trials)?;
    Ok(answers
        .iter()
        .map(|answer| answer.as_ref().map_or_else(|error| error.message.clone(), output_of))
        .collect())
}

/// Makes calls in a new workspace in an empty folder, and returns the answer of each.
pub(super) fn make_trial(
    folder: &Path,
    places: Places,
    trials: &[Trial],
) -> Result<Vec<Result<Value, ToolError>>, Failure> {
    let quiet = |_: &str| {};
    let [workspace, state] = ["workspace", "state"].map(|name| folder.join(name));
    for made in [&workspace, &state] {
        std::fs::create_dir(made)?;
    }
    let Places { configuration, home, browser } = places;
    if let Some(program) = browser {
        symlink(program, chosen(&state))?;
    }
    let global = Global {
        workspace: Some(workspace),
        state: Some(state),
        mode: Some(Mode::FullAuto),
        no_input: true,
        ..Global::default()
    };
    let wanted = RuntimeOptions { configuration, home, warn: &quiet, ..RuntimeOptions::once(&global) };
    let composed = compose(wanted)?;
    let runtime = tokio_runtime()?;
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        for trial in trials {
            let (session, dialect) = (composed.session.clone(), composed.toolset.dialect.as_str());
            let asker = Arc::new(NoAsker { hint: String::new() });
            let principal = Principal::new(Door::CommandLine, session, dialect, asker);
            let request = CallRequest::new(principal, trial.tool, trial.arguments.clone());
            answers.push(match composed.engine.call(request).await.outcome {
                Outcome::Ok(data) => Ok(data.into_value().unwrap_or_default()),
                Outcome::Err(error) => Err(error),
            });
        }
        composed.engine.shutdown().await;
        answers
    });
    composed.store.close()?;
    Ok(answers)
}

fn output_of(data: &Value) -> String {
    let text = |field: &str| data.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let output = text("stdout");
    if output.is_empty() { text("stderr") } else { output }
}
