//! The stored texts about servers: their lists, so that no server has to start for them, and the pinned definitions
//! of their tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_client::cache::ListingCache;
use mcp_client::definition::{DefinitionHash, Pins};
use serde::{Deserialize, Serialize};
use tool::AnyTool;

/// Name of the stored lists.
const LISTS: &str = "lists.json";
/// Name of the stored pins.
const PINS: &str = "pins.json";

/// Place for the texts that outlive the runtime, private to the user.
pub trait Shelf: Send + Sync {
    /// Returns a text; `None` if there is none. Blocks.
    fn load(&self, name: &str) -> Option<String>;

    /// Replaces a text at once. Blocks.
    ///
    /// # Errors
    /// The reason, in words.
    fn save(&self, name: &str, text: &str) -> Result<(), String>;
}

/// Tools of the runtime, some of which come and go.
pub trait ToolGroups: Send + Sync {
    /// Replaces the tools of a group.
    ///
    /// # Errors
    /// The reason, in words, if a name is that of another tool. Nothing has changed then.
    fn replace(&self, group: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), String>;
}

/// Pins of all servers, by key and configuration.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AllPins(BTreeMap<String, Pins>);

impl AllPins {
    /// Returns the pins of a server.
    pub(crate) fn of(&self, server: &str) -> Pins {
        self.0.get(server).cloned().unwrap_or_default()
    }

    /// Returns the pinned hash of a definition.
    pub(crate) fn hash_of(&self, server: &str, name: &str) -> Option<&DefinitionHash> {
        self.0.get(server)?.hash_of(name)
    }

    pub(crate) fn set(&mut self, server: &str, pins: Pins) {
        self.0.insert(server.to_owned(), pins);
    }
}

/// Loads what is stored. Damaged lists are empty, because the servers know better.
///
/// # Errors
/// The reason if the pins are damaged: without them, a changed definition would pass for a first one.
pub(crate) fn load(shelf: &dyn Shelf) -> Result<(ListingCache, AllPins), String> {
    let lists = shelf.load(LISTS).map(|text| ListingCache::load(&text)).unwrap_or_default();
    let pins = match shelf.load(PINS) {
        None => AllPins::default(),
        Some(text) => serde_json::from_str(&text).map_err(|error| {
            format!("the pinned definitions are damaged ({error}); remove the file {PINS}")
        })?,
    };
    Ok((lists, pins))
}

pub(crate) fn save_lists(shelf: &dyn Shelf, lists: &ListingCache) -> Result<(), String> {
    shelf.save(LISTS, &lists.text())
}

pub(crate) fn save_pins(shelf: &dyn Shelf, pins: &AllPins) -> Result<(), String> {
    let text = serde_json::to_string(pins).map_err(|error| error.to_string())?;
    shelf.save(PINS, &text)
}
