//! The plugins of a runtime: which there are, and which of them are tools now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::{DuplicateTool, Engine};
use plugins::{PluginFolder, StoredPlugin};
use tool::{DynamicTool as _, Owner, dynamic_tool};
use tools_plugins::{PluginProcesses, PluginTool};

use crate::plugin_places::PluginPlaces;
use crate::report::{Warn, warn};
use crate::toolset::Toolset;

/// Time between two looks at the plugins of a server.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Keeper of the tools that are plugins.
pub(crate) struct PluginTools {
    places: PluginPlaces,
    toolset: Toolset,
    /// True if the plugins of the workspace may be tools, because its configuration is trusted.
    uses_workspace: bool,
    processes: Arc<PluginProcesses>,
    /// Names of the built-in tools of every dialect, which no plugin takes.
    built_in: BTreeSet<&'static str>,
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
        built_in: BTreeSet<&'static str>,
    ) -> Self {
        let (known, told) = (BTreeMap::new(), BTreeSet::new());
        Self { places, toolset, uses_workspace, processes, built_in, known, told }
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
        let taken = tool.as_ref().map(|tool| tool.spec().name).filter(|name| self.built_in.contains(name));
        let tools = tool.filter(|_| taken.is_none()).into_iter().map(dynamic_tool).collect();
        let mut tools = self.toolset.only_dry_runs(tools);
        tools.retain(|tool| !self.toolset.read_only || tool.spec().class.reads_only);
        self.processes.end_of(folder);
        let group = format!("plugin {}", tool::path_text(folder));
        let taken = taken.map(str::to_owned).or_else(|| {
            let DuplicateTool(name) = engine.registry().replace_group(&group, tools).err()?;
            Some(name)
        });
        if let Some(name) = taken {
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
