//! Hashes of folders that were read before, by what the file system says of their files.
//!
//! A hash counts as long as no file has another inode, size, mode or time. As in git's index, a hash is not kept if a
//! file had changed within the last seconds before the folder was read: a later change could then leave the same times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::folder::{FolderError, PluginFolder};

/// Name of the file with the hashes.
const FILE: &str = "hashes.json";
/// Prefix of a file that is being written.
const PARTIAL: &str = ".partial-";
/// Version of the file. Another one is read as if it were empty.
const VERSION: u32 = 1;
/// Seconds between the last change of a folder and the time at which it is read, so that its hash is kept. Coarse
/// clocks of file systems tell times apart that differ by two seconds.
const SETTLED_SECONDS: i64 = 2;
/// Maximum number of folders.
const MOST: usize = 1_000;

/// File with the hashes, in the folder of the state of plugins. It only saves time: without it, folders are read.
#[derive(Debug, Clone)]
pub(crate) struct KnownHashes {
    folder: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    version: u32,
    folders: BTreeMap<PathBuf, KnownHash>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownHash {
    stamp: String,
    hash: String,
}

impl KnownHashes {
    /// Names the folder of the file.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the hash of a folder's content. Reads no file of the folder if its hash is known.
    ///
    /// # Errors
    /// [`FolderError`] if the folder is no plugin.
    pub(crate) fn hash_of(&self, path: &Path) -> Result<String, FolderError> {
        self.hash_at(path, || self.now())
    }

    fn hash_at(&self, path: &Path, now: impl FnOnce() -> io::Result<i64>) -> Result<String, FolderError> {
        let Some((stamp, latest)) = PluginFolder::dated_stamp(path) else {
            return PluginFolder::hash_of(path);
        };
        let known = self.read().folders.remove(path).filter(|known| known.stamp == stamp);
        if let Some(known) = known {
            return Ok(known.hash);
        }
        let now = now();
        let hash = PluginFolder::hash_of(path)?;
        let is_settled = now.is_ok_and(|now| latest.0.saturating_add(SETTLED_SECONDS) < now);
        if is_settled && PluginFolder::stamp(path).as_ref() == Some(&stamp) {
            // If it cannot be written, the next start reads the folder again.
            let _kept = self.keep(path, KnownHash { stamp, hash: hash.clone() });
        }
        Ok(hash)
    }

    fn read(&self) -> Written {
        let text = std::fs::read(self.folder.join(FILE)).unwrap_or_default();
        let written: Option<Written> = serde_json::from_slice(&text).ok();
        written.filter(|written| written.version == VERSION).unwrap_or_default()
    }

    /// Returns the time in seconds, by the clock that dates changes of files.
    fn now(&self) -> io::Result<i64> {
        Ok(self.draft()?.as_file().metadata()?.mtime())
    }

    fn draft(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new().prefix(PARTIAL).tempfile_in(&self.folder)
    }

    /// Writes a hash. Of two processes that write at once, the second one wins, and a lost hash is found again.
    fn keep(&self, path: &Path, known: KnownHash) -> io::Result<()> {
        let mut written = self.read();
        written.folders.retain(|folder, _| folder.exists());
        if written.folders.len() >= MOST {
            written.folders.clear();
        }
        written.version = VERSION;
        written.folders.insert(path.to_owned(), known);
        let mut draft = self.draft()?;
        draft.write_all(&serde_json::to_vec(&written).map_err(io::Error::other)?)?;
        draft.persist(self.folder.join(FILE)).map_err(|error| error.error)?;
        File::open(&self.folder).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    struct Place {
        hashes: KnownHashes,
        plugin: tempfile::TempDir,
        _state: tempfile::TempDir,
    }

    fn place() -> Place {
        let (state, plugin) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(plugin.path().join("main.sh"), "one").unwrap();
        Place { hashes: KnownHashes::at(state.path().to_owned()), plugin, _state: state }
    }

    impl Place {
        fn hash(&self) -> String {
            self.hashes.hash_of(self.plugin.path()).unwrap()
        }

        fn is_kept(&self) -> bool {
            self.hashes.read().folders.contains_key(self.plugin.path())
        }
    }

    #[test]
    fn a_hash_is_kept_once_the_files_are_old_and_files_that_changed_are_read_again() {
        let place = place();
        let first = place.hash();
        assert_eq!(first, PluginFolder::read(place.plugin.path()).unwrap().hash);
        assert!(!place.is_kept(), "its file has just changed");
        assert_eq!(place.hashes.hash_at(place.plugin.path(), || Ok(i64::MAX)).unwrap(), first);
        assert!(place.is_kept());
        // A known hash counts without a look at the content, which is what it is for.
        let mut written = place.hashes.read();
        for known in written.folders.values_mut() {
            known.hash = "known".to_owned();
        }
        std::fs::write(place.hashes.folder.join(FILE), serde_json::to_vec(&written).unwrap()).unwrap();
        assert_eq!(place.hash(), "known");
        // A change that keeps the size and sets the old time of change leaves another ctime.
        let file = place.plugin.path().join("main.sh");
        let old: SystemTime = file.metadata().unwrap().modified().unwrap();
        let changed = |file: &Path| {
            let facts = file.metadata().unwrap();
            (facts.ctime(), facts.ctime_nsec())
        };
        let before = changed(&file);
        // BOUNDED: by the clock of the file system, which goes on within milliseconds.
        while changed(&file) == before {
            std::fs::write(&file, "two").unwrap();
            File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
        }
        let second = place.hash();
        assert_eq!(second, PluginFolder::read(place.plugin.path()).unwrap().hash);
        assert_ne!(second, first);
    }

    #[test]
    fn a_file_that_is_damaged_or_missing_costs_time_and_nothing_else() {
        let place = place();
        let hash = place.hash();
        for text in ["{", "{\"version\":2,\"folders\":{}}"] {
            std::fs::write(place.hashes.folder.join(FILE), text).unwrap();
            assert_eq!(place.hash(), hash);
        }
        let nowhere = KnownHashes::at("/nowhere".into());
        assert_eq!(nowhere.hash_of(place.plugin.path()).unwrap(), hash);
        assert!(place.hashes.hash_of(Path::new("/nowhere")).is_err());
    }
}
