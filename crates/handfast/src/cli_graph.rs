//! The shape of `handfast graph` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Answers a query in openCypher. The graph is that of the files as they are now.
    ///
    /// handfast graph query "MATCH (f:Function)<-[c:CALLS]-() RETURN f.name, count(c) ORDER BY count(c) DESC LIMIT 5"
    Query {
        /// Query that only reads; `-` reads it from standard input.
        query: String,
        /// Value of a parameter, as NAME=VALUE. A value that is no JSON is a text.
        #[arg(long = "param", value_name = "NAME=VALUE")]
        params: Vec<String>,
        /// Commit to ask about in place of the files as they are: an id, branch or tag.
        #[arg(long, value_name = "COMMIT")]
        commit: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows labels, relationship types and properties, with counts and example queries.
    Schema {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows the most used files and definitions.
    Map {
        /// Folder or file to map.
        path: Option<String>,
        /// Maximum size in tokens.
        #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(100..=2000))]
        budget: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Reads all files that have changed, so that the next query need not.
    Index {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Counts files, nodes and relationships.
    Stats {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draws what a definition uses and what uses it, as an SVG without references to anything outside.
    View {
        /// Name, qualified name or id of a definition, or path of a file.
        symbol: String,
        /// File to write. Default: standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
