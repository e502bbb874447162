//! EloPhanto: the tools of its reference that have a canonical equivalent. Names and fields are
//! mostly identical. Fields beyond the reference are omitted, and defaults are those of the
//! reference.

mod knowledge;
mod models;
mod own_source;
mod schedules;
mod sql;

use serde_json::json;
use tool::{Example, Timeout};

use crate::elophanto_browser;
use crate::elophanto_gmail;
use crate::table::{AnswerField, DEFAULTS, ExternalTool, Field, Kind, Need, ValueSource, field, gives, text};

const PATH: Field = text("path", Need::Required, "Path of the file or folder");

const fn switch(name: &'static str, default: &'static str, says: &'static str) -> Field {
    field(name, Kind::Switch, Need::Default(default), says)
}

const GIVEN_PATH: AnswerField = gives("path", ValueSource::Text("path"), "The path.");

/// Arguments of a database tool: a statement and its parameters.
const SQL: &[Field] = &[
    text("sql", Need::Required, "One SQL statement"),
    field("params", Kind::Values, Need::Optional, "Values for its parameters"),
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
    gives: &[
        GIVEN_PATH,
        gives("size_bytes", ValueSource::Integer("size_bytes"), "Bytes written."),
        gives("backed_up", ValueSource::Switch("backed_up"), "PATH.bak has the old content."),
    ],
    example: Example {
        files: &[("a.txt", "old")],
        arguments: r#"{"path": "a.txt", "content": "new"}"#,
        result: r#"{"path": "a.txt", "size_bytes": 3, "backed_up": true}"#,
    },
    ..DEFAULTS
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
            field("timeout", Kind::Integer(1, 3_600), Need::Default("30"), "Seconds, at most 3600"),
        ],
        gives: &[
            gives("stdout", ValueSource::Text("stdout"), "Standard output."),
            gives("stderr", ValueSource::Text("stderr"), "Standard error."),
            gives("exit_code", ValueSource::ExitCode("exit_code"), "128 + N if ended by signal N."),
            gives("timed_out", ValueSource::Switch("timed_out"), "Killed at its timeout."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"command": "echo hello"}"#,
            result: r#"{"stdout": "hello\n", "stderr": "", "exit_code": 0, "timed_out": false}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "file_read",
        canonical: "file_read",
        title: "Read a file",
        description: "Reads the contents of a file. Supports text files directly and binary files as base64.",
        takes: &[
            PATH,
            text("encoding", Need::Default("\"utf-8\""), "E.g. utf-8, latin1, base64"),
            field(
                "lines",
                Kind::Object(&[
                    field("start", Kind::Integer(1, i64::MAX), Need::Optional, "First line, from 1"),
                    field("end", Kind::Integer(1, i64::MAX), Need::Optional, "Last line"),
                ]),
                Need::Optional,
                "Only these lines",
            ),
        ],
        // Return the whole file, because no argument asks for the rest.
        settled: || json!({"max_bytes": 33_554_432}),
        gives: &[
            gives("content", ValueSource::Text("content"), "The text, or Base64."),
            gives("size_bytes", ValueSource::Integer("size_bytes"), "Size of the whole file."),
            gives("mime_type", ValueSource::Text("mime_type"), "Media type."),
            gives("line_count", ValueSource::IntegerOrNone("line_count"), "Of the whole file; 0 for binary."),
        ],
        example: Example {
            files: &[("notes.txt", "one\ntwo\n")],
            arguments: r#"{"path": "notes.txt"}"#,
            result: r#"{"content": "one\ntwo\n", "size_bytes": 8, "mime_type": "text/plain", "line_count": 2}"#,
        },
        ..DEFAULTS
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
        gives: &[gives("entries", ValueSource::Items("entries", ENTRY), "Sorted.")],
        example: Example {
            files: &[("src/a.rs", "")],
            arguments: r#"{"path": "src"}"#,
            result: r#"{"entries": [{"name": "a.rs", "path": "src/a.rs", "type": "file", "size_bytes": 0}]}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "file_delete",
        canonical: "file_delete",
        title: "Delete a file",
        description: "Deletes a file or directory.",
        takes: &[PATH, switch("recursive", "false", "Folder with its content")],
        gives: &[gives("deleted", ValueSource::Switch("deleted"), "Whether it was deleted."), GIVEN_PATH],
        example: Example {
            files: &[("a.txt", "")],
            arguments: r#"{"path": "a.txt"}"#,
            result: r#"{"deleted": true, "path": "a.txt"}"#,
        },
        ..DEFAULTS
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
        gives: &[
            gives("source", ValueSource::Text("source"), "The old path."),
            gives("destination", ValueSource::Text("destination"), "The new path."),
            gives("moved", ValueSource::Switch("moved"), "Whether it was moved."),
        ],
        example: Example {
            files: &[("a.txt", "")],
            arguments: r#"{"source": "a.txt", "destination": "b.txt"}"#,
            result: r#"{"source": "a.txt", "destination": "b.txt", "moved": true}"#,
        },
        ..DEFAULTS
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
        gives: &[
            gives("key", ValueSource::Text("key"), "Its name."),
            gives("stored", ValueSource::Switch("stored"), "Whether it was stored."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"key": "github.com", "value": "ghp_0123456789"}"#,
            result: r#"{"key": "github.com", "stored": true}"#,
        },
        ..DEFAULTS
    },
    elophanto_browser::CONNECT,
    elophanto_browser::NAVIGATE,
    elophanto_browser::READ_PAGE,
    elophanto_browser::INTERACT,
    elophanto_browser::TABS,
    elophanto_browser::COOKIES,
    elophanto_browser::DOWNLOAD,
    elophanto_browser::SCREENSHOT,
    elophanto_gmail::READ,
    elophanto_gmail::SEND,
    elophanto_gmail::SEARCH,
    ExternalTool {
        name: "skill_read",
        canonical: "skill_read",
        title: "Read a skill",
        description: "Reads a skill's SKILL.md content to learn best practices before starting a task.",
        takes: &[text("skill_name", Need::Required, "Its name")],
        gives: &[
            gives("skill_name", ValueSource::Text("skill_name"), "Its name."),
            gives("content", ValueSource::Text("content"), "The whole SKILL.md."),
        ],
        example: Example {
            files: &[("skills/s/SKILL.md", "---\ndescription: d\n---\nText.\n")],
            arguments: r#"{"skill_name": "s"}"#,
            result: r#"{"skill_name": "s", "content": "---\ndescription: d\n---\nText.\n"}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "skill_list",
        canonical: "skill_list",
        title: "List skills",
        description: "Lists all available skills with their descriptions and trigger keywords.",
        takes: &[],
        gives: &[
            gives("skills", ValueSource::Items("skills", SKILL), "One per skill."),
            gives("count", ValueSource::Integer("count"), "Number of skills."),
        ],
        example: Example {
            files: &[("skills/s/SKILL.md", "---\ndescription: d\ntriggers: [a]\n---\n")],
            arguments: "{}",
            result: r#"{"skills": [{"name": "s", "description": "d", "triggers": ["a"], "location": "skills/s/SKILL.md"}, {"name": "handfast"}], "count": 2}"#,
        },
        ..DEFAULTS
    },
    models::CALL,
    schedules::TASKS,
    schedules::LIST,
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
            gives("rows", ValueSource::Objects("rows"), "Values by column."),
            gives("columns", ValueSource::Texts("columns"), "In order."),
            gives("row_count", ValueSource::Integer("row_count"), "Rows in this answer."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"sql": "SELECT ? AS a", "params": [1]}"#,
            result: r#"{"rows": [{"a": 1}], "columns": ["a"], "row_count": 1}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "db_write",
        canonical: "db_write",
        title: "Change the database",
        description: "Executes a write SQL statement (INSERT, UPDATE, DELETE, CREATE TABLE) against the local database.",
        takes: SQL,
        gives: &[
            gives("affected_rows", ValueSource::Integer("affected_rows"), "Rows changed."),
            gives("last_insert_id", ValueSource::OptionalInteger("last_insert_id"), "If a row was inserted."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"sql": "CREATE TABLE notes (title TEXT)"}"#,
            result: r#"{"affected_rows": 0}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "self_list_capabilities",
        canonical: "self_list_capabilities",
        title: "List capabilities",
        description: "Lists all current capabilities (built-in tools + plugins) with their descriptions and status.",
        takes: &[field(
            "filter",
            Kind::OneOf(&["all", "built_in", "plugins", "failed"]),
            Need::Optional,
            "Which",
        )],
        gives: &[gives("capabilities", ValueSource::Items("capabilities", CAPABILITY), "One per tool.")],
        timeout: Some(Timeout::fixed(10)),
        example: Example {
            files: &[],
            arguments: r#"{"filter": "plugins"}"#,
            result: r#"{"capabilities": []}"#,
        },
        ..DEFAULTS
    },
    own_source::READ,
    own_source::MODIFY,
    own_source::CREATE_PLUGIN,
    own_source::TESTS,
    own_source::ROLLBACK,
];

/// Fields of a listing's entry, shared with MSC.
pub(crate) const ENTRY: &[AnswerField] = &[
    gives("name", ValueSource::Text("name"), "Name."),
    gives("path", ValueSource::Text("path"), "Path."),
    gives("type", ValueSource::Text("type"), "file, directory, symlink or other."),
    gives("size_bytes", ValueSource::Integer("size_bytes"), "Size."),
    gives("modified_at", ValueSource::Text("modified_at"), "RFC 3339."),
];

const SKILL: &[AnswerField] = &[
    gives("name", ValueSource::Text("name"), "Name."),
    gives("description", ValueSource::Text("description"), "Its purpose."),
    gives("triggers", ValueSource::Texts("triggers"), "Trigger keywords."),
    gives("location", ValueSource::Text("location"), "Its SKILL.md."),
];

const CAPABILITY: &[AnswerField] = &[
    gives("name", ValueSource::Text("name"), "Name."),
    gives("type", ValueSource::Text("type"), "built_in or plugin."),
    gives("description", ValueSource::Text("description"), "What it does."),
    gives(
        "permission_level",
        ValueSource::Text("permission_level"),
        "safe, moderate, destructive or critical.",
    ),
    gives("status", ValueSource::Text("status"), "ready, or why it cannot be used."),
    gives("created_at", ValueSource::Text("created_at"), "RFC 3339."),
];
