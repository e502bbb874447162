//! The shape of `handfast vault` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use vault::{ForgeKind, HostRule, RequestPart};

use crate::cli_values::time;

#[derive(Debug, Subcommand)]
pub(crate) enum VaultCommand {
    /// Stores a secret. Its value is typed, or read from standard input. A value is never an
    /// argument, because others on the machine can see arguments.
    ///
    /// If no vault exists yet, it is created: with the key file that HANDFAST_VAULT_KEY_FILE or
    /// `vault: {key_file: FILE}` in your configuration names, or with a passphrase.
    Set {
        /// Name of the secret.
        name: String,
        /// Accepted only to be refused, without repeating any of it.
        #[arg(hide = true, num_args = 0..)]
        values: Vec<OsString>,
        #[command(flatten)]
        bound: Bound,
        /// Kind of the forge at which the secret is a login: with it, programs read at the hosts of
        /// the secret, and requests that write ask first [default: the present kind, or none].
        #[arg(long, value_name = "KIND", requires = "user")]
        login: Option<Forge>,
        /// Name of the user at that forge.
        #[arg(long, value_name = "NAME", requires = "login")]
        user: Option<String>,
    },
    /// Stores every NAME=VALUE line of a file in the form of .env, or of standard input.
    Import {
        /// The file; - is standard input.
        file: PathBuf,
        #[command(flatten)]
        bound: Bound,
    },
    /// Lists the secrets: names, hosts and ages, but never a value.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Removes a secret.
    Remove {
        /// Name of the secret.
        name: String,
    },
    /// Gives the vault a new key, and a new passphrase if it has one. The old ones no longer open it.
    Rotate,
    /// Stores the key in the kernel's key ring, so that every Handfast process of yours can use the
    /// secrets for a time.
    Unlock {
        /// Duration, for example 30m, 8h or 7d.
        #[arg(long = "for", value_name = "TIME", default_value = "8h", value_parser = time)]
        lasts: std::time::Duration,
    },
    /// Removes the key from the kernel's key ring.
    Lock,
    /// Restores the secrets before the last change, if the vault is damaged.
    Restore,
    /// Creates a key file, for HANDFAST_VAULT_KEY_FILE or `vault: {key_file: FILE}` in your
    /// configuration.
    MakeKey {
        /// Path of the new file; it must not exist yet.
        file: PathBuf,
    },
}

/// Hosts, places and lifetime of a secret.
#[derive(Debug, Args)]
pub(crate) struct Bound {
    /// Host that may receive the secret, for example api.example.com, or *.example.com for all
    /// hosts below it; may be given several times [default: the present hosts, or none].
    #[arg(long = "host", value_name = "HOST", value_parser = HostRule::parse)]
    pub(crate) hosts: Vec<HostRule>,
    /// Place in a request; may be given several times [default: the present places, or header].
    #[arg(long = "in", value_name = "PLACE")]
    pub(crate) places: Vec<Place>,
    /// Name of a field of a page, besides password fields, into which a browser types the secret;
    /// may be given several times [default: the present fields, or none].
    #[arg(long = "field", value_name = "FIELD")]
    pub(crate) fields: Vec<String>,
    /// Time at which the secret expires (RFC 3339), or a duration from now (30m, 8h or 7d)
    /// [default: never].
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

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Forge {
    Github,
    Gitlab,
    /// Another server with git's HTTP protocol.
    Git,
    /// A registry of npm packages.
    Npm,
}

impl From<Forge> for ForgeKind {
    fn from(forge: Forge) -> Self {
        match forge {
            Forge::Github => Self::Github,
            Forge::Gitlab => Self::Gitlab,
            Forge::Git => Self::Git,
            Forge::Npm => Self::Npm,
        }
    }
}

/// The time at which a secret expires.
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
