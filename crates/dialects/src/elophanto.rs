//! EloPhanto: the tools of its reference that have a canonical equivalent. Names and fields are
//! mostly identical. Fields beyond the reference are omitted, and defaults are those of the
//! reference.

mod knowledge;
mod sql;

use serde_json::json;
use tool::{Example, Timeout};

use crate::elophanto_gmail;
use crate::table::{AnswerField, ExternalTool, Field, Kind, Need, ValueSource, nothing};

const PATH: Field = Field {
    name: "path",
    becomes: Some("path"),
    kind: Kind::Text,
    need: Need::Required,
    says: "Path of the file or folder",
};

const fn switch(name: &'static str, default: &'static str, says: &'static str) -> Field {
    Field { name, becomes: Some(name), kind: Kind::Switch, need: Need::Default(default), says }
}

const fn text(name: &'static str, need: Need, says: &'static str) -> Field {
    Field { name, becomes: Some(name), kind: Kind::Text, need, says }
}

const GIVEN_PATH: AnswerField =
    AnswerField { name: "path", from: ValueSource::Text("path"), says: "The path." };

/// Arguments of a database tool: a statement and its parameters.
const SQL: &[Field] = &[
    text("sql", Need::Required, "One SQL statement"),
    Field {
        name: "params",
        becomes: Some("params"),
        kind: Kind::Values,
        need: Need::Optional,
        says: "Values for its parameters",
    },
];

/// Row of the tool that writes a file, shared with MSC.
pub(crate) const WRITE: ExternalTool = ExternalTool {
    name: "file_write",
    canonical: "file_write",
    title: "Write a file",
    description: "Creates or overwrites a file with given content.",
    takes: &[
        PATH,
        text("content", Need::Required, "The content"),
        switch("create_directories", "true", "Create missing folders"),
        switch("backup", "true", "Creates .bak before overwrite"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        GIVEN_PATH,
        AnswerField { name: "size_bytes", from: ValueSource::Integer("size_bytes"), says: "Bytes written." },
        AnswerField {
            name: "backed_up",
            from: ValueSource::Switch("backed_up"),
            says: "PATH.bak has the old content.",
        },
    ],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[("a.txt", "old")],
        arguments: r#"{"path": "a.txt", "content": "new"}"#,
        result: r#"{"path": "a.txt", "size_bytes": 3, "backed_up": true}"#,
    },
};

