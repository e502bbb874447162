//! The options of MCP for any transport.

use std::sync::Arc;

use crate::compose::Composed;
use crate::config::Elicitation;
use crate::report::warn;

/// True if `--no-input` was given: nobody is asked anything.
#[derive(Clone, Copy)]
pub(crate) struct NoInput(pub(crate) bool);

/// Returns the options of MCP for any transport.
///
/// With `no_input`, no client is sent a form.
pub(crate) fn mcp_options(composed: &Composed, no_input: NoInput) -> door_mcp::Options {
    let mut options = door_mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), composed.session.clone());
    options.title = Some("Handfast".to_owned());
    options.instructions = Some(format!(
        "These tools work in {}; relative paths start there. Commands run in a sandbox that shows that folder, the system's \
         programs and no network.",
        composed.workspace.display()
    ));
    options.dialect = composed.toolset.dialect;
    options.catalogue = composed.toolset.listed();
    options.on_warning = Arc::new(warn);
    options.elicitation = match composed.elicitation {
        _ if no_input.0 => door_mcp::Elicitation::Off,
        Some(Elicitation::Off) => door_mcp::Elicitation::Off,
        Some(Elicitation::Trusted) => door_mcp::Elicitation::Trusted,
        Some(Elicitation::Ordinary) | None => door_mcp::Elicitation::Ordinary,
    };
    options
}
