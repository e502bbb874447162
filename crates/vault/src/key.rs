//! Keys of a vault and their sources.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use age::secrecy::{ExposeSecret, SecretString};
use age::{DecryptError, scrypt, x25519};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{Result, SecretBytes, VaultError, file};

/// Work factor of scrypt as a power of two. It costs about a second and 256 MiB for each attempt,
/// also for an attacker's guess (the same as `age` chooses on a desktop computer).
const WORK: u8 = 18;
/// Maximum work factor that is still accepted in a file that another program wrote.
const MAX_WORK: u8 = 22;
/// Flags `O_NONBLOCK | O_NOCTTY`.
const NO_WAITING: i32 = (OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()).cast_signed();
/// Maximum number of bytes of a key file.
const LONGEST_KEY_FILE: usize = 64 * 1024;

/// Keys that may open a vault, tried in this order: the kernel's key ring, the key file, the
/// passphrase.
#[derive(Debug, Default)]
pub struct Keys {
    /// A passphrase.
    pub passphrase: Option<SecretBytes>,
    /// Path of a file with an age identity, as `age-keygen` writes it.
    pub key_file: Option<PathBuf>,
    /// True if the kernel's key ring of this user is searched.
    pub key_ring: bool,
}

/// An age identity as text, `AGE-SECRET-KEY-1...`.
#[derive(Debug)]
pub(crate) struct Identity(SecretBytes);

impl Identity {
    pub(crate) fn generate() -> Self {
        Self(SecretBytes::copy_of(x25519::Identity::generate().to_string().expose_secret().as_bytes()))
    }

    /// Finds the first identity of a text with one identity a line; other lines are comments.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let found =
            text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| parsed(line).is_some())?;
        Some(Self(SecretBytes::copy_of(found)))
    }

    /// Returns the key for one operation; the key wipes its own memory when dropped.
    pub(crate) fn key(&self) -> Result<x25519::Identity> {
        parsed(&self.0).ok_or(VaultError::Locked)
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }
}

fn parsed(line: &[u8]) -> Option<x25519::Identity> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn secret(passphrase: &[u8]) -> Result<SecretString> {
    let text = std::str::from_utf8(passphrase).map_err(|_| VaultError::Passphrase)?;
    Ok(SecretString::from(text.to_owned()))
}

/// Opens the identity file with a passphrase.
pub(crate) fn open(path: &Path, passphrase: &[u8]) -> Result<Identity> {
    let Some((cipher, _)) = file::read(path)? else { return Err(VaultError::Locked) };
    let mut key = scrypt::Identity::new(secret(passphrase)?);
    key.set_max_work_factor(MAX_WORK);
    let damaged = || VaultError::Damaged { path: path.to_owned() };
    let text = file::decrypt(&cipher, &key).map_err(|error| match error {
        DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed => VaultError::Passphrase,
        _ => damaged(),
    })?;
    Identity::of(&text).ok_or_else(damaged)
}

/// Encrypts the identity with a passphrase.
pub(crate) fn seal(identity: &Identity, passphrase: &[u8], path: &Path) -> Result<Vec<u8>> {
    let mut recipient = scrypt::Recipient::new(secret(passphrase)?);
    recipient.set_work_factor(WORK);
    file::encrypt(identity.text(), &[&recipient]).map_err(VaultError::system("encrypt", path))
}

/// Reads the identity of a key file.
pub(crate) fn read_key_file(path: &Path) -> Result<Identity> {
    let wrong = |problem| VaultError::KeyFile { path: path.to_owned(), problem };
    // Open without waiting for a writer, should the path be a pipe, and then judge the opened file.
    let opened = OpenOptions::new().read(true).custom_flags(NO_WAITING).open(path);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound if path.is_symlink() => wrong("it is a link to a missing file"),
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            wrong("it does not exist; `handfast vault make-key FILE` creates one")
        }
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            wrong("it is a link that leads back to itself")
        }
        ErrorKind::PermissionDenied => wrong("this user cannot read it"),
        _ => VaultError::system("open", path)(error),
    })?;
    let data = file.metadata().map_err(VaultError::system("inspect", path))?;
    if data.is_dir() {
        return Err(wrong("it is a folder; name the file in it"));
    }
    if !data.is_file() {
        return Err(wrong("it is not a file"));
    }
    if data.mode() & 0o077 != 0 {
        return Err(wrong("others can read it; chmod 600 it"));
    }
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(LONGEST_KEY_FILE + 1));
    let mut rest = file.take(LONGEST_KEY_FILE as u64 + 1);
    rest.read_to_end(&mut bytes).map_err(VaultError::system("read", path))?;
    if bytes.len() > LONGEST_KEY_FILE {
        return Err(wrong("it is too long for a key"));
    }
    Identity::of(&bytes).ok_or_else(|| wrong("it contains no age identity (AGE-SECRET-KEY-1...)"))
}

/// Makes a key file that no other user can read.
///
/// # Errors
/// [`VaultError::KeyFile`] if the path exists; [`VaultError::System`] if the file cannot be
/// written.
pub fn make_key_file(path: &Path) -> Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            VaultError::KeyFile { path: path.to_owned(), problem: "that name already exists" }
        }
        _ => VaultError::system("make", path)(error),
    })?;
    let identity = Identity::generate();
    let written = file.write_all(identity.text()).and_then(|()| file.write_all(b"\n"));
    written.and_then(|()| file.sync_all()).map_err(VaultError::system("write", path))
}
