//! Resources and prompts of the servers of a runtime, as its clients see them.

use std::sync::Arc;

use mcp_client::Offers;
use mcp_client::definition::{DefinitionHash, ToolDefinition};
use tool::{
    ContentChange, ContentListener, ForeignContent, ForeignPrompt, ForeignResource, split_foreign_uri,
};

use crate::content_lists::{PromptSource, PublishedContent, prompt_definition};
use crate::listings::ToolGroups;
use crate::servers::{McpServers, OWN_GROUP};
use crate::settings::ServerSettings;

/// Resources and prompts of a server, as its callers name them.
pub(crate) struct ContentNames {
    pub(crate) resources: Vec<String>,
    pub(crate) templates: Vec<String>,
    pub(crate) prompts: Vec<String>,
}

impl McpServers {
    /// Makes the lists of resources and prompts those that clients see, and registers the tools that read them.
    pub(crate) fn publish_content(&self, groups: &dyn ToolGroups) {
        let (change, offers) = {
            let mut state = self.state.lock();
            let content = PublishedContent::of(&self.parts.servers, &state.lists, &state.pins);
            let before = std::mem::replace(&mut state.content, Arc::new(content));
            let content = &state.content;
            let change = ContentChange {
                resources: before.resources != content.resources || before.templates != content.templates,
                prompts: before.prompts != content.prompts,
            };
            let of_servers = self.parts.servers.iter();
            let cached = of_servers.filter_map(|server| state.lists.server(&server.key, &server.identity));
            let offers: Vec<Offers> = cached.map(|cached| cached.facts.offers).collect();
            (change, offers)
        };
        if let Some([list, resource, prompt]) = self.own.get() {
            let resource = offers.iter().any(|offers| offers.resources).then(|| resource.clone());
            let prompt = offers.iter().any(|offers| offers.prompts).then(|| prompt.clone());
            let own = [Some(list.clone()), resource, prompt].into_iter().flatten().collect();
            // INVARIANT: the names are the runtime's own, and no foreign name lacks a separator.
            let _ = groups.replace(OWN_GROUP, own);
        }
        if change.resources || change.prompts {
            self.listeners.lock().retain(|listener| listener(change));
        }
    }

    /// Returns the prompt with this name here.
    pub(crate) fn prompt_source(&self, name: &str) -> Option<PromptSource> {
        self.state.lock().content.sources.get(name).cloned()
    }

    /// Returns the definition of a prompt, by its name at the server, as the server gave it last.
    pub(crate) fn prompt_definition(
        &self,
        settings: &ServerSettings,
        prompt: &str,
    ) -> Option<(DefinitionHash, ToolDefinition)> {
        let state = self.state.lock();
        let cached = state.lists.server(&settings.key, &settings.identity)?;
        let entry = cached.prompts.iter().find(|entry| entry.name == prompt)?;
        let definition = prompt_definition(entry)?;
        Some((definition.hash(), definition))
    }

    /// Returns the names of the resources, templates and prompts of a server.
    pub(crate) fn content_names(&self, server: &str) -> ContentNames {
        let content = self.state.lock().content.clone();
        let of_server = |resources: &[ForeignResource]| {
            let uris = resources.iter().map(|resource| resource.uri.clone());
            uris.filter(|uri| split_foreign_uri(uri).is_some_and(|(of, _)| of == server)).collect()
        };
        let prompts = content.sources.iter().filter(|(_, source)| source.server == server);
        let mut prompts: Vec<String> = prompts.map(|(name, _)| name.clone()).collect();
        prompts.sort();
        ContentNames {
            resources: of_server(&content.resources),
            templates: of_server(&content.templates),
            prompts,
        }
    }
}

impl ForeignContent for McpServers {
    fn resources(&self) -> Vec<ForeignResource> {
        self.state.lock().content.resources.clone()
    }

    fn templates(&self) -> Vec<ForeignResource> {
        self.state.lock().content.templates.clone()
    }

    fn prompts(&self) -> Vec<ForeignPrompt> {
        self.state.lock().content.prompts.clone()
    }

    fn on_change(&self, listener: ContentListener) {
        self.listeners.lock().push(listener);
    }
}
