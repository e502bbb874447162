//! The shape of the commands for packages on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum PackageCommand {
    /// Adds a package: skills, agents, plugins, MCP servers and rules of a folder or a git repository.
    ///
    /// Shows what the package brings, and asks once. Only the content that was shown is used, also when the folder or
    /// the repository changes. With --dry-run, only shows it. docs/PACKAGES.md has more.
    Add {
        /// Folder, or address of a repository: https://, ssh://, file:/// or user@host:path.
        source: String,
        /// Answers yes.
        #[arg(long, short)]
        yes: bool,
    },
    /// Fetches packages again, shows which files differ and what the new content brings, and asks.
    ///
    /// With --dry-run, only shows it.
    Update {
        /// Packages [default: all].
        names: Vec<String>,
        /// Answers yes.
        #[arg(long, short)]
        yes: bool,
    },
    /// Removes a package, with everything that it has brought.
    Remove {
        /// Name of the package.
        name: String,
        /// Answers yes.
        #[arg(long, short)]
        yes: bool,
    },
    /// Lists the packages that you have added, with what they bring.
    Packages {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
