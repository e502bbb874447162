//! The places of plugins: of a workspace, of the user, of packages and of projects, with their state.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plugins::{FoundPlugin, MANIFEST_FILE, PluginSource, PluginStore, SourceKind, StoredPlugin, found_in};
use tools_self::OwnPlugins;

use crate::failure::Failure;
use crate::packages::{Packages, content::PLUGINS};

/// Folder of plugins in a workspace.
pub(crate) const WORKSPACE_FOLDER: &str = ".handfast/plugins";
/// Name of the folder of plugins within that of the user's configuration, and within the state.
const FOLDER: &str = "plugins";
/// The places of plugins and of their state.
#[derive(Debug, Clone)]
pub(crate) struct PluginPlaces {
    sources: Vec<PluginSource>,
    workspace: PathBuf,
    packages: Packages,
    pub(crate) store: PluginStore,
}

impl PluginPlaces {
    /// Names the folders of a workspace, of the user's configuration and of the state.
    pub(crate) fn of(workspace: &Path, configuration: Option<&Path>, state: &Path) -> Self {
        let own = PluginSource { folder: workspace.join(WORKSPACE_FOLDER), kind: SourceKind::Workspace };
        let user =
            configuration.map(|folder| PluginSource { folder: folder.join(FOLDER), kind: SourceKind::User });
        Self {
            sources: std::iter::once(own).chain(user).collect(),
            workspace: workspace.to_owned(),
            packages: Packages::of(state),
            store: PluginStore::at(state.join(FOLDER)),
        }
    }

    /// Returns the names of the plugins that were ever enabled, which rules may name.
    pub(crate) fn stored_names(state: &Path) -> Vec<&'static str> {
        let stored = PluginStore::at(state.join(FOLDER)).all().unwrap_or_default();
        stored.iter().filter_map(|plugin| tool::static_name(&plugin.state.name)).collect()
    }

    /// Returns all plugins, those of the workspace first.
    pub(crate) fn all(&self) -> Vec<FoundPlugin> {
        let of_packages = self.packages.all().unwrap_or_default().into_iter().flat_map(|package| {
            found_in(&PluginSource { folder: package.folder(PLUGINS), kind: SourceKind::User })
        });
        self.sources.iter().flat_map(found_in).chain(of_packages).chain(self.of_projects()).collect()
    }

    /// Returns the plugins in the folders of projects for self-development.
    fn of_projects(&self) -> Vec<FoundPlugin> {
        let stored = self.store.all().unwrap_or_default().into_iter();
        let own = stored.filter(|plugin| self.is_of_project(plugin));
        let around: BTreeSet<PathBuf> =
            own.filter_map(|plugin| plugin.folder.parent().map(Path::to_owned)).collect();
        let sources = around.into_iter().map(|folder| PluginSource { folder, kind: SourceKind::Workspace });
        let found = sources.flat_map(|source| found_in(&source));
        // The folder can have others beside the plugins.
        found.filter(|plugin| plugin.folder.join(MANIFEST_FILE).exists()).collect()
    }

    fn is_of_project(&self, plugin: &StoredPlugin) -> bool {
        plugin.state.in_project && plugin.folder.starts_with(&self.workspace)
    }

    /// Returns the folder for new plugins of this owner.
    pub(crate) fn folder(&self, kind: SourceKind) -> Option<&Path> {
        self.sources.iter().find(|source| source.kind == kind).map(|source| source.folder.as_path())
    }

    /// Returns the plugin of this name. One of the workspace comes before one of the user.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn find(&self, name: &str) -> Result<FoundPlugin, Failure> {
        let mut all = self.all();
        let named: Vec<String> = all
            .iter()
            .filter(|found| found.name == name)
            .map(|found| found.folder.display().to_string())
            .collect();
        if named.len() > 1 {
            let name = tool::visible(name);
            return Err(Failure::usage(format!(
                "several plugins are named {name}: {}; rename one, or go to a folder without the other",
                tool::visible(&named.join(", "))
            )));
        }
        if let Some(at) = all.iter().position(|found| found.name == name) {
            return Ok(all.swap_remove(at));
        }
        let names: Vec<&str> = all.iter().map(|found| found.name.as_str()).collect();
        let hint = match tool::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`handfast plugin list` lists those that there are".to_owned(),
        };
        Err(Failure::usage(format!("there is no plugin `{}`; {hint}", tool::visible(name))))
    }

    /// Returns the access of self-development.
    pub(crate) fn own(&self, uses_workspace: bool) -> OwnPlugins {
        let others = self.sources.iter().map(|source| source.folder.clone()).collect();
        OwnPlugins { store: self.store.clone(), others, uses_workspace }
    }

    /// Returns true if the plugin may be a tool of a runtime here.
    pub(crate) fn may_be_tool(&self, plugin: &StoredPlugin, uses_workspace: bool) -> bool {
        let of_project = self.is_of_project(plugin).then_some(SourceKind::Workspace);
        let of_package = self.packages.contains(&plugin.folder).then_some(SourceKind::User);
        let kind = self.kind_of(&plugin.folder).or(of_project).or(of_package);
        kind.is_some_and(|kind| kind == SourceKind::User || uses_workspace)
    }

    /// Returns the owner of the plugin in this folder, if it is in one of the places.
    fn kind_of(&self, folder: &Path) -> Option<SourceKind> {
        let around = folder.parent()?;
        self.sources.iter().find(|source| source.folder == around).map(|source| source.kind)
    }
}
