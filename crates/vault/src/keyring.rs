//! The kernel's key ring of this user, which keeps the key of an unlocked vault between programs, in memory that is never swapped,
//! and lets it go after a time.
//!
//! No command in a cell reaches it: `keyctl` and its like are refused there, and the user namespace has a ring of its own.

use std::time::Duration;

use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};
use zeroize::Zeroize;

use crate::{Locked, Result, VaultError};

/// The ring of this user, in the possession of this thread: who only has the same user id may not read from it.
fn ring() -> Result<KeyRing, KeyError> {
    let user = KeyRing::from_special_id(KeyRingIdentifier::User, true)?;
    KeyRing::from_special_id(KeyRingIdentifier::Thread, true)?.link_keyring(user)?;
    Ok(user)
}

fn failed(error: KeyError) -> VaultError {
    VaultError::KeyRing { problem: error.to_string() }
}

fn find(name: &str) -> Option<Key> {
    // A ring that cannot be used has no key.
    ring().ok()?.search(name).ok()
}

/// Keeps the key under this name for so long.
pub(crate) fn keep(name: &str, key: &[u8], lasts: Duration) -> Result<()> {
    let kept = ring().map_err(failed)?.add_key(name, key).map_err(failed)?;
    let seconds = usize::try_from(lasts.as_secs()).unwrap_or(usize::MAX);
    kept.set_timeout(seconds.max(1)).map_err(failed)
}

/// Whether a key is kept under this name.
pub(crate) fn has(name: &str) -> bool {
    find(name).is_some()
}

/// The key that is kept under this name.
pub(crate) fn get(name: &str) -> Option<Locked> {
    let mut read = find(name)?.read_to_vec().ok()?;
    let key = Locked::copy_of(&read);
    read.zeroize();
    Some(key)
}

/// Lets the key go. Whether there was one.
pub(crate) fn forget(name: &str) -> Result<bool> {
    let Some(key) = find(name) else { return Ok(false) };
    key.invalidate().map_err(failed)?;
    Ok(true)
}
