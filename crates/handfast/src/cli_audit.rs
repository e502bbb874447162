//! The shape of `handfast audit` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli_values::{id, moment};
use crate::moment::Moment;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Lists calls, newest first. Questions about calls appear under `--tool approval_ask`,
    /// `approval_answer`, `approval_use` and `lease_revoke`, and readers of the audit under
    /// `audit_read`.
    List {
        /// List only calls of this tool.
        #[arg(long)]
        tool: Option<String>,
        /// List only calls of this session.
        #[arg(long)]
        session: Option<String>,
        /// List only calls since a time, such as 1h, `yesterday 14:00` or an RFC 3339 time.
        #[arg(long, value_name = "TIME", value_parser = moment)]
        since: Option<Moment>,
        /// Maximum number of calls.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows everything recorded about one call.
    Show {
        /// The call's id, or the first or last part of it.
        #[arg(value_parser = id)]
        call: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draws the calls of an agent, or those on behalf of a call, each with the calls below it.
    Tree {
        /// Id of an agent or of a call.
        id: String,
    },
    /// Proves that no row was changed, removed or added.
    ///
    /// Exits with 1 if something is wrong.
    Verify {
        /// Head hash that was noted elsewhere: also proves that no rows were cut off.
        #[arg(long, value_name = "HASH")]
        expect: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Writes all rows as JSON Lines.
    Export {
        /// Output format. Only one format exists.
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object per line.
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Show only entries that contain all these words, in either case.
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Show only calls that planned to use this file or folder, or changed it.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Show only entries with this outcome: ok, failed, unfinished or an error code such as EPERMISSION.
    #[arg(long, value_name = "OUTCOME")]
    pub(crate) outcome: Option<String>,
    /// Show only calls of this tool.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Show only calls that planned to reach this host or domain, or reached it.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Show only entries since a time, such as 1h, `yesterday 14:00` or an RFC 3339 time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Show only entries before a time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Show the entries of all workspaces.
    #[arg(long, conflicts_with = "path")]
    pub(crate) all_workspaces: bool,
    /// Maximum number of entries.
    #[arg(long, default_value_t = 30)]
    pub(crate) limit: u32,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}
