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
    /// The desktop's key ring cannot be used.
    #[error("the desktop's key ring cannot be used: {problem}")]
    DesktopRing {
        /// Why, and what to do.
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

impl VaultError {
    /// For `map_err`: that the system failed in doing this with the path.
    pub(crate) fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System { doing, path, source }
    }
}
