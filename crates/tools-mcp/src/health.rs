//! The last failure of each server, so that lists of what does not work show it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tool::{CatalogueEntry, Code, Context, ToolError};

use crate::servers::McpServers;
use crate::settings::ServerSettings;

/// Name of the stored failures.
const FAILURES: &str = "failures.json";
/// Maximum length of a status, in bytes.
const LONGEST_STATUS: usize = 400;

/// Failures of servers, by their keys.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Failures(BTreeMap<String, Failure>);

/// Last failure of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Failure {
    /// Configuration of the server at that time.
    identity: String,
    /// Time, in milliseconds since 1970.
    at: i64,
    /// Status, such as `not logged in: ...`.
    status: String,
}

impl Failures {
    /// Reads the stored text. A damaged one is empty, because the next call of a server tells its state.
    pub(crate) fn load(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// Returns the status of a server after a failure.
fn status(server: &str, error: &ToolError) -> String {
    let login = format!("`handfast login mcp {server}`");
    let asks_for_login = error.hint.as_ref().is_some_and(|hint| hint.contains(&login));
    let text = if asks_for_login {
        format!("not logged in: the user runs {login}; {}", error.message)
    } else {
        format!("failed: {}", error.message)
    };
    mcp_client::text::clean_line(&text, LONGEST_STATUS)
}

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
        // Nothing depends on it: the next failure is noted again.
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

    /// Reads the stored failures.
    pub(crate) fn load_failures(shelf: &dyn crate::Shelf) -> Failures {
        Failures::load(shelf.load(FAILURES).as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_a_missing_login_from_a_failure() {
        let login = crate::login_use::not_logged_in("web");
        assert!(status("web", &login).starts_with("not logged in: the user runs `handfast login mcp web`"));
        let failed = ToolError::new(Code::Unavailable, "it\u{202e} ended\n".repeat(100));
        let status = status("web", &failed);
        assert!(status.starts_with("failed: it ended it"), "{status}");
        assert!(status.len() <= LONGEST_STATUS);
    }

    #[test]
    fn damaged_failures_are_none() {
        for text in [None, Some(""), Some("[]"), Some("{\"s\": 1}")] {
            assert!(Failures::load(text).0.is_empty(), "{text:?}");
        }
    }
}
