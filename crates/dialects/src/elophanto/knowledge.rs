//! Rows of EloPhanto's knowledge tools.

use tool::Example;

use super::{GIVEN_PATH, text};
use crate::table::{AnswerField, ExternalTool, Field, Kind, Need, ValueSource, nothing};

pub(super) const SEARCH: ExternalTool = ExternalTool {
    name: "knowledge_search",
    canonical: "knowledge_search",
    title: "Search the knowledge",
    description: "Performs semantic search across the markdown knowledge base using local embeddings.",
    takes: &[
        text("query", Need::Required, "Search query"),
        Field {
            name: "scope",
            becomes: Some("scope"),
            kind: Kind::OneOf(&["all", "system", "user", "learned", "plugins"]),
            need: Need::Default("\"all\""),
            says: "Where",
        },
        Field {
            name: "max_results",
            becomes: Some("max_results"),
            kind: Kind::Integer(1, 50),
            need: Need::Default("5"),
            says: "At most 50",
        },
    ],
    settled: nothing,
    adapt: None,
    gives: &[AnswerField {
        name: "results",
        from: ValueSource::Items("results", SECTION),
        says: "Best first.",
    }],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[("knowledge/user/a.md", "Boats float.\n")],
        arguments: r#"{"query": "boats"}"#,
        result: r#"{"results": [{"file": "knowledge/user/a.md", "section": "", "content": "Boats float."}]}"#,
    },
};

pub(super) const WRITE: ExternalTool = ExternalTool {
    name: "knowledge_write",
    canonical: "knowledge_write",
    title: "Write knowledge",
    description: "Creates or updates a markdown file in the knowledge base.",
    takes: &[
        text("path", Need::Required, "Relative to /knowledge/"),
        text("content", Need::Required, "Markdown"),
        Field {
            name: "mode",
            becomes: Some("mode"),
            kind: Kind::OneOf(&["create", "replace", "append"]),
            need: Need::Required,
            says: "Handling of existing content",
        },
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        GIVEN_PATH,
        AnswerField {
            name: "action",
            from: ValueSource::Text("action"),
            says: "created, replaced or appended.",
        },
        AnswerField {
            name: "indexed",
            from: ValueSource::Switch("indexed"),
            says: "Whether it was re-embedded.",
        },
    ],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[],
        arguments: r#"{"path": "learned/a.md", "content": "Boats float.\n", "mode": "create"}"#,
        result: r#"{"path": "knowledge/learned/a.md", "action": "created", "indexed": false}"#,
    },
};

pub(super) const INDEX: ExternalTool = ExternalTool {
    name: "knowledge_index",
    canonical: "knowledge_index",
    title: "Index the knowledge",
    description: "Triggers re-indexing of the knowledge base (re-chunks and re-embeds markdown files).",
    takes: &[
        Field {
            name: "scope",
            becomes: Some("scope"),
            kind: Kind::OneOf(&["all", "changed_only"]),
            need: Need::Required,
            says: "Files to index",
        },
        text("path", Need::Optional, "Path of one file"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        AnswerField { name: "files_indexed", from: ValueSource::Integer("files_indexed"), says: "Files." },
        AnswerField {
            name: "chunks_created",
            from: ValueSource::Integer("chunks_created"),
            says: "New sections.",
        },
        AnswerField {
            name: "duration_seconds",
            from: ValueSource::Number("duration_seconds"),
            says: "Seconds.",
        },
    ],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[("knowledge/user/a.md", "Boats float.\n")],
        arguments: r#"{"scope": "all"}"#,
        result: r#"{"files_indexed": 1, "chunks_created": 1}"#,
    },
};

const SECTION: &[AnswerField] = &[
    AnswerField { name: "file", from: ValueSource::Text("file"), says: "Its file." },
    AnswerField { name: "section", from: ValueSource::Text("section"), says: "Its headings." },
    AnswerField { name: "content", from: ValueSource::Text("content"), says: "Its text." },
    AnswerField {
        name: "similarity_score",
        from: ValueSource::Number("similarity_score"),
        says: "Similarity.",
    },
];
