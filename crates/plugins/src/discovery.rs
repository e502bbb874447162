//! Places of plugins: `plugins/` in the user's configuration, and `.handfast/plugins/` of a workspace.

use std::path::{Path, PathBuf};

use crate::folder::{FolderError, PluginFolder};
use crate::manifest::Manifest;

/// Maximum number of plugins in one folder of plugins.
const MOST: usize = 200;

/// Folder that may contain plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    /// Folder.
    pub folder: PathBuf,
    /// Owner of the plugins.
    pub kind: SourceKind,
}

/// Owner of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// The user, in all workspaces.
    User,
    /// The workspace.
    Workspace,
}

impl SourceKind {
    /// Returns the word for this owner.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

/// Folder that should be a plugin.
#[derive(Debug)]
pub struct FoundPlugin {
    /// Name of the folder.
    pub name: String,
    /// Folder.
    pub folder: PathBuf,
    /// Owner.
    pub kind: SourceKind,
}

impl FoundPlugin {
    /// Reads the content with its manifest. Many plugins together can be large, so one is read at a time.
    ///
    /// # Errors
    /// [`FolderError`], with what is wrong with the folder.
    pub fn read(&self) -> Result<(PluginFolder, Manifest), FolderError> {
        let content = PluginFolder::read(&self.folder)?;
        let manifest = content.manifest()?;
        Ok((content, manifest))
    }
}

/// Finds the plugins of a source, by their names. A source that does not exist has none, and neither has one of a
/// workspace that a link leads to.
pub fn found_in(source: &PluginSource) -> Vec<FoundPlugin> {
    let is_link = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink());
    if source.kind == SourceKind::Workspace && source.folder.ancestors().take(2).any(is_link) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(&source.folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir()))
        .collect();
    folders.sort();
    folders.truncate(MOST);
    folders.into_iter().filter_map(|folder| found(&folder, source.kind)).collect()
}

fn found(folder: &Path, kind: SourceKind) -> Option<FoundPlugin> {
    let name = folder.file_name()?.to_string_lossy().into_owned();
    if name.starts_with('.') {
        return None;
    }
    Some(FoundPlugin { name, folder: folder.to_owned(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_with_what_is_wrong_with_them() {
        let around = tempfile::tempdir().unwrap();
        crate::scaffold(&around.path().join("good"), "good", crate::Language::Shell).unwrap();
        std::fs::create_dir(around.path().join("empty")).unwrap();
        std::fs::create_dir(around.path().join(".hidden")).unwrap();
        std::fs::write(around.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(around.path().join("good"), around.path().join("link")).unwrap();
        let source = PluginSource { folder: around.path().to_owned(), kind: SourceKind::User };
        let found = found_in(&source);
        let seen: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.read().is_ok())).collect();
        assert_eq!(seen, [("empty", false), ("good", true)]);
        assert!(found_in(&PluginSource { folder: "/nowhere".into(), kind: SourceKind::User }).is_empty());
        // A repository can have links that lead to any folder.
        let linked = around.path().join("linked");
        std::os::unix::fs::symlink(around.path(), &linked).unwrap();
        for folder in [linked.clone(), linked.join("good")] {
            assert!(found_in(&PluginSource { folder, kind: SourceKind::Workspace }).is_empty());
        }
        let plain = PluginSource { folder: around.path().to_owned(), kind: SourceKind::Workspace };
        assert_eq!(found_in(&plain).len(), 2);
    }
}
