//! The pairing of this program with the extension: its code, and the file with its key.
//!
//! The key lies in a file of the state folder that only the user can read, and not in the vault: a vault
//! may be locked whenever an agent connects, and the key protects nothing from who can read this folder,
//! since that user can read the browser's own profile too. No tool and no cell sees the folder.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::extension::keys::{self, PairingKey};

/// Name of the file in the state folder.
const FILE: &str = "browser-extension.json";
/// Time for which a code is valid.
const VALIDITY: Duration = Duration::from_mins(2);
/// Number of attempts with a code.
const ATTEMPTS: u32 = 5;
/// Letters and digits of a code: 32 that are not mistaken for each other.
const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// Reason why no pairing comes about, or why it cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum PairingProblem {
    /// A browser is paired already.
    #[error("a browser is paired already")]
    Paired,
    /// The file cannot be read or written.
    #[error("the pairing cannot be kept in {}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The port cannot be listened on.
    #[error("cannot listen on port {port}")]
    Port {
        /// The port.
        port: u16,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The code was not entered in time, or too often wrongly.
    #[error("{why}")]
    Ended {
        /// Sentence about the reason.
        why: &'static str,
    },
}

/// Code that a user types into the extension. It serves once, for two minutes, and for five attempts.
#[derive(Debug)]
pub struct PairingCode {
    text: String,
    valid_until: Instant,
    state: Mutex<CodeState>,
}

#[derive(Debug, Default)]
struct CodeState {
    attempts: u32,
    is_used: bool,
}

impl PairingCode {
    /// Makes a code that is valid from `now` on.
    ///
    /// # Errors
    /// [`PairingProblem::Random`].
    pub fn new(now: Instant) -> Result<Self, PairingProblem> {
        let bytes = keys::random().ok_or(PairingProblem::Random)?;
        let letters = bytes.iter().take(8).filter_map(|byte| ALPHABET.get(usize::from(byte % 32)));
        let text = letters.map(|letter| char::from(*letter)).collect();
        Ok(Self { text, valid_until: now + VALIDITY, state: Mutex::default() })
    }

    /// Returns the code as it is shown: two groups of four characters.
    pub fn shown(&self) -> String {
        let (left, right) = self.text.split_at_checked(4).unwrap_or((&self.text, ""));
        format!("{left}-{right}")
    }

    /// Returns the time at which the code expires.
    pub fn valid_until(&self) -> Instant {
        self.valid_until
    }

    /// Begins an attempt, and returns the code for it.
    ///
    /// # Errors
    /// A sentence for the user if the code serves no more.
    pub(super) fn attempt(&self, now: Instant) -> Result<&str, &'static str> {
        let mut state = self.state.lock();
        if state.is_used {
            return Err("the code was used already");
        }
        if now >= self.valid_until {
            return Err("the code has expired: run `handfast browser pair` again");
        }
        if state.attempts >= ATTEMPTS {
            return Err("the code was entered wrongly too often: run `handfast browser pair` again");
        }
        state.attempts += 1;
        Ok(&self.text)
    }

    /// Uses the code up, and returns false if another attempt has done so meanwhile.
    pub(super) fn use_up(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_used, true)
    }

    /// Returns true if no attempt is left.
    pub(super) fn is_spent(&self) -> bool {
        let state = self.state.lock();
        state.is_used || state.attempts >= ATTEMPTS
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    key: String,
}

fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Returns true if a browser is paired.
pub fn is_paired(state: &Path) -> bool {
    path(state).exists()
}

/// Forgets the paired browser, and returns false if there was none.
///
/// # Errors
/// [`PairingProblem::File`].
pub fn forget_pairing(state: &Path) -> Result<bool, PairingProblem> {
    match fs::remove_file(path(state)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(PairingProblem::File { path: path(state), source }),
    }
}

/// Returns the key of the paired browser; `None` without one.
pub(super) fn key(state: &Path) -> Result<Option<PairingKey>, PairingProblem> {
    let failed = |source| PairingProblem::File { path: path(state), source };
    let text = match fs::read_to_string(path(state)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let file: Option<File> = serde_json::from_str(&text).ok();
    let key = file.and_then(|file| keys::decode(&file.key)?.try_into().ok());
    key.map(|key| Some(PairingKey(key))).ok_or_else(|| failed(io::Error::other("the file has no key")))
}

/// Keeps the key of a browser, if none is paired.
pub(super) fn keep(state: &Path, key: &PairingKey) -> Result<(), PairingProblem> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => PairingProblem::Paired,
        _ => PairingProblem::File { path: path(state), source },
    };
    let text = serde_json::to_string(&File { key: keys::encode(&key.0) });
    let text = text.map_err(|error| failed(io::Error::other(error)))?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path(state)).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // An unfinished file is no key.
        let _gone = fs::remove_file(path(state));
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_code_serves_once_for_two_minutes_and_five_attempts() {
        let now = Instant::now();
        let code = PairingCode::new(now).unwrap();
        assert_eq!(code.shown().len(), 9, "eight characters, and a dash");
        let just_before = now + VALIDITY.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(code.attempt(just_before).is_ok());
        assert!(code.attempt(now + VALIDITY).unwrap_err().contains("expired"));
        for _ in 1..ATTEMPTS {
            assert!(code.attempt(now).is_ok());
        }
        assert!(code.attempt(now).unwrap_err().contains("too often") && code.is_spent());
        let code = PairingCode::new(now).unwrap();
        assert!(code.attempt(now).is_ok() && code.use_up() && !code.use_up());
        assert!(code.attempt(now).unwrap_err().contains("used already"));
        assert_ne!(code.shown(), PairingCode::new(now).unwrap().shown());
    }

    #[test]
    fn a_key_is_kept_for_the_user_alone_and_a_second_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        assert!(!is_paired(state) && key(state).unwrap().is_none() && !forget_pairing(state).unwrap());
        let own = PairingKey(keys::random().unwrap());
        keep(state, &own).unwrap();
        assert_eq!(key(state).unwrap(), Some(own));
        assert_eq!(fs::metadata(path(state)).unwrap().permissions().mode() & 0o777, 0o600);
        let second = keep(state, &PairingKey(keys::random().unwrap()));
        assert!(matches!(second, Err(PairingProblem::Paired)));
        fs::write(path(state), "{}").unwrap();
        assert!(matches!(key(state), Err(PairingProblem::File { .. })));
        assert!(forget_pairing(state).unwrap() && !is_paired(state));
    }
}
