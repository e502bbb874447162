//! `schedule_history`: the firings of a schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Context, Example, Place, Plan, Spec, Tool, ToolError};

use crate::answers::{failed, find, told, zone};
use crate::runtime::JobRuntime;

/// Number of firings unless the caller asks for more.
const DEFAULT: u32 = 20;
/// Maximum number of firings in an answer.
const MOST: u32 = 500;

/// The `schedule_history` tool.
pub struct ScheduleHistory;

/// Arguments of `schedule_history`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name or id of the schedule.
    name: String,
    /// Maximum number of runs.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 500))]
    limit: u32,
}

fn default_limit() -> u32 {
    DEFAULT
}

/// Result of `schedule_history`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the schedule.
    schedule_id: String,
    /// Name of the schedule.
    name: String,
    /// Runs, the latest first.
    runs: Vec<Run>,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
struct Run {
    /// Instant of the schedule, RFC 3339.
    instant: String,
    /// `claimed` while it runs, `waiting` before the next attempt, `queued`, `done` or `failed`.
    status: String,
    /// Number of the attempt, from 1.
    attempt: u32,
    /// Time at which it ended, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Outcome of the last attempt: its answer, or its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// Id of the call of the last attempt, for the audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
}

impl Tool for ScheduleHistory {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Runs of a schedule",
        example: Example {
            files: &[],
            arguments: r#"{"name": "nightly"}"#,
            result: r#"{"name": "nightly", "runs": []}"#,
        },
        ..Spec::reading("schedule_history", "List the runs of a scheduled task, with their outcomes.")
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let runtime = context.service::<JobRuntime>()?;
        let row = find(&runtime.book, &args.name)?;
        let firings = runtime.book.history(&row, args.limit.clamp(1, MOST)).map_err(failed)?;
        let zone = zone(&row);
        let run = |firing: jobs::Firing| Run {
            instant: told(firing.claim.instant, &zone),
            status: firing.state.as_str().to_owned(),
            attempt: firing.attempt + 1,
            ended_at: firing.ended_at.map(|at| told(at, &zone)),
            outcome: firing.outcome,
            call: firing.output,
        };
        Ok(Output { runs: firings.into_iter().map(run).collect(), schedule_id: row.id, name: row.name })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Code;

    use crate::tests::{call, runtime, workspace};

    #[test]
    fn refuses_a_schedule_that_does_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(runtime(folder.path()));
        let error = call(&workspace, 4, json!({"name": "nobody"})).unwrap_err();
        assert_eq!(error.code, Code::NotFound, "{}", error.message);
    }
}
