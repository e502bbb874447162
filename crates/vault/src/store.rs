//! The vault as it is used: opened when it is needed, read again when another program has changed it, changed under a lock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use age::DecryptError;
use jiff::{SignedDuration, Timestamp};

use crate::file::{CONTENT, IDENTITY, PREVIOUS, Stamp};
use crate::key::Identity;
use crate::{
    Change, Contents, Entry, Keys, LEAST_CHARACTERS, Locked, MOST_BYTES, Name, Position, Result, VaultError,
};
use crate::{file, key, keyring};

/// How exactly the last use of a secret is known: not every use is worth a write.
const USE_NOTED_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// The vault of a state folder.
#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    keys: Keys,
    open: Mutex<Open>,
}

/// The right to renew something, until it is dropped or its program ends.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

/// What is known while it is unlocked.
#[derive(Debug, Default)]
struct Open {
    identity: Option<(Source, Arc<Identity>)>,
    /// The key that the passphrase did not open: trying again would take as long.
    refused: Option<Stamp>,
    /// What was read, of which version; of none where there was no file.
    contents: Option<(Option<Stamp>, Arc<Contents>)>,
}

/// Where the key came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    KeyRing,
    /// A key file or a passphrase, which this process was given for as long as it lives.
    Given,
}

impl Vault {
    /// The vault in this folder. Opens and makes nothing.
    pub fn new(folder: PathBuf, keys: Keys) -> Self {
        Self { folder, keys, open: Mutex::default() }
    }

    /// Whether there is one.
    pub fn exists(&self) -> bool {
        self.path(CONTENT).exists() || self.path(IDENTITY).exists()
    }

    /// Whether a passphrase opens it, and not a key file.
    pub fn has_passphrase(&self) -> bool {
        self.path(IDENTITY).exists()
    }

    /// Whether something was given that a new vault can be made with.
    pub fn can_be_made(&self) -> bool {
        self.keys.key_file.is_some() || self.keys.passphrase.is_some()
    }

    /// Where the generation before the last change lies.
    pub fn previous(&self) -> PathBuf {
        self.path(PREVIOUS)
    }

    /// What is in it now, whoever has changed it. Where there is no vault, that is nothing.
    ///
    /// # Errors
    /// [`VaultError::Locked`] where nothing opens it; [`VaultError::Damaged`].
    pub fn contents(&self) -> Result<Arc<Contents>> {
        self.read(&mut self.open())
    }

