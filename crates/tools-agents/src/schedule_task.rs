//! `schedule_task`: stores a job that runs at its times, within the limits of whoever stores it.

use std::sync::Arc;

use jiff::Timestamp;
use jobs::{Action, JobRules, Missed, NewJob, Overlapping};
use schedule::{Kind, Schedule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{
    Class, Code, Context, Effect, Example, Lane, LaterCalls, Level, Place, Plan, PlanContext, Presentation,
    Spec, TextCap, Timeout, Tool, ToolError,
};
use tool_support::covering;

use crate::answers::{Counts, failed, told};
use crate::runtime::JobRuntime;

/// Number of instants that the answer tells.
const NEXT: usize = 3;

/// The `schedule_task` tool.
pub struct ScheduleTask;

/// Arguments of `schedule_task`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name, which no other schedule has.
    name: String,
    /// `0 9 * * *`, `every monday at 2pm`, `every 5 minutes`, `in 2 hours`, `at 15:30`.
    schedule: String,
    /// Task for an agent, in words. Give this, `command` or `tool`.
    #[serde(default)]
    task_goal: Option<String>,
    /// Command for the shell.
    #[serde(default)]
    command: Option<String>,
    /// Tool to call with `arguments`.
    #[serde(default)]
    tool: Option<String>,
    /// Arguments of `tool`.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    /// Description for people.
    #[serde(default)]
    description: Option<String>,
    /// Times that a failed run is tried again.
    #[serde(default)]
    #[schemars(range(min = 0, max = 20))]
    max_retries: Option<u32>,
    /// Runs missed while no server was there: `once` makes up for the last one.
    #[serde(default)]
    missed: MissedRuns,
    /// A run that is due while an earlier one goes on.
    #[serde(default)]
    overlap: Overlap,
    /// Maximum random delay of a run in seconds.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86400))]
    jitter_seconds: u64,
    /// Failures in a row after which it is paused; 0 for never. Default 10.
    #[serde(default)]
    max_failures: Option<u32>,
    /// Minutes within which a run must end, with the questions it asks. Default 1440.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10080))]
    deadline_minutes: Option<u64>,
    /// Tell the times, and store nothing.
    #[serde(default)]
    dry_run: bool,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Treatment of missed runs.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum MissedRuns {
    Skip,
    #[default]
    Once,
    All,
}

/// Treatment of overlapping runs.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Overlap {
    #[default]
    Skip,
    Queue,
    Allow,
}

/// Result of `schedule_task`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id; absent for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_id: Option<String>,
    /// `recurring` or `one_time`.
    r#type: String,
    /// Name.
    name: String,
    /// Cron line of a recurring task.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron_expression: Option<String>,
    /// Time of a one-time task, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    /// The times as they were understood.
    canonical: String,
    /// Time zone.
    zone: String,
    /// Next runs, RFC 3339, at most three.
    next_runs: Vec<String>,
    /// Number of schedules now.
    total: u32,
    /// Number of active ones.
    active: u32,
    /// Number of paused ones.
    paused: u32,
}

impl Tool for ScheduleTask {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "schedule_task",
        title: "Schedule a task",
        description: "Run a command, a tool or an agent's task later or repeatedly.",
        example: Example {
            files: &[],
            arguments: r#"{"name": "report", "command": "date", "schedule": "every monday at 2pm"}"#,
            result: r#"{"name": "report", "type": "recurring", "cron_expression": "0 14 * * 1"}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let what = format!("{}, {}: {}", args.name, args.schedule, args.task()?);
        Ok(Plan::of(vec![Effect::Schedule { what }]).only_tried(args.dry_run))
    }

    fn plans_now(&self, _args: &Args) -> bool {
        true
    }

