//! The shape of `handfast browser` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BrowserCommand {
    /// Writes the extension for Chromium and Chrome to a folder.
    ///
    /// Open chrome://extensions, turn on the developer mode, and load the folder with "Load
    /// unpacked". Files of an earlier version in the folder are replaced.
    Extension {
        /// The folder, which is created if it does not exist.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Prints a code that pairs the extension with Handfast, and waits until it is typed into the
    /// extension's options.
    ///
    /// A code serves once, for two minutes and five attempts. One browser can be paired at a time.
    Pair {
        /// Port that the extension connects to, on this machine only.
        #[arg(long, value_name = "PORT", default_value_t = browser::extension::PORT, value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
    },
    /// Forgets the paired browser. Sessions that use it now keep it until they end; its extension is
    /// refused afterwards.
    Unpair,
}
