//! CSP/1: the operations of the tool specialist that a canonical tool implements, with the keys of
//! a request as arguments. The crate `csp` parses requests and formats answers.

use serde_json::{Map, Value};
use tool::{Example, ToolError};

use crate::csp1_browser;
use crate::csp1_cron;
use crate::table::{DEFAULTS, ExternalTool, Kind, Need, ValueSource, field, gives, text};

/// Paths that the source denies to this specialist, because another specialist owns the memory.
pub(crate) const MEMORY: [&str; 2] = ["./memory", "MEMORY.md"];

/// Hint for a denied call on [`MEMORY`], after the rule of the source.
pub(crate) const DELEGATE: &str = "the memory belongs to the Memory Specialist: delegate this over \
     CSP/1; this specialist has no tool for it";

/// Maximum number of processes of a command, from the source.
pub(crate) const PROCESSES: u64 = 10;

/// Average number of threads per process. The kernel counts threads and processes together, and
/// `npm test`, the source's own example, has two dozen threads in three processes.
pub(crate) const THREADS: u64 = 16;

/// Maximum timeout of a command in milliseconds: one hour, the limit of the canonical tool.
const LONGEST: f64 = 3_600_000.0;

pub(crate) const TOOLS: &[ExternalTool] = &[
    EXEC,
    csp1_browser::NAVIGATE,
    csp1_browser::CLICK,
    csp1_browser::TYPE,
    csp1_browser::SCREENSHOT,
    csp1_browser::EXTRACT,
    csp1_cron::LIST,
    csp1_cron::ADD,
    csp1_cron::REMOVE,
    csp1_cron::ENABLE,
    csp1_cron::DISABLE,
];

const EXEC: ExternalTool = ExternalTool {
    name: "exec",
    canonical: "shell_execute",
    title: "Run a command",
    description: "Executes a shell command with a timeout, in a sandbox.",
    takes: &[
        text("COMMAND", Need::Required, "The shell command").becoming("command"),
        field("TIMEOUT_MS", Kind::Milliseconds, Need::Default("30000"), "Milliseconds, at most 3600000")
            .becoming("timeout"),
        text("WORKING_DIR", Need::Optional, "Working directory in the project root")
            .becoming("working_directory"),
    ],
    adapt: Some(bounded),
    gives: &[
        gives("stdout", ValueSource::Text("stdout"), "Standard output; a summary beyond 500 characters."),
        gives("stderr", ValueSource::Text("stderr"), "Standard error; a summary beyond 500 characters."),
        gives("exit_code", ValueSource::ExitCode("exit_code"), "128 + N if ended by signal N."),
        gives("exec_time", ValueSource::Milliseconds, "Milliseconds."),
        gives(
            "log_ref",
            ValueSource::OptionalText("log_ref"),
            "Exec log file with the full output, for the Memory Specialist.",
        ),
    ],
    within: Some("working_directory"),
    example: Example {
        files: &[],
        arguments: r#"{"COMMAND": "echo hello"}"#,
        result: r#"{"stdout": "hello\n", "stderr": "", "exit_code": 0}"#,
    },
    ..DEFAULTS
};

fn bounded(given: &Map<String, Value>, _: &mut Map<String, Value>) -> Result<(), ToolError> {
    match given.get("TIMEOUT_MS").and_then(Value::as_f64) {
        Some(milliseconds) if milliseconds > LONGEST => {
            Err(ToolError::validation("TIMEOUT_MS", format!("it is longer than {LONGEST}")))
        }
        _ => Ok(()),
    }
}
