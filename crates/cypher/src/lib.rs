//! A read-only engine for openCypher over a property graph in memory.
//!
//! [`query`] takes a graph, a text and parameters, and returns rows within limits of time, rows and memory.
//! A graph is anything behind the trait [`Graph`]; [`MemoryGraph`] is a compact one.
//!
//! This crate knows no code, no files and no tools. No query can write: the parser has no such clause.

#![forbid(unsafe_code)]

mod ast;
mod compile;
mod error;
mod execute;
mod explain;
mod fast_hash;
mod functions;
mod graph;
mod identifier;
mod lexer;
mod memory;
mod meter;
mod number;
mod parse;
mod pattern_text;
mod plan;
mod procedures;
mod program;
mod query;
mod row;
mod value;

pub use error::{Detail, Error, ErrorClass, Phase, Position, Result};
pub use graph::{Graph, KeyId, LabelId, Link, NodeId, RelationshipId, Side, TypeId};
pub use memory::{BuildError, GraphBuilder, MemoryGraph};
pub use procedures::{Field, FieldType, Procedures, SchemaProcedures, Signature};
pub use query::{Answer, Limits, Options, Parameters, query};
pub use value::{Comparison, List, Map, Path, Value, compare, equal, total_order};
