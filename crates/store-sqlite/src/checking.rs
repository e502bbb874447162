//! Verification of all saved content, so that damage is found before the content is needed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::Connection;
use store_api::{CheckResult, Hash, StoreError};

use crate::blobs::{BlobFolder, COMPRESSED, entries};
use crate::hash_prefixes::{Key, key, keys};
use crate::packs::{Pack, is_damage};

/// Bytes of a large content that are read between two calls of `goes_on`.
const PIECE: usize = 1024 * 1024;

/// Callback with the number of bytes read since its last call. The check stops when it returns
/// false.
type GoesOn<'a> = &'a dyn Fn(u64) -> bool;

impl BlobFolder {
    /// Reads every content that a checkpoint needs, as [`Blobs::check`](store_api::Blobs::check) states.
    pub(crate) fn check_saved(&self, goes_on: GoesOn<'_>) -> Result<Option<CheckResult>, StoreError> {
        let before = self.database.read(needed)?;
        let mut found = IntactContents::default();
        let numbers: Vec<i64> = self.database.read(|connection| {
            connection.prepare("SELECT number FROM packs")?.query_map([], |row| row.get(0))?.collect()
        })?;
        for number in numbers {
            // Pruning may have removed the pack since.
            let Some(pack) = self.database.read(|connection| Pack::read(connection, number))? else {
                continue;
            };
            let read = found.pack(&pack, &self.pack_path(&pack.name))?;
            if !goes_on(read) {
                return Ok(None);
            }
        }
        for path in self.saved_files()? {
            if !found.file(&path, goes_on)? {
                return Ok(None);
            }
        }
        // A checkpoint added since may need files that were not read, and a removed checkpoint needs
        // none.
        let now: BTreeSet<String> = self.database.read(needed)?.into_iter().map(|(id, _)| id).collect();
        let mut checked = CheckResult { bytes: found.bytes, ..CheckResult::default() };
        for (id, keys) in before.into_iter().filter(|(id, _)| now.contains(id)) {
            let lost = keys.iter().filter(|key| !found.whole.contains(*key)).count() as u64;
            checked.whole += keys.len() as u64 - lost;
            if lost > 0 {
                checked.damaged.push((id, lost));
            }
        }
        Ok(Some(checked))
    }

    /// Lists the files that contain one compressed content each.
    fn saved_files(&self) -> Result<Vec<std::path::PathBuf>, StoreError> {
        let mut files = Vec::new();
        for folder in entries(&self.folder)? {
            files.extend(entries(&folder)?.filter(|path| hash_of(path).is_some()));
        }
        Ok(files)
    }
}

/// The intact contents found so far.
#[derive(Default)]
struct IntactContents {
    whole: BTreeSet<Key>,
    bytes: u64,
}

impl IntactContents {
    /// Reads a pack, and returns its length in bytes.
    fn pack(&mut self, pack: &Pack, path: &Path) -> Result<u64, StoreError> {
        let Some(file) = open(path)? else { return Ok(0) };
        let at = |error| StoreError::from_io(path, error);
        let damaged: BTreeSet<Hash> = pack.damaged(&file).map_err(at)?.into_iter().collect();
        self.whole.extend(pack.contents.keys().filter(|hash| !damaged.contains(hash)).map(key));
        let length = file.metadata().map_err(at)?.len();
        self.bytes += length;
        Ok(length)
    }

    /// Reads a file with one content. Returns true if the check continues.
    fn file(&mut self, path: &Path, goes_on: GoesOn<'_>) -> Result<bool, StoreError> {
        let (Some(file), Some(expected)) = (open(path)?, hash_of(path)) else { return Ok(true) };
        let at = |error| StoreError::from_io(path, error);
        let mut content = zstd::Decoder::new(file).map_err(at)?;
        let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; PIECE]);
        loop {
            let read = match content.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if is_damage(&error) => return Ok(goes_on(0)),
                Err(error) => return Err(at(error)),
            };
            hasher.update(&buffer[..read]);
            self.bytes += read as u64;
            if read == 0 || !goes_on(read as u64) {
                if Hash::from(hasher.finalize()) == expected {
                    self.whole.insert(key(&expected));
                }
                return Ok(read == 0);
            }
        }
    }
}

/// Opens a file, or returns `None` if it is gone.
fn open(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::from_io(path, error)),
    }
}

/// Parses the hash in the name of a file with one compressed content. Returns `None` for any other
/// file.
fn hash_of(path: &Path) -> Option<Hash> {
    path.file_name()?.to_str()?.strip_suffix(COMPRESSED)?.parse().ok()
}

/// Lists the checkpoints with the keys of the contents that each needs.
fn needed(connection: &Connection) -> rusqlite::Result<Vec<(String, Vec<Key>)>> {
    let mut statement =
        connection.prepare("SELECT checkpoint, keys FROM checkpoint_contents ORDER BY checkpoint")?;
    let mut rows = statement.query([])?;
    let mut needed = Vec::new();
    while let Some(row) = rows.next()? {
        needed.push((row.get(0)?, keys(row.get_ref(1)?.as_blob()?).to_vec()));
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use store_api::Store as _;

    use super::*;
    use crate::SqliteStore;
    use crate::packs::tests::{checkpoint, save};

    fn check(store: &SqliteStore) -> CheckResult {
        store.blobs().check(&|_| true).unwrap().unwrap()
    }

    #[test]
    fn damage_of_every_kind_is_told_with_the_checkpoint_that_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let large = "some words ".repeat(200_000);
        let (packed, single) = (save(&store, &["one", "", "two"]), save(&store, &[&large]));
        checkpoint(&store, "a", &packed);
        checkpoint(&store, "b", &single);
        checkpoint(&store, "c", &[packed[0], single[0]]);
        let whole = check(&store);
        assert_eq!((whole.whole, whole.damaged), (6, vec![]));
        assert!(whole.bytes > large.len() as u64);

        let pack = store.database.read(|connection| Pack::read(connection, 1)).unwrap().unwrap();
        let damage = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
            let kept = std::fs::read(path).unwrap();
            let mut bytes = kept.clone();
            change(&mut bytes);
            std::fs::write(path, bytes).unwrap();
            let found = check(&store).damaged;
            std::fs::write(path, kept).unwrap();
            found
        };
        let flip = |bytes: &mut Vec<u8>| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        };
        let of =
            |ids: &[(&str, u64)]| ids.iter().map(|(id, lost)| ((*id).to_owned(), *lost)).collect::<Vec<_>>();
        let path = store.blobs.pack_path(&pack.name);
        let all_of_the_pack = of(&[("a", 3), ("c", 1)]);
        assert_eq!(damage(&path, &|bytes| bytes.truncate(3)), all_of_the_pack);
        assert_eq!(damage(&path, &|bytes| bytes.clear()), all_of_the_pack);
        assert!(!damage(&path, &flip).is_empty());
        let single = store.blobs.saved_files().unwrap().remove(0);
        for change in [&flip as &dyn Fn(&mut Vec<u8>), &|bytes| bytes.truncate(9), &|bytes| bytes.clear()] {
            assert_eq!(damage(&single, change), of(&[("b", 1), ("c", 1)]));
        }
        std::fs::remove_file(path).unwrap();
        assert_eq!(check(&store).damaged, all_of_the_pack);
        // After another save, the contents are intact again.
        save(&store, &["one", "", "two"]);
        assert_eq!(check(&store).damaged, vec![]);
    }

    #[test]
    fn a_check_ends_where_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        save(&store, &["one", "two"]);
        assert_eq!(store.blobs().check(&|_| false).unwrap(), None);
    }
}
