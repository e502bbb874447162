//! The vault as programs use it: opened on demand, read again after another program has changed it,
//! and changed under a lock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use age::DecryptError;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::file::{CONTENT, IDENTITY, PREVIOUS, Stamp};
use crate::key::Identity;
use crate::{
    Change, Contents, Entry, Keys, LEAST_CHARACTERS, MAX_BYTES, Name, RequestPart, Result, SecretBytes,
    VaultError,
};
use crate::{file, key, keyring};

/// Resolution of a secret's last use: not every use is worth a write.
const USE_NOTED_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// The vault of a state folder.
#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    keys: Keys,
    open: Mutex<OpenState>,
}

/// The exclusive right to renew something, until it is dropped or its process ends.
#[derive(Debug)]
pub struct RenewalLock {
    _file: File,
}

/// State of a vault in memory.
#[derive(Debug, Default)]
struct OpenState {
    identity: Option<(Source, Arc<Identity>)>,
    /// Stamp of the identity file that the passphrase did not open: another attempt would be as
    /// slow and fail again.
    refused: Option<Stamp>,
    /// Contents that were read, with the stamp of their file; the stamp is `None` if there was no
    /// file.
    contents: Option<(Option<Stamp>, Arc<Contents>)>,
}

/// The source of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    KeyRing,
    /// A key file or a passphrase, given to this process for its whole life.
    Given,
}

impl Vault {
    /// Returns the vault of this folder, without opening or making it.
    pub fn new(folder: PathBuf, keys: Keys) -> Self {
        Self { folder, keys, open: Mutex::default() }
    }

    /// Returns true if the vault exists.
    pub fn exists(&self) -> bool {
        self.path(CONTENT).exists() || self.path(IDENTITY).exists()
    }

    /// Returns true if a passphrase opens the vault, not a key file.
    pub fn has_passphrase(&self) -> bool {
        self.path(IDENTITY).exists()
    }

    /// Returns true if a key file or a passphrase was given with which a new vault can be made.
    pub fn can_be_made(&self) -> bool {
        self.keys.key_file.is_some() || self.keys.passphrase.is_some()
    }

    /// Returns the path of the generation before the last change.
    pub fn previous(&self) -> PathBuf {
        self.path(PREVIOUS)
    }

    /// Returns the current contents, including changes of other programs. A missing vault is empty.
    ///
    /// # Errors
    /// [`VaultError::SecretBytes`], [`VaultError::Passphrase`], [`VaultError::Key`] or
    /// [`VaultError::KeyFile`] if no key opens the vault; [`VaultError::Damaged`] or
    /// [`VaultError::Later`] if its content cannot be used; [`VaultError::System`] if a system call
    /// fails.
    pub fn contents(&self) -> Result<Arc<Contents>> {
        self.read(&mut self.open())
    }

    /// Returns the value of a secret for use now, with this host and in this part of a request.
    ///
    /// # Errors
    /// [`VaultError::Unknown`], [`VaultError::Expired`], [`VaultError::NotForHost`],
    /// [`VaultError::NotForPlace`], and the errors of [`Vault::contents`].
    pub fn value_for(
        &self,
        name: &str,
        host: &str,
        position: RequestPart,
        now: Timestamp,
    ) -> Result<SecretBytes> {
        let contents = self.contents()?;
        let (entry, value) = contents.get(name).ok_or(VaultError::Unknown)?;
        if entry.expires_at.is_some_and(|end| end <= now) {
            return Err(VaultError::Expired);
        }
        if !entry.hosts.iter().any(|rule| rule.matches(host)) {
            return Err(VaultError::NotForHost);
        }
        if !entry.places.has(position) {
            return Err(VaultError::NotForPlace { position: position.as_str() });
        }
        let value = SecretBytes::copy_of(value);
        if entry.last_used_at.is_none_or(|last| now.duration_since(last) >= USE_NOTED_EVERY) {
            self.note_use(name, now)?;
        }
        Ok(value)
    }

