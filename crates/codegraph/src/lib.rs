//! The graph of code: which functions, types and files there are, and which of them call, import and inherit
//! from which.
//!
//! [`extract`] reads the facts of one file from its bytes. [`CodeIndex`] keeps the facts of all files, and resolves
//! what they mean together; [`CodeIndex::graph`] is the graph that queries read.
//!
//! This crate opens no file of the project: the folder of a [`FactsFolder`] is the only one that it touches. It knows no tool, and never runs the code that it reads. Facts depend on the text alone,
//! and relationships on the facts alone: the order of files and of changes does not matter.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(
        feature = "bash",
        feature = "c",
        feature = "go",
        feature = "java",
        feature = "javascript",
        feature = "php",
        feature = "python",
        feature = "ruby",
        feature = "rust",
        feature = "typescript"
    )),
    allow(dead_code, unused_imports, reason = "each language uses its own part of what they share")
)]

mod builder;
mod cache;
mod extract;
mod facts;
mod facts_check;
mod facts_key;
mod fast_hash;
mod graph;
mod imported;
mod index;
mod interface;
mod language;
mod languages;
mod links;
mod lowering;
mod more_languages;
mod project;
mod relation;
mod scip_import;
mod solve;
mod sources;
mod stored;
mod sweep;
mod symbols;
mod world;

pub use cache::{FactsFolder, GraphFolder, ImportFile, ImportStamp};
pub use extract::{ExtractLimits, extract, facts_of_the_file_alone, is_supported};
pub use facts::{
    Base, Definition, DefinitionId, DefinitionKind, EXTRACTOR_VERSION, Expression, ExpressionId, FactsError,
    FileFacts, Flow, Gap, Import, ImportKind, Name, Span, Traits, Variable, VariableId, VariableKind,
    Visibility,
};
pub use facts_key::FactsKey;
pub use graph::{LiveGraph, PatchedGraph};
pub use imported::{Imported, ImportedFile};
pub use index::{CodeIndex, Extraction, FactsStore, NoStore, Update, is_indexed, is_indexed_with};
pub use language::{Family, Language};
pub use languages::add_grammar;
pub use more_languages::{
    Greeting, LARGEST_MESSAGE, MoreLanguages, NoMoreLanguages, Request, WireError, answer, read_message,
    write_message,
};
pub use relation::{Confidence, LABELS, PROPERTIES, Relation, Via};
pub use scip_import::{ImportCounts, ScipImport};
pub use sources::{Change, Sources};
pub use sweep::{Due, Freshness, Stamp, Sweep};
