//! Properties of a client that affect its responses.

use rmcp::model::{ClientCapabilities, InitializeRequestParams, ProtocolVersion, RequestMetaObject};

/// Capability (extension or experimental) of a client that supports resource links in results. The
/// protocol defines none, and agents fail on unknown content blocks.
const LINKS: &str = "handfast/resource_links";

/// Beginnings of the names of clients that check arguments against the schema themselves (Gemini CLI
/// 0.61, Qwen Code 0.24). They refuse a `null` that the schema does not declare, before it is sent.
const CHECKING: [&str; 3] = ["gemini-cli", "qwen-cli", "qwen-code"];

/// The client of one request.
#[derive(Clone)]
pub struct ClientInfo {
    /// True for revision 2026-07-28 and later, in which every request is self-contained.
    pub modern: bool,
    /// True if the client supports structured content and output schemas (revision 2025-06-18 and later).
    pub(crate) structured: bool,
    /// Revision of the protocol.
    pub(crate) version: Option<ProtocolVersion>,
    /// Capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// True if schemas have to declare that optional fields take `null`. For other clients, the
    /// declaration would only lengthen the list of tools.
    pub(crate) needs_null: bool,
    /// Name of the answering user, for the audit log.
    pub(crate) by: String,
}

impl ClientInfo {
    /// Returns the client of a request with this `_meta`. Up to revision 2025-11-25, the client has
    /// introduced itself in the handshake.
    pub(crate) fn of(meta: &RequestMetaObject, handshake: Option<&InitializeRequestParams>) -> Self {
        let version = meta.protocol_version().or_else(|| handshake.map(|said| said.protocol_version.clone()));
        let since = |revision: ProtocolVersion| {
            version.as_ref().is_some_and(|version| version.as_str() >= revision.as_str())
        };
        let client = meta.client_info().or_else(|| handshake.map(|said| said.client_info.clone()));
        let checks = |name: &str| CHECKING.iter().any(|begin| name.starts_with(begin));
        let needs_null = client.as_ref().is_some_and(|client| checks(&client.name));
        let by = client.map_or_else(
            || "the user of an unnamed client".to_owned(),
            |client| format!("the user of {} {}", client.name, client.version),
        );
        let capabilities =
            meta.client_capabilities().or_else(|| handshake.map(|said| said.capabilities.clone()));
        Self {
            modern: since(ProtocolVersion::V_2026_07_28),
            structured: since(ProtocolVersion::V_2025_06_18),
            capabilities: capabilities.unwrap_or_default(),
            version,
            needs_null,
            // The name goes into the audit log, and the client chose it.
            by: by.chars().filter(|character| !character.is_control()).take(100).collect(),
        }
    }

    /// Returns true if the client accepts a task in place of a result.
    pub fn takes_tasks(&self) -> bool {
        self.modern && self.capabilities.supports_tasks()
    }

    /// Returns true if the client supports resource links in results.
    pub(crate) fn follows_links(&self) -> bool {
        let ClientCapabilities { extensions, experimental, .. } = &self.capabilities;
        let extended = extensions.as_ref().is_some_and(|known| known.contains_key(LINKS));
        extended || experimental.as_ref().is_some_and(|known| known.contains_key(LINKS))
    }

    /// Returns true if the client can show a form. A client that names no mode can: forms were the
    /// first mode.
    pub(crate) fn shows_forms(&self) -> bool {
        let elicitation = self.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a client with these capabilities.
    fn client(capabilities: serde_json::Value) -> ClientInfo {
        ClientInfo {
            modern: true,
            structured: true,
            version: None,
            capabilities: serde_json::from_value(capabilities).unwrap(),
            needs_null: false,
            by: String::new(),
        }
    }

    #[test]
    fn links_are_followed_by_who_says_so() {
        let follows = |capabilities| client(capabilities).follows_links();
        assert!(!follows(json!({})));
        assert!(!follows(json!({"experimental": {"other": {}}, "extensions": {"other": {}}})));
        assert!(follows(json!({"experimental": {"handfast/resource_links": {}}})));
        assert!(follows(json!({"extensions": {"handfast/resource_links": {}}})));
    }

    #[test]
    fn forms_are_shown_by_who_says_so_or_names_no_mode() {
        let shows = |capabilities| client(capabilities).shows_forms();
        assert!(!shows(json!({})));
        assert!(shows(json!({"elicitation": {}})));
        assert!(shows(json!({"elicitation": {"form": {}}})));
        assert!(shows(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!shows(json!({"elicitation": {"url": {}}})));
    }
}
