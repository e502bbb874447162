//! Errors of the vault, their kinds and the advice that goes with them.

use std::io;
use std::path::{Path, PathBuf};

use crate::entry::{LEAST_CHARACTERS, MAX_BYTES};

/// Result of an operation of this crate.
pub type Result<T, E = VaultError> = std::result::Result<T, E>;

/// A failure to store, find or use a secret. No error contains a value or a part of one.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The vault does not exist yet, and neither a key file nor a passphrase was given to make one
    /// with.
    #[error("there is no vault yet")]
    NoVault,
    /// The vault is locked: no given key opens it.
    #[error("the vault is locked")]
    Locked,
    /// The passphrase does not open the vault.
    #[error("the passphrase does not open the vault")]
    Passphrase,
    /// The key file contains another key.
    #[error("the key in {path} does not open the vault")]
    Key {
        /// Path of the key file.
        path: PathBuf,
    },
    /// The key file cannot be used.
    #[error("the key file {path} cannot be used: {problem}")]
    KeyFile {
        /// Path of the key file.
        path: PathBuf,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The file was changed by another program, or lost a part.
    #[error("the vault is damaged: {path} has changed since it was written")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was written by a later version.
    #[error("{path} was written by a later version of Handfast")]
    Later {
        /// Path of the file.
        path: PathBuf,
    },
    /// The name is invalid.
    #[error(
        "a secret's name has letters, digits and `_.-`, at most 100, and begins with a letter, a digit or `_`"
    )]
    Name,
    /// The host is invalid.
    #[error(
        "`{host}` is not a host: use a name such as api.example.com, *.example.com for all subdomains, \
         or an address"
    )]
    Host {
        /// The invalid host.
        host: String,
    },
    /// The value is too short to be redacted wherever it appears.
    #[error(
        "a value needs at least {LEAST_CHARACTERS} characters, because hiding a shorter one in texts \
         would reveal it"
    )]
    Short,
    /// The value is too long.
    #[error("a value has at most {MAX_BYTES} bytes")]
    Long,
    /// The value is not UTF-8.
    #[error("a value must be text (UTF-8); store other data as base64")]
    NoText,
    /// The vault has no secret of this name.
    #[error("the vault has no secret of that name")]
    Unknown,
    /// The secret has expired.
    #[error("the secret has expired")]
    Expired,
    /// The secret may be sent to other hosts alone.
    #[error("the secret does not belong to that host")]
    NotForHost,
    /// The secret may not stand in this part of a request.
    #[error("the secret may not be sent in the {position}")]
    NotForPlace {
        /// Name of the refused position.
        position: &'static str,
    },
    /// The kernel's key ring cannot be used for this user.
    #[error("the kernel's key ring cannot be used: {problem}")]
    KeyRing {
        /// Message of the kernel.
        problem: String,
    },
    /// A system call failed.
    #[error("could not {doing} {path}")]
    System {
        /// Verb of the failed operation; the path follows in the message.
        doing: &'static str,
        /// Path that the operation used.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The kind of failure that an error is to a caller that asked for a secret or for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The vault is locked, damaged or missing, so no secret can be used.
    Closed,
    /// The vault has no secret of this name.
    Unknown,
    /// The argument is invalid for every caller.
    Wrong,
    /// The secret may not be used in this way, or has expired.
    Refused,
    /// The system failed.
    Failed,
}

impl VaultError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoVault
            | Self::Locked
            | Self::Passphrase
            | Self::Key { .. }
            | Self::KeyFile { .. }
            | Self::Damaged { .. }
            | Self::Later { .. } => Kind::Closed,
            Self::Unknown => Kind::Unknown,
            Self::Name | Self::Host { .. } | Self::Short | Self::Long | Self::NoText => Kind::Wrong,
            Self::Expired | Self::NotForHost | Self::NotForPlace { .. } => Kind::Refused,
            Self::KeyRing { .. } | Self::System { .. } => Kind::Failed,
        }
    }

    /// Returns the advice for an agent, which can only report it to the user; `None` if the message
    /// is complete.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoVault => "the user creates one by storing a first secret: `handfast vault set NAME`",
            Self::Locked | Self::Passphrase | Self::Key { .. } | Self::KeyFile { .. } => {
                "the user opens it with `handfast vault unlock`, names a key file as `vault: {key_file: FILE}` in the \
                 configuration, or starts Handfast with HANDFAST_VAULT_KEY_FILE or HANDFAST_VAULT_PASSPHRASE"
            }
            Self::Damaged { .. } => {
                "the user restores the secrets before the last change with `handfast vault restore`"
            }
            Self::Later { .. } => "use the version of Handfast that wrote it",
            Self::Unknown => "vault_list shows the names",
            Self::Name | Self::Host { .. } | Self::Short | Self::Long | Self::NoText => {
                "correct the argument and repeat the call"
            }
            Self::Expired | Self::NotForHost | Self::NotForPlace { .. } => {
                "the user sets where a secret may be sent: `handfast vault set NAME --host HOST --in \
                 header|query|body`"
            }
            Self::KeyRing { .. } | Self::System { .. } => return None,
        })
    }

    /// Builds a closure for `map_err` that reports a system failure while `doing` something with
    /// `path`.
    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System { doing, path, source }
    }
}
