//! `checkpoint_diff`: the changes of a call.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Checkpoints, Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout,
    Tool, ToolError,
};

/// The `checkpoint_diff` tool.
pub struct CheckpointDiff;

/// Arguments of `checkpoint_diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Checkpoint id from a result.
    id: String,
    /// One path to show; default all.
    path: Option<String>,
}

/// Result of `checkpoint_diff`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Unified diff from the state before the call to the current state.
    diff: String,
}

impl Tool for CheckpointDiff {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "checkpoint_diff",
        title: "Show a diff of a call",
        description: "Show what a call changed, as a diff.",
        example: Example {
            files: &[],
            arguments: r#"{"id": "c1"}"#,
            result: r#"{"diff": "--- a/f\n+++ b/f\n"}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Text { field: "diff" },
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        args.path.as_deref().map(|path| place.resolve("path", path)).transpose()?;
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = args.path.as_deref().map(|path| context.place.resolve("path", path)).transpose()?;
        let paths: Vec<_> = path.into_iter().collect();
        Ok(Output { diff: context.service::<Arc<dyn Checkpoints>>()?.diff(&args.id, &paths)? })
    }
}

#[cfg(test)]
mod tests {
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn refuses_a_call_that_names_no_checkpoint() {
        let place = testkit::Workspace::new().place();
        let arguments = serde_json::from_str(r#"{"path": "a"}"#).unwrap();
        let planned = ErasedTool::tool(CheckpointDiff).prepare(arguments, &place);
        assert_eq!(planned.map(|_| ()).unwrap_err().code, Code::Validation);
    }
}
