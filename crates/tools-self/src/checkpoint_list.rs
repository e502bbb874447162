//! `checkpoint_list`: the calls that can be undone.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    CheckpointSummary, Checkpoints, Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec,
    TextCap, Timeout, Tool, ToolError,
};

/// The `checkpoint_list` tool.
pub struct CheckpointList;

/// Arguments of `checkpoint_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Maximum number of checkpoints, default 20.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
}

/// Result of `checkpoint_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Checkpoints, the newest first.
    checkpoints: Vec<CheckpointSummary>,
}

impl Tool for CheckpointList {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "checkpoint_list",
        title: "List checkpoints",
        description: "List the calls that can be undone.",
        example: Example {
            files: &[],
            arguments: r#"{"limit": 1}"#,
            result: r#"{"checkpoints": [{"id": "c1", "tool": "file_write", "paths": 1}]}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let checkpoints = context.service::<Arc<dyn Checkpoints>>()?.list(args.limit.unwrap_or(20))?;
        Ok(Output { checkpoints })
    }
}

#[cfg(test)]
mod tests {
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn refuses_a_limit_that_is_no_number() {
        let place = testkit::Workspace::new().place();
        let arguments = serde_json::from_str(r#"{"limit": "many"}"#).unwrap();
        let planned = ErasedTool::tool(CheckpointList).prepare(arguments, &place);
        assert_eq!(planned.map(|_| ()).unwrap_err().code, Code::Validation);
    }
}
