//! The shape of `handfast vault` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use vault::{HostRule, RequestPart};

use crate::cli_values::time;

#[derive(Debug, Subcommand)]
pub(crate) enum VaultCommand {
    /// Stores a secret. Its value is typed, or read from standard input; never an argument, which others on the machine can see.
    ///
    /// Where there is no vault yet, it is made: with the key file that HANDFAST_VAULT_KEY_FILE or `vault: {key_file: FILE}` in your
    /// configuration names, or with a passphrase.
    Set {
        /// Its name.
        name: String,
        /// Taken so that it is refused without a word of it.
        #[arg(hide = true, num_args = 0..)]
        values: Vec<OsString>,
        #[command(flatten)]
        bound: Bound,
    },
    /// Stores every NAME=VALUE line of a file in the form of .env, or of standard input.
    Import {
        /// The file; - is standard input.
        file: PathBuf,
        #[command(flatten)]
        bound: Bound,
    },
    /// Lists the secrets: names, hosts, ages; never a value.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Removes a secret.
    Remove {
        /// Its name.
        name: String,
    },
    /// Gives the vault another key, and another passphrase where it has one. The old ones open nothing of it any more.
    Rotate,
    /// Leaves the key in the kernel's key ring, so that every Handfast of yours can use the secrets for a time.
    Unlock {
        /// For how long, such as 30m, 8h or 7d.
        #[arg(long = "for", value_name = "TIME", default_value = "8h", value_parser = time)]
        lasts: std::time::Duration,
    },
    /// Takes the key out of the kernel's key ring again.
    Lock,
    /// Goes back to the secrets as they were before the last change, where the vault is damaged.
    Restore,
    /// Makes a key file, for HANDFAST_VAULT_KEY_FILE or `vault: {key_file: FILE}` in your configuration.
    MakeKey {
        /// Where; nothing may be there yet.
        file: PathBuf,
    },
}

/// Where a secret may go, and until when.
#[derive(Debug, Args)]
pub(crate) struct Bound {
    /// A host that it may be sent to, such as api.example.com, or *.example.com for all below it; may be given several times
    /// [default: those it had, or none].
    #[arg(long = "host", value_name = "HOST", value_parser = HostRule::parse)]
    pub(crate) hosts: Vec<HostRule>,
    /// Where in a request; may be given several times [default: those it had, or header].
    #[arg(long = "in", value_name = "PLACE")]
    pub(crate) places: Vec<Place>,
    /// When it ends: a time (RFC 3339), or in so long (30m, 8h or 7d) [default: never].
    #[arg(long, value_name = "TIME", value_parser = end)]
    pub(crate) expires: Option<End>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Place {
    Header,
    Query,
    Body,
}

impl From<Place> for RequestPart {
    fn from(place: Place) -> Self {
        match place {
            Place::Header => Self::Header,
            Place::Query => Self::Query,
            Place::Body => Self::Body,
        }
    }
}

/// When a secret ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    At(Timestamp),
    In(std::time::Duration),
}

fn end(text: &str) -> Result<End, String> {
    match text.parse() {
        Ok(at) => Ok(End::At(at)),
        Err(_) => time(text).map(End::In),
    }
}
