//! `schedule_update`: pauses, resumes or removes a schedule.

use jobs::ScheduleState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, PlanContext, Presentation, Spec, TextCap,
    Timeout, Tool, ToolError,
};

use crate::answers::{Counts, failed, find, status, told, zone};
use crate::runtime::JobRuntime;

/// The `schedule_update` tool.
pub struct ScheduleUpdate;

/// Arguments of `schedule_update`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name or id of the schedule.
    name: String,
    /// `pause` until `resume`, which also forgets failures; `remove` with the history.
    action: Action,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Change of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Action {
    Pause,
    Resume,
    Remove,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Remove => "remove",
        }
    }
}

/// Result of `schedule_update`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id.
    schedule_id: String,
    /// Name.
    name: String,
    /// `active`, `paused`, `ended` or `removed`.
    status: String,
    /// False if it was so before.
    changed: bool,
    /// Next run, RFC 3339; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run: Option<String>,
    /// Number of schedules now.
    total: u32,
    /// Number of active ones.
    active: u32,
    /// Number of paused ones.
    paused: u32,
}

impl Tool for ScheduleUpdate {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "schedule_update",
        title: "Change a schedule",
        description: "Pause, resume or remove a scheduled task.",
        example: Example {
            files: &[],
            arguments: r#"{"name": "nightly", "action": "pause"}"#,
            result: r#"{"name": "nightly", "status": "paused", "changed": true, "paused": 1}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let what = format!("{} {}", args.action.verb(), args.name);
        Ok(Plan::of(vec![Effect::Schedule { what }]))
    }

    fn plans_now(&self, _args: &Args) -> bool {
        true
    }

    /// Refuses a name that does not exist, before a human is asked.
    async fn plan_now(&self, now: &PlanContext<'_>, args: &Args, plan: Plan) -> Result<Plan, ToolError> {
        find(&now.services.get::<JobRuntime>()?.book, &args.name)?;
        Ok(plan)
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let row = context.service::<JobRuntime>().ok()?.book.find(&args.name).ok()?;
        let history = if args.action == Action::Remove { ", with its history" } else { "" };
        Some(format!("{} {}, {}{history}", args.action.verb(), row.name, row.canonical))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let runtime = context.service::<JobRuntime>()?;
        let book = &runtime.book;
        let row = find(book, &args.name)?;
        let changed = match args.action {
            Action::Pause => book.pause(&row),
            Action::Resume => book.resume(&row, context.clock.now()),
            Action::Remove => book.remove(&row),
        };
        let changed = changed.map_err(failed)?;
        let after = match args.action {
            Action::Remove => None,
            Action::Pause | Action::Resume => Some(find(book, &row.id)?),
        };
        let next =
            after.as_ref().filter(|row| row.state == ScheduleState::Active).and_then(|row| row.next_at);
        let Counts { total, active, paused } = Counts::in_book(book)?;
        Ok(Output {
            next_run: next.map(|at| told(at, &zone(&row))),
            status: after.map_or("removed", |row| status(row.state)).to_owned(),
            schedule_id: row.id,
            name: row.name,
            changed,
            total,
            active,
            paused,
        })
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
        let error = call(&workspace, 3, json!({"name": "nobody", "action": "pause"})).unwrap_err();
        assert_eq!(error.code, Code::NotFound, "{}", error.message);
    }
}
