//! MSC: the tools of the minimal tool set that have a canonical equivalent. Reading goes through
//! `execute`, as the source requires.

use serde_json::json;
use tool::{Example, Timeout};

use crate::elophanto::{ENTRY, WRITE};
use crate::table::{AnswerField, ExternalTool, Field, Kind, Need, ValueSource, nothing};

/// Timeout of `execute` in seconds. The tool takes no timeout argument, so the value is long enough
/// for tests and builds.
const EXECUTE_SECONDS: u64 = 600;

const PATH: Field =
    Field { name: "path", becomes: Some("path"), kind: Kind::Text, need: Need::Required, says: "Path" };

pub(crate) const TOOLS: &[ExternalTool] = &[
    ExternalTool {
        name: "write_file",
        description: "Writes a file atomically; the old content is kept as PATH.bak.",
        takes: &[
            PATH,
            Field {
                name: "content",
                becomes: Some("content"),
                kind: Kind::Text,
                need: Need::Required,
                says: "Full content",
            },
        ],
        settled: || json!({"backup": true}),
        ..WRITE
    },
    ExternalTool {
        name: "apply_diff",
        canonical: "file_patch",
        title: "Apply a diff",
        description: "Applies a unified diff to one file, fully or not at all.",
        takes: &[
            PATH,
            Field {
                name: "diff",
                becomes: Some("patch"),
                kind: Kind::Text,
                need: Need::Required,
                says: "Unified diff",
            },
        ],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField {
                name: "applied",
                from: ValueSource::Switch("applied"),
                says: "Whether it was applied.",
            },
            AnswerField { name: "files", from: ValueSource::Items("files", CHANGED), says: "Changed files." },
        ],
        timeout: None,
        one_file: true,
        within: None,
        example: Example {
            files: &[("a.txt", "one\ntwo\n")],
            arguments: r#"{"path": "a.txt", "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}"#,
            result: r#"{"applied": true, "files": [{"path": "a.txt", "change": "updated", "added": 1, "removed": 1}]}"#,
        },
    },
    ExternalTool {
        name: "list_files",
        canonical: "file_list",
        title: "List files",
        description: "Lists a folder as JSON.",
        takes: &[
            PATH,
            Field {
                name: "recursive",
                becomes: Some("recursive"),
                kind: Kind::Switch,
                need: Need::Default("false"),
                says: "Include subfolders",
            },
        ],
        // Return as many entries as one answer holds, because no argument asks for the rest.
        settled: || json!({"limit": 20_000}),
        adapt: None,
        gives: &[AnswerField {
            name: "entries",
            from: ValueSource::Items("entries", ENTRY),
            says: "Sorted.",
        }],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("src/a.rs", "")],
            arguments: r#"{"path": "src"}"#,
            result: r#"{"entries": [{"name": "a.rs", "path": "src/a.rs", "type": "file", "size_bytes": 0}]}"#,
        },
    },
    ExternalTool {
        name: "execute",
        canonical: "shell_execute",
        title: "Run a command",
        description: "Runs a line in the system's shell, in a sandbox; it is killed after 600 seconds. Among the programs that it \
            finds:",
        takes: &[
            Field {
                name: "command",
                becomes: Some("command"),
                kind: Kind::Text,
                need: Need::Required,
                says: "Shell command",
            },
            Field {
                name: "cwd",
                becomes: Some("working_directory"),
                kind: Kind::Text,
                need: Need::Optional,
                says: "Working directory",
            },
        ],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField { name: "stdout", from: ValueSource::Text("stdout"), says: "Standard output." },
            AnswerField { name: "stderr", from: ValueSource::Text("stderr"), says: "Standard error." },
            AnswerField {
                name: "exit_code",
                from: ValueSource::ExitCode("exit_code"),
                says: "128 + N if ended by signal N.",
            },
        ],
        timeout: Some(Timeout::fixed(EXECUTE_SECONDS)),
        one_file: false,
        within: None,
        example: Example {
            files: &[("a.txt", "one\n")],
            arguments: r#"{"command": "cat a.txt"}"#,
            result: r#"{"stdout": "one\n", "stderr": "", "exit_code": 0}"#,
        },
    },
    ExternalTool {
        name: "memory",
        canonical: "memory",
        title: "Remember",
        description: "The agent's own memory: create, read, update, delete, list, search, history, audit.",
        takes: &[
            Field {
                name: "action",
                becomes: Some("action"),
                kind: Kind::OneOf(&[
                    "create", "read", "update", "delete", "list", "search", "history", "audit",
                ]),
                need: Need::Required,
                says: "Action",
            },
            Field {
                name: "message",
                becomes: Some("message"),
                kind: Kind::Text,
                need: Need::Optional,
                says: "Text, or search query",
            },
            Field {
                name: "key",
                becomes: Some("key"),
                kind: Kind::Text,
                need: Need::Optional,
                says: "Name or id",
            },
        ],
        // Return as many entries as one answer holds, because no argument asks for the rest.
        settled: || json!({"limit": 100}),
        adapt: None,
        gives: &[
            AnswerField {
                name: "entries",
                from: ValueSource::Items("entries", REMEMBERED),
                says: "In order.",
            },
            AnswerField {
                name: "versions",
                from: ValueSource::Items("versions", VERSION),
                says: "For history and audit.",
            },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[],
            arguments: r#"{"action": "create", "message": "Four spaces.", "key": "style"}"#,
            result: r#"{"entries": [{"key": "style", "content": "Four spaces.", "version": 1}]}"#,
        },
    },
];

const CHANGED: &[AnswerField] = &[
    AnswerField { name: "path", from: ValueSource::Text("path"), says: "The file." },
    AnswerField { name: "change", from: ValueSource::Text("change"), says: "added, deleted or updated." },
    AnswerField { name: "added", from: ValueSource::Integer("added"), says: "Added lines." },
    AnswerField { name: "removed", from: ValueSource::Integer("removed"), says: "Removed lines." },
];

const REMEMBERED: &[AnswerField] = &[
    AnswerField { name: "id", from: ValueSource::Text("id"), says: "Its id." },
    AnswerField { name: "key", from: ValueSource::Text("key"), says: "Its name." },
    AnswerField { name: "content", from: ValueSource::Text("content"), says: "The text." },
    AnswerField {
        name: "version",
        from: ValueSource::Integer("version"),
        says: "Increases with each change.",
    },
    AnswerField { name: "agent", from: ValueSource::Text("agent"), says: "Who made it." },
    AnswerField { name: "changed_at", from: ValueSource::Text("changed_at"), says: "RFC 3339." },
];

const VERSION: &[AnswerField] = &[
    AnswerField { name: "version", from: ValueSource::Integer("version"), says: "From 1." },
    AnswerField { name: "what", from: ValueSource::Text("what"), says: "created, updated or deleted." },
    AnswerField { name: "content", from: ValueSource::Text("content"), says: "Text at that time." },
    AnswerField { name: "at", from: ValueSource::Text("at"), says: "RFC 3339." },
    AnswerField { name: "agent", from: ValueSource::Text("agent"), says: "Author." },
    AnswerField { name: "call", from: ValueSource::Text("call"), says: "Call id." },
];