    /// The value of a secret, to be sent to this host in this place now.
    ///
    /// # Errors
    /// [`VaultError::Unknown`], [`VaultError::Expired`], [`VaultError::NotForHost`], [`VaultError::NotForPlace`], and those of
    /// [`Vault::contents`].
    pub fn value_for(&self, name: &str, host: &str, position: Position, now: Timestamp) -> Result<Locked> {
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
        let value = Locked::copy_of(value);
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

    /// Stores a value. Whether there was one of that name before.
    ///
    /// Where there is no vault yet it is made, with the key file, or with the passphrase.
    ///
    /// # Errors
    /// [`VaultError::Short`], [`VaultError::Long`], [`VaultError::NoText`]; [`VaultError::NoVault`] where there is none and nothing to make one with; those
    /// of [`Vault::contents`].
    pub fn set(&self, change: &Change, value: &[u8], now: Timestamp) -> Result<bool> {
        let text = std::str::from_utf8(value).map_err(|_| VaultError::NoText)?;
        if text.chars().count() < LEAST_CHARACTERS {
            return Err(VaultError::Short);
        }
        if value.len() > MOST_BYTES {
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
            };
            Ok((contents.changed(name, Some((entry, value))), before.is_some()))
        })
    }

    /// Takes the turn to renew what is behind this name; none while another program, or another thread of this one, has it.
    ///
    /// What was renewed meanwhile is looked for once the turn was taken. Others use the vault as ever.
    ///
    /// # Errors
    /// [`VaultError::System`].
    pub fn turn(&self, name: &Name) -> Result<Option<Turn>> {
        let taken = file::try_lock(&self.folder, &format!("{}.turn", name.as_str()))?;
        Ok(taken.map(|file| Turn { _file: file }))
    }

    /// Removes a secret. Whether there was one.
    ///
    /// # Errors
    /// Those of [`Vault::contents`].
    pub fn remove(&self, name: &str) -> Result<bool> {
        if self.contents()?.get(name).is_none() {
            return Ok(false);
        }
        self.change(|contents| Ok((contents.changed(name, None), contents.get(name).is_some())))
    }

    /// Gives the vault another key, and with it another passphrase where one is given; else the key file gets the new key. What
    /// the old key opened is opened by it no more, the generation before included.
    ///
    /// # Errors
    /// Those of [`Vault::contents`]; [`VaultError::Locked`] where neither a passphrase nor a key file is given.
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
                // Where it is a link, what it leads to is replaced, and the link stays.
                let path = path.canonicalize().map_err(VaultError::system("look at", path))?;
                (path, [new.text(), b"\n"].concat())
            }
            (None, None) => return Err(VaultError::Locked),
        };
        // Wherever it breaks off, the key that is in place opens the secrets: first both keys do, and at last the new one alone.
        self.write(&contents, &[&old, &new])?;
        file::replace(&path, &sealed)?;
        self.write(&contents, &[&new])?;
        file::keep_as(&self.path(CONTENT), &self.path(PREVIOUS))?;
        keyring::forget(&self.ring_name())?;
        *open = Open { identity: Some((Source::Given, Arc::new(new))), ..Open::default() };
        Ok(())
    }

    /// Puts the generation before the last change in the place of a damaged one.
    ///
    /// # Errors
    /// [`VaultError::Damaged`] where that is damaged too, and those of [`Vault::contents`].
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

    /// Opens the vault with what was given and leaves the key in the kernel's key ring, for this user's other programs and for so
    /// long.
    ///
    /// # Errors
    /// [`VaultError::NoVault`], [`VaultError::Passphrase`], [`VaultError::Key`], [`VaultError::KeyRing`].
    pub fn unlock(&self, lasts: Duration) -> Result<()> {
        if !self.exists() {
            return Err(VaultError::NoVault);
        }
        let mut open = self.open();
        self.read(&mut open)?;
        keyring::keep(&self.ring_name(), self.identity(&mut open)?.text(), lasts)
    }

    /// Takes the key out of the kernel's key ring. Programs that were given it from there forget the secrets when they next look.
    /// Says whether there was one.
    ///
    /// # Errors
    /// [`VaultError::KeyRing`].
    pub fn lock(&self) -> Result<bool> {
        *self.open() = Open::default();
        keyring::forget(&self.ring_name())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn ring_name(&self) -> String {
        format!("handfast:{}", self.folder.display())
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file where it is another one than was read last.
    fn read(&self, open: &mut Open) -> Result<Arc<Contents>> {
        let path = self.path(CONTENT);
        let now = Stamp::of(&path);
        if open.identity.as_ref().is_some_and(|(source, _)| *source == Source::KeyRing)
            && !keyring::has(&self.ring_name())
        {
            *open = Open::default();
        }
        if let Some((stamp, contents)) = &open.contents
            && *stamp == now
        {
            return Ok(contents.clone());
        }
        let Some((cipher, stamp)) = file::read(&path)? else {
            open.contents = None;
            // A key without what it opens: somebody has taken that away.
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
                // The key may be another since it was taken.
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

    /// The key, from wherever it is to be had.
    fn identity(&self, open: &mut Open) -> Result<Arc<Identity>> {
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

    /// Replaces the contents by what `change` makes of them, unless that fails. One program at a time.
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

    /// Makes the key of a new vault, where it is not the one of a key file.
    fn make(&self, open: &mut Open) -> Result<()> {
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
