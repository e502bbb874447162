//! `handfast checkpoints`: shows what can be undone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::CheckpointDetails;
use serde_json::json;
use tool::{CheckpointSummary, ToolError};

use super::{Failure, print, print_json};
use crate::cli::{CheckpointsCommand, Global};
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::report::{note, table};

pub(super) fn run(global: &Global, command: Option<CheckpointsCommand>) -> Result<ExitCode, Failure> {
    let Composed { engine, workspace, .. } = compose(RuntimeOptions::once(global))?;
    match command.unwrap_or(CheckpointsCommand::List { limit: 50, json: false }) {
        CheckpointsCommand::List { limit, json } => {
            list(&engine.checkpoints(limit).map_err(|error| refused(&error))?, json)?;
        }
        CheckpointsCommand::Show { id, json } => {
            show(&engine.checkpoint_details(&id).map_err(|error| refused(&error))?, json)?;
        }
        CheckpointsCommand::Diff { id, path, json } => {
            let paths = resolved(&workspace, path);
            let diff = engine.checkpoint_diff(&id, &paths).map_err(|error| refused(&error))?;
            if json {
                print_json(&json!({ "diff": diff }))?;
            } else {
                print(&lines(&diff))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes each line of a text visible.
pub(super) fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", tool::visible(line))).collect()
}

/// Resolves paths relative to the workspace, as users type them.
pub(super) fn resolved(workspace: &Path, paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| workspace.join(path).components().collect()).collect()
}

/// Converts an error of the engine to a failure that includes the hint.
pub(super) fn refused(error: &ToolError) -> Failure {
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let text = format!("{}{hint}", error.message);
    match error.code {
        tool::Code::NotFound | tool::Code::Validation => Failure::usage(text),
        _ => Failure::from(text),
    }
}

fn list(all: &[CheckpointSummary], json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&all);
    }
    if all.is_empty() {
        note("there are no changes to undo in this workspace");
        return Ok(());
    }
    let rows = all.iter().map(|checkpoint| {
        let undoes = checkpoint.undoes.as_ref().map(|id| format!(" (undoes {id})")).unwrap_or_default();
        vec![
            checkpoint.made_at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            checkpoint.id.clone(),
            checkpoint.paths.to_string(),
            format!("{}{undoes}", checkpoint.tool),
        ]
    });
    print(&table(&["made", "id", "paths", "by"], rows))
}

fn show(details: &CheckpointDetails, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(details);
    }
    let mut text = String::new();
    for change in &details.changes {
        text.push_str(&format!("{:<8} {}\n", change.what, change.path));
    }
    for path in &details.unsaved {
        text.push_str(&format!("unsaved  {path}\n"));
    }
    print(&text)
}
