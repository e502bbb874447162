//! The shape of `handfast login` and `handfast logout` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli_values::time;

#[derive(Debug, Subcommand)]
pub(crate) enum LoginCommand {
    /// Lets calls read and send the mail of a Gmail account.
    ///
    /// Prints the address at which you give access, and waits for the answer of your browser on a
    /// port of this machine. Ctrl-C ends the wait. From another machine, forward the port: `ssh -L
    /// 8765:127.0.0.1:8765 HOST`, then `handfast login gmail --port 8765` there.
    ///
    /// Google has to know the program that asks. Create an OAuth client of the type "Desktop app"
    /// in Google's console, download its file and name the file once with --client. Later logins
    /// take the client from the vault.
    ///
    /// Exits with 1 if access was refused, or nobody answered in time.
    Gmail(GmailLogin),
}

#[derive(Debug, Args)]
pub(crate) struct GmailLogin {
    /// File of the OAuth client, as Google's console provides it [default: HANDFAST_GMAIL_CLIENT_ID
    /// and HANDFAST_GMAIL_CLIENT_SECRET, else the client of the previous login].
    #[arg(long, value_name = "FILE")]
    pub(crate) client: Option<PathBuf>,
    /// Id of the OAuth client alone; HANDFAST_GMAIL_CLIENT_SECRET provides its secret, if it has one.
    #[arg(long, value_name = "ID", conflicts_with = "client")]
    pub(crate) client_id: Option<String>,
    /// Requested scope, as Google names it, for example
    /// https://www.googleapis.com/auth/gmail.readonly; may be given several times [default:
    /// gmail.readonly and gmail.send].
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Account to suggest in the browser.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) account: Option<String>,
    /// Port of this machine on which the browser answers [default: any free port].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Time to wait for the browser.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) wait: std::time::Duration,
    /// Open the address in this machine's browser as well.
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogoutCommand {
    /// Revokes the login at Google and removes it from the vault.
    Gmail {
        /// Remove the OAuth client as well, so that the next login needs it again.
        #[arg(long)]
        forget_client: bool,
    },
}
