//! Content stored by its hash.

use serde::{Deserialize, Serialize};

use crate::hash::Hash;

/// Reference to a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// Hash of the content.
    pub hash: Hash,
    /// Length in bytes.
    pub size: u64,
}

/// Result of reading back the saved content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Number of contents that checkpoints need and that are intact.
    pub whole: u64,
    /// Number of bytes read from files.
    pub bytes: u64,
    /// Ids of the checkpoints with damaged or missing contents, each with the number of those
    /// contents, in id order.
    pub damaged: Vec<(String, u64)>,
}
