//! Content stored by its hash.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
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

/// The blobs of a store: whole contents for outputs, and compressed bytes of files for undo.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Blobs: Send + Sync {
    /// Stores everything that `content` yields. Equal content is stored once.
    ///
    /// The new blob has no references yet: after one hour, pruning may remove it, unless an
    /// [`Output`](crate::Output) refers to it or it was put again.
    fn put(&self, content: &mut dyn Read) -> Result<BlobRef, StoreError>;

    /// Stores the whole content of `file`, from its start, whatever its position is.
    fn put_file(&self, mut file: File) -> Result<BlobRef, StoreError> {
        file.rewind().map_err(|error| StoreError::Content { source: Arc::new(error) })?;
        self.put(&mut file)
    }

    /// Opens a blob for reading, from its start.
    fn open(&self, blob: &BlobRef) -> Result<File, StoreError>;

    /// Begins to save files.
    fn saver(&self) -> Result<Box<dyn BlobWriter + '_>, StoreError>;

    /// Begins to read saved content.
    fn reader(&self) -> Result<Box<dyn BlobReader + '_>, StoreError>;

    /// Reads every content that a checkpoint needs, and compares each with its hash.
    ///
    /// `goes_on` is called with the bytes read since its last call. If `goes_on` returns false, the
    /// result is `None`. A content with several copies counts as damaged only if no copy is intact.
    fn check(&self, goes_on: &dyn Fn(u64) -> bool) -> Result<Option<CheckResult>, StoreError>;
}

/// Writer of saved files, for several threads at once. Pruning waits while it lives.
///
/// INVARIANT: saved content is durable only after [`BlobWriter::finish`] has succeeded; do not refer to
/// it earlier.
pub trait BlobWriter: Send + Sync {
    /// Saves everything that `content` yields, and returns its hash. Equal content is saved once.
    ///
    /// After one hour, pruning may remove a content that no checkpoint names.
    fn save(&self, content: &mut dyn Read) -> Result<Hash, StoreError>;

    /// Writes everything that was saved so far. More can be saved afterwards.
    fn finish(&self) -> Result<(), StoreError>;
}

/// Reader of saved content, for several threads at once.
pub trait BlobReader: Send + Sync {
    /// Opens a saved content, from its start.
    fn open(&self, hash: &Hash) -> Result<Box<dyn Read>, StoreError>;
}