    fn note_use(&self, name: &str, now: Timestamp) -> Result<()> {
        self.change(|contents| {
            let Some((entry, value)) = contents.get(name) else {
                return Ok((contents.changed(name, None), ()));
            };
            let used = Entry { last_used_at: Some(now), ..entry.clone() };
            Ok((contents.changed(name, Some((used, value))), ()))
        })
    }

    /// Stores a value. Returns true if it replaced a secret of the same name.
    ///
    /// Makes the vault if it does not exist, with the key file or else with the passphrase.
    ///
    /// # Errors
    /// [`VaultError::Short`], [`VaultError::Long`] or [`VaultError::NoText`] for a bad value;
    /// [`VaultError::NoVault`] if no vault exists and nothing was given to make one with; and the
    /// errors of [`Vault::contents`].
    pub fn set(&self, change: &Change, value: &[u8], now: Timestamp) -> Result<bool> {
        let text = std::str::from_utf8(value).map_err(|_| VaultError::NoText)?;
        if text.chars().count() < LEAST_CHARACTERS {
            return Err(VaultError::Short);
        }
        if value.len() > MAX_BYTES {
            return Err(VaultError::Long);
        }
        self.change(|contents| {
            let name = change.name.as_str();
            let before = contents.get(name).map(|(entry, _)| entry);
            let hosts = change.hosts.clone().or_else(|| before.map(|entry| entry.hosts.clone()));
            let entry = Entry {
                name: change.name.clone(),
                hosts: hosts.unwrap_or_default(),
                places: change.places.or(before.map(|entry| entry.places)).unwrap_or_default(),
                expires_at: change.expires_at,
                set_at: now,
                last_used_at: None,
                login: change.login.clone().or_else(|| before.and_then(|entry| entry.login.clone())),
                fields: change
                    .fields
                    .clone()
                    .or_else(|| before.map(|entry| entry.fields.clone()))
                    .unwrap_or_default(),
            };
            Ok((contents.changed(name, Some((entry, value))), before.is_some()))
        })
    }

    /// Takes the turn to renew the secret `name`; returns `None` while another program or another
    /// thread of this one has the turn.
    ///
    /// After taking the turn, callers must check whether another program has renewed the secret in
    /// the meantime. A turn does not block other uses of the vault.
    ///
    /// # Errors
    /// [`VaultError::System`] if the lock file cannot be made or locked.
    pub fn turn(&self, name: &Name) -> Result<Option<RenewalLock>> {
        let taken = file::try_lock(&self.folder, &format!("{}.turn", name.as_str()))?;
        Ok(taken.map(|file| RenewalLock { _file: file }))
    }

    /// Removes a secret. Returns true if it existed.
    ///
    /// # Errors
    /// Returns the errors of [`Vault::contents`].
    pub fn remove(&self, name: &str) -> Result<bool> {
        if self.contents()?.get(name).is_none() {
            return Ok(false);
        }
        self.change(|contents| Ok((contents.changed(name, None), contents.get(name).is_some())))
    }

    /// Replaces the key of the vault, and seals the new key with `passphrase` if one is given;
    /// otherwise the key file gets the new key. The old key then opens neither the current nor the
    /// previous generation.
    ///
    /// # Errors
    /// Returns the errors of [`Vault::contents`], and [`VaultError::SecretBytes`] if neither a
    /// passphrase nor a key file is given.
    pub fn rotate(&self, passphrase: Option<&[u8]>) -> Result<()> {
        let _lock = file::lock(&self.folder)?;
        let mut open = self.open();
        let contents = self.read(&mut open)?;
        let old = self.identity(&mut open)?;
        let new = Identity::generate();
        let (path, sealed) = match (passphrase, &self.keys.key_file) {
            (Some(passphrase), _) => {
                let path = self.path(IDENTITY);
                let sealed = key::seal(&new, passphrase, &path)?;
                (path, sealed)
            }
            (None, Some(path)) => {
                // If the path is a symbolic link, replace its target and leave the link.
                let path = path.canonicalize().map_err(VaultError::system("inspect", path))?;
                (path, [new.text(), b"\n"].concat())
            }
            (None, None) => return Err(VaultError::Locked),
        };
        // The key in place opens the secrets wherever this breaks off: first both keys open them,
        // and at last the new key alone.
        self.write(&contents, &[&old, &new])?;
        file::replace(&path, &sealed)?;
        self.write(&contents, &[&new])?;
        file::keep_as(&self.path(CONTENT), &self.path(PREVIOUS))?;
        keyring::forget(&self.ring_name())?;
        *open = OpenState { identity: Some((Source::Given, Arc::new(new))), ..OpenState::default() };
        Ok(())
    }

