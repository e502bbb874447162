//! Files that the user trusts, each with its exact content at the time.

use std::path::Path;

use jiff::Timestamp;

use crate::error::StoreError;
use crate::hash::Hash;

/// The trusted files of a store. Paths are compared byte for byte; the caller makes them absolute
/// and resolves their links first.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Trust: Send + Sync {
    /// Trusts `path` as long as its bytes have `hash`, and replaces an earlier hash.
    fn trust(&self, path: &Path, hash: &Hash, at: Timestamp) -> Result<(), StoreError>;

    /// Returns the hash under which `path` is trusted, if any.
    fn trusted_hash(&self, path: &Path) -> Result<Option<Hash>, StoreError>;

    /// Removes the trust in `path`. Returns true if the path was trusted.
    fn distrust(&self, path: &Path) -> Result<bool, StoreError>;
}
