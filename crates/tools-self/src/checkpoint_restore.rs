//! `checkpoint_restore`: an undo of a call's changes.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Checkpoints, Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, RunResult,
    SnapshotUse, Spec, TextCap, Timeout, Tool, ToolError, UndoRequest,
};

/// The `checkpoint_restore` tool.
pub struct CheckpointRestore;

/// Arguments of `checkpoint_restore`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Checkpoint id from a result.
    id: String,
    /// Undo all later calls too.
    #[serde(default)]
    and_later: bool,
    /// Paths to restore; default all.
    paths: Option<Vec<String>>,
    /// Paths to restore even if they changed after the call.
    force: Option<Vec<String>>,
    /// Show the changes without making them.
    #[serde(default)]
    dry_run: bool,
}

/// Result of `checkpoint_restore`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Number of restored paths.
    paths: u64,
    /// Paths that stay or cannot be restored, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Changes as a unified diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Args {
    fn request(&self, place: &Place) -> Result<UndoRequest, ToolError> {
        let resolved = |field, paths: &Option<Vec<String>>| -> Result<Vec<PathBuf>, ToolError> {
            paths.iter().flatten().map(|path| place.resolve(field, path)).collect()
        };
        let (paths, force) = (resolved("paths", &self.paths)?, resolved("force", &self.force)?);
        Ok(UndoRequest { checkpoint: self.id.clone(), and_later: self.and_later, paths, force })
    }
}

impl Tool for CheckpointRestore {
    type Args = Args;
    type Output = RunResult<Output>;

    const SPEC: Spec = Spec {
        name: "checkpoint_restore",
        title: "Undo",
        description: "Undo what a call changed, all or nothing; can itself be undone.",
        example: Example { files: &[], arguments: r#"{"id": "c1"}"#, result: r#"{"paths": 1}"# },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
        timeout: Timeout::fixed(300),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    /// Plans a write to the whole workspace. The paths are known only during the run, and each one
    /// is decided on when it is swapped in.
    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        for (field, paths) in [("paths", &args.paths), ("force", &args.force)] {
            for path in paths.iter().flatten() {
                place.resolve(field, path)?;
            }
        }
        let plan = Plan::of(vec![Effect::Write { path: place.workspace.clone() }]).on_snapshot();
        Ok(plan.only_tried(args.dry_run))
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let checkpoints = context.service::<Arc<dyn Checkpoints>>();
        let shown = checkpoints.and_then(|checkpoints| checkpoints.preview(&args.request(&context.place)?));
        Some(shown.unwrap_or_else(|error| format!("this would fail now: {}", error.message)))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        let request = args.request(&context.place)?;
        let laid = context.service::<Arc<dyn Checkpoints>>()?.undo(&request)?;
        context.stop.check()?;
        let output = Output { paths: laid.paths, notes: laid.notes, diff: None };
        Ok(RunResult::from(output).on_snapshot(SnapshotUse::draft(laid.taken_at)))
    }
}

#[cfg(test)]
mod tests {
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn refuses_a_call_that_names_no_checkpoint() {
        let place = testkit::Workspace::new().place();
        let arguments = serde_json::from_str(r#"{"paths": ["a"]}"#).unwrap();
        let planned = ErasedTool::tool(CheckpointRestore).prepare(arguments, &place);
        assert_eq!(planned.map(|_| ()).unwrap_err().code, Code::Validation);
    }
}
