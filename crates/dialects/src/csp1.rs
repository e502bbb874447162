//! CSP/1: the operations of the tool specialist that a canonical tool implements, with the keys of
//! a request as arguments. The crate `csp` parses requests and formats answers.

use serde_json::{Map, Value};
use tool::{Example, ToolError};

use crate::table::{AnswerField, ExternalTool, Field, Kind, Need, ValueSource, nothing};

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

pub(crate) const TOOLS: &[ExternalTool] = &[ExternalTool {
    name: "exec",
    canonical: "shell_execute",
    title: "Run a command",
    description: "Executes a shell command with a timeout, in a sandbox.",
    takes: &[
        Field {
            name: "COMMAND",
            becomes: Some("command"),
            kind: Kind::Text,
            need: Need::Required,
            says: "The shell command",
        },
        Field {
            name: "TIMEOUT_MS",
            becomes: Some("timeout"),
            kind: Kind::Milliseconds,
            need: Need::Default("30000"),
            says: "Milliseconds, at most 3600000",
        },
        Field {
            name: "WORKING_DIR",
            becomes: Some("working_directory"),
            kind: Kind::Text,
            need: Need::Optional,
            says: "Working directory in the project root",
        },
    ],
    settled: nothing,
    adapt: Some(bounded),
    gives: &[
        AnswerField {
            name: "stdout",
            from: ValueSource::Text("stdout"),
            says: "Standard output; a summary beyond 500 characters.",
        },
        AnswerField {
            name: "stderr",
            from: ValueSource::Text("stderr"),
            says: "Standard error; a summary beyond 500 characters.",
        },
        AnswerField {
            name: "exit_code",
            from: ValueSource::ExitCode("exit_code"),
            says: "128 + N if ended by signal N.",
        },
        AnswerField { name: "exec_time", from: ValueSource::Milliseconds, says: "Milliseconds." },
        AnswerField {
            name: "log_ref",
            from: ValueSource::OptionalText("log_ref"),
            says: "Exec log file with the full output, for the Memory Specialist.",
        },
    ],
    timeout: None,
    one_file: false,
    within: Some("working_directory"),
    example: Example {
        files: &[],
        arguments: r#"{"COMMAND": "echo hello"}"#,
        result: r#"{"stdout": "hello\n", "stderr": "", "exit_code": 0}"#,
    },
}];

fn bounded(given: &Map<String, Value>, _: &mut Map<String, Value>) -> Result<(), ToolError> {
    match given.get("TIMEOUT_MS").and_then(Value::as_f64) {
        Some(milliseconds) if milliseconds > LONGEST => {
            Err(ToolError::validation("TIMEOUT_MS", format!("it is longer than {LONGEST}")))
        }
        _ => Ok(()),
    }
}
