//! The shape of `handfast attach` and `handfast detach` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::{Args, ValueEnum};

/// An agent client that can be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum ClientName {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Visual Studio Code
    Vscode,
    /// Cursor
    Cursor,
    /// Gemini CLI
    Gemini,
    /// OpenCode
    Opencode,
    /// Qwen Code
    Qwen,
    /// Continue
    Continue,
    /// Zed
    Zed,
    /// Goose
    Goose,
}

/// The configuration that an entry goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttachScope {
    /// Your own configuration: the client has Handfast in every folder
    User,
    /// The configuration in the workspace, which others may share
    Project,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Client to attach. Without it, lists the clients of this machine.
    #[arg(value_enum)]
    pub(crate) client: Option<ClientName>,
    /// The client reaches `handfast up` over HTTP.
    #[arg(long)]
    pub(crate) http: bool,
    /// The client starts `handfast mcp` itself [default].
    #[arg(long, conflicts_with = "http")]
    pub(crate) stdio: bool,
    /// Configuration that the entry goes into.
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: AttachScope,
    /// Switch off the client's own shell and file tools, too, so that every change goes through Handfast.
    #[arg(long)]
    pub(crate) only_handfast: bool,
    /// Write the entry even if the client is not installed.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// Client to detach.
    #[arg(value_enum)]
    pub(crate) client: ClientName,
    /// Configuration that the entry is in.
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: AttachScope,
}

impl ClientName {
    /// Returns the name that the command line uses.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl AttachScope {
    /// Returns the name that the command line uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}
