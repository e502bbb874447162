//! `schedule_list`: the schedules of the workspace.

use jobs::ScheduleFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Context, Example, Place, Plan, Spec, Tool, ToolError};

use crate::answers::{Counts, failed, status, told, zone};
use crate::runtime::JobRuntime;

/// The `schedule_list` tool.
pub struct ScheduleList;

/// Arguments of `schedule_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Schedules to list.
    #[serde(default)]
    filter: Filter,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Choice of schedules.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Filter {
    #[default]
    All,
    Active,
    Paused,
}

/// Result of `schedule_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Schedules, in the order of their creation.
    tasks: Vec<Task>,
    /// Number of all schedules, whatever the filter.
    total: u32,
    /// Number of active ones.
    active: u32,
    /// Number of paused ones.
    paused: u32,
}

/// A schedule.
#[derive(Debug, Serialize, JsonSchema)]
struct Task {
    /// Id.
    id: String,
    /// Name.
    name: String,
    /// Times, in their canonical form.
    schedule: String,
    /// Next run, RFC 3339; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run: Option<String>,
    /// Last run, RFC 3339; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<String>,
    /// `active` or `paused`.
    status: String,
    /// Outcome of the last run that ended: `done` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<String>,
    /// Reason why too many failures have paused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Tool for ScheduleList {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "List schedules",
        example: Example {
            files: &[],
            arguments: r#"{"filter": "active"}"#,
            result: r#"{"tasks": [{"name": "nightly", "schedule": "every day at 03:00", "status": "active"}], "total": 1}"#,
        },
        ..Spec::reading("schedule_list", "List the scheduled tasks: times, last and next run, status.")
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let runtime = context.service::<JobRuntime>()?;
        let filter = match args.filter {
            Filter::All => ScheduleFilter::Open,
            Filter::Active => ScheduleFilter::Active,
            Filter::Paused => ScheduleFilter::Paused,
        };
        let rows = runtime.book.list(filter).map_err(failed)?;
        let Counts { total, active, paused } = Counts::in_book(&runtime.book)?;
        let task = |row: jobs::ScheduleRow| {
            let zone = zone(&row);
            let is_active = row.state == jobs::ScheduleState::Active;
            Task {
                next_run: row.next_at.filter(|_| is_active).map(|at| told(at, &zone)),
                last_run: row.last_at.map(|at| told(at, &zone)),
                status: status(row.state).to_owned(),
                last_status: row.last_status.map(|status| status.as_str().to_owned()),
                id: row.id,
                name: row.name,
                schedule: row.canonical,
                reason: row.disabled,
            }
        };
        Ok(Output { tasks: rows.into_iter().map(task).collect(), total, active, paused })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Code;

    use crate::tests::{call, runtime, workspace};

    #[test]
    fn refuses_a_filter_that_it_does_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(runtime(folder.path()));
        let error = call(&workspace, 2, json!({"filter": "ended"})).unwrap_err();
        assert_eq!(error.code, Code::Validation, "{}", error.message);
    }
}