pub(crate) const TOOLS: &[ExternalTool] = &[
    ExternalTool {
        name: "shell_execute",
        canonical: "shell_execute",
        title: "Run a shell command",
        description: "Runs a shell command and returns stdout, stderr, and exit code.",
        takes: &[
            text("command", Need::Required, "The command"),
            text("working_directory", Need::Optional, "Working directory"),
            Field {
                name: "timeout",
                becomes: Some("timeout"),
                kind: Kind::Integer(1, 3_600),
                need: Need::Default("30"),
                says: "Seconds, at most 3600",
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
            AnswerField {
                name: "timed_out",
                from: ValueSource::Switch("timed_out"),
                says: "Killed at its timeout.",
            },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[],
            arguments: r#"{"command": "echo hello"}"#,
            result: r#"{"stdout": "hello\n", "stderr": "", "exit_code": 0, "timed_out": false}"#,
        },
    },
    ExternalTool {
        name: "file_read",
        canonical: "file_read",
        title: "Read a file",
        description: "Reads the contents of a file. Supports text files directly and binary files as base64.",
        takes: &[
            PATH,
            text("encoding", Need::Default("\"utf-8\""), "E.g. utf-8, latin1, base64"),
            Field {
                name: "lines",
                becomes: Some("lines"),
                kind: Kind::Object(&[
                    Field {
                        name: "start",
                        becomes: Some("start"),
                        kind: Kind::Integer(1, i64::MAX),
                        need: Need::Optional,
                        says: "First line, from 1",
                    },
                    Field {
                        name: "end",
                        becomes: Some("end"),
                        kind: Kind::Integer(1, i64::MAX),
                        need: Need::Optional,
                        says: "Last line",
                    },
                ]),
                need: Need::Optional,
                says: "Only these lines",
            },
        ],
        // Return the whole file, because no argument asks for the rest.
        settled: || json!({"max_bytes": 33_554_432}),
        adapt: None,
        gives: &[
            AnswerField { name: "content", from: ValueSource::Text("content"), says: "The text, or Base64." },
            AnswerField {
                name: "size_bytes",
                from: ValueSource::Integer("size_bytes"),
                says: "Size of the whole file.",
            },
            AnswerField { name: "mime_type", from: ValueSource::Text("mime_type"), says: "Media type." },
            AnswerField {
                name: "line_count",
                from: ValueSource::IntegerOrNone("line_count"),
                says: "Of the whole file; 0 for binary.",
            },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("notes.txt", "one\ntwo\n")],
            arguments: r#"{"path": "notes.txt"}"#,
            result: r#"{"content": "one\ntwo\n", "size_bytes": 8, "mime_type": "text/plain", "line_count": 2}"#,
        },
    },
    WRITE,
    ExternalTool {
        name: "file_list",
        canonical: "file_list",
        title: "List files",
        description: "Lists files and directories at a given path with optional filtering.",
        takes: &[
            PATH,
            switch("recursive", "false", "Include subfolders"),
            text("pattern", Need::Optional, "Glob pattern"),
            switch("include_hidden", "false", "Include hidden names"),
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
        name: "file_delete",
        canonical: "file_delete",
        title: "Delete a file",
        description: "Deletes a file or directory.",
        takes: &[PATH, switch("recursive", "false", "Folder with its content")],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField {
                name: "deleted",
                from: ValueSource::Switch("deleted"),
                says: "Whether it was deleted.",
            },
            GIVEN_PATH,
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("a.txt", "")],
            arguments: r#"{"path": "a.txt"}"#,
            result: r#"{"deleted": true, "path": "a.txt"}"#,
        },
    },
    ExternalTool {
        name: "file_move",
        canonical: "file_move",
        title: "Move a file",
        description: "Moves or renames a file or directory.",
        takes: &[
            text("source", Need::Required, "Path to move"),
            text("destination", Need::Required, "Its new path"),
        ],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField { name: "source", from: ValueSource::Text("source"), says: "The old path." },
            AnswerField {
                name: "destination",
                from: ValueSource::Text("destination"),
                says: "The new path.",
            },
            AnswerField { name: "moved", from: ValueSource::Switch("moved"), says: "Whether it was moved." },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("a.txt", "")],
            arguments: r#"{"source": "a.txt", "destination": "b.txt"}"#,
            result: r#"{"source": "a.txt", "destination": "b.txt", "moved": true}"#,
        },
    },
    ExternalTool {
        name: "vault_set",
        canonical: "vault_set",
        title: "Store a credential",
        description: "Stores a credential in the encrypted vault.",
        takes: &[
            text("key", Need::Required, "E.g. telegram_bot_token, github.com"),
            text("value", Need::Required, "The credential, at least 12 characters"),
        ],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField { name: "key", from: ValueSource::Text("key"), says: "Its name." },
            AnswerField {
                name: "stored",
                from: ValueSource::Switch("stored"),
                says: "Whether it was stored.",
            },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[],
            arguments: r#"{"key": "github.com", "value": "ghp_0123456789"}"#,
            result: r#"{"key": "github.com", "stored": true}"#,
        },
    },
    elophanto_gmail::READ,
    elophanto_gmail::SEND,
    elophanto_gmail::SEARCH,
    ExternalTool {
        name: "skill_read",
        canonical: "skill_read",
        title: "Read a skill",
        description: "Reads a skill's SKILL.md content to learn best practices before starting a task.",
        takes: &[text("skill_name", Need::Required, "Its name")],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField { name: "skill_name", from: ValueSource::Text("skill_name"), says: "Its name." },
            AnswerField { name: "content", from: ValueSource::Text("content"), says: "The whole SKILL.md." },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("skills/s/SKILL.md", "---\ndescription: d\n---\nText.\n")],
            arguments: r#"{"skill_name": "s"}"#,
            result: r#"{"skill_name": "s", "content": "---\ndescription: d\n---\nText.\n"}"#,
        },
    },
    ExternalTool {
        name: "skill_list",
        canonical: "skill_list",
        title: "List skills",
        description: "Lists all available skills with their descriptions and trigger keywords.",
        takes: &[],
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField { name: "skills", from: ValueSource::Items("skills", SKILL), says: "One per skill." },
            AnswerField { name: "count", from: ValueSource::Integer("count"), says: "Number of skills." },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[("skills/s/SKILL.md", "---\ndescription: d\ntriggers: [a]\n---\n")],
            arguments: "{}",
            result: r#"{"skills": [{"name": "s", "description": "d", "triggers": ["a"], "location": "skills/s/SKILL.md"}, {"name": "handfast"}], "count": 2}"#,
        },
    },
    knowledge::SEARCH,
    knowledge::WRITE,
    knowledge::INDEX,
    ExternalTool {
        name: "db_query",
        canonical: "db_query",
        title: "Query the database",
        description: "Executes a read-only SQL query against the local SQLite database.",
        takes: SQL,
        // Return as many rows as one answer holds, because no argument asks for the rest.
        settled: || json!({"limit": 10_000, "max_bytes": 8_388_608}),
        adapt: Some(sql::select_alone),
        gives: &[
            AnswerField { name: "rows", from: ValueSource::Objects("rows"), says: "Values by column." },
            AnswerField { name: "columns", from: ValueSource::Texts("columns"), says: "In order." },
            AnswerField {
                name: "row_count",
                from: ValueSource::Integer("row_count"),
                says: "Rows in this answer.",
            },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[],
            arguments: r#"{"sql": "SELECT ? AS a", "params": [1]}"#,
            result: r#"{"rows": [{"a": 1}], "columns": ["a"], "row_count": 1}"#,
        },
    },
    ExternalTool {
        name: "db_write",
        canonical: "db_write",
        title: "Change the database",
        description: "Executes a write SQL statement (INSERT, UPDATE, DELETE, CREATE TABLE) against the local database.",
        takes: SQL,
        settled: nothing,
        adapt: None,
        gives: &[
            AnswerField {
                name: "affected_rows",
                from: ValueSource::Integer("affected_rows"),
                says: "Rows changed.",
            },
            AnswerField {
                name: "last_insert_id",
                from: ValueSource::OptionalInteger("last_insert_id"),
                says: "If a row was inserted.",
            },
        ],
        timeout: None,
        one_file: false,
        within: None,
        example: Example {
            files: &[],
            arguments: r#"{"sql": "CREATE TABLE notes (title TEXT)"}"#,
            result: r#"{"affected_rows": 0}"#,
        },
    },
    ExternalTool {
        name: "self_list_capabilities",
        canonical: "self_list_capabilities",
        title: "List capabilities",
        description: "Lists all current capabilities (built-in tools + plugins) with their descriptions and status.",
        takes: &[Field {
            name: "filter",
            becomes: Some("filter"),
            kind: Kind::OneOf(&["all", "built_in", "plugins", "failed"]),
            need: Need::Optional,
            says: "Which",
        }],
        settled: nothing,
        adapt: None,
        gives: &[AnswerField {
            name: "capabilities",
            from: ValueSource::Items("capabilities", CAPABILITY),
            says: "One per tool.",
        }],
        timeout: Some(Timeout::fixed(10)),
        one_file: false,
        within: None,
        example: Example {
            files: &[],
            arguments: r#"{"filter": "plugins"}"#,
            result: r#"{"capabilities": []}"#,
        },
    },
];

