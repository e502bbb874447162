//! Files of a vault: reading, decryption, and atomic replacement.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use age::{DecryptError, Decryptor, Encryptor};

use crate::{Result, SecretBytes, VaultError};

/// Name of the file with the secrets.
pub(crate) const CONTENT: &str = "vault.age";
/// Name of the file with the secrets before the last change.
pub(crate) const PREVIOUS: &str = "vault.previous.age";
/// Name of the file with the key, encrypted with a passphrase.
pub(crate) const IDENTITY: &str = "identity.age";
/// Name of the lock file; a process locks it to change the vault.
const LOCK: &str = "lock";
/// Maximum number of bytes that are read of a file: more than any vault has.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Identity of one version of a file. Every replacement of the file has another stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

impl Stamp {
    /// Returns the stamp of the file at `path`, or `None` if no file exists.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|data| Self::from(&data))
    }
}

impl From<&fs::Metadata> for Stamp {
    fn from(data: &fs::Metadata) -> Self {
        Self { inode: data.ino(), changed: (data.ctime(), data.ctime_nsec()), size: data.size() }
    }
}

/// Reads a file with its stamp; returns `None` if no file exists.
pub(crate) fn read(path: &Path) -> Result<Option<(Vec<u8>, Stamp)>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(VaultError::system("open", path))?,
    };
    let data = file.metadata().map_err(VaultError::system("inspect", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(VaultError::system("read", path))?;
    Ok(Some((bytes, Stamp::from(&data))))
}

/// Decrypts a file in the age format.
pub(crate) fn decrypt(cipher: &[u8], identity: &dyn age::Identity) -> Result<SecretBytes, DecryptError> {
    let mut reader = Decryptor::new_buffered(cipher)?.decrypt(std::iter::once(identity))?;
    // The plaintext is never longer than the ciphertext, so the buffer never grows and leaves no
    // copy behind.
    let mut plain = SecretBytes::zeroed(cipher.len());
    let mut filled = 0;
    loop {
        match reader.read(&mut plain[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    plain.truncate(filled);
    Ok(plain)
}

/// Encrypts `plain` in the age format for all recipients.
pub(crate) fn encrypt(plain: &[u8], recipients: &[&dyn age::Recipient]) -> io::Result<Vec<u8>> {
    let encryptor = Encryptor::with_recipients(recipients.iter().copied()).map_err(io::Error::other)?;
    let mut cipher = Vec::new();
    let mut writer = encryptor.wrap_output(&mut cipher)?;
    writer.write_all(plain)?;
    writer.finish()?;
    Ok(cipher)
}

/// Replaces a file as a whole or not at all, even across a power failure.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let (folder, new) = (path.parent().unwrap_or(path), path.with_extension("new"));
    // A leftover of a killed program is safe to remove, because every writer has the lock.
    remove(&new)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .map_err(VaultError::system("make", &new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(VaultError::system("write", &new))?;
    fs::rename(&new, path).map_err(VaultError::system("replace", path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(VaultError::system("write", folder))
}

/// Gives a file a second name and replaces the file of that name. Does nothing if `path` does not
/// exist.
pub(crate) fn keep_as(path: &Path, second: &Path) -> Result<()> {
    let new = second.with_extension("new");
    remove(&new)?;
    match fs::hard_link(path, &new) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(VaultError::system("keep", path))?,
    }
    fs::rename(&new, second).map_err(VaultError::system("replace", second))
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(VaultError::system("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes the folder if it is missing and locks it for changes until the returned file is dropped.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    let (file, path) = lock_file(folder, LOCK)?;
    locks::acquire(&file, locks::Kind::Exclusive, &path.display())
        .map_err(|error| VaultError::system("lock", &path)(error.into()))?;
    Ok(file)
}

/// Tries the lock `name` in the folder; returns `None` while another process or thread has it.
pub(crate) fn try_lock(folder: &Path, name: &str) -> Result<Option<File>> {
    let (file, path) = lock_file(folder, name)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(VaultError::system("lock", &path)(error)),
    }
}

fn lock_file(folder: &Path, name: &str) -> Result<(File, PathBuf)> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(VaultError::system("make", folder))?;
    let path = folder.join(name);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(VaultError::system("open", &path))?;
    Ok((file, path))
}
