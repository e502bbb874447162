//! SAGE: the tools foundation of `@sage/tools`, and its `ToolResult`.
//!
//! The source mentions `Edit` and `Bash` by name only. Their fields come from the package's own
//! contract. `commit` of `GraphQuery` is that of the package's own contract, too.
//!
//! Fields of the source's `ToolContext` map as follows: `cwd` is the workspace and `logger` the
//! audit. The schemas have no place for `dryRun` and `permissions`, and the source sets these for a
//! run, not for a call. Both are options of every command: `--dry-run` and `--permission`. A single
//! `Edit` is tried with `strategy: check`. No tool of the source asks the `secretProvider`. A
//! custom tool gets secrets through the service `Secrets` of its context, limited to the secrets
//! that its plan names.

use serde_json::{Value, json};
use tool::{CallResult, Code, Example, Outcome, Timeout};

use crate::table::{DEFAULTS, ExternalTool, Field, Kind, Need, ValueSource, field, gives, text};

/// Version of each tool, the value of `Tool.version`.
pub(crate) const VERSION: &str = "1.0.0";

/// Timeout of `Bash` in seconds. The tool takes no timeout argument, so the value is long enough
/// for tests and builds.
const BASH_SECONDS: u64 = 600;

const FILE_TO_READ: Field = text("file", Need::Required, "Path to file to read").becoming("path");

pub(crate) const TOOLS: &[ExternalTool] = &[
    ExternalTool {
        name: "Read",
        canonical: "file_read",
        title: "Read",
        description: "Read file contents from the workspace",
        takes: &[FILE_TO_READ],
        // Return the whole file, because no argument asks for the rest.
        settled: || json!({"max_bytes": 33_554_432}),
        gives: &[gives("content", ValueSource::Text("content"), "The file.")],
        example: Example {
            files: &[("notes.txt", "one\n")],
            arguments: r#"{"file": "notes.txt"}"#,
            result: r#"{"content": "one\n"}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "Write",
        canonical: "file_write",
        title: "Write",
        description: "Write content to a file",
        takes: &[
            Field { says: "Path to file to write", ..FILE_TO_READ },
            text("content", Need::Required, "Content to write"),
        ],
        // The checkpoint serves as the backup.
        settled: || json!({"backup": false}),
        gives: &[gives("bytes", ValueSource::Integer("size_bytes"), "Bytes written.")],
        example: Example {
            files: &[],
            arguments: r#"{"file": "greeting.txt", "content": "hello\n"}"#,
            result: r#"{"bytes": 6}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "Edit",
        canonical: "file_patch",
        title: "Edit",
        description: "Apply a unified diff to a file; `check` only tests it",
        takes: &[
            Field { says: "Path to file to edit", ..FILE_TO_READ },
            text("patch", Need::Required, "Unified diff"),
            field(
                "strategy",
                Kind::OneOf(&["apply", "check"]),
                Need::Default("\"apply\""),
                "check changes nothing",
            ),
        ],
        gives: &[
            gives("applied", ValueSource::Switch("applied"), "False for check."),
            gives("diff", ValueSource::OptionalText("diff"), "Changed files."),
        ],
        one_file: true,
        example: Example {
            files: &[("a.txt", "one\ntwo\n")],
            arguments: r#"{"file": "a.txt", "patch": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}"#,
            result: r#"{"applied": true}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "GraphQuery",
        canonical: "graph_query",
        title: "GraphQuery",
        description: "Query the code graph with Cypher",
        takes: &[
            text("query", Need::Required, "Cypher query to execute"),
            field("params", Kind::ValueByName, Need::Optional, "Query parameters"),
            text("commit", Need::Optional, "Commit to query in place of the present files"),
        ],
        gives: &[gives("rows", ValueSource::Objects("rows"), "Rows by column.")],
        example: Example {
            files: &[("app.py", "def load():\n    pass\n\ndef main():\n    load()\n")],
            arguments: r#"{"query": "MATCH (f:Function {name: $name})<-[:CALLS]-(g) RETURN g.name AS caller", "params": {"name": "load"}}"#,
            result: r#"{"rows": [{"caller": "main"}]}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "Bash",
        canonical: "shell_execute",
        title: "Bash",
        description: "Execute shell commands in a sandbox. With args the command is a program that runs without a shell. It is \
            killed after 600 seconds",
        takes: &[
            text("command", Need::Required, "Shell command, or program"),
            field("args", Kind::Texts, Need::Optional, "Arguments of the program").becoming("argv"),
        ],
        gives: &[
            gives("stdout", ValueSource::Text("stdout"), "Standard output."),
            gives("stderr", ValueSource::Text("stderr"), "Standard error."),
            gives("exitCode", ValueSource::ExitCode("exit_code"), "Exit code."),
        ],
        timeout: Some(Timeout::fixed(BASH_SECONDS)),
        example: Example {
            files: &[],
            arguments: r#"{"command": "echo", "args": ["hello"]}"#,
            result: r#"{"stdout": "hello\n", "stderr": "", "exitCode": 0}"#,
        },
        ..DEFAULTS
    },
];

/// Formats a result as SAGE's `ToolResult`.
pub(crate) fn answer(result: &CallResult) -> Value {
    let mut answer = json!({ "ok": result.ok() });
    match &result.outcome {
        Outcome::Ok(data) => match serde_json::to_value(data) {
            Ok(data) => answer["data"] = data,
            Err(error) => {
                let message =
                    format!("the call succeeded, but its answer cannot be written as JSON: {error}");
                answer["ok"] = Value::Bool(false);
                answer["error"] = json!({"code": Code::Internal, "message": message});
            }
        },
        Outcome::Err(error) => {
            if let Some(data) = &error.data {
                answer["data"] = data.clone();
            }
            let message = in_words_of_the_source(&error.message);
            let message = match &error.hint {
                Some(hint) => format!("{message}; {hint}"),
                None => message,
            };
            answer["error"] = json!({"code": error.code, "message": message});
        }
    }
    answer["meta"] = json!({
        "startedAt": result.meta.started_at,
        "endedAt": result.meta.ended_at,
        "durationMs": result.meta.duration_ms,
    });
    // The backup of the source's `Write`: `handfast undo` accepts this id.
    if let Some(checkpoint) = &result.meta.checkpoint {
        answer["meta"]["backup"] = json!(checkpoint);
    }
    answer
}

/// Puts the source's wording in front of a message if the source defines one.
fn in_words_of_the_source(message: &str) -> String {
    let bare = message.strip_prefix("denied: ").unwrap_or(message);
    if let Some((name, rest)) =
        message.strip_prefix("there is no tool named `").and_then(|rest| rest.split_once('`'))
    {
        return format!("Tool {name} not found{rest}");
    }
    if ["Path ", "Access to "].iter().any(|beginning| bare.starts_with(beginning)) {
        return bare.to_owned();
    }
    if message.contains(" said no") {
        return format!("User denied execution: {message}");
    }
    message.to_owned()
}

pub(crate) fn answer_schema(data: &Value) -> Value {
    let text = || json!({"type": "string"});
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    // A failed call returns only the fields that exist.
    let mut data = data.clone();
    if let Some(data) = data.as_object_mut() {
        data.remove("required");
    }
    object(
        json!({
            "ok": {"type": "boolean"},
            "data": data,
            "error": object(json!({"code": text(), "message": text()}), &["code", "message"]),
            "meta": object(
                json!({"startedAt": text(), "endedAt": text(), "durationMs": {"type": "number"}, "backup": text()}),
                &["startedAt", "endedAt", "durationMs"],
            ),
        }),
        &["ok"],
    )
}
