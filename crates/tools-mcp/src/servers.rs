//! The servers of a runtime: which tools they have, and what was allowed of them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use jiff::Timestamp;
use mcp_client::cache::{CachedServer, ListingCache};
use mcp_client::definition::{DefinitionChange, DefinitionHash, ToolDefinition};
use mcp_client::names::{ForeignName, offered_names};
use mcp_client::offer::{OfferedTool, offer_all};
use parking_lot::Mutex;
use tool::{AnyTool, Context, Owner, Resource, ResourcePool, ToolError};

use crate::LONGEST_NAME;
use crate::connection::Connection;
use crate::failure;
use crate::listings::{self, AllPins, ToolGroups};
use crate::parts::ServersParts;
use crate::pool::Pool;
use crate::settings::ServerSettings;

/// Maker of a tool from a definition; the last value is true if the definition differs from the pinned one.
type MakeTool = fn(Weak<McpServers>, &ServerSettings, OfferedTool, &str, bool) -> Option<Arc<dyn AnyTool>>;

/// Makers of the tools of servers.
pub(crate) struct ToolMakers {
    /// Maker of the tool that lists the servers.
    pub(crate) list: fn(Weak<McpServers>) -> Arc<dyn AnyTool>,
    /// Maker of a tool of a server.
    pub(crate) foreign: MakeTool,
}

/// Servers of a runtime.
pub struct McpServers {
    pub(crate) parts: ServersParts,
    makers: ToolMakers,
    pub(crate) pool: Pool,
    state: Mutex<State>,
    groups: OnceLock<Arc<dyn ToolGroups>>,
    myself: Weak<Self>,
}

struct State {
    lists: ListingCache,
    pins: AllPins,
    /// Differences of changed definitions, by server and tool.
    differences: BTreeMap<(String, String), String>,
    /// Tools that callers have now, by server and tool.
    published: BTreeMap<(String, String), Published>,
    /// Reasons why callers do not have a tool that its server offers, by server and tool.
    left_out: BTreeMap<(String, String), String>,
}

struct Published {
    name: String,
    hash: DefinitionHash,
    has_changed: bool,
    tool: Arc<dyn AnyTool>,
}

/// Part of a server that a list of servers shows.
pub(crate) struct ServerView {
    pub(crate) tools: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) refused: Vec<String>,
    pub(crate) listed_at: Option<i64>,
}

impl McpServers {
    /// Makes the servers from what is stored about them. Starts none.
    ///
    /// # Errors
    /// The reason, in words, if the pinned definitions cannot be read.
    pub(crate) fn new(parts: ServersParts, makers: ToolMakers) -> Result<Arc<Self>, String> {
        let (mut lists, pins) = listings::load(parts.shelf.as_ref())?;
        let is_configured = |key: &str| parts.servers.iter().any(|server| server.key == key);
        lists.keep_only(is_configured);
        let state = State {
            lists,
            pins,
            differences: BTreeMap::new(),
            published: BTreeMap::new(),
            left_out: BTreeMap::new(),
        };
        Ok(Arc::new_cyclic(|myself| Self {
            parts,
            makers,
            pool: Pool::default(),
            state: Mutex::new(state),
            groups: OnceLock::new(),
            myself: myself.clone(),
        }))
    }

    /// Registers the tools of the stored lists, and those of later lists.
    ///
    /// # Errors
    /// The reason, in words, if a name is that of another tool.
    pub fn publish_to(&self, groups: Arc<dyn ToolGroups>) -> Result<(), String> {
        groups.replace("mcp", vec![(self.makers.list)(self.myself.clone())])?;
        // This is the first and only assignment.
        let _ = self.groups.set(groups);
        self.publish();
        Ok(())
    }

    pub(crate) fn settings(&self, key: &str) -> Option<&ServerSettings> {
        self.parts.servers.iter().find(|server| server.key == key)
    }

    /// Returns the connection of the call's owner, with a list of tools that is current.
    ///
    /// # Errors
    /// The error of the server.
    pub(crate) async fn connection(
        &self,
        settings: &ServerSettings,
        context: &Context,
    ) -> Result<Arc<Connection>, ToolError> {
        let (connection, is_new) = self.pool.connection(&self.parts, settings, context).await?;
        connection.act_for(context, settings)?;
        if connection.must_list(self.parts.timer.now()) || is_new {
            self.list(settings, &connection, context.clock.now()).await?;
        }
        Ok(connection)
    }

