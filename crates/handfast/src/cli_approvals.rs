//! The shape of `handfast approvals` and `handfast changes` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::Subcommand;

use crate::cli_values::{id, time};

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Lists questions that wait for an answer, newest first, and temporary permissions.
    List {
        /// Include questions that are answered, used or expired.
        #[arg(long)]
        all: bool,
        /// Print JSON: an array of the questions.
        #[arg(long)]
        json: bool,
    },
    /// Shows all details of one question, and what each answer would cover.
    Show {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Approves a question.
    ///
    /// Changes of a command that are set aside until then reach the workspace.
    Approve {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Scope of the approval: this call; this session; this workspace; every workspace, for a
        /// pattern.
        #[arg(long, default_value = "once", value_name = "once|session|project|always")]
        scope: engine::Scope,
        /// Pattern to cover as well: the beginning of a command, paths that are written, or a
        /// folder that is read.
        #[arg(long)]
        pattern: Option<String>,
        /// Lifetime of the approval, for example 30m, 8h or 7d [default: 1h once, 12h session, 30d
        /// project, 8h always].
        #[arg(long, value_name = "TIME", value_parser = time)]
        ttl: Option<std::time::Duration>,
        /// Show only what the approval would cover.
        #[arg(long)]
        preview: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Denies a question.
    Deny {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Message to the agent.
        #[arg(long)]
        message: Option<String>,
    },
    /// Lists temporary permissions (leases).
    Leases {
        /// Include leases that have ended.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revokes a temporary permission (lease).
    Revoke {
        /// The lease's id, or the first or last part of it.
        #[arg(value_parser = id)]
        lease: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChangesCommand {
    /// Lists changes that are set aside, newest first.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows what the changes would do to the workspace in its present state.
    Show {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Applies the changes to the workspace, all of them or none. Approves what needed an approval;
    /// what is denied stays denied.
    Apply {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Overwrite what others changed meanwhile.
        #[arg(long)]
        force: bool,
    },
    /// Removes the changes.
    Discard {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
    },
}
