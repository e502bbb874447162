//! The plugins of a workspace, as far as self-development makes them and takes them back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use plugins::{PluginFolder, PluginStore, StoreFault, WORKSPACE_FOLDER};
use tool::{Code, ToolError};

/// Access to the plugins of a workspace and to their state.
#[derive(Debug, Clone)]
pub struct OwnPlugins {
    /// State of all plugins.
    pub store: PluginStore,
    /// Folder of the user's own plugins.
    pub of_user: Option<PathBuf>,
    /// True if plugins of the workspace may be tools, because its configuration is trusted.
    pub uses_workspace: bool,
}

impl OwnPlugins {
    /// Checks that no plugin has this name.
    ///
    /// # Errors
    /// `ECONFLICT` if one has it.
    pub(crate) fn check_new(&self, name: &str, workspace: &Path) -> Result<(), ToolError> {
        let taken = |by: String| {
            let message = format!("`name`: {by} has this name already; no plugin is ever overwritten");
            Err(ToolError::new(Code::Conflict, message).hint("choose another name"))
        };
        let own = workspace.join(WORKSPACE_FOLDER).join(name);
        let places = [Some(own), self.of_user.as_ref().map(|folder| folder.join(name))];
        for folder in places.into_iter().flatten() {
            if std::fs::symlink_metadata(&folder).is_ok() {
                return taken(format!("the folder {}", tool::visible(&tool::path_text(&folder))));
            }
        }
        let stored = self.store.all().map_err(failed)?;
        match stored.into_iter().find(|plugin| plugin.state.name == name) {
            Some(plugin) => taken(format!("the plugin of {}", tool::path_text(&plugin.folder))),
            None => Ok(()),
        }
    }

    /// Makes a new plugin a tool, with exactly these files.
    ///
    /// # Errors
    /// `ERUNTIME` if the state cannot be written.
    pub(crate) fn enable(
        &self,
        folder: &Path,
        (name, files): (&str, &BTreeMap<String, String>),
        now: Timestamp,
    ) -> Result<(), ToolError> {
        let content = PluginFolder::of_texts(folder, files)
            .map_err(|error| ToolError::internal("the plugin has changed").because(error))?;
        self.store.enable_on_trial(name, &content, now).map_err(failed)
    }

    /// Forgets the plugin of a folder, so that no later files in its place are a tool.
    ///
    /// # Errors
    /// `ERUNTIME` if the state cannot be written.
    pub(crate) fn forget(&self, folder: &Path) -> Result<(), ToolError> {
        match self.store.forget(folder) {
            Ok(()) | Err(StoreFault::Unknown) => Ok(()),
            Err(fault) => Err(failed(fault)),
        }
    }
}

fn failed(fault: StoreFault) -> ToolError {
    ToolError::new(Code::Runtime, fault.to_string()).because(fault)
}

/// Returns the name of the plugin to whose folder all these paths of a project belong.
pub(crate) fn plugin_of(paths: &[String]) -> Option<&str> {
    let name = |path: &'_ String| {
        let (name, rest) = path.strip_prefix(WORKSPACE_FOLDER)?.strip_prefix('/')?.split_once('/')?;
        let is_plain = rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
        (plugins::is_plugin_name(name) && is_plain).then_some(name.len())
    };
    let length = name(paths.first()?)?;
    let begin = paths.first()?.get(..WORKSPACE_FOLDER.len() + 1 + length)?;
    let is_below = |path: &String| {
        name(path) == Some(length) && path.starts_with(begin)
    };
    paths.iter().all(is_below).then(|| begin.get(WORKSPACE_FOLDER.len() + 1..)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_one_plugin_belong_to_one_and_others_are_refused() {
        let of = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            plugin_of(&paths).map(str::to_owned)
        };
        assert_eq!(of(&[".handfast/plugins/a/x", ".handfast/plugins/a/y/z"]).as_deref(), Some("a"));
        for wrong in [
            &[".handfast/plugins/a/x", ".handfast/plugins/b/x"][..],
            &[".handfast/plugins/a/x", ".handfast/agents/a.md"],
            &[".handfast/plugins/a/../b"],
            &[".handfast/plugins/a"],
            &["handfast.yaml"],
            &[],
        ] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_taken_name_is_refused_and_stays_as_it_is() {
        let around = tempfile::tempdir().unwrap();
        let own = OwnPlugins {
            store: PluginStore::at(around.path().join("state")),
            of_user: Some(around.path().join("user")),
            uses_workspace: true,
        };
        own.check_new("a", around.path()).unwrap();
        std::fs::create_dir_all(around.path().join("user/a")).unwrap();
        assert_eq!(own.check_new("a", around.path()).unwrap_err().code, Code::Conflict);
        let files = [("x".to_owned(), "1".to_owned())].into();
        own.enable(Path::new("/gone/b"), ("b", &files), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(own.check_new("b", around.path()).unwrap_err().code, Code::Conflict);
        own.forget(Path::new("/gone/b")).unwrap();
        own.check_new("b", around.path()).unwrap();
    }
}
