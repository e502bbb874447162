//! MSC: the tools of the minimal tool set that have a canonical equivalent. Reading goes through
//! `execute`, as the source requires.

use serde_json::json;
use tool::{Example, Timeout};

use crate::elophanto::{ENTRY, WRITE};
use crate::table::{Field, From, Given, Kind, Need, Outside, nothing};

/// Timeout of `execute` in seconds. The tool takes no timeout argument, so the value is long enough
/// for tests and builds.
const EXECUTE_SECONDS: u64 = 600;

const PATH: Field =
    Field { name: "path", becomes: Some("path"), kind: Kind::Text, need: Need::Required, says: "Path" };

pub(crate) const TOOLS: &[Outside] = &[
    Outside {
        name: "write_file",
        description: "Writes a file atomically; the old content is kept as PATH.bak.",
        takes: &[
            PATH,
            Field {
                name: "content",
                becomes: Some("content"),
                kind: Kind::Text,
                need: Need::Required,
                says: "All of it",
            },
        ],
        settled: || json!({"backup": true}),
        ..WRITE
    },
    Outside {
        name: "apply_diff",
        canonical: "file_patch",
        title: "Apply a diff",
        description: "Applies a unified diff to one file, all of it or nothing.",
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
            Given { name: "applied", from: From::Switch("applied"), says: "Whether it was applied." },
            Given { name: "files", from: From::Items("files", CHANGED), says: "What changed." },
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
    Outside {
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
                says: "All below, too",
            },
        ],
        // Return as many entries as one answer holds, because no argument asks for the rest.
        settled: || json!({"limit": 20_000}),
        adapt: None,
        gives: &[Given { name: "entries", from: From::Items("entries", ENTRY), says: "In order." }],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("src/a.rs", "")],
            arguments: r#"{"path": "src"}"#,
            result: r#"{"entries": [{"name": "a.rs", "path": "src/a.rs", "type": "file", "size_bytes": 0}]}"#,
        },
    },
    Outside {
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
                says: "The line",
            },
            Field {
                name: "cwd",
                becomes: Some("working_directory"),
                kind: Kind::Text,
                need: Need::Optional,
                says: "Where it starts",
            },
        ],
        settled: nothing,
        adapt: None,
        gives: &[
            Given { name: "stdout", from: From::Text("stdout"), says: "Standard output." },
            Given { name: "stderr", from: From::Text("stderr"), says: "Standard error." },
            Given {
                name: "exit_code",
                from: From::ExitCode("exit_code"),
                says: "128 + N when signal N ended it.",
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
    Outside {
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
                says: "What to do",
            },
            Field {
                name: "message",
                becomes: Some("message"),
                kind: Kind::Text,
                need: Need::Optional,
                says: "The text, or what is sought",
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
            Given { name: "entries", from: From::Items("entries", REMEMBERED), says: "In order." },
            Given { name: "versions", from: From::Items("versions", VERSION), says: "Of history and audit." },
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

const CHANGED: &[Given] = &[
    Given { name: "path", from: From::Text("path"), says: "The file." },
    Given { name: "change", from: From::Text("change"), says: "added, deleted or updated." },
    Given { name: "added", from: From::Integer("added"), says: "Lines that come." },
    Given { name: "removed", from: From::Integer("removed"), says: "Lines that go." },
];

const REMEMBERED: &[Given] = &[
    Given { name: "id", from: From::Text("id"), says: "Its id." },
    Given { name: "key", from: From::Text("key"), says: "Its name." },
    Given { name: "content", from: From::Text("content"), says: "The text." },
    Given { name: "version", from: From::Integer("version"), says: "One more with each change." },
    Given { name: "agent", from: From::Text("agent"), says: "Who made it." },
    Given { name: "changed_at", from: From::Text("changed_at"), says: "RFC 3339." },
];

const VERSION: &[Given] = &[
    Given { name: "version", from: From::Integer("version"), says: "From 1." },
    Given { name: "what", from: From::Text("what"), says: "created, updated or deleted." },
    Given { name: "content", from: From::Text("content"), says: "The text then." },
    Given { name: "at", from: From::Text("at"), says: "RFC 3339." },
    Given { name: "agent", from: From::Text("agent"), says: "By whom." },
    Given { name: "call", from: From::Text("call"), says: "By which call." },
];