    async fn list(
        &self,
        settings: &ServerSettings,
        connection: &Connection,
        now: Timestamp,
    ) -> Result<(), ToolError> {
        let facts = connection.client.facts();
        let definitions = if facts.offers.tools {
            let listing = connection.client.list_tools().await;
            listing.map_err(|error| failure::of_client(&settings.key, error, false))?.entries
        } else {
            Vec::new()
        };
        connection.set_tools(&definitions, self.parts.timer.now());
        let (tools, refused) = offer_all(&definitions);
        let cached = CachedServer {
            config: settings.identity.clone(),
            listed_at: now.as_millisecond(),
            facts: facts.clone(),
            tools,
            refused,
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
        };
        self.note(&settings.key, &definitions, cached);
        self.save().await?;
        self.publish();
        Ok(())
    }

    /// Notes a list: definitions that are seen for the first time are pinned, and the differences of others kept.
    fn note(&self, server: &str, definitions: &[ToolDefinition], cached: CachedServer) {
        let mut state = self.state.lock();
        let mut pins = state.pins.of(server);
        state.differences.retain(|(of, _), _| of != server);
        for change in pins.compare(definitions) {
            match change {
                DefinitionChange::Added { name, .. } => {
                    if let Some(definition) = definitions.iter().find(|definition| definition.name == name) {
                        pins.pin(definition);
                    }
                }
                // The pin stays: a tool that comes back must be the same.
                DefinitionChange::Removed { .. } => {}
                DefinitionChange::Changed { name, difference, .. } => {
                    state.differences.insert((server.to_owned(), name), difference);
                }
            }
        }
        state.pins.set(server, pins);
        state.lists.insert(server, cached);
    }

    /// Accepts the changed definition of a tool, which a human has allowed.
    ///
    /// # Errors
    /// `ERUNTIME` if it cannot be stored.
    pub(crate) async fn accept(&self, server: &str, definition: &ToolDefinition) -> Result<(), ToolError> {
        {
            let mut state = self.state.lock();
            let mut pins = state.pins.of(server);
            pins.pin(definition);
            state.pins.set(server, pins);
            state.differences.remove(&(server.to_owned(), definition.name.clone()));
        }
        self.save().await?;
        self.publish();
        Ok(())
    }

    /// Returns the difference of a changed definition.
    pub(crate) fn difference(&self, server: &str, tool: &str) -> Option<String> {
        self.state.lock().differences.get(&(server.to_owned(), tool.to_owned())).cloned()
    }

    pub(crate) fn view(&self, settings: &ServerSettings) -> ServerView {
        let state = self.state.lock();
        let of_server = || state.published.iter().filter(|((server, _), _)| *server == settings.key);
        let cached = state.lists.server(&settings.key, &settings.identity);
        let refused = cached.into_iter().flat_map(|cached| &cached.refused);
        let left_out = state.left_out.iter().filter(|((server, _), _)| *server == settings.key);
        let left_out = left_out.map(|((_, tool), reason)| format!("{}: {reason}", tool::visible(tool)));
        ServerView {
            tools: of_server().map(|(_, published)| published.name.clone()).collect(),
            changed: of_server()
                .filter(|(_, published)| published.has_changed)
                .map(|(_, published)| published.name.clone())
                .collect(),
            refused: refused.map(|tool| format!("{}: {}", tool.tool, tool.reason)).chain(left_out).collect(),
            listed_at: cached.map(|cached| cached.listed_at),
        }
    }

    async fn save(&self) -> Result<(), ToolError> {
        let Some(servers) = self.myself.upgrade() else { return Ok(()) };
        let saving = tokio::task::spawn_blocking(move || {
            let state = servers.state.lock();
            listings::save_pins(servers.parts.shelf.as_ref(), &state.pins)?;
            listings::save_lists(servers.parts.shelf.as_ref(), &state.lists)
        });
        let saved = saving.await.map_err(|error| error.to_string()).and_then(|saved| saved);
        saved.map_err(|problem| {
            let message = format!("the definitions of MCP tools cannot be stored: {problem}");
            ToolError::new(tool::Code::Runtime, message).hint("make room in the state folder")
        })
    }

