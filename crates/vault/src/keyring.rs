//! The kernel's key ring of this user. The ring stores the key of an unlocked vault between
//! programs, in memory that is never swapped, and drops it after a timeout.
//!
//! Commands in a cell cannot reach the ring: `keyctl` and its relatives are refused there, and the
//! user namespace has a separate ring.

use std::time::Duration;

use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};
use zeroize::Zeroize;

use crate::{Result, SecretBytes, VaultError};

/// Links the user's ring into the thread's ring. The kernel allows a thread to read the keys that
/// it possesses; the same user id alone is not enough.
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

/// Stores the key under this name for `lasts`, at least one second.
pub(crate) fn keep(name: &str, key: &[u8], lasts: Duration) -> Result<()> {
    let kept = ring().map_err(failed)?.add_key(name, key).map_err(failed)?;
    let seconds = usize::try_from(lasts.as_secs()).unwrap_or(usize::MAX);
    kept.set_timeout(seconds.max(1)).map_err(failed)
}

/// Returns true if the ring has a key of this name.
pub(crate) fn has(name: &str) -> bool {
    find(name).is_some()
}

/// Returns the key of this name.
pub(crate) fn get(name: &str) -> Option<SecretBytes> {
    let mut read = find(name)?.read_to_vec().ok()?;
    let key = SecretBytes::copy_of(&read);
    read.zeroize();
    Some(key)
}

/// Invalidates the key of this name. Returns true if there was one.
pub(crate) fn forget(name: &str) -> Result<bool> {
    let Some(key) = find(name) else { return Ok(false) };
    key.invalidate().map_err(failed)?;
    Ok(true)
}
