//! The options of MCP for any transport.

use std::sync::Arc;

#[cfg(feature = "cli")]
use dialects::Dialect;
#[cfg(feature = "cli")]
use tool::SessionId;

use crate::compose::Composed;
use crate::config::Elicitation;
use crate::report::warn;

/// True if `--no-input` was given: nobody is asked anything.
#[derive(Clone, Copy)]
pub(crate) struct NoInput(pub(crate) bool);

/// Returns the options with which a client is asked for its roots, before its workspace is known.
#[cfg(feature = "cli")]
pub(crate) fn early_options(dialect: Dialect) -> door_mcp::Options {
    let mut options = door_mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), SessionId(String::new()));
    options.title = Some("Handfast".to_owned());
    options.instructions = Some(instructions("the first folder that you named as a root"));
    options.dialect = dialect;
    options
}

/// Returns what a client tells its model once a session.
fn instructions(workspace: &str) -> String {
    format!(
        "These tools work in {workspace}; relative paths start there. Commands run in a sandbox that shows that folder, the system's \
         programs and no network. What calls change in that folder can be undone: by you with the tool checkpoint_restore, \
         by the user with `handfast undo`. `handfast log` shows the user what was done."
    )
}

/// Returns the options of MCP for any transport.
///
/// With `no_input`, no client is sent a form.
pub(crate) fn mcp_options(composed: &Composed, no_input: NoInput) -> door_mcp::Options {
    let mut options = door_mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), composed.session.clone());
    options.title = Some("Handfast".to_owned());
    options.instructions = Some(instructions(&composed.workspace.display().to_string()));
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
