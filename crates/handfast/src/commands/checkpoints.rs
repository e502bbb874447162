//! `handfast checkpoints`: shows what can be undone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::{ChangeOverview, CheckpointDetails};
use serde_json::json;
use tool::ToolError;

use super::{Failure, print_json};
use crate::cli::{CheckpointsCommand, Global};
use crate::clock::SystemClock;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::moment::Present;
use crate::pager::print_listing;
use crate::report::{note, table};

pub(super) fn run(global: &Global, command: Option<CheckpointsCommand>) -> Result<ExitCode, Failure> {
    let Composed { engine, workspace, .. } = compose(RuntimeOptions::once(global))?;
    match command.unwrap_or(CheckpointsCommand::List { limit: 50, json: false }) {
        CheckpointsCommand::List { limit, json } => {
            list(&engine.change_overviews(limit).map_err(|error| refused(&error))?, json)?;
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
                print_listing(&lines(&diff))?;
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

fn list(all: &[ChangeOverview], json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&all);
    }
    if all.is_empty() {
        note("there are no changes to undo in this workspace");
        return Ok(());
    }
    print_listing(&changes_table(all))
}

/// Maximum number of characters of a call's actions in a list.
const ACTIONS: usize = 50;

/// Returns a table of changes: the age and the short id of each, its call's actions and its first paths.
pub(super) fn changes_table(all: &[ChangeOverview]) -> String {
    let present = Present::by(&SystemClock);
    let ids: Vec<&str> = all.iter().map(|change| change.summary.id.as_str()).collect();
    let rows = all.iter().zip(tool::short_ids(&ids)).map(|(change, id)| {
        vec![
            present.local(change.summary.made_at),
            present.age(change.summary.made_at),
            id,
            action(change),
            paths(change),
        ]
    });
    table(&["made", "age", "id", "by", "changed"], rows)
}

/// Returns what a call did, in a few words.
pub(super) fn action(change: &ChangeOverview) -> String {
    let summary = &change.summary;
    if let Some(undoes) = &summary.undoes {
        return format!("undo of {}", short_range(undoes));
    }
    // Reading is not what makes a change.
    let telling = change.actions.iter().filter(|action| !action.starts_with("read "));
    let all = telling.cloned().collect::<Vec<_>>().join(", ");
    if all.is_empty() {
        return summary.tool.clone();
    }
    let shown: String = all.chars().take(ACTIONS).collect();
    if shown.len() < all.len() { format!("{shown} ...") } else { shown }
}

/// Returns the first changed paths, and the number of the others.
fn paths(change: &ChangeOverview) -> String {
    let first: Vec<&str> = change.changes.iter().map(|change| change.path.as_str()).collect();
    let all = usize::try_from(change.summary.paths).unwrap_or(usize::MAX);
    if first.is_empty() {
        return format!("{all} paths");
    }
    format!("{}{}", first.join(", "), and_more(all.saturating_sub(first.len())))
}

/// Returns the short forms of an id, or of a range of ids.
pub(super) fn short_range(ids: &str) -> String {
    let short: Vec<String> = ids.split("..").map(|id| tool::short_ids(&[id]).concat()).collect();
    short.join("..")
}

/// Returns the end of a list from which this number of items is left out.
pub(super) fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
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
    print_listing(&text)
}
