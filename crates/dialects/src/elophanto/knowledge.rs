//! Rows of EloPhanto's knowledge tools.

use tool::Example;

use super::{GIVEN_PATH, text};
use crate::table::{Field, From, Given, Kind, Need, Outside, nothing};

pub(super) const SEARCH: Outside = Outside {
    name: "knowledge_search",
    canonical: "knowledge_search",
    title: "Search the knowledge",
    description: "Performs semantic search across the markdown knowledge base using local embeddings.",
    takes: &[
        text("query", Need::Required, "What is sought"),
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
    gives: &[Given { name: "results", from: From::Items("results", SECTION), says: "The best first." }],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[("knowledge/user/a.md", "Boats float.\n")],
        arguments: r#"{"query": "boats"}"#,
        result: r#"{"results": [{"file": "knowledge/user/a.md", "section": "", "content": "Boats float."}]}"#,
    },
};

pub(super) const WRITE: Outside = Outside {
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
            says: "What is done with what is there",
        },
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        GIVEN_PATH,
        Given { name: "action", from: From::Text("action"), says: "created, replaced or appended." },
        Given { name: "indexed", from: From::Switch("indexed"), says: "Whether it was re-embedded." },
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

pub(super) const INDEX: Outside = Outside {
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
            says: "Which files",
        },
        text("path", Need::Optional, "One file"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        Given { name: "files_indexed", from: From::Integer("files_indexed"), says: "Files." },
        Given { name: "chunks_created", from: From::Integer("chunks_created"), says: "New sections." },
        Given { name: "duration_seconds", from: From::Number("duration_seconds"), says: "Seconds." },
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

const SECTION: &[Given] = &[
    Given { name: "file", from: From::Text("file"), says: "Its file." },
    Given { name: "section", from: From::Text("section"), says: "Its headings." },
    Given { name: "content", from: From::Text("content"), says: "Its text." },
    Given { name: "similarity_score", from: From::Number("similarity_score"), says: "How near it is." },
];
