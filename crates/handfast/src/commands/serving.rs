//! What the commands share that serve many calls: `mcp` and `up`.

use std::sync::Arc;

use engine::Engine;
use sandbox::{Pool, Spawner};
use tokio::runtime::Runtime;

use crate::compose::Composed;
use crate::config::Elicitation;
use crate::report::warn;

/// Starts the spawner; call it before anything makes a thread. Without one every command makes its own cell, which is slower and no
/// different.
pub(super) fn start_spawner() -> Option<Arc<Spawner>> {
    match Spawner::start(Pool::default()) {
        Ok(spawner) => Some(Arc::new(spawner)),
        Err(error) => {
            warn(&format!("commands will start more slowly: {error}"));
            None
        }
    }
}

/// Makes ready for the first command, and removes what was kept for too long, while nobody waits.
pub(super) fn prepare(runtime: &Runtime, engine: &Arc<Engine>) {
    let engine = engine.clone();
    runtime.spawn_blocking(move || {
        engine.make_ready();
        if let Err(error) = engine.prune() {
            warn(&format!("old checkpoints and outputs cannot be removed: {error}"));
        }
    });
}

/// Whether `--no-input` was given: nobody is asked anything.
#[derive(Clone, Copy)]
pub(crate) struct NoInput(pub(crate) bool);

/// How MCP is spoken, over whatever it comes.
///
/// No client is sent a form where nobody is to be asked (`no_input`).
pub(crate) fn mcp_options(composed: &Composed, no_input: NoInput) -> mcp::Options {
    let mut options = mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), composed.session.clone());
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
        _ if no_input.0 => mcp::Elicitation::Off,
        Some(Elicitation::Off) => mcp::Elicitation::Off,
        Some(Elicitation::Trusted) => mcp::Elicitation::Trusted,
        Some(Elicitation::Ordinary) | None => mcp::Elicitation::Ordinary,
    };
    options
}
