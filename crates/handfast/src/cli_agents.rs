//! The shape of the commands for agents on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Task for the agent; `-` reads it from standard input.
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) which: WhichAgent,
    /// Answers yes to every question. Never overrides a denial.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print events as lines of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) which: WhichAgent,
}

#[derive(Debug, Args)]
pub(crate) struct WhichAgent {
    /// Goes on with the newest run of the workspace: that of the agent, if one is named.
    #[arg(long = "continue")]
    pub(crate) resume: bool,
    /// Agent to use: the name of a file in .handfast/agents/, or in agents/ of your configuration.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Model to ask, as PROVIDER/MODEL, in place of that of the agent.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Maximum number of requests to the model in one turn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// List agents that have ended, too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
