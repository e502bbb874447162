//! Calls in a temporary runtime.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{CallRequest, Door, NoAsker, Principal};
use policy::Mode;
use serde_json::{Value, json};
use tool::Outcome;

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
}

/// Runs each program with its arguments, in a new workspace in an empty folder, and returns the output of
/// each.
pub(super) fn make_calls(
    folder: &Path,
    places: Places,
    commands: &[(String, Vec<String>)],
) -> Result<Vec<String>, Failure> {
    let quiet = |_: &str| {};
    let [workspace, state] = ["workspace", "state"].map(|name| folder.join(name));
    for made in [&workspace, &state] {
        std::fs::create_dir(made)?;
    }
    let global = Global {
        workspace: Some(workspace),
        state: Some(state),
        mode: Some(Mode::FullAuto),
        no_input: true,
        ..Global::default()
    };
    let Places { configuration, home } = places;
    let wanted = RuntimeOptions { configuration, home, warn: &quiet, ..RuntimeOptions::once(&global) };
    let composed = compose(wanted)?;
    let runtime = tokio_runtime()?;
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        for (program, words) in commands {
            let (session, dialect) = (composed.session.clone(), composed.toolset.dialect.as_str());
            let asker = Arc::new(NoAsker { hint: String::new() });
            let principal = Principal::new(Door::CommandLine, session, dialect, asker);
            let arguments = json!({ "command": program, "argv": words });
            let request = CallRequest::new(principal, "shell_execute", arguments);
            answers.push(match composed.engine.call(request).await.outcome {
                Outcome::Ok(data) => output_of(&data.into_value().unwrap_or_default()),
                Outcome::Err(error) => error.message,
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
