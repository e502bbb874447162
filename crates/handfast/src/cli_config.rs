//! The shape of the commands about rules: `check`, `config` and `init`.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Name of the tool; `handfast tools` lists them.
    #[arg(required_unless_present = "line")]
    pub(crate) tool: Option<String>,
    /// Arguments of the tool as a JSON object; `-` reads them from standard input.
    #[arg(value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// Command line to check, for example `-- npm test`.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "tool")]
    pub(crate) line: Vec<String>,
    /// Print JSON for a command line, too.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Prints the JSON Schema of configuration files, which editors use to complete and check keys.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Write your own configuration, which applies in every workspace.
    #[arg(long)]
    pub(crate) user: bool,
    /// Ask nothing, and write a file that changes nothing yet.
    #[arg(long, short)]
    pub(crate) yes: bool,
}
