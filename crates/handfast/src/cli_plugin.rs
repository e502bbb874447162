//! The shape of `handfast plugin` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use clap::{Subcommand, ValueEnum};
use plugins::Language;

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Makes the folder of a new plugin, which works from the start.
    ///
    /// handfast plugin new word_count --language shell
    New {
        /// Name of its tool: small letters, digits and _.
        name: String,
        /// Language of the program.
        #[arg(long, value_enum, default_value_t)]
        language: PluginLanguage,
        /// Make it in .handfast/plugins/ of the workspace, and not in your configuration.
        #[arg(long)]
        here: bool,
    },
    /// Runs the example and the tests of a plugin, each call in a cell and a workspace of its own.
    ///
    /// The plugin need not be enabled. Exits with 1 if a test fails.
    Test {
        /// Name of the plugin.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Lists the plugins, with their states and failures.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Makes a plugin a tool, in the form that its files have now.
    ///
    /// Shows what the plugin declares, and which files have changed since you last allowed it, and asks. Ends a
    /// quarantine. Servers that run take the change at once.
    Enable {
        /// Name of the plugin.
        name: String,
        /// Answers yes.
        #[arg(long, short)]
        yes: bool,
    },
    /// Takes the tool of a plugin away. Its files stay.
    Disable {
        /// Name of the plugin.
        name: String,
    },
    /// Takes the tool of a plugin away, and removes its folder.
    Remove {
        /// Name of the plugin.
        name: String,
        /// Answers yes.
        #[arg(long, short)]
        yes: bool,
    },
}

/// Language of a new plugin, as an option.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum PluginLanguage {
    #[default]
    Python,
    Typescript,
    Shell,
    Rust,
}

impl PluginLanguage {
    pub(crate) fn of_plugin(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::Typescript => Language::TypeScript,
            Self::Shell => Language::Shell,
            Self::Rust => Language::Rust,
        }
    }
}
