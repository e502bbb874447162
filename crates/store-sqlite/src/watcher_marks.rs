//! Notifications between processes: changes in the database, watchers of questions, and waiting
//! calls.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rustix::fs::FlockOperation;
use store_api::{Life, StoreError};

use crate::database::Database;

/// The commits of other connections. Each check reads one number and no table.
pub(crate) struct Commits {
    database: Arc<Database>,
    connection: Connection,
    version: i64,
}

impl Commits {
    pub(crate) fn new(database: Arc<Database>) -> Result<Self, StoreError> {
        let connection = database.connect()?;
        let mut commits = Self { database, connection, version: 0 };
        commits.have_come()?;
        Ok(commits)
    }

    /// Returns true if another connection, in any process, has committed anything since the last
    /// call.
    pub(crate) fn have_come(&mut self) -> Result<bool, StoreError> {
        let version = self
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| self.database.error(error))?;
        Ok(std::mem::replace(&mut self.version, version) != version)
    }
}

/// Number of lock files: each watcher locks one of them, and a check tries to take each lock.
///
/// A single file would not work: two simultaneous checks would take each other for a watcher.
const PLACES: usize = 8;

fn place(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("attention.{number}"))
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Marks, as long as the file is open, that somebody watches. With more watchers than lock files, the
/// last ones are invisible, but the others suffice.
///
/// A watcher that can answer only the questions of one workspace names that workspace.
pub(crate) fn watch(folder: &Path, workspace: Option<&Path>) -> Result<File, StoreError> {
    let mut last = None;
    for number in 0..PLACES {
        let path = place(folder, number);
        let file = open(&path).map_err(|error| StoreError::from_io(&path, error))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let named = workspace.map(|path| path.as_os_str().as_bytes()).unwrap_or_default();
            file.set_len(0)
                .and_then(|()| file.write_all_at(named, 0))
                .map_err(|error| StoreError::from_io(&path, error))?;
            return Ok(file);
        }
        last = Some(file);
    }
    let path = place(folder, 0);
    last.ok_or_else(|| StoreError::from_io(&path, std::io::Error::other("there is no place")))
}

/// Returns true if somebody watches who can answer a question of this workspace.
pub(crate) fn is_watched(folder: &Path, workspace: &Path) -> bool {
    (0..PLACES).any(|number| {
        let path = place(folder, number);
        let Ok(file) = File::open(&path) else { return false };
        // A shared lock, so that two simultaneous checks do not block each other.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() && {
            // If the name is not written yet, the waiting process checks again later.
            let named = std::fs::read(&path).unwrap_or_default();
            named.is_empty() || named == workspace.as_os_str().as_bytes()
        }
    })
}

/// A locked file in a folder of such files. It is removed when this value is dropped.
pub(crate) struct LockedFile {
    path: PathBuf,
    _file: File,
}

/// Folder with a locked file for each waiting call, named after the question and the call.
const WAITING: &str = "waiting";

/// Folder with a locked file for each thing that a process does and that others may take over.
const LIVE: &str = "live";

impl LockedFile {
    /// Creates the file of a call that waits for the answer to a question.
    pub(crate) fn of_waiting(folder: &Path, question: &str, call: &str) -> Result<Self, StoreError> {
        Self::create(&folder.join(WAITING), &format!("{question}.{call}"))
    }

    /// Creates the file of something that this process does.
    pub(crate) fn of_life(folder: &Path, name: &str) -> Result<Self, StoreError> {
        Self::create(&folder.join(LIVE), name)
    }

    fn create(folder: &Path, name: &str) -> Result<Self, StoreError> {
        crate::blobs::create_folder(folder)?;
        let (path, new) = (folder.join(name), folder.join(format!(".{name}")));
        // The file gets its name after it is locked, so a visible file without a lock is a leftover.
        let locked = open(&new).and_then(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            std::fs::rename(&new, &path)?;
            Ok(file)
        });
        let file = locked.map_err(|error| StoreError::from_io(&path, error))?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // A file that stays has no lock, and the next check removes it, or knows that its process has died.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Tells if the process lives that has locked the file of this name. A file without a lock is left by a process
/// that was killed.
pub(crate) fn life_of(folder: &Path, name: &str) -> Life {
    let Ok(file) = File::open(folder.join(LIVE).join(name)) else { return Life::Unknown };
    // A shared lock, so that two simultaneous checks do not block each other.
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Life::Died,
        Err(_) => Life::Lives,
    }
}

/// Lists the questions that calls wait for. Removes the files of killed processes.
pub(crate) fn waited_for(folder: &Path) -> HashSet<String> {
    // The folder is missing until a first call waits.
    let Ok(entries) = std::fs::read_dir(folder.join(WAITING)) else { return HashSet::new() };
    let mut waited_for = HashSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((question, _)) = name.split_once('.').filter(|(question, _)| !question.is_empty()) else {
            continue;
        };
        let Ok(file) = File::open(entry.path()) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            waited_for.insert(question.to_owned());
        } else {
            // Another process may have removed the file first.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    waited_for
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_seen_while_it_lasts_and_those_who_look_do_not_see_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let (here, elsewhere) = (Path::new("/here"), Path::new("/elsewhere"));
        assert!(!is_watched(folder.path(), here));
        let first = watch(folder.path(), None).unwrap();
        let second = watch(folder.path(), Some(here)).unwrap();
        assert!(is_watched(folder.path(), here) && is_watched(folder.path(), elsewhere));
        drop(first);
        assert!(is_watched(folder.path(), here));
        assert!(!is_watched(folder.path(), elsewhere), "who looks cannot answer there");
        drop(second);
        let looking: Vec<_> = (0..4)
            .map(|_| {
                let folder = folder.path().to_owned();
                std::thread::spawn(move || (0..500).any(|_| is_watched(&folder, Path::new("/here"))))
            })
            .collect();
        assert!(looking.into_iter().all(|thread| !thread.join().unwrap()));
    }

    #[test]
    fn a_question_is_waited_for_while_any_call_does_and_what_is_left_over_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let waited_for = || super::waited_for(folder.path());
        assert!(waited_for().is_empty());
        let first = LockedFile::of_waiting(folder.path(), "a1", "c1").unwrap();
        let second = LockedFile::of_waiting(folder.path(), "a1", "c2").unwrap();
        let other = LockedFile::of_waiting(folder.path(), "a2", "c3").unwrap();
        drop(first);
        assert_eq!(waited_for(), HashSet::from(["a1".to_owned(), "a2".to_owned()]));
        drop(second);
        assert_eq!(waited_for(), HashSet::from(["a2".to_owned()]));
        drop(other);
        let left = folder.path().join(WAITING).join("a3.c4");
        std::fs::write(&left, "").unwrap();
        assert!(waited_for().is_empty() && !left.exists());
    }

    #[test]
    fn who_was_killed_has_died_until_another_one_shows_life() {
        let folder = tempfile::tempdir().unwrap();
        let mark = LockedFile::of_life(folder.path(), "a1").unwrap();
        assert_eq!(life_of(folder.path(), "a1"), Life::Lives);
        // The lock of a killed process ends, and its file stays.
        let left = folder.path().join(LIVE).join("a2");
        std::fs::write(&left, "").unwrap();
        assert_eq!(life_of(folder.path(), "a2"), Life::Died);
        let again = LockedFile::of_life(folder.path(), "a2").unwrap();
        assert_eq!(life_of(folder.path(), "a2"), Life::Lives);
        drop((mark, again));
        assert_eq!(life_of(folder.path(), "a1"), Life::Unknown);
        assert!(!left.exists());
    }
}
