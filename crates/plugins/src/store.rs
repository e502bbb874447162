//! The state of plugins: which content is allowed, and what failed.
//!
//! The folder of the state has one file, `plugins.json`, and a copy of the files of each allowed plugin under its
//! hash. A copy is complete before the file names it, and the file is replaced in one step: a process that is
//! killed leaves the earlier state, and at most a copy that nothing names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use locks::{FileLock, Kind};
use serde::{Deserialize, Serialize};

use crate::folder::{FolderError, PluginFolder};
use crate::known_hashes::KnownHashes;

/// Number of failures in a row after which a plugin is quarantined.
pub const FAILURES_BEFORE_QUARANTINE: u32 = 3;

/// Number of runs after which a plugin that an agent has made is one like all others.
pub const FIRST_RUNS: u32 = 5;

/// Name of the file with the state.
const STATE_FILE: &str = "plugins.json";
/// Name of the file that writers lock.
const LOCK_FILE: &str = "lock";
/// Prefix of a copy that is not complete.
const PARTIAL: &str = ".partial-";
/// Maximum length of a stored reason, in characters.
const LONGEST_REASON: usize = 500;
/// Version of the file.
const VERSION: u32 = 1;

/// Failure of the state.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// A file cannot be read or written.
    #[error("the state of plugins cannot be used: {0}")]
    Io(#[from] io::Error),
    /// The file has content that this version does not understand.
    #[error(
        "{path} is damaged or of a later version ({problem}); move it away, and enable the plugins again"
    )]
    Damaged {
        /// Path of the file.
        path: String,
        /// Fault.
        problem: String,
    },
    /// The plugin is not known.
    #[error("this plugin was never enabled; `handfast plugin enable NAME` enables it")]
    Unknown,
}

/// State of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginState {
    /// Name of the plugin.
    pub name: String,
    /// True if its tool is registered.
    pub is_enabled: bool,
    /// Hash of the content that the user has allowed.
    pub hash: String,
    /// Time of that.
    pub allowed_at: Timestamp,
    /// Number of failures since the last success.
    #[serde(default)]
    pub failures: u32,
    /// Last failure since the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Quarantine, in which no call runs the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// Number of first runs that are left, any of which takes the plugin back when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_runs_left: Option<u32>,
    /// True if the folder is that of a project for self-development.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_project: bool,
    /// True from the decision of a human about a new plugin until its files are in place. A start ends this state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pending: bool,
}

/// Quarantine of a plugin. Enabling the plugin ends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// Last failure.
    pub reason: String,
    /// Time of its begin.
    pub since: Timestamp,
}

/// State of one plugin with the path of its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlugin {
    /// Folder of the plugin.
    pub folder: PathBuf,
    /// State.
    pub state: PluginState,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    version: u32,
    /// States by the paths of the folders.
    plugins: BTreeMap<PathBuf, PluginState>,
}

/// Folder with the state of plugins. Several processes may use it at once.
#[derive(Debug, Clone)]
pub struct PluginStore {
    folder: PathBuf,
}

