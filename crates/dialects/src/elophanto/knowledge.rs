//! Rows of EloPhanto's knowledge tools.

use tool::Example;

use super::GIVEN_PATH;
use crate::table::{AnswerField, DEFAULTS, ExternalTool, Kind, Need, ValueSource, field, gives, text};

pub(super) const SEARCH: ExternalTool = ExternalTool {
    name: "knowledge_search",
    canonical: "knowledge_search",
    title: "Search the knowledge",
    description: "Performs semantic search across the markdown knowledge base using local embeddings.",
    takes: &[
        text("query", Need::Required, "Search query"),
        field(
            "scope",
            Kind::OneOf(&["all", "system", "user", "learned", "plugins"]),
            Need::Default("\"all\""),
            "Where",
        ),
        field("max_results", Kind::Integer(1, 50), Need::Default("5"), "At most 50"),
    ],
    gives: &[gives("results", ValueSource::Items("results", SECTION), "Best first.")],
    example: Example {
        files: &[("knowledge/user/a.md", "Boats float.\n")],
        arguments: r#"{"query": "boats"}"#,
        result: r#"{"results": [{"file": "knowledge/user/a.md", "section": "", "content": "Boats float."}]}"#,
    },
    ..DEFAULTS
};

pub(super) const WRITE: ExternalTool = ExternalTool {
    name: "knowledge_write",
    canonical: "knowledge_write",
    title: "Write knowledge",
    description: "Creates or updates a markdown file in the knowledge base.",
    takes: &[
        text("path", Need::Required, "Relative to /knowledge/"),
        text("content", Need::Required, "Markdown"),
        field(
            "mode",
            Kind::OneOf(&["create", "replace", "append"]),
            Need::Required,
            "Handling of existing content",
        ),
    ],
    gives: &[
        GIVEN_PATH,
        gives("action", ValueSource::Text("action"), "created, replaced or appended."),
        gives("indexed", ValueSource::Switch("indexed"), "Whether it was re-embedded."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"path": "learned/a.md", "content": "Boats float.\n", "mode": "create"}"#,
        result: r#"{"path": "knowledge/learned/a.md", "action": "created", "indexed": false}"#,
    },
    ..DEFAULTS
};

pub(super) const INDEX: ExternalTool = ExternalTool {
    name: "knowledge_index",
    canonical: "knowledge_index",
    title: "Index the knowledge",
    description: "Triggers re-indexing of the knowledge base (re-chunks and re-embeds markdown files).",
    takes: &[
        field("scope", Kind::OneOf(&["all", "changed_only"]), Need::Required, "Files to index"),
        text("path", Need::Optional, "Path of one file"),
    ],
    gives: &[
        gives("files_indexed", ValueSource::Integer("files_indexed"), "Files."),
        gives("chunks_created", ValueSource::Integer("chunks_created"), "New sections."),
        gives("duration_seconds", ValueSource::Number("duration_seconds"), "Seconds."),
    ],
    example: Example {
        files: &[("knowledge/user/a.md", "Boats float.\n")],
        arguments: r#"{"scope": "all"}"#,
        result: r#"{"files_indexed": 1, "chunks_created": 1}"#,
    },
    ..DEFAULTS
};

const SECTION: &[AnswerField] = &[
    gives("file", ValueSource::Text("file"), "Its file."),
    gives("section", ValueSource::Text("section"), "Its headings."),
    gives("content", ValueSource::Text("content"), "Its text."),
    gives("similarity_score", ValueSource::Number("similarity_score"), "Similarity."),
];
