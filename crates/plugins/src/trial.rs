//! Trials of new plugins: the files that wait for their tests, and the place of one test.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::folder::PluginFolder;
use crate::manifest::PluginTest;

/// Texts of a plugin by their paths in its folder.
pub type PluginTexts = BTreeMap<String, String>;

/// New plugins whose tests are about to run. Only such a plugin can be tested by a call.
#[derive(Debug, Default)]
pub struct PluginTrials {
    waiting: Mutex<BTreeMap<String, Arc<PluginTexts>>>,
    next: AtomicU64,
}

impl PluginTrials {
    /// Adds the files of a plugin, for as long as the returned value lives.
    pub fn add(self: &Arc<Self>, files: PluginTexts) -> WaitingPlugin {
        let id = format!("p{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.waiting.lock().insert(id.clone(), Arc::new(files));
        WaitingPlugin { all: self.clone(), id }
    }

    /// Returns the files under this id.
    pub fn files(&self, id: &str) -> Option<Arc<PluginTexts>> {
        self.waiting.lock().get(id).cloned()
    }
}

/// Plugin that can be tested until this value is dropped.
#[derive(Debug)]
pub struct WaitingPlugin {
    all: Arc<PluginTrials>,
    /// Id for the call.
    pub id: String,
}

impl Drop for WaitingPlugin {
    fn drop(&mut self) {
        self.all.waiting.lock().remove(&self.id);
    }
}

/// Folders of one test, which are removed with this value.
#[derive(Debug)]
pub struct TrialPlace {
    folder: tempfile::TempDir,
}

impl TrialPlace {
    /// Makes the folders of a test.
    ///
    /// # Errors
    /// The error of the system.
    pub fn make(content: &PluginFolder, test: &PluginTest) -> io::Result<Self> {
        let place = Self { folder: tempfile::Builder::new().prefix("handfast-plugin-").tempdir()? };
        let readable = std::fs::Permissions::from_mode(0o755);
        for folder in [place.copy(), place.workspace()] {
            std::fs::create_dir(&folder)?;
            std::fs::set_permissions(&folder, readable.clone())?;
        }
        content.write_to(&place.copy())?;
        // The manifest has only paths within the workspace.
        for (path, text) in &test.files {
            let path = place.workspace().join(path);
            if let Some(around) = path.parent() {
                std::fs::create_dir_all(around)?;
            }
            std::fs::write(path, text)?;
        }
        Ok(place)
    }

    /// Returns the copy of the plugin.
    pub fn copy(&self) -> PathBuf {
        self.folder.path().join("plugin")
    }

    /// Returns the workspace of the test.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }
}
