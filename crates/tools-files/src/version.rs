//! Version identifiers of a file's content, with which a caller names a state of the file.

use roots::{Identity, OpenedFile};

/// Maximum size in bytes of files that are identified by content, which takes about 20 ms from
/// memory. Larger files are identified by inode and times.
pub(crate) const HASHED_BYTES: u64 = 64 << 20;

/// Hexadecimal digits of an identifier: 64 bits distinguish the states of one file.
const DIGITS: usize = 16;

/// Returns the identifier of a content.
pub(crate) fn of_content(content: &[u8]) -> String {
    of_hash(&blake3::hash(content))
}

/// Returns the identifier of a content from its hash.
pub(crate) fn of_hash(hash: &blake3::Hash) -> String {
    hash.to_hex()[..DIGITS].to_owned()
}

/// Returns the identifier of a file too large to be hashed. Any change gives the file another
/// identifier.
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

/// Returns true if `version` identifies the state of a file that was read completely.
pub(crate) fn is_that(version: &str, opened: &OpenedFile, content: &[u8]) -> bool {
    if version.starts_with('s') {
        version == of_state(&opened.identity)
    } else {
        version == of_content(content)
    }
}
