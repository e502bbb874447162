//! What of a client decides how its requests are answered.

use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ProtocolVersion};
use rmcp::service::RequestContext;

/// The capability, extension or experimental, of a client that understands links to resources in results. The protocol has none for
/// it, and agents break at a block that they do not know.
const LINKS: &str = "handfast/resource_links";

/// The client of one request.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Whether it speaks the revision of 2026-07-28, in which every request stands for itself.
    pub(crate) modern: bool,
    /// Whether it knows structured content and output schemas, as those from the revision of 2025-06-18 on do.
    pub(crate) structured: bool,
    /// The revision that it speaks.
    pub(crate) version: Option<ProtocolVersion>,
    /// What it can do.
    pub(crate) capabilities: ClientCapabilities,
    /// Who answers questions there, as the audit names them.
    pub(crate) by: String,
}

impl Peer {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let version = context.protocol_version();
        let since = |revision: ProtocolVersion| {
            version.as_ref().is_some_and(|version| version.as_str() >= revision.as_str())
        };
        let by = context.client_info().map_or_else(
            || "the user of an unnamed client".to_owned(),
            |client| format!("the user of {} {}", client.name, client.version),
        );
        Self {
            modern: since(ProtocolVersion::V_2026_07_28),
            structured: since(ProtocolVersion::V_2025_06_18),
            capabilities: context.client_capabilities().unwrap_or_default(),
            version,
            // It goes into the audit, and the client chose it.
            by: by.chars().filter(|character| !character.is_control()).take(100).collect(),
        }
    }

    /// Whether the client takes the name of a task for an answer.
    pub(crate) fn takes_tasks(&self) -> bool {
        self.modern && self.capabilities.supports_tasks()
    }

    /// Whether the client can have calls as tasks in the form of the revision of 2025-11-25, which is the only one that has it.
    pub(crate) fn knows_past_tasks(&self) -> bool {
        self.version == Some(ProtocolVersion::V_2025_11_25)
    }

    /// Whether the client understands links to resources in results.
    pub(crate) fn follows_links(&self) -> bool {
        let ClientCapabilities { extensions, experimental, .. } = &self.capabilities;
        let extended = extensions.as_ref().is_some_and(|known| known.contains_key(LINKS));
        extended || experimental.as_ref().is_some_and(|known| known.contains_key(LINKS))
    }

    /// Whether the client can show a form. A client that names no mode can: forms came first.
    pub(crate) fn shows_forms(&self) -> bool {
        let elicitation = self.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_followed_by_who_says_so() {
        let follows = |capabilities: serde_json::Value| {
            let capabilities = serde_json::from_value(capabilities).unwrap();
            Peer { modern: true, structured: true, version: None, capabilities, by: String::new() }
                .follows_links()
        };
        assert!(!follows(json!({})));
        assert!(!follows(json!({"experimental": {"other": {}}, "extensions": {"other": {}}})));
        assert!(follows(json!({"experimental": {"handfast/resource_links": {}}})));
        assert!(follows(json!({"extensions": {"handfast/resource_links": {}}})));
    }

    #[test]
    fn forms_are_shown_by_who_says_so_or_names_no_mode() {
        let shows = |capabilities: serde_json::Value| {
            let capabilities = serde_json::from_value(capabilities).unwrap();
            Peer { modern: true, structured: true, version: None, capabilities, by: String::new() }
                .shows_forms()
        };
        assert!(!shows(json!({})));
        assert!(shows(json!({"elicitation": {}})));
        assert!(shows(json!({"elicitation": {"form": {}}})));
        assert!(shows(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!shows(json!({"elicitation": {"url": {}}})));
    }
}