    /// Replaces a damaged vault by the generation before the last change.
    ///
    /// # Errors
    /// [`VaultError::NoVault`] if there is no previous generation; [`VaultError::Damaged`] if that
    /// is damaged too; and the errors of [`Vault::contents`].
    pub fn restore(&self) -> Result<()> {
        let _lock = file::lock(&self.folder)?;
        let mut open = self.open();
        let path = self.path(PREVIOUS);
        let Some((cipher, _)) = file::read(&path)? else { return Err(VaultError::NoVault) };
        decrypted(&cipher, &*self.identity(&mut open)?, &path)?;
        file::replace(&self.path(CONTENT), &cipher)?;
        open.contents = None;
        Ok(())
    }

    /// Opens the vault with the given keys and stores the key in the kernel's key ring for `lasts`,
    /// for this user's other programs.
    ///
    /// # Errors
    /// [`VaultError::NoVault`], [`VaultError::KeyRing`], and the errors of [`Vault::contents`].
    pub fn unlock(&self, lasts: Duration) -> Result<()> {
        if !self.exists() {
            return Err(VaultError::NoVault);
        }
        let mut open = self.open();
        self.read(&mut open)?;
        keyring::keep(&self.ring_name(), self.identity(&mut open)?.text(), lasts)
    }

    /// Removes the key from the kernel's key ring, and returns true if there was one. Programs that
    /// took the key from the ring drop the secrets at their next access.
    ///
    /// # Errors
    /// [`VaultError::KeyRing`] if the ring cannot be used.
    pub fn lock(&self) -> Result<bool> {
        *self.open() = OpenState::default();
        keyring::forget(&self.ring_name())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn ring_name(&self) -> String {
        format!("handfast:{}", self.folder.display())
    }

    fn open(&self) -> MutexGuard<'_, OpenState> {
        self.open.lock()
    }

    /// Reads the file unless it is unchanged since the last read.
    fn read(&self, open: &mut OpenState) -> Result<Arc<Contents>> {
        let path = self.path(CONTENT);
        let now = Stamp::of(&path);
        if open.identity.as_ref().is_some_and(|(source, _)| *source == Source::KeyRing)
            && !keyring::has(&self.ring_name())
        {
            *open = OpenState::default();
        }
        if let Some((stamp, contents)) = &open.contents
            && *stamp == now
        {
            return Ok(contents.clone());
        }
        let Some((cipher, stamp)) = file::read(&path)? else {
            open.contents = None;
            // The vault has a passphrase and a previous generation but no current file: somebody
            // removed it.
            if self.has_passphrase() && self.path(PREVIOUS).exists() {
                return Err(VaultError::Damaged { path });
            }
            let nothing = Arc::new(Contents::empty());
            open.contents = Some((None, nothing.clone()));
            return Ok(nothing);
        };
        let identity = self.identity(open)?;
        let contents = match decrypted(&cipher, &identity, &path) {
            Err(VaultError::Key { .. }) => {
                // The key may have changed since it was read.
                open.identity = None;
                decrypted(&cipher, &*self.identity(open)?, &path).map_err(|error| {
                    match (error, &self.keys.key_file) {
                        (VaultError::Key { .. }, Some(key_file)) => {
                            VaultError::Key { path: key_file.clone() }
                        }
                        (VaultError::Key { .. }, None) => VaultError::Locked,
                        (error, _) => error,
                    }
                })?
            }
            other => other?,
        };
        let contents = Arc::new(contents);
        open.contents = Some((Some(stamp), contents.clone()));
        Ok(contents)
    }

