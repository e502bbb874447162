//! Paths of `handfast up` that other doors answer.

mod csp;
pub(crate) mod mcp;

use door_http::{Mount, MountPoint};
use door_mcp::McpError;

use crate::compose::Composed;
use crate::mcp_options::{NoInput, mcp_options};

/// All mounted paths, in the order of the document.
pub(crate) const POINTS: [&MountPoint; 2] = [&csp::POINT, &mcp::POINT];

/// Returns the mounts of a server.
///
/// # Errors
/// [`McpError::Random`] if the operating system returns no random bytes.
pub(crate) fn mounts(composed: &Composed, no_input: NoInput) -> Result<Vec<Mount>, McpError> {
    let endpoint = door_mcp::Endpoint::new(&composed.engine, mcp_options(composed, no_input))?;
    Ok(vec![csp::mount(composed), mcp::mount(endpoint)])
}

#[cfg(test)]
mod tests {
    use door_http::Role;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_agents_use_what_is_mounted() {
        let mounted = POINTS.map(|point| (point.path, point.roles));
        assert_eq!(mounted, [("/v1/csp", &[Role::Agent][..]), ("/mcp", &[Role::Agent][..])]);
    }

    #[test]
    fn the_document_that_is_checked_in_is_the_one_of_this_server() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let there: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let document = door_http::document(&POINTS);
        assert!(there == document, "docs/openapi.json is another; `cargo xtask docs` writes it");
        for point in POINTS {
            let described = document["paths"][point.path].as_object().unwrap();
            let methods = point.methods.split(", ");
            assert!(methods.clone().all(|method| described.contains_key(&method.to_ascii_lowercase())));
            assert_eq!(described.len(), methods.count(), "{}", point.path);
        }
    }
}
