//! The operation `cron` of CSP/1, with its five actions. The source calls a schedule a job, names it by its
//! `JOB_ID`, and says *disabled* for paused.

use std::sync::Arc;

use serde_json::json;
use tool::{AnyTool, Class, Example, Lane, Level, Presentation, Spec, TextCap, Timeout};

use crate::csp1_operation::Operation;
use crate::table::{AnswerField, DEFAULTS, ExternalTool, Field, Need, ValueSource, gives, text};

const JOB: Field = text("JOB_ID", Need::Required, "Name of the job").becoming("name");

const JOB_ID: AnswerField = gives("job_id", ValueSource::Text("name"), "Name of the job.");
const JOBS: AnswerField = gives("jobs", ValueSource::Integer("total"), "Number of jobs.");
const ACTIVE: AnswerField = gives("active", ValueSource::Integer("active"), "Number of active jobs.");
const DISABLED: AnswerField = gives("disabled", ValueSource::Integer("paused"), "Number of disabled jobs.");
const NEXT_RUN: AnswerField =
    gives("next_run", ValueSource::OptionalText("next_run"), "Next run, RFC 3339; absent without one.");

const PART: ExternalTool = ExternalTool { is_listed: false, ..DEFAULTS };
const CHANGE: ExternalTool = ExternalTool {
    canonical: "schedule_update",
    takes: &[JOB],
    gives: &[JOB_ID, JOBS, ACTIVE, DISABLED, NEXT_RUN],
    ..PART
};

/// The parts, in the order of the source.
pub(crate) const LIST: ExternalTool = ExternalTool {
    name: "cron.list",
    canonical: "schedule_list",
    title: "List jobs",
    description: "Lists the cron jobs.",
    gives: &[
        JOBS,
        ACTIVE,
        DISABLED,
        gives(
            "list",
            ValueSource::Items(
                "tasks",
                &[
                    JOB_ID,
                    gives("schedule", ValueSource::Text("schedule"), "Times."),
                    gives("status", ValueSource::Text("status"), "active or paused."),
                    NEXT_RUN,
                ],
            ),
            "The jobs.",
        ),
    ],
    ..PART
};

pub(crate) const ADD: ExternalTool = ExternalTool {
    name: "cron.add",
    canonical: "schedule_task",
    title: "Add a job",
    description: "Adds a cron job.",
    takes: &[
        JOB,
        text("SCHEDULE", Need::Required, "Cron line or phrase").becoming("schedule"),
        text("TASK_DESCRIPTION", Need::Required, "Task for an agent").becoming("task_goal"),
    ],
    gives: &[
        JOB_ID,
        JOBS,
        ACTIVE,
        DISABLED,
        gives("schedule", ValueSource::Text("canonical"), "The times as they were understood."),
    ],
    ..PART
};

pub(crate) const REMOVE: ExternalTool = ExternalTool {
    name: "cron.remove",
    title: "Remove a job",
    description: "Removes a cron job with its history.",
    settled: || json!({"action": "remove"}),
    ..CHANGE
};

pub(crate) const ENABLE: ExternalTool = ExternalTool {
    name: "cron.enable",
    title: "Enable a job",
    description: "Lets a cron job fire again.",
    settled: || json!({"action": "resume"}),
    ..CHANGE
};

pub(crate) const DISABLE: ExternalTool = ExternalTool {
    name: "cron.disable",
    title: "Disable a job",
    description: "Stops a cron job from firing.",
    settled: || json!({"action": "pause"}),
    ..CHANGE
};

static SPEC: Spec = Spec {
    name: "cron",
    title: "Manage cron jobs",
    description: "Manage cron jobs: list, add, remove, enable, disable.",
    example: Example {
        files: &[],
        arguments: r#"{"ACTION": "list"}"#,
        result: r#"{"jobs": 0, "active": 0, "disabled": 0}"#,
    },
    // Values that a client must assume before the action is known. For a call, those of the part apply.
    level: Level::Moderate,
    class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
    timeout: Timeout::fixed(60),
    lane: Lane::Write,
    text: TextCap::Default,
    presentation: Presentation::Record,
};

/// Creates the tool of the operation.
pub(crate) fn operation() -> Arc<dyn AnyTool> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let number = |description: &str| json!({"type": "integer", "description": description});
    let actions = ["list", "add", "remove", "enable", "disable"];
    let input = json!({
        "type": "object",
        "properties": {
            "ACTION": {"type": "string", "enum": actions, "description": "The action"},
            "JOB_ID": text("Name of the job; for all actions but list"),
            "SCHEDULE": text("Cron line or phrase, such as every monday at 2pm; for add"),
            "TASK_DESCRIPTION": text("Task for an agent; for add"),
        },
        "required": ["ACTION"],
        "additionalProperties": false,
    });
    let output = json!({
        "type": "object",
        "properties": {
            "job_id": text("Name of the job; absent for list."),
            "jobs": number("Number of jobs."),
            "active": number("Number of active jobs."),
            "disabled": number("Number of disabled jobs."),
            "schedule": text("The times as they were understood, for add."),
            "next_run": text("Next run, RFC 3339; absent without one."),
            "list": {"type": "array", "items": {"type": "object"}, "description": "The jobs, for list."},
        },
        "required": ["jobs", "active", "disabled"],
    });
    Operation::tool(&SPEC, input, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_of_the_schema_leads_to_a_part_with_the_other_keys() {
        let tool = operation();
        let parts = [LIST, ADD, REMOVE, ENABLE, DISABLE].map(|part| part.name);
        let actions = tool.input_schema()["properties"]["ACTION"]["enum"].as_array().unwrap();
        let named: Vec<_> = actions
            .iter()
            .map(|action| tool.names_another(&json!({"ACTION": action, "JOB_ID": "a"})).unwrap())
            .inspect(|(_, rest)| assert_eq!(rest, &json!({"JOB_ID": "a"})))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(named, parts);
    }
}
