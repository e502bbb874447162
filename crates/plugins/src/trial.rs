//! The place of a test: a copy of the plugin, and a workspace with the files of the test.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::folder::PluginFolder;
use crate::manifest::PluginTest;

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