    /// Registers the tools of the lists. A tool that has not changed stays the same object. A tool that cannot be
    /// registered is left out, and takes no other one along.
    fn publish(&self) {
        let Some(groups) = self.groups.get() else { return };
        let mut state = self.state.lock();
        let mut wanted: Vec<(&ServerSettings, OfferedTool)> = Vec::new();
        for settings in &self.parts.servers {
            if let Some(cached) = state.lists.server(&settings.key, &settings.identity) {
                wanted.extend(cached.tools.iter().map(|tool| (settings, tool.clone())));
            }
        }
        let foreign: Vec<ForeignName> = wanted
            .iter()
            .map(|(settings, tool)| ForeignName { server: settings.key.clone(), tool: tool.tool.clone() })
            .collect();
        let names = offered_names(&foreign, &self.parts.reserved, LONGEST_NAME);
        let (mut published, mut left_out) = (BTreeMap::new(), BTreeMap::new());
        let mut by_server: BTreeMap<&str, Vec<Arc<dyn AnyTool>>> =
            self.parts.servers.iter().map(|settings| (settings.key.as_str(), Vec::new())).collect();
        for ((settings, offered), name) in wanted.into_iter().zip(names) {
            let key = (settings.key.clone(), offered.tool.clone());
            let pinned = state.pins.of(&settings.key);
            let has_changed = pinned.hash_of(&offered.tool) != Some(&offered.hash);
            let known = state.published.remove(&key).filter(|known| {
                known.name == name && known.hash == offered.hash && known.has_changed == has_changed
            });
            let hash = offered.hash.clone();
            let tool = match known {
                Some(known) => known.tool,
                None => {
                    match (self.makers.foreign)(self.myself.clone(), settings, offered, &name, has_changed) {
                        Some(tool) => tool,
                        None => {
                            left_out.insert(key, "its definition cannot be used".to_owned());
                            continue;
                        }
                    }
                }
            };
            by_server.entry(settings.key.as_str()).or_default().push(tool.clone());
            published.insert(key, Published { name, hash, has_changed, tool });
        }
        // A name may be free only after a later group has been replaced.
        let refused = |(server, tools): &(&str, Vec<Arc<dyn AnyTool>>)| {
            groups.replace(&group_of(server), tools.clone()).is_err()
        };
        let refused_once: Vec<_> = by_server.into_iter().filter(refused).collect();
        let refused_twice: Vec<_> = refused_once.into_iter().filter(refused).collect();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for (server, tools) in refused_twice {
            taken.extend(register_singly(groups.as_ref(), server, tools));
        }
        published.retain(|key, one: &mut Published| match taken.remove(&one.name) {
            Some(reason) => {
                left_out.insert(key.clone(), reason);
                false
            }
            None => true,
        });
        (state.published, state.left_out) = (published, left_out);
    }
}

/// Returns the name of the group of a server.
fn group_of(server: &str) -> String {
    format!("mcp {server}")
}

/// Registers the tools of a server of which at least one cannot be registered. Returns these by name, with reasons.
fn register_singly(
    groups: &dyn ToolGroups,
    server: &str,
    tools: Vec<Arc<dyn AnyTool>>,
) -> BTreeMap<String, String> {
    let (mut registered, mut taken) = (Vec::new(), BTreeMap::new());
    for tool in tools {
        let name = tool.name().to_owned();
        let mut more: Vec<Arc<dyn AnyTool>> = registered.clone();
        more.push(tool);
        match groups.replace(&group_of(server), more.clone()) {
            Ok(()) => registered = more,
            Err(reason) => drop(taken.insert(name, reason)),
        }
    }
    taken
}

impl ResourcePool for McpServers {
    fn list(&self, now: Timestamp) -> Vec<Resource> {
        self.pool.list(now)
    }

    fn stop(&self, owner: &Owner) {
        self.pool.stop(owner);
    }

    fn join(&self, owner: &Owner) {
        self.pool.join(owner);
    }
}
