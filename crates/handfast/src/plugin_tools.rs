//! The plugins of a runtime: which there are, and which of them are tools now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::{DuplicateTool, Engine};
use plugins::{
    FoundPlugin, MANIFEST_FILE, PluginFolder, PluginSource, PluginStore, SourceKind, StoredPlugin, found_in,
};
use tool::{Owner, dynamic_tool};
use tools_plugins::{PluginProcesses, PluginTool};

use crate::failure::Failure;
use crate::packages::{Packages, content::PLUGINS};
use crate::report::{Warn, warn};
use crate::toolset::Toolset;

/// Folder of plugins in a workspace.
pub(crate) const WORKSPACE_FOLDER: &str = ".handfast/plugins";
/// Name of the folder of plugins within that of the user's configuration, and within the state.
const FOLDER: &str = "plugins";
/// Time between two looks at the plugins of a server.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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
        // Such a folder can have others beside the plugins.
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

/// Keeper of the tools that are plugins.
pub(crate) struct PluginTools {
    places: PluginPlaces,
    toolset: Toolset,
    /// True if the plugins of the workspace may be tools, because its configuration is trusted.
    uses_workspace: bool,
    processes: Arc<PluginProcesses>,
    known: BTreeMap<PathBuf, (String, Option<String>)>,
    told: BTreeSet<String>,
}

impl PluginTools {
    /// Creates the keeper. No plugin is a tool yet.
    pub(crate) fn new(
        places: PluginPlaces,
        toolset: Toolset,
        uses_workspace: bool,
        processes: Arc<PluginProcesses>,
    ) -> Self {
        Self { places, toolset, uses_workspace, processes, known: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// Makes the tools of the runtime agree with the enabled plugins. Tells each problem once.
    pub(crate) fn refresh(&mut self, engine: &Engine, warn: Warn) {
        let stored = match self.places.store.all() {
            Ok(stored) => stored,
            // The tools stay as they are: each call asks the state again.
            Err(fault) => return self.tell(&fault.to_string(), warn),
        };
        let wanted: Vec<StoredPlugin> = stored.into_iter().filter(|plugin| self.is_wanted(plugin)).collect();
        let gone: Vec<PathBuf> = self
            .known
            .keys()
            .filter(|folder| wanted.iter().all(|plugin| plugin.folder != **folder))
            .cloned()
            .collect();
        for folder in gone {
            self.known.remove(&folder);
            self.replace(engine, &folder, None, warn);
        }
        for plugin in wanted {
            let now = (plugin.state.hash.clone(), PluginFolder::stamp(&plugin.folder));
            if self.known.get(&plugin.folder) == Some(&now) && now.1.is_some() {
                continue;
            }
            let tool = PluginTool::of(&self.places.store, &plugin);
            let tool = tool.map_err(|unusable| self.tell(&unusable.0, warn)).ok();
            self.replace(engine, &plugin.folder, tool, warn);
            self.known.insert(plugin.folder, now);
        }
    }

    fn is_wanted(&self, plugin: &StoredPlugin) -> bool {
        plugin.state.is_enabled && self.places.may_be_tool(plugin, self.uses_workspace)
    }

    /// Replaces the tool of one plugin. Each is a group, so that a wrong one keeps no other one out.
    fn replace(&mut self, engine: &Engine, folder: &Path, tool: Option<PluginTool>, warn: Warn) {
        let tools = tool.into_iter().map(dynamic_tool).collect();
        let mut tools = self.toolset.only_dry_runs(tools);
        tools.retain(|tool| !self.toolset.read_only || tool.spec().class.reads_only);
        self.processes.end_of(folder);
        let group = format!("plugin {}", tool::path_text(folder));
        if let Err(DuplicateTool(name)) = engine.registry().replace_group(&group, tools) {
            // The earlier tool of the group must not stay in place of the new one.
            let _none = engine.registry().replace_group(&group, Vec::new());
            self.tell(
                &format!(
                    "the plugin {} is not used: another tool is named `{name}`; change `name` in its plugin.yaml",
                    tool::visible(&tool::path_text(folder))
                ),
                warn,
            );
        }
    }

    fn tell(&mut self, problem: &str, warn: Warn) {
        if self.told.insert(problem.to_owned()) {
            warn(problem);
        }
    }

    /// Keeps the tools current until the engine ends.
    pub(crate) fn keep_current(mut self, running: &Arc<Engine>) {
        let engine = Arc::downgrade(running);
        let started = running.threads().start("plugins", Owner::Runtime, move |stop| {
            let (ends, ended) = channel::<()>();
            stop.on_request(move |_| drop(ends));
            self.look(&engine, || ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout));
        });
        if let Err(error) = started {
            warn(&format!("changed plugins take effect at the next start only: {}", error.message));
        }
    }

    // BOUNDED: by the life of the engine, which stops its threads.
    fn look(&mut self, engine: &Weak<Engine>, goes_on: impl Fn() -> bool) {
        while goes_on() {
            let Some(engine) = engine.upgrade() else { return };
            self.refresh(&engine, &warn);
        }
    }
}
