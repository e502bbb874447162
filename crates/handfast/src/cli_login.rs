//! The shape of `handfast login` and `handfast logout` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli_values::time;

#[derive(Debug, Subcommand)]
pub(crate) enum LoginCommand {
    /// Lets calls read and send the mail of a Gmail account.
    ///
    /// Prints the address at which you let it, and waits for the answer of your browser at a port of this machine; Ctrl-C ends that.
    /// From another machine, forward the port: `ssh -L 8765:127.0.0.1:8765 HOST`, then `handfast login gmail --port 8765` there.
    ///
    /// Google has to know the program that asks: make an OAuth client of the type "Desktop app" in Google's console, download its
    /// file and name it once with --client. Later logins take it from the vault.
    ///
    /// Exits with 1 when it was not let, or nobody answered in time.
    Gmail(GmailLogin),
}

#[derive(Debug, Args)]
pub(crate) struct GmailLogin {
    /// The file of the OAuth client, as Google's console gives it [default: what HANDFAST_GMAIL_CLIENT_ID and
    /// HANDFAST_GMAIL_CLIENT_SECRET say, else the client of the login before].
    #[arg(long, value_name = "FILE")]
    pub(crate) client: Option<PathBuf>,
    /// The id of the client alone; its secret is that of HANDFAST_GMAIL_CLIENT_SECRET, if it has one.
    #[arg(long, value_name = "ID", conflicts_with = "client")]
    pub(crate) client_id: Option<String>,
    /// What it is let do, as Google names it, such as https://www.googleapis.com/auth/gmail.readonly; may be given several times
    /// [default: gmail.readonly and gmail.send].
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// The account to suggest in the browser.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) account: Option<String>,
    /// The port of this machine at which the browser answers [default: any that is free].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// How long to wait for the browser.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) wait: std::time::Duration,
    /// Opens the address in this machine's browser, too.
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogoutCommand {
    /// Takes the login back, at Google and in the vault.
    Gmail {
        /// Forgets the OAuth client as well, so that the next login has to be told it again.
        #[arg(long)]
        forget_client: bool,
    },
}
