//! Digests that bind answers, plans and cached answers to what they are about.

use serde::Serialize;

/// Returns the BLAKE3 hash of a value's JSON, in hexadecimal.
pub(crate) fn digest(value: &impl Serialize) -> String {
    let mut hasher = blake3::Hasher::new();
    // Writing to the hasher never fails, and no value here has a map with keys that are not strings.
    let _ = serde_json::to_writer(&mut hasher, value);
    hasher.finalize().to_hex().to_string()
}
