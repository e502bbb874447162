//! `schedule_update`: pauses, resumes or removes a schedule.

use jobs::ScheduleState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
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
    /// `pause`: nothing fires. `resume`: fires again, and forgets failures. `remove`: deletes it with its history.
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
    /// Next firing, RFC 3339; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run: Option<String>,
    /// Number of schedules now.
    total: u64,
    /// Number of active ones.
    active: u64,
    /// Number of paused ones.
    paused: u64,
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

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let row = context.service::<JobRuntime>().ok()?.book.find(&args.name).ok()?;
        let verb = match args.action {
            Action::Pause => "pauses",
            Action::Resume => "resumes",
            Action::Remove => "removes, with its history,",
        };
        Some(format!("{verb} {}: {}", row.name, row.canonical))
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
