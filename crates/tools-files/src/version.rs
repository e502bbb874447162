//! Names for the states of a file's content, so that a caller can say which one it means.

use roots::{Identity, OpenedFile};

/// Files up to this size are named by their content, which takes some 20 ms from memory; larger ones by inode and times.
pub(crate) const HASHED_BYTES: u64 = 64 << 20;

/// Hexadecimal digits of a name: 64 bits tell the states of one file apart.
const DIGITS: usize = 16;

/// The name of a content.
pub(crate) fn of_content(content: &[u8]) -> String {
    of_hash(&blake3::hash(content))
}

/// The same, of a hash of all of it.
pub(crate) fn of_hash(hash: &blake3::Hash) -> String {
    hash.to_hex()[..DIGITS].to_owned()
}

/// The name of a file too large to be read for its name. Any change of it gives it another one.
pub(crate) fn of_state(identity: &Identity) -> String {
    let mut state = blake3::Hasher::new();
    let Identity { device, inode, size_bytes, modified, changed, names: _ } = identity;
    for number in [*device, *inode, *size_bytes, modified.1, changed.1] {
        state.update(&number.to_le_bytes());
    }
    for seconds in [modified.0, changed.0] {
        state.update(&seconds.to_le_bytes());
    }
    format!("s{}", of_hash(&state.finalize()))
}

/// Whether `version` names the state of a file that was read as a whole.
pub(crate) fn is_that(version: &str, opened: &OpenedFile, content: &[u8]) -> bool {
    if version.starts_with('s') {
        version == of_state(&opened.identity)
    } else {
        version == of_content(content)
    }
}
