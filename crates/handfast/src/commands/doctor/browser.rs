//! A test of the browser: it is started in a cell, and names its version.

use std::path::Path;

use sandbox::Verdict;
use serde_json::{Value, json};

use super::Finding;
use super::calls::{Places, Trial, make_trial};
use crate::browser_program::find;
use crate::compose::Composed;

pub(super) fn finding(composed: &Composed) -> Finding {
    let (verdict, detail, hint) =
        match find((&composed.state, &composed.workspace), &composed.reload.host_environment) {
            Err(why) => (Verdict::Fails, why, Some("`handfast setup browser` finds or installs one")),
            Ok(program) => match try_browser(&program.path) {
                Ok(version) => (Verdict::Holds, format!("{version}, {}", program.path.display()), None),
                Err(problem) => (
                    Verdict::Fails,
                    format!("{}: {problem}", program.path.display()),
                    Some("`handfast setup browser` tries another browser: `--from PROGRAM`"),
                ),
            },
        };
    Finding {
        name: "browser",
        promise: None,
        verdict,
        enforced_by: "Chromium in a cell".to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    }
}

/// Starts a browser in a cell of a temporary runtime, and returns its name and version.
///
/// # Errors
/// The reason why it does not answer.
pub(crate) fn try_browser(program: &Path) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let call = Trial { tool: "browser_connect", arguments: json!({}) };
    let places = Places { browser: Some(program.to_owned()), ..Places::default() };
    let mut answers =
        make_trial(folder.path(), places, &[call]).map_err(|failure| failure.error.to_string())?;
    let answer = answers.pop().ok_or("nothing was tried")?.map_err(|error| error.message)?;
    let version = answer.get("browser_version").and_then(Value::as_str);
    version.map(str::to_owned).ok_or_else(|| "it names no version".to_owned())
}
