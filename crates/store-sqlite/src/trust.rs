//! Files that the user trusts, each with its exact content at the time.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use store_api::{Hash, StoreError};

use crate::database::Database;

/// The trusted files of one store. Paths are compared byte for byte; the caller makes them absolute
/// and resolves their links first.
pub struct Trust {
    database: Arc<Database>,
}

impl Trust {
    /// Trusts `path` as long as its bytes have `hash`, and replaces an earlier hash.
    pub fn trust(&self, path: &Path, hash: &Hash, at: Timestamp) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute(
                "INSERT INTO trust (path, hash, trusted_at_us) VALUES (?, ?, ?)
                 ON CONFLICT (path) DO UPDATE SET hash = excluded.hash, trusted_at_us = excluded.trusted_at_us",
                (path.as_os_str().as_bytes(), hash.as_bytes(), at.as_microsecond()),
            )?;
            Ok(())
        })
    }

    /// Returns the hash under which `path` is trusted, if any.
    pub fn trusted_hash(&self, path: &Path) -> Result<Option<Hash>, StoreError> {
        self.database.with(|connection| {
            let found: Option<Vec<u8>> = connection
                .query_row("SELECT hash FROM trust WHERE path = ?", [path.as_os_str().as_bytes()], |row| {
                    row.get(0)
                })
                .optional()
                .map_err(|error| self.database.error(error))?;
            Ok(found.and_then(|bytes| Hash::from_slice(&bytes)))
        })
    }

    /// Removes the trust in `path`. Returns true if the path was trusted.
    pub fn distrust(&self, path: &Path) -> Result<bool, StoreError> {
        self.database.write(|transaction| {
            Ok(transaction.execute("DELETE FROM trust WHERE path = ?", [path.as_os_str().as_bytes()])? > 0)
        })
    }

    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use crate::Store;

    use super::*;

    #[test]
    fn a_file_is_trusted_as_it_was_until_it_is_trusted_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let path = Path::new(OsStr::from_bytes(b"/w/\xff/handfast.yaml"));
        assert_eq!(store.trust().trusted_hash(path).unwrap(), None);

        let (old, new) = (Hash::of(b"old"), Hash::of(b"new"));
        store.trust().trust(path, &old, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(store.trust().trusted_hash(path).unwrap(), Some(old));
        store.trust().trust(path, &new, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(store.trust().trusted_hash(path).unwrap(), Some(new));
        assert_eq!(store.trust().trusted_hash(Path::new("/w")).unwrap(), None);

        assert!(store.trust().distrust(path).unwrap());
        assert!(!store.trust().distrust(path).unwrap());
        assert_eq!(store.trust().trusted_hash(path).unwrap(), None);
    }
}
