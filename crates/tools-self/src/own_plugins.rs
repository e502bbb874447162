//! The plugins of a project, as far as self-development makes them and takes them back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use plugins::{PluginFolder, PluginStore, StoreFault};
use tool::{Code, ToolError};

/// Access to the state of plugins.
#[derive(Debug, Clone)]
pub struct OwnPlugins {
    /// State of all plugins.
    pub store: PluginStore,
    /// Folders of plugins that no agent makes: those of the workspace and of the user.
    pub others: Vec<PathBuf>,
    /// True if plugins of the workspace may be tools, because its configuration is trusted.
    pub uses_workspace: bool,
}

impl OwnPlugins {
    /// Checks that no plugin has this name.
    ///
    /// # Errors
    /// `ECONFLICT` if one has it.
    pub(crate) fn check_new(&self, name: &str, folder: &Path) -> Result<(), ToolError> {
        let taken = |by: String| {
            let message = format!("`name`: {by} has this name already; no plugin is ever overwritten");
            Err(ToolError::new(Code::Conflict, message).hint("choose another name"))
        };
        let others = self.others.iter().map(|around| around.join(name));
        for folder in others.chain([folder.to_owned()]) {
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

    /// Records that a human has allowed a new plugin with exactly these files, before they are in place.
    ///
    /// # Errors
    /// `ERUNTIME` if the state cannot be written.
    pub(crate) fn intend(
        &self,
        folder: &Path,
        files: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(), ToolError> {
        let content = PluginFolder::of_texts(folder, files)
            .map_err(|error| ToolError::internal("the plugin has changed").because(error))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        self.store.intend(&name, &content, now).map_err(failed)
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

/// Returns the name of the plugin to whose folder all these paths of a project belong. `around` is the folder of
/// plugins in the project.
pub(crate) fn plugin_of<'a>(around: &str, paths: &'a [String]) -> Option<&'a str> {
    let name = |path: &'_ String| {
        let (name, rest) = path.strip_prefix(around)?.strip_prefix('/')?.split_once('/')?;
        let is_plain = rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
        (plugins::is_plugin_name(name) && is_plain).then_some(name.len())
    };
    let first = paths.first()?;
    let length = name(first)?;
    let begin = around.len() + 1;
    let (folder, plugin) = (first.get(..=begin + length)?, first.get(begin..begin + length)?);
    paths.iter().all(|path| name(path).is_some() && path.starts_with(folder)).then_some(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_one_plugin_belong_to_one_and_others_are_refused() {
        let of = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            plugin_of("plugins", &paths).map(str::to_owned)
        };
        assert_eq!(of(&["plugins/a/x", "plugins/a/y/z"]).as_deref(), Some("a"));
        for wrong in [
            &["plugins/a/x", "plugins/b/x"][..],
            &["plugins/a/x", ".handfast/agents/a.md"],
            &["plugins/a/../b"],
            &["plugins/a"],
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
            others: vec![around.path().join("user")],
            uses_workspace: true,
        };
        own.check_new("a", &around.path().join("a")).unwrap();
        std::fs::create_dir_all(around.path().join("user/a")).unwrap();
        assert_eq!(own.check_new("a", &around.path().join("a")).unwrap_err().code, Code::Conflict);
        let files = [("x".to_owned(), "1".to_owned())].into();
        own.enable(Path::new("/gone/b"), ("b", &files), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(own.check_new("b", &around.path().join("b")).unwrap_err().code, Code::Conflict);
        own.forget(Path::new("/gone/b")).unwrap();
        own.check_new("b", &around.path().join("b")).unwrap();
    }
}