    /// Refuses what cannot be stored, before a human is asked.
    async fn plan_now(&self, now: &PlanContext<'_>, args: &Args, plan: Plan) -> Result<Plan, ToolError> {
        let runtime = now.services.get::<JobRuntime>()?;
        runtime.book.read(&args.schedule, runtime.clock.now()).map_err(failed)?;
        runtime.book.is_free(&args.name).map_err(failed)?;
        Ok(plan)
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let runtime = context.service::<JobRuntime>().ok()?;
        let now = context.clock.now();
        let schedule = runtime.book.read(&args.schedule, now).ok()?;
        let action = args.action(&runtime).ok()?.shown();
        let next = next_runs(&schedule, now).join("\n      ");
        let zone = zone_name(&schedule);
        Some(format!("runs: {} ({zone})\nnext: {next}\ndoes: {action}", schedule.described()))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let runtime = context.service::<JobRuntime>()?;
        let now = context.clock.now();
        let schedule = runtime.book.read(&args.schedule, now).map_err(failed)?;
        let action = args.action(&runtime)?;
        let later = context.service::<Arc<dyn LaterCalls>>()?;
        let ceiling = match &action {
            Action::Call { tool, arguments, .. } => {
                let foreseen = later.foresee(tool, arguments.clone())?;
                if foreseen.is_denied {
                    let message = format!("each run would be denied: {}", foreseen.reason);
                    return Err(ToolError::new(Code::Permission, message));
                }
                foreseen.ceiling
            }
            Action::Task { .. } => {
                if let Some(reason) = runtime.no_agent {
                    context.warn(format!("each run will fail: {reason}; give `command` or `tool` instead"));
                }
                later.ceiling()?
            }
        };
        if covering(context)?.text(&action.shown()).is_some() {
            return Err(ToolError::new(Code::Permission, "the task contains a secret, which is not stored")
                .hint("let the command or the tool take it from the vault, as {{secret:NAME}} or a login"));
        }
        let (cron_expression, run_at) = match schedule.kind() {
            Kind::Recurring { cron_expression } => (Some(cron_expression), None),
            Kind::OneTime { run_at } => (None, Some(told(run_at, schedule.zone()))),
        };
        let schedule_id = if args.dry_run {
            None
        } else {
            let new = NewJob {
                id: id(&context.call.0),
                call: context.call.0.clone(),
                name: args.name.clone(),
                description: args.description.clone().unwrap_or_default(),
                times: args.schedule.clone(),
                action,
                rules: args.rules(),
                ceiling: ceiling.to_string(),
            };
            Some(runtime.book.add(new, now).map_err(failed)?.id)
        };
        if !(runtime.is_served)() {
            context.warn(
                "nothing runs it yet: schedules fire while `handfast up` serves this workspace".to_owned(),
            );
        }
        let Counts { total, active, paused } = Counts::in_book(&runtime.book)?;
        Ok(Output {
            schedule_id,
            r#type: if run_at.is_some() { "one_time" } else { "recurring" }.to_owned(),
            name: args.name,
            cron_expression,
            run_at,
            canonical: schedule.canonical().to_owned(),
            zone: zone_name(&schedule),
            next_runs: next_runs(&schedule, now),
            total,
            active,
            paused,
        })
    }
}

/// Task of the arguments.
enum Task<'a> {
    Goal(&'a str),
    Command(&'a str),
    Tool(&'a str),
}

impl Args {
    /// Returns the task in words.
    fn task(&self) -> Result<String, ToolError> {
        Ok(match self.kind()? {
            Task::Goal(goal) => goal.to_owned(),
            Task::Command(command) => format!("run {command}"),
            Task::Tool(tool) => {
                let arguments = Value::Object(self.arguments.clone().unwrap_or_default());
                format!("{tool} {arguments}")
            }
        })
    }

    /// Returns the task: exactly one of the three kinds. A goal beside one of the others describes it.
    fn kind(&self) -> Result<Task<'_>, ToolError> {
        if self.arguments.is_some() && self.tool.is_none() {
            return Err(ToolError::validation("arguments", "belongs to `tool`, which is missing"));
        }
        match (given(self.task_goal.as_ref()), given(self.command.as_ref()), given(self.tool.as_ref())) {
            (Some(goal), None, None) => Ok(Task::Goal(goal)),
            (_, Some(command), None) => Ok(Task::Command(command)),
            (_, None, Some(tool)) => Ok(Task::Tool(tool)),
            (None, None, None) => {
                Err(ToolError::validation("task_goal", "is missing; give it, `command` or `tool`"))
            }
            (_, Some(_), Some(_)) => {
                Err(ToolError::validation("command", "cannot be given together with `tool`"))
            }
        }
    }

    /// Returns the action that is stored.
    fn action(&self, runtime: &JobRuntime) -> Result<Action, ToolError> {
        let dialect = runtime.dialect.to_owned();
        Ok(match self.kind()? {
            Task::Goal(goal) => Action::Task { dialect, goal: goal.to_owned() },
            Task::Command(command) => {
                let (tool, arguments) = (runtime.of_command)(command);
                Action::Call { dialect, tool: tool.to_owned(), arguments }
            }
            Task::Tool(tool) => {
                let arguments = Value::Object(self.arguments.clone().unwrap_or_default());
                Action::Call { dialect, tool: tool.to_owned(), arguments }
            }
        })
    }

    fn rules(&self) -> JobRules {
        let default = JobRules::default();
        JobRules {
            missed: match self.missed {
                MissedRuns::Skip => Missed::Skip,
                MissedRuns::Once => Missed::Once,
                MissedRuns::All => Missed::All,
            },
            overlap: match self.overlap {
                Overlap::Skip => Overlapping::Skip,
                Overlap::Queue => Overlapping::Queue,
                Overlap::Allow => Overlapping::Allow,
            },
            jitter_seconds: self.jitter_seconds,
            retries: self.max_retries.unwrap_or(default.retries),
            max_failures: self.max_failures.unwrap_or(default.max_failures),
            deadline_seconds: self.deadline_minutes.map_or(default.deadline_seconds, |minutes| minutes * 60),
        }
    }
}

/// Returns a text that is more than space.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.trim().is_empty())
}

