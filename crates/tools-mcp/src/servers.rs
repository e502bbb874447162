//! The servers of a runtime: which tools they have, and what was allowed of them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use jiff::Timestamp;
use mcp_client::cache::{CachedServer, ListingCache};
use mcp_client::definition::{DefinitionChange, DefinitionHash, ToolDefinition};
use mcp_client::names::{ForeignName, offered_names};
use mcp_client::offer::{OfferedTool, offer_all};
use parking_lot::Mutex;
use tool::{AnyTool, Code, ContentListener, Context, Owner, Resource, ResourcePool, ToolError};

use crate::LONGEST_NAME;
use crate::connection::{Connection, ListAge};
use crate::content_lists::{ContentLists, PublishedContent, prompt_pins};
use crate::failure;
use crate::health::{FAILURES, Failures};
use crate::listings::{self, AllPins, ToolGroups};
use crate::parts::ServersParts;
use crate::pool::Pool;
use crate::settings::ServerSettings;
use crate::stored_login::StoredLogin;

/// Maker of a tool from a definition; the last value is true if the definition differs from the pinned one.
type MakeTool = fn(Weak<McpServers>, &ServerSettings, OfferedTool, &str, bool) -> Option<Arc<dyn AnyTool>>;

/// Makers of the tools of servers.
pub(crate) struct ToolMakers {
    /// Maker of the tool that lists the servers.
    pub(crate) list: fn(Weak<McpServers>) -> Arc<dyn AnyTool>,
    /// Maker of the tool that reads resources.
    pub(crate) resource: fn(Weak<McpServers>) -> Arc<dyn AnyTool>,
    /// Maker of the tool that fills in prompts.
    pub(crate) prompt: fn(Weak<McpServers>) -> Arc<dyn AnyTool>,
    /// Maker of a tool of a server.
    pub(crate) foreign: MakeTool,
}

/// Servers of a runtime.
pub struct McpServers {
    pub(crate) parts: ServersParts,
    makers: ToolMakers,
    /// Tools of the runtime's own: they list the servers, read resources and fill in prompts.
    pub(crate) own: OnceLock<[Arc<dyn AnyTool>; 3]>,
    pub(crate) listeners: Mutex<Vec<ContentListener>>,
    pub(crate) pool: Pool,
    pub(crate) failures: Mutex<Failures>,
    pub(crate) state: Mutex<State>,
    groups: OnceLock<Arc<dyn ToolGroups>>,
    myself: Weak<Self>,
}

pub(crate) struct State {
    pub(crate) lists: ListingCache,
    pub(crate) pins: AllPins,
    /// Differences of changed definitions, by server and tool.
    differences: BTreeMap<(String, String), String>,
    /// Tools that callers have now, by server and tool.
    published: BTreeMap<(String, String), Published>,
    /// Reasons why callers do not have a tool that its server offers, by server and tool.
    left_out: BTreeMap<(String, String), String>,
    /// Resources and prompts that callers have now.
    pub(crate) content: Arc<PublishedContent>,
}