    /// Finds the key in the configured sources, in the order of [`Keys`].
    fn identity(&self, open: &mut OpenState) -> Result<Arc<Identity>> {
        if let Some((_, identity)) = &open.identity {
            return Ok(identity.clone());
        }
        let kept = self.keys.key_ring.then(|| keyring::get(&self.ring_name())).flatten();
        let (source, identity) = if let Some(identity) = kept.and_then(|text| Identity::of(&text)) {
            (Source::KeyRing, identity)
        } else if let Some(path) = &self.keys.key_file {
            (Source::Given, key::read_key_file(path)?)
        } else if let Some(passphrase) = &self.keys.passphrase {
            let path = self.path(IDENTITY);
            let stamp = Stamp::of(&path);
            if stamp.is_some() && open.refused == stamp {
                return Err(VaultError::Passphrase);
            }
            open.refused = stamp;
            let opened = key::open(&path, passphrase)?;
            open.refused = None;
            (Source::Given, opened)
        } else {
            return Err(VaultError::Locked);
        };
        let identity = Arc::new(identity);
        open.identity = Some((source, identity.clone()));
        Ok(identity)
    }

    /// Replaces the contents by the result of `change`, unless `change` fails. A lock serializes
    /// programs.
    fn change<T>(&self, change: impl FnOnce(&Contents) -> Result<(Contents, T)>) -> Result<T> {
        let is_new = !self.exists();
        if is_new && !self.can_be_made() {
            return Err(VaultError::NoVault);
        }
        let _lock = file::lock(&self.folder)?;
        let mut open = self.open();
        if is_new && !self.exists() {
            self.make(&mut open)?;
        }
        let contents = self.read(&mut open)?;
        let identity = self.identity(&mut open)?;
        let (changed, answer) = change(&contents)?;
        file::keep_as(&self.path(CONTENT), &self.path(PREVIOUS))?;
        self.write(&changed, &[&identity])?;
        open.contents = None;
        Ok(answer)
    }

    /// Makes the key of a new vault, unless a key file supplies it.
    fn make(&self, open: &mut OpenState) -> Result<()> {
        if self.keys.key_file.is_some() {
            return Ok(());
        }
        let passphrase = self.keys.passphrase.as_ref().ok_or(VaultError::NoVault)?;
        let (identity, path) = (Identity::generate(), self.path(IDENTITY));
        file::replace(&path, &key::seal(&identity, passphrase, &path)?)?;
        open.identity = Some((Source::Given, Arc::new(identity)));
        Ok(())
    }

    fn write(&self, contents: &Contents, identities: &[&Identity]) -> Result<()> {
        let path = self.path(CONTENT);
        let recipients = identities.iter().map(|identity| identity.key().map(|key| key.to_public()));
        let recipients = recipients.collect::<Result<Vec<_>>>()?;
        let recipients: Vec<&dyn age::Recipient> =
            recipients.iter().map(|recipient| recipient as &dyn age::Recipient).collect();
        let plain = contents.write().map_err(|error| VaultError::system("write", &path)(error.into()))?;
        let cipher = file::encrypt(&plain, &recipients).map_err(VaultError::system("encrypt", &path))?;
        file::replace(&path, &cipher)
    }
}

fn decrypted(cipher: &[u8], identity: &Identity, path: &Path) -> Result<Contents> {
    let plain = file::decrypt(cipher, &identity.key()?).map_err(|error| match error {
        DecryptError::NoMatchingKeys => VaultError::Key { path: path.to_owned() },
        DecryptError::UnknownFormat => VaultError::Later { path: path.to_owned() },
        _ => VaultError::Damaged { path: path.to_owned() },
    })?;
    Contents::read(&plain, path)
}
