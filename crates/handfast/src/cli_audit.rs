//! The shape of `handfast audit` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::{Subcommand, ValueEnum};

use crate::cli_values::{Moment, id, moment};

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
        /// List only calls since a time (RFC 3339, or 30m, 8h or 7d ago).
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
        /// The call's id, or the first part of it.
        #[arg(value_parser = id)]
        call: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
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