impl State {
    /// Pins the definitions that are seen for the first time, and notes the differences of changed ones.
    /// `of` is the key of the server, or that of its prompts.
    fn pin_new(&mut self, of: &str, definitions: &[ToolDefinition]) {
        let mut pins = self.pins.of(of);
        self.differences.retain(|(other, _), _| other != of);
        for change in pins.compare(definitions) {
            match change {
                DefinitionChange::Added { name, .. } => {
                    if let Some(definition) = definitions.iter().find(|definition| definition.name == name) {
                        pins.pin(definition);
                    }
                }
                // The pin stays: what comes back must be the same.
                DefinitionChange::Removed { .. } => {}
                DefinitionChange::Changed { name, difference, .. } => {
                    self.differences.insert((of.to_owned(), name), difference);
                }
            }
        }
        self.pins.set(of, pins);
    }
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
        let failures = Failures::load(parts.shelf.load(FAILURES).as_deref());
        let is_configured = |key: &str| parts.servers.iter().any(|server| server.key == key);
        lists.keep_only(is_configured);
        let state = State {
            lists,
            pins,
            differences: BTreeMap::new(),
            published: BTreeMap::new(),
            left_out: BTreeMap::new(),
            content: Arc::default(),
        };
        Ok(Arc::new_cyclic(|myself| Self {
            parts,
            makers,
            own: OnceLock::new(),
            listeners: Mutex::default(),
            pool: Pool::default(),
            failures: Mutex::new(failures),
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
        let ToolMakers { list, resource, prompt, .. } = self.makers;
        let own = [list, resource, prompt].map(|make| make(self.myself.clone()));
        groups.replace(OWN_GROUP, own.iter().take(1).cloned().collect())?;
        // These are the first and only assignments.
        let _ = self.own.set(own);
        let _ = self.groups.set(groups);
        self.publish();
        Ok(())
    }

    pub(crate) fn settings(&self, key: &str) -> Option<&ServerSettings> {
        self.parts.servers.iter().find(|server| server.key == key)
    }

    /// Returns the stored login of a server. A locked vault has none.
    pub(crate) fn login(&self, settings: &ServerSettings) -> Option<StoredLogin> {
        StoredLogin::of(self.parts.vault.as_deref()?, settings).ok().flatten()
    }

    /// Returns the settings of a server.
    ///
    /// # Errors
    /// `ENOTFOUND` with the known servers.
    pub(crate) fn known(&self, named: &str) -> Result<&ServerSettings, ToolError> {
        self.settings(named).ok_or_else(|| {
            let known: Vec<&str> = self.parts.servers.iter().map(|server| server.key.as_str()).collect();
            ToolError::new(Code::NotFound, format!("the configuration has no MCP server {named:?}"))
                .hint(format!("its servers are: {}", known.join(", ")))
        })
    }

    /// Returns the connection of the call's owner, with a list of tools that is current, and lists of resources and
    /// prompts of this age.
    ///
    /// # Errors
    /// The error of the server.
    pub(crate) async fn connection(
        &self,
        settings: &ServerSettings,
        context: &Context,
        age: ListAge,
    ) -> Result<Arc<Connection>, ToolError> {
        let connected = self.connected(settings, context, age).await;
        self.note_health(settings, connected.as_ref().err(), context).await;
        connected
    }

    async fn connected(
        &self,
        settings: &ServerSettings,
        context: &Context,
        age: ListAge,
    ) -> Result<Arc<Connection>, ToolError> {
        let (connection, is_new) = self.pool.connection(&self.parts, settings, context).await?;
        connection.act_for(context, &self.parts, settings).await?;
        let now = self.parts.timer.now();
        let lists_content = connection.must_list_content(now, age);
        if connection.must_list(now) || is_new || lists_content {
            // Boxed, because every call would be as large as the lists.
            Box::pin(self.list(settings, &connection, context.clock.now(), lists_content)).await?;
        }
        Ok(connection)
    }

    async fn list(
        &self,
        settings: &ServerSettings,
        connection: &Connection,
        now: Timestamp,
        lists_content: bool,
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
        let content = if lists_content {
            ContentLists::read(&connection.client, self.parts.timer.as_ref()).await
        } else {
            let state = self.state.lock();
            let stored = state.lists.server(&settings.key, &settings.identity);
            stored.map(ContentLists::of).unwrap_or_default()
        };
        let prompts = content.prompt_definitions();
        let cached = CachedServer {
            config: settings.identity.clone(),
            listed_at: now.as_millisecond(),
            facts: facts.clone(),
            tools,
            refused,
            prompts: content.prompts,
            resources: content.resources,
            templates: content.templates,
            content_faults: content.faults,
        };
        {
            let mut state = self.state.lock();
            state.pin_new(&settings.key, &definitions);
            state.pin_new(&prompt_pins(&settings.key), &prompts);
            state.lists.insert(&settings.key, cached);
        }
        self.save().await?;
        self.publish();
        Ok(())
    }

    /// Accepts the changed definition of a tool or a prompt, which a human has allowed. `of` is the key of the server,
    /// or that of its prompts.
    ///
    /// # Errors
    /// `ERUNTIME` if it cannot be stored.
    pub(crate) async fn accept(&self, of: &str, definition: &ToolDefinition) -> Result<(), ToolError> {
        {
            let mut state = self.state.lock();
            let mut pins = state.pins.of(of);
            pins.pin(definition);
            state.pins.set(of, pins);
            state.differences.remove(&(of.to_owned(), definition.name.clone()));
        }
        self.save().await?;
        self.publish();
        Ok(())
    }

    /// Returns the difference of a changed definition. `of` is the key of the server, or that of its prompts.
    pub(crate) fn difference(&self, of: &str, name: &str) -> Option<String> {
        self.state.lock().differences.get(&(of.to_owned(), name.to_owned())).cloned()
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
                .chain(
                    (state.content.sources.iter())
                        .filter(|(_, source)| source.server == settings.key && source.has_changed)
                        .map(|(name, _)| name.clone()),
                )
                .collect(),
            refused: refused
                .map(|tool| format!("{}: {}", tool.tool, tool.reason))
                .chain(left_out)
                .chain(cached.into_iter().flat_map(|cached| cached.content_faults.iter().cloned()))
                .collect(),
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
        self.publish_content(groups.as_ref());
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
            let has_changed = state.pins.hash_of(&settings.key, &offered.tool) != Some(&offered.hash);
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

/// Name of the group of the runtime's own tools about servers.
pub(crate) const OWN_GROUP: &str = "mcp";

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
