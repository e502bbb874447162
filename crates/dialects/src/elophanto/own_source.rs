//! The tools of EloPhanto for the development of its own source.

use tool::{Example, Timeout};

use crate::table::{AnswerField, DEFAULTS, ExternalTool, Kind, Need, ValueSource, field, gives, text};

/// Time of the steps of a change, as the canonical tools have it.
const FOR_STEPS: Option<Timeout> = Some(Timeout::fixed(4 * 3_600));

pub(crate) const READ: ExternalTool = ExternalTool {
    name: "self_read_source",
    canonical: "self_read_source",
    title: "Read own source",
    description: "Reads the project's own source code files.",
    takes: &[text("path", Need::Required, "Relative to the project root")],
    gives: &[
        gives("content", ValueSource::Text("content"), "Text."),
        gives("language", ValueSource::Text("language"), "By its name."),
        gives("line_count", ValueSource::Integer("line_count"), "Lines."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"path": "src/limit.js"}"#,
        result: r#"{"content": "exports.limit = 10;\n", "language": "javascript", "line_count": 1}"#,
    },
    ..DEFAULTS
};

pub(crate) const MODIFY: ExternalTool = ExternalTool {
    name: "self_modify_source",
    canonical: "self_modify_source",
    title: "Modify own source",
    description: "Proposes and applies a modification to the project's own source code. Goes through tests and a human's decision.",
    takes: &[
        text("path", Need::Required, "Relative to the project root"),
        text("change_description", Need::Required, "What changes"),
        text("new_content", Need::Required, "Whole new text"),
        text("reason", Need::Required, "Why"),
    ],
    gives: &[
        gives("diff", ValueSource::Text("diff"), "Difference."),
        gives("tests_passed", ValueSource::Switch("tests_passed"), "With the change."),
        gives("test_results", ValueSource::Text("test_results"), "Before and after."),
        gives("applied", ValueSource::Switch("applied"), "Committed."),
        gives("rollback_commit", ValueSource::Text("rollback_commit"), "For self_rollback."),
    ],
    timeout: FOR_STEPS,
    example: Example {
        files: &[],
        arguments: r#"{"path": "src/limit.js", "change_description": "raise the limit", "new_content": "exports.limit = 20;\n", "reason": "ten is too few"}"#,
        result: r#"{"tests_passed": true, "applied": true}"#,
    },
    ..DEFAULTS
};

pub(crate) const CREATE_PLUGIN: ExternalTool = ExternalTool {
    name: "self_create_plugin",
    canonical: "self_create_plugin",
    title: "Create a plugin",
    description: "Creates a new plugin following the full self-development pipeline: code, tests, a second look and a human's decision.",
    takes: &[
        text("name", Need::Required, "Name of the tool: small letters, digits and _"),
        text("description", Need::Required, "What it does, in a sentence"),
        text("goal", Need::Required, "What the plugin should accomplish"),
    ],
    gives: &[
        gives("plugin_path", ValueSource::Text("plugin_path"), "Folder; empty if none was made."),
        gives("tests_passed", ValueSource::Switch("tests_passed"), "Its tests ran and passed."),
        gives("registered", ValueSource::Switch("registered"), "It is a tool."),
        gives("documentation", ValueSource::Text("documentation"), "Path of its README."),
    ],
    timeout: FOR_STEPS,
    example: Example {
        files: &[],
        arguments: r#"{"name": "word_count", "description": "Counts the words of a text.", "goal": "count words"}"#,
        result: r#"{"plugin_path": "plugins/word_count", "tests_passed": true, "registered": true}"#,
    },
    ..DEFAULTS
};

pub(crate) const TESTS: ExternalTool = ExternalTool {
    name: "self_run_tests",
    canonical: "self_run_tests",
    title: "Run own tests",
    description: "Runs the test suite - either for a specific plugin, a specific module, or the entire project.",
    takes: &[
        field("scope", Kind::OneOf(&["all", "core", "plugin"]), Need::Required, "Which tests"),
        text("target", Need::Optional, "Plugin name or module path"),
    ],
    gives: &[
        gives("passed", ValueSource::Integer("passed"), "Tests."),
        gives("failed", ValueSource::Integer("failed"), "Tests."),
        gives("errors", ValueSource::Texts("errors"), "Failed tests, or why none ran."),
        gives("duration_seconds", ValueSource::Number("duration_seconds"), "Seconds."),
    ],
    timeout: Some(Timeout::fixed(65 * 60)),
    example: Example {
        files: &[],
        arguments: r#"{"scope": "all"}"#,
        result: r#"{"passed": 2, "failed": 0, "errors": []}"#,
    },
    ..DEFAULTS
};

const COMMIT: &[AnswerField] = &[
    gives("commit_hash", ValueSource::Text("commit_hash"), "Hash."),
    gives("message", ValueSource::Text("message"), "Subject."),
    gives("committed_at", ValueSource::Text("committed_at"), "RFC 3339."),
];

pub(crate) const ROLLBACK: ExternalTool = ExternalTool {
    name: "self_rollback",
    canonical: "self_rollback",
    title: "Take back own change",
    description: "Reverts a previous self-modification or plugin creation commit.",
    takes: &[
        field("action", Kind::OneOf(&["list", "revert"]), Need::Required, "What to do"),
        text("commit_hash", Need::Optional, "For revert"),
    ],
    gives: &[
        gives("commits", ValueSource::OptionalItems("commits", COMMIT), "For list."),
        gives("count", ValueSource::OptionalInteger("count"), "For list."),
        gives("reverted_commit", ValueSource::OptionalText("reverted_commit"), "For revert."),
        gives("reverted_message", ValueSource::OptionalText("reverted_message"), "For revert."),
        gives("tests_passed", ValueSource::OptionalSwitch("tests_passed"), "For revert."),
    ],
    timeout: FOR_STEPS,
    example: Example {
        files: &[],
        arguments: r#"{"action": "list"}"#,
        result: r#"{"commits": [], "count": 0}"#,
    },
    ..DEFAULTS
};