/// Fields of a listing's entry, shared with MSC.
pub(crate) const ENTRY: &[AnswerField] = &[
    AnswerField { name: "name", from: ValueSource::Text("name"), says: "Name." },
    AnswerField { name: "path", from: ValueSource::Text("path"), says: "Path." },
    AnswerField { name: "type", from: ValueSource::Text("type"), says: "file, directory, symlink or other." },
    AnswerField { name: "size_bytes", from: ValueSource::Integer("size_bytes"), says: "Size." },
    AnswerField { name: "modified_at", from: ValueSource::Text("modified_at"), says: "RFC 3339." },
];

const SKILL: &[AnswerField] = &[
    AnswerField { name: "name", from: ValueSource::Text("name"), says: "Name." },
    AnswerField { name: "description", from: ValueSource::Text("description"), says: "Its purpose." },
    AnswerField { name: "triggers", from: ValueSource::Texts("triggers"), says: "Trigger keywords." },
    AnswerField { name: "location", from: ValueSource::Text("location"), says: "Its SKILL.md." },
];

const CAPABILITY: &[AnswerField] = &[
    AnswerField { name: "name", from: ValueSource::Text("name"), says: "Name." },
    AnswerField { name: "type", from: ValueSource::Text("type"), says: "built_in or plugin." },
    AnswerField { name: "description", from: ValueSource::Text("description"), says: "What it does." },
    AnswerField {
        name: "permission_level",
        from: ValueSource::Text("permission_level"),
        says: "safe, moderate, destructive or critical.",
    },
    AnswerField {
        name: "status",
        from: ValueSource::Text("status"),
        says: "ready, or why it cannot be used.",
    },
    AnswerField { name: "created_at", from: ValueSource::Text("created_at"), says: "RFC 3339." },
];
