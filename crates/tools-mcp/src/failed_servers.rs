//! Servers of a runtime whose last use failed.

use jiff::Timestamp;
use tool::{CatalogueEntry, Code, Context, ToolError};

use crate::health::{FAILURES, Failure, status};
use crate::servers::McpServers;
use crate::settings::ServerSettings;

impl McpServers {
    /// Notes that a server was reached, or why not. A call that was stopped says nothing about its server.
    pub(crate) async fn note_health(
        &self,
        settings: &ServerSettings,
        error: Option<&ToolError>,
        context: &Context,
    ) {
        let failure = match error {
            None => None,
            Some(error) if matches!(error.code, Code::Cancelled | Code::Permission) => return,
            Some(error) => Some(Failure {
                identity: settings.identity.clone(),
                at: context.clock.now().as_millisecond(),
                status: status(&settings.key, error),
            }),
        };
        let text = {
            let mut failures = self.failures.lock();
            let before = match failure {
                Some(failure) => failures.0.insert(settings.key.clone(), failure),
                None => failures.0.remove(&settings.key),
            };
            if before.is_none() && error.is_none() {
                return;
            }
            serde_json::to_string(&*failures).unwrap_or_default()
        };
        let shelf = self.parts.shelf.clone();
        // A lost failure is noted again by the next one.
        let _ = tokio::task::spawn_blocking(move || shelf.save(FAILURES, &text)).await;
    }

    /// Returns the status of a server whose last use failed.
    pub(crate) fn problem(&self, settings: &ServerSettings) -> Option<String> {
        self.failure(settings).map(|failure| failure.status)
    }

    fn failure(&self, settings: &ServerSettings) -> Option<Failure> {
        let failures = self.failures.lock();
        failures.0.get(&settings.key).filter(|failure| failure.identity == settings.identity).cloned()
    }

    /// Returns an entry for each server whose last use failed, with the time of the failure.
    pub fn failed(&self) -> Vec<CatalogueEntry> {
        let entry = |settings: &ServerSettings| {
            let failure = self.failure(settings)?;
            Some(CatalogueEntry {
                name: settings.key.clone(),
                title: settings.key.clone(),
                kind: "mcp_server",
                description: "MCP server of the configuration.".to_owned(),
                level: settings.level,
                status: failure.status,
                created_at: Timestamp::from_millisecond(failure.at).unwrap_or_default(),
                input_schema: serde_json::Value::Null,
                example: String::new(),
            })
        };
        self.parts.servers.iter().filter_map(entry).collect()
    }
}
