//! MSC: the tools of the minimal tool set. Reading goes through
//! `execute`, as the source requires.

use serde_json::json;
use tool::{Example, Timeout};

use crate::elophanto::{ENTRY, WRITE};
use crate::table::{AnswerField, DEFAULTS, ExternalTool, Field, Kind, Need, ValueSource, field, gives, text};

/// Timeout of `execute` in seconds. The tool takes no timeout argument, so the value is long enough
/// for tests and builds.
const EXECUTE_SECONDS: u64 = 600;

const PATH: Field = text("path", Need::Required, "Path");

pub(crate) const TOOLS: &[ExternalTool] = &[
    ExternalTool {
        name: "write_file",
        description: "Writes a file atomically; the old content is kept as PATH.bak.",
        takes: &[PATH, text("content", Need::Required, "Full content")],
        settled: || json!({"backup": true}),
        ..WRITE
    },
    ExternalTool {
        name: "apply_diff",
        canonical: "file_patch",
        title: "Apply a diff",
        description: "Applies a unified diff to one file, fully or not at all.",
        takes: &[PATH, text("diff", Need::Required, "Unified diff").becoming("patch")],
        gives: &[
            gives("applied", ValueSource::Switch("applied"), "Whether it was applied."),
            gives("files", ValueSource::Items("files", CHANGED), "Changed files."),
        ],
        one_file: true,
        example: Example {
            files: &[("a.txt", "one\ntwo\n")],
            arguments: r#"{"path": "a.txt", "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}"#,
            result: r#"{"applied": true, "files": [{"path": "a.txt", "change": "updated", "added": 1, "removed": 1}]}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "list_files",
        canonical: "file_list",
        title: "List files",
        description: "Lists a folder as JSON.",
        takes: &[PATH, field("recursive", Kind::Switch, Need::Default("false"), "Include subfolders")],
        // Return as many entries as one answer holds, because no argument asks for the rest.
        settled: || json!({"limit": 20_000}),
        gives: &[gives("entries", ValueSource::Items("entries", ENTRY), "Sorted.")],
        example: Example {
            files: &[("src/a.rs", "")],
            arguments: r#"{"path": "src"}"#,
            result: r#"{"entries": [{"name": "a.rs", "path": "src/a.rs", "type": "file", "size_bytes": 0}]}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "execute",
        canonical: "shell_execute",
        title: "Run a command",
        description: "Runs a line in the system's shell, in a sandbox; it is killed after 600 seconds. Among the programs that it \
            finds:",
        takes: &[
            text("command", Need::Required, "Shell command"),
            text("cwd", Need::Optional, "Working directory").becoming("working_directory"),
        ],
        gives: &[
            gives("stdout", ValueSource::Text("stdout"), "Standard output."),
            gives("stderr", ValueSource::Text("stderr"), "Standard error."),
            gives("exit_code", ValueSource::ExitCode("exit_code"), "128 + N if ended by signal N."),
        ],
        timeout: Some(Timeout::fixed(EXECUTE_SECONDS)),
        example: Example {
            files: &[("a.txt", "one\n")],
            arguments: r#"{"command": "cat a.txt"}"#,
            result: r#"{"stdout": "one\n", "stderr": "", "exit_code": 0}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "model_switch",
        canonical: "model_switch",
        title: "Switch the model",
        description: "Goes on with another configured model.",
        takes: &[text("model_name", Need::Required, "PROVIDER/MODEL")],
        gives: &[
            gives("model_name", ValueSource::Text("model_name"), "From now on."),
            gives("previous", ValueSource::Text("previous"), "Before."),
            gives("profile", ValueSource::Text("profile"), "Bound to its provider."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"model_name": "local/large"}"#,
            result: r#"{"model_name": "local/large", "previous": "local/small"}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "create_agent",
        canonical: "create_agent",
        title: "Start an agent",
        description: "Starts a subagent, with a configured model and at most your rights; it sends a task_result to agent 0 when it ends.",
        takes: &[
            text("task_description", Need::Required, "Task, with all that it needs to know"),
            text("model_name", Need::Optional, "PROVIDER/MODEL"),
            field(
                "require_caps",
                Kind::Texts,
                Need::Default("[]"),
                "vision, tools, thinking, structured_output",
            ),
            field("require_thinking", Kind::Switch, Need::Default("false"), "Model must think"),
            field("shared_memory", Kind::Switch, Need::Default("false"), "Share your memory"),
            field("sandbox_config", Kind::Any, Need::Optional, "Profile that narrows it further"),
        ],
        gives: &[
            gives("agent_id", ValueSource::Text("agent_id"), "For ask_agent."),
            gives("model_name", ValueSource::Text("model_name"), "Model it asks."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"task_description": "Find out why tests/date.py fails."}"#,
            result: r#"{"agent_id": "a1b2c3d4e5", "model_name": "local/small"}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "ask_agent",
        canonical: "ask_agent",
        title: "Ask an agent",
        description: "Sends a message to an agent and waits for its answer; agent 0 is the main agent, which is not waited for. \
            Answer an approval_request with {\"type\": \"approval_response\", \"approved\": true}.",
        takes: &[
            text("agent_id", Need::Required, "Agent; 0 is the main agent"),
            text("message", Need::Required, "Text, or a JSON envelope"),
            field("priority", Kind::OneOf(&["standard", "high"]), Need::Default("\"standard\""), "Priority"),
        ],
        gives: &[
            gives("status", ValueSource::Text("status"), "answered, delivered, approved or denied."),
            gives("answer", ValueSource::Text("answer"), "Its answer."),
            gives("messages", ValueSource::Items("messages", MESSAGE), "Messages to you."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"agent_id": "a1b2c3d4e5", "message": "What did you find?"}"#,
            result: r#"{"status": "answered", "answer": "A wrong time zone."}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "memory",
        canonical: "memory",
        title: "Remember",
        description: "The agent's own memory: create, read, update, delete, list, search, history, audit.",
        takes: &[
            field(
                "action",
                Kind::OneOf(&["create", "read", "update", "delete", "list", "search", "history", "audit"]),
                Need::Required,
                "Action",
            ),
            text("message", Need::Optional, "Text, or search query"),
            text("key", Need::Optional, "Name or id"),
        ],
        // Return as many entries as one answer holds, because no argument asks for the rest.
        settled: || json!({"limit": 100}),
        gives: &[
            gives("entries", ValueSource::Items("entries", REMEMBERED), "In order."),
            gives("versions", ValueSource::Items("versions", VERSION), "For history and audit."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"action": "create", "message": "Four spaces.", "key": "style"}"#,
            result: r#"{"entries": [{"key": "style", "content": "Four spaces.", "version": 1}]}"#,
        },
        ..DEFAULTS
    },
];

const MESSAGE: &[AnswerField] = &[
    gives("from", ValueSource::Text("from"), "Sender."),
    gives("message", ValueSource::Text("message"), "Text."),
];

const CHANGED: &[AnswerField] = &[
    gives("path", ValueSource::Text("path"), "The file."),
    gives("change", ValueSource::Text("change"), "added, deleted or updated."),
    gives("added", ValueSource::Integer("added"), "Added lines."),
    gives("removed", ValueSource::Integer("removed"), "Removed lines."),
];

const REMEMBERED: &[AnswerField] = &[
    gives("id", ValueSource::Text("id"), "Its id."),
    gives("key", ValueSource::Text("key"), "Its name."),
    gives("content", ValueSource::Text("content"), "The text."),
    gives("version", ValueSource::Integer("version"), "Increases with each change."),
    gives("agent", ValueSource::Text("agent"), "Who made it."),
    gives("changed_at", ValueSource::Text("changed_at"), "RFC 3339."),
];

const VERSION: &[AnswerField] = &[
    gives("version", ValueSource::Integer("version"), "From 1."),
    gives("what", ValueSource::Text("what"), "created, updated or deleted."),
    gives("content", ValueSource::Text("content"), "Text at that time."),
    gives("at", ValueSource::Text("at"), "RFC 3339."),
    gives("agent", ValueSource::Text("agent"), "Author."),
    gives("call", ValueSource::Text("call"), "Call id."),
];
