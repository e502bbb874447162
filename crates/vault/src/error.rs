use std::io;
use std::path::{Path, PathBuf};

use crate::entry::{LEAST_CHARACTERS, MOST_BYTES};

/// What an operation of this crate gives.
pub type Result<T, E = VaultError> = std::result::Result<T, E>;

/// Why a secret could not be stored, found or used. No error holds a value, or a part of one.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is none yet, and nothing was given to make one with.
    #[error("there is no vault yet")]
    NoVault,
    /// Nothing that was given opens it.
    #[error("the vault is locked")]
    Locked,
    /// The passphrase is another one.
    #[error("the passphrase does not open the vault")]
    Passphrase,
    /// The key file holds another key.
    #[error("the key in {path} does not open the vault")]
    Key {
        /// The key file.
        path: PathBuf,
    },
    /// The key file cannot be used.
    #[error("the key file {path} cannot be used: {problem}")]
    KeyFile {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// What lies there was changed by something else than this, or lost a part.
    #[error("the vault is damaged: {path} is not as it was written")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// What lies there was written by a later version.
    #[error("{path} was written by a later version of Handfast")]
    Later {
        /// The file.
        path: PathBuf,
    },
    /// No name.
    #[error(
        "a secret's name has letters, digits and `_.-`, at most 100, and begins with a letter, a digit or `_`"
    )]
    Name,
    /// No host.
    #[error(
        "`{host}` is no host: give a name such as api.example.com, *.example.com for all below it, or an address"
    )]
    Host {
        /// What was given.
        host: String,
    },
    /// The value is too short to be covered wherever it appears.
    #[error(
        "a value has at least {LEAST_CHARACTERS} characters, because a shorter one could not be covered in texts without telling it"
    )]
    Short,
    /// The value is too long.
    #[error("a value has at most {MOST_BYTES} bytes")]
    Long,
    /// The value is not UTF-8.
    #[error("a value is text (UTF-8); store what is not as base64")]
    NoText,
    /// There is no such secret.
    #[error("the vault has no secret of that name")]
    Unknown,
    /// It has expired.
    #[error("the secret has expired")]
    Expired,
    /// It belongs to other hosts.
    #[error("the secret does not belong to that host")]
    NotForHost,
    /// It may not stand there.
    #[error("the secret may not be sent in the {position}")]
    NotForPlace {
        /// Where it was to stand.
        position: &'static str,
    },
    /// The kernel keeps no keys for this user.
    #[error("the kernel's key ring cannot be used: {problem}")]
    KeyRing {
        /// What it said.
        problem: String,
    },
    /// The system failed.
    #[error("could not {doing} {path}")]
    System {
        /// What was tried, to stand before the path.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What kind of failure an error is to whoever asked for a secret, or for a change of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing can be used, because the vault is locked, damaged, or not there.
    Closed,
    /// There is no such secret.
    Unknown,
    /// What was asked for cannot be, whoever asks.
    Wrong,
    /// The secret may not go there.
    Refused,
    /// The system failed.
    Failed,
}

impl VaultError {
    /// The kind of failure.
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

    /// What to do about it, as an agent is told, which can do none of it but tell the user; none where the error says all there is.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoVault => "the user makes one by storing a first secret: `handfast vault set NAME`",
            Self::Locked | Self::Passphrase | Self::Key { .. } | Self::KeyFile { .. } => {
                "the user opens it with `handfast vault unlock`, names a key file as `vault: {key_file: FILE}` in the \
                 configuration, or starts Handfast with HANDFAST_VAULT_KEY_FILE or HANDFAST_VAULT_PASSPHRASE"
            }
            Self::Damaged { .. } => {
                "the user goes back to the secrets before the last change with `handfast vault restore`"
            }
            Self::Later { .. } => "use the version of Handfast that wrote it",
            Self::Unknown => "vault_list has the names",
            Self::Name | Self::Host { .. } | Self::Short | Self::Long | Self::NoText => {
                "correct the argument and make the call again"
            }
            Self::Expired | Self::NotForHost | Self::NotForPlace { .. } => {
                "the user says where a secret may go: `handfast vault set NAME --host HOST --in header|query|body`"
            }
            Self::KeyRing { .. } | Self::System { .. } => return None,
        })
    }

    /// For `map_err`: that the system failed in doing this with the path.
    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System { doing, path, source }
    }
}
