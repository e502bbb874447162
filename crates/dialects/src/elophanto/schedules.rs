//! The scheduling tools of EloPhanto.

use tool::Example;

use crate::table::{AnswerField, DEFAULTS, ExternalTool, Kind, Need, ValueSource, field, gives, text};

const TASK: &[AnswerField] = &[
    gives("id", ValueSource::Text("id"), "Id."),
    gives("name", ValueSource::Text("name"), "Name."),
    gives("schedule", ValueSource::Text("schedule"), "Times."),
    gives("next_run", ValueSource::OptionalText("next_run"), "Next run, RFC 3339."),
    gives("last_run", ValueSource::OptionalText("last_run"), "Last run, RFC 3339."),
    gives("status", ValueSource::Text("status"), "active or paused."),
];

pub(crate) const TASKS: ExternalTool = ExternalTool {
    name: "schedule_task",
    canonical: "schedule_task",
    title: "Schedule a task",
    description: "Creates a recurring or one-time scheduled task.",
    takes: &[
        text("name", Need::Required, "Its name"),
        text("task_goal", Need::Required, "What to execute"),
        text(
            "schedule",
            Need::Required,
            "Cron line, or every morning at 9am, every 5 minutes, in 2 days, at 15:30",
        ),
        text("description", Need::Optional, "For people"),
        field("max_retries", Kind::Integer(0, 20), Need::Optional, "Retries of a failed run"),
    ],
    gives: &[
        gives("schedule_id", ValueSource::Text("schedule_id"), "Id."),
        gives("type", ValueSource::Text("type"), "recurring or one_time."),
        gives("name", ValueSource::Text("name"), "Its name."),
        gives("cron_expression", ValueSource::OptionalText("cron_expression"), "If recurring."),
        gives("run_at", ValueSource::OptionalText("run_at"), "If one_time, RFC 3339."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"name": "report", "task_goal": "Write the report", "schedule": "every morning at 9am"}"#,
        result: r#"{"type": "recurring", "name": "report", "cron_expression": "0 9 * * *"}"#,
    },
    ..DEFAULTS
};

pub(crate) const LIST: ExternalTool = ExternalTool {
    name: "schedule_list",
    canonical: "schedule_list",
    title: "List scheduled tasks",
    description: "Lists all scheduled tasks.",
    takes: &[field(
        "filter",
        Kind::OneOf(&["all", "active", "paused"]),
        Need::Default("\"all\""),
        "Which of them",
    )],
    gives: &[gives("tasks", ValueSource::Items("tasks", TASK), "One per task.")],
    example: Example { files: &[], arguments: "{}", result: r#"{"tasks": []}"# },
    ..DEFAULTS
};