impl PluginStore {
    /// Opens the state in a folder, which is created at the first change.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the states of all plugins.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn all(&self) -> Result<Vec<StoredPlugin>, StoreFault> {
        let plugins = self.read()?.plugins.into_iter();
        Ok(plugins.map(|(folder, state)| StoredPlugin { folder, state }).collect())
    }

    /// Returns the state of the plugin in this folder.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn of(&self, folder: &Path) -> Result<Option<PluginState>, StoreFault> {
        Ok(self.read()?.plugins.remove(folder))
    }

    /// Returns the folder with the copy of allowed content.
    pub fn copy_of(&self, hash: &str) -> PathBuf {
        self.folder.join("copies").join(hash)
    }

    /// Returns the hash of a folder's content. Reads no file of the folder if its hash is known from before.
    ///
    /// # Errors
    /// [`FolderError`] if the folder is no plugin.
    pub fn hash_of(&self, folder: &Path) -> Result<String, FolderError> {
        KnownHashes::at(self.folder.clone()).hash_of(folder)
    }

    /// Allows this content of a plugin and enables it. Ends its quarantine.
    ///
    /// # Errors
    /// [`StoreFault`]; the earlier state then stays.
    pub fn enable(&self, name: &str, content: &PluginFolder, now: Timestamp) -> Result<(), StoreFault> {
        let in_project = self.of(&content.path)?.is_some_and(|state| state.in_project);
        self.allow((name, in_project, false), content, now, None)
    }

    /// Allows this content of a new plugin of a project, which is taken back if one of its first runs fails.
    ///
    /// # Errors
    /// [`StoreFault`]; the earlier state then stays.
    pub fn enable_on_trial(
        &self,
        name: &str,
        content: &PluginFolder,
        now: Timestamp,
    ) -> Result<(), StoreFault> {
        self.allow((name, true, false), content, now, Some(FIRST_RUNS))
    }

    /// Records that a human has allowed this content of a new plugin of a project, before its files are in place.
    /// [`enable_on_trial`](Self::enable_on_trial) follows, or after a kill [`settle_pending`](Self::settle_pending).
    ///
    /// # Errors
    /// [`StoreFault`]; the earlier state then stays.
    pub fn intend(&self, name: &str, content: &PluginFolder, now: Timestamp) -> Result<(), StoreFault> {
        self.allow((name, true, true), content, now, Some(FIRST_RUNS))
    }

    /// Enables the plugins that a killed process has intended and whose files are in place, until
    /// [`settle_pending`](Self::settle_pending) decides about them.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn enable_pending(&self) -> Result<(), StoreFault> {
        if self.read()?.plugins.values().all(|state| !state.is_pending) {
            return Ok(());
        }
        self.change(|written| {
            for (folder, state) in written.plugins.iter_mut().filter(|(_, state)| state.is_pending) {
                state.is_enabled = is_in_place(folder, state);
            }
            Ok(())
        })
    }

    /// Finishes what a killed process has intended: plugins whose files are in place, as they were allowed, are enabled,
    /// and the others are forgotten. The commits of killed processes must have been completed or rolled back before.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn settle_pending(&self) -> Result<(), StoreFault> {
        if self.read()?.plugins.values().all(|state| !state.is_pending) {
            return Ok(());
        }
        self.change(|written| {
            written.plugins.retain(|folder, state| !state.is_pending || is_in_place(folder, state));
            for state in written.plugins.values_mut().filter(|state| state.is_pending) {
                (state.is_pending, state.is_enabled) = (false, true);
            }
            Ok(())
        })
    }

    fn allow(
        &self,
        (name, in_project, is_pending): (&str, bool, bool),
        content: &PluginFolder,
        now: Timestamp,
        first_runs_left: Option<u32>,
    ) -> Result<(), StoreFault> {
        self.change(|written| {
            self.copy(content)?;
            let state = PluginState {
                name: name.to_owned(),
                is_enabled: !is_pending,
                hash: content.hash.clone(),
                allowed_at: now,
                failures: 0,
                last_failure: None,
                quarantine: None,
                first_runs_left,
                in_project,
                is_pending,
            };
            written.plugins.insert(content.path.clone(), state);
            Ok(())
        })
    }

    /// Disables a plugin. Its allowed content stays known, for the difference at the next time.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn disable(&self, folder: &Path) -> Result<(), StoreFault> {
        self.change(|written| {
            written.plugins.get_mut(folder).ok_or(StoreFault::Unknown)?.is_enabled = false;
            Ok(())
        })
    }

    /// Forgets a plugin, with the copy of its content.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn forget(&self, folder: &Path) -> Result<(), StoreFault> {
        self.change(|written| written.plugins.remove(folder).map(drop).ok_or(StoreFault::Unknown))
    }

    /// Records that a call of this content succeeded, or that the plugin itself answered with an error.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn note_success(&self, folder: &Path, hash: &str) -> Result<(), StoreFault> {
        let is_clean = |state: &PluginState| state.failures == 0 && state.first_runs_left.is_none();
        if self.of(folder)?.as_ref().is_none_or(is_clean) {
            return Ok(());
        }
        self.change(|written| {
            if let Some(state) = written.plugins.get_mut(folder).filter(|state| state.hash == hash) {
                (state.failures, state.last_failure) = (0, None);
                state.first_runs_left = state.first_runs_left.map(|left| left.saturating_sub(1));
                state.first_runs_left = state.first_runs_left.filter(|left| *left > 0);
            }
            Ok(())
        })
    }

    /// Records a failure of this content. Returns the state afterwards.
    ///
    /// # Errors
    /// [`StoreFault`]
    pub fn note_failure(
        &self,
        folder: &Path,
        hash: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<PluginState, StoreFault> {
        let mut after = None;
        self.change(|written| {
            let state = written
                .plugins
                .get_mut(folder)
                .filter(|state| state.hash == hash)
                .ok_or(StoreFault::Unknown)?;
            let reason: String = tool::visible(reason).chars().take(LONGEST_REASON).collect();
            state.failures = state.failures.saturating_add(1);
            state.last_failure = Some(reason.clone());
            if state.first_runs_left.is_some() && state.quarantine.is_none() {
                let reason =
                    format!("taken back, because one of its first {FIRST_RUNS} runs failed: {reason}");
                state.is_enabled = false;
                state.quarantine = Some(Quarantine { reason, since: now });
            } else if state.failures >= FAILURES_BEFORE_QUARANTINE && state.quarantine.is_none() {
                state.quarantine = Some(Quarantine { reason, since: now });
            }
            after = Some(state.clone());
            Ok(())
        })?;
        after.ok_or(StoreFault::Unknown)
    }

    fn read(&self) -> Result<Written, StoreFault> {
        let path = self.folder.join(STATE_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Written::default()),
            Err(error) => return Err(error.into()),
        };
        let damaged = |problem: String| StoreFault::Damaged { path: tool::path_text(&path), problem };
        let written: Written = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if written.version != VERSION {
            return Err(damaged(format!("version {}", written.version)));
        }
        Ok(written)
    }

    /// Makes a change under the lock of all writers.
    fn change(&self, make: impl FnOnce(&mut Written) -> Result<(), StoreFault>) -> Result<(), StoreFault> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let lock = File::options().create(true).append(true).open(self.folder.join(LOCK_FILE))?;
        let name = format_args!("the state of plugins").to_string();
        let _alone = FileLock::wait(lock, Kind::Exclusive, &name).map_err(io::Error::from)?;
        let mut written = self.read()?;
        make(&mut written)?;
        written.version = VERSION;
        let mut draft = tempfile::Builder::new().prefix(PARTIAL).tempfile_in(&self.folder)?;
        draft.write_all(&serde_json::to_vec_pretty(&written).map_err(io::Error::other)?)?;
        draft.as_file().sync_all()?;
        draft.persist(self.folder.join(STATE_FILE)).map_err(|error| error.error)?;
        File::open(&self.folder)?.sync_all()?;
        self.tidy(&written);
        Ok(())
    }

    /// Copies allowed content, unless there is a copy of it.
    fn copy(&self, content: &PluginFolder) -> io::Result<()> {
        let target = self.copy_of(&content.hash);
        if PluginFolder::hash_of(&target).is_ok_and(|hash| hash == content.hash) {
            return Ok(());
        }
        let around = self.folder.join("copies");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&around)?;
        if target.exists() {
            // A damaged copy makes room, and goes with the drafts.
            let damaged = tempfile::Builder::new().prefix(PARTIAL).tempdir_in(&around)?.keep();
            std::fs::rename(&target, damaged.join("copy"))?;
        }
        let draft = tempfile::Builder::new().prefix(PARTIAL).tempdir_in(&around)?;
        content.write_to(draft.path())?;
        std::fs::set_permissions(draft.path(), std::fs::Permissions::from_mode(0o755))?;
        std::fs::rename(draft.keep(), &target)?;
        File::open(&around)?.sync_all()
    }

    /// Removes drafts of killed processes, and copies that no plugin names. The next change tries again.
    fn tidy(&self, written: &Written) {
        let is_named = |name: &str| written.plugins.values().any(|state| state.hash == name);
        for entry in std::fs::read_dir(self.folder.join("copies")).into_iter().flatten().flatten() {
            if !entry.file_name().to_str().is_some_and(is_named) {
                let _later = std::fs::remove_dir_all(entry.path());
            }
        }
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                let _later = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns true if the folder has exactly the files that were allowed.
fn is_in_place(folder: &Path, state: &PluginState) -> bool {
    PluginFolder::hash_of(folder).is_ok_and(|hash| hash == state.hash)
}

#[cfg(test)]
mod tests;