/// Returns the id of a schedule, from the random end of its call's id.
fn id(call: &str) -> String {
    let random: String = call.chars().rev().take(10).collect();
    format!("job_{random}")
}

fn next_runs(schedule: &Schedule, now: Timestamp) -> Vec<String> {
    schedule.next_ones(now, NEXT).into_iter().map(|at| told(at, schedule.zone())).collect()
}

fn zone_name(schedule: &Schedule) -> String {
    schedule.zone().iana_name().unwrap_or("without a name").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Code;

    use super::*;
    use crate::tests::{call, runtime, workspace};

    #[test]
    fn refuses_what_cannot_be_and_stores_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = testkit::TestSecrets::of(&[("token", "hunter2hunter2")]);
        let workspace = workspace(runtime(folder.path())).covering(secrets);
        let base = json!({"name": "n", "schedule": "every hour"});
        let with = |more: Value| {
            let mut arguments = base.clone();
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            arguments
        };
        for (more, code, told) in [
            (json!({}), Code::Validation, "`task_goal`"),
            (json!({"task_goal": " "}), Code::Validation, "`task_goal`"),
            (json!({"command": "a", "tool": "b"}), Code::Validation, "`command`"),
            (json!({"command": "a", "arguments": {}}), Code::Validation, "`arguments`"),
            (json!({"tool": "missing"}), Code::NotFound, "missing"),
            (json!({"tool": "denied"}), Code::Permission, "a rule"),
            (json!({"command": "echo hunter2hunter2"}), Code::Permission, "secret"),
            (json!({"command": "a", "schedule": "jede Stunde"}), Code::Validation, "`every"),
            (json!({"command": "a", "schedule": "0 0 30 2 *"}), Code::Validation, "never"),
            (json!({"command": "a", "schedule": "0 0 9 * * *"}), Code::Validation, "seconds"),
            (json!({"command": "a", "schedule": "at 2020-01-01 10:00"}), Code::Validation, "schedule"),
            (json!({"command": "a", "name": ""}), Code::Validation, "`name`"),
            (json!({"command": "a", "name": "a\nb"}), Code::Validation, "`name`"),
            (json!({"command": "a", "name": "x".repeat(101)}), Code::Validation, "`name`"),
        ] {
            let error = call(&workspace, 1, with(more.clone())).unwrap_err();
            assert_eq!(error.code, code, "{more}: {}", error.message);
            assert!(error.message.contains(told), "{more}: {}", error.message);
        }
        assert_eq!(call(&workspace, 2, json!({})).unwrap()["total"], 0);
        let dry = call(&workspace, 1, with(json!({"command": "a", "dry_run": true}))).unwrap();
        assert_eq!((dry.get("schedule_id"), &dry["total"]), (None, &json!(0)));
        call(&workspace, 1, with(json!({"command": "a"}))).unwrap();
        let again = call(&workspace, 1, with(json!({"command": "other"}))).unwrap_err();
        assert_eq!(again.code, Code::Conflict, "{}", again.message);
    }
}
