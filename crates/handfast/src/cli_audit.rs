//! The shape of `handfast audit` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::{Subcommand, ValueEnum};

use crate::cli_values::{Moment, id, moment};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Lists calls, the newest first. Questions about them stand under `--tool approval_ask`, `approval_answer`, `approval_use` and
    /// `lease_revoke`, and who looked at the audit under `audit_read`.
    List {
        /// Only calls of this tool.
        #[arg(long)]
        tool: Option<String>,
        /// Only calls of this session.
        #[arg(long)]
        session: Option<String>,
        /// Only calls since a time (RFC 3339, or 30m, 8h or 7d ago).
        #[arg(long, value_name = "TIME", value_parser = moment)]
        since: Option<Moment>,
        /// At most this many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// As JSON, one object a line.
        #[arg(long)]
        json: bool,
    },
    /// Shows everything that is recorded about one call.
    Show {
        /// The call's id, or the start of it.
        #[arg(value_parser = id)]
        call: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Proves that no row was changed, removed or added.
    ///
    /// Exits with 1 when something is wrong.
    Verify {
        /// The head hash that was noted elsewhere: also proves that nothing was cut off.
        #[arg(long, value_name = "HASH")]
        expect: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Writes all rows as JSON Lines.
    Export {
        /// The only format there is.
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object a line.
    Jsonl,
}
