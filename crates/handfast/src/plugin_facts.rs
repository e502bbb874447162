//! Facts about the plugins that were ever allowed, for the list of capabilities: those that work, and those that do not.

use tool::{CatalogueEntry, Level};

use plugins::{Manifest, PluginFolder, PluginState, StoredPlugin};

use crate::plugin_places::PluginPlaces;

/// Source of the facts about plugins.
#[derive(Debug, Clone)]
pub(crate) struct PluginFacts {
    /// Places of the plugins; `None` if this runtime has none.
    pub(crate) places: Option<PluginPlaces>,
    /// True if plugins of the workspace may be tools.
    pub(crate) uses_workspace: bool,
}

impl PluginFacts {
    /// Corrects date and status of the plugins among the entries.
    pub(crate) fn correct(&self, entries: &mut [CatalogueEntry]) {
        if entries.iter().all(|entry| entry.kind != "plugin") {
            return;
        }
        let stored = self.stored();
        for entry in entries.iter_mut().filter(|entry| entry.kind == "plugin") {
            let Some(plugin) = stored.iter().find(|plugin| plugin.state.name == entry.name) else { continue };
            entry.created_at = plugin.state.allowed_at;
            if let Some(quarantine) = &plugin.state.quarantine {
                entry.status = format!("quarantined: {}", quarantine.reason);
            }
        }
    }

    /// Returns the entries of plugins that are no tools. Nothing of a folder that its user has not allowed is shown.
    pub(crate) fn failed(&self, is_tool: impl Fn(&str) -> bool) -> Vec<CatalogueEntry> {
        let Some(places) = &self.places else { return Vec::new() };
        let entry = |plugin: StoredPlugin| {
            let copy = PluginFolder::read(&places.store.copy_of(&plugin.state.hash));
            let copy = copy.ok().filter(|copy| copy.hash == plugin.state.hash);
            let manifest = copy.and_then(|copy| copy.manifest().ok());
            CatalogueEntry {
                name: plugin.state.name.clone(),
                title: String::new(),
                kind: "plugin",
                description: manifest.as_ref().map(|all| tool::visible(&all.description)).unwrap_or_default(),
                level: manifest.as_ref().map_or(Level::Safe, Manifest::least_level),
                status: status(&plugin),
                created_at: plugin.state.allowed_at,
                input_schema: serde_json::json!({"type": "object"}),
                example: "{}".to_owned(),
            }
        };
        self.stored().into_iter().filter(|plugin| !is_tool(&plugin.state.name)).map(entry).collect()
    }

    /// Returns the plugins of this runtime that were ever allowed.
    fn stored(&self) -> Vec<StoredPlugin> {
        let Some(places) = &self.places else { return Vec::new() };
        let mut stored = places.store.all().unwrap_or_default();
        stored.retain(|plugin| places.may_be_tool(plugin, self.uses_workspace));
        stored
    }
}

/// Returns why a plugin is no tool.
fn status(StoredPlugin { folder, state }: &StoredPlugin) -> String {
    let PluginState { quarantine, is_enabled, hash, .. } = state;
    match (quarantine, PluginFolder::read(folder)) {
        (Some(quarantine), _) => format!("quarantined: {}", quarantine.reason),
        (None, _) if !is_enabled => "disabled: the user has disabled it".to_owned(),
        (None, Err(error)) => format!("failed: {}", tool::visible(&error.to_string())),
        (None, Ok(present)) if present.hash != *hash => {
            "failed: its files have changed since they were allowed".to_owned()
        }
        (None, Ok(_)) => "failed: another tool has its name, or it is about to be a tool".to_owned(),
    }
}
