//! What the commands share that serve many calls: `mcp` and `up`.

use std::sync::Arc;

use engine::Engine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandbox::{Pool, Spawner};
use tokio::runtime::Runtime;

use crate::compose::Composed;
use crate::config::Elicitation;
use crate::report::warn;

/// Starts the spawner, and then raises the limit on this process's open files as far as it may: cells keep the one that was there.
/// Call it before anything makes a thread. Without a spawner every command makes its own cell, which is slower and no different.
pub(super) fn start_spawner() -> Option<Arc<Spawner>> {
    let started = Spawner::start(Pool::default());
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, what there is counts.
    let _as_before = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    match started {
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

/// How MCP is spoken, over whatever it comes.
pub(crate) fn mcp_options(composed: &Composed) -> mcp::Options {
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
        Some(Elicitation::Off) => mcp::Elicitation::Off,
        Some(Elicitation::Trusted) => mcp::Elicitation::Trusted,
        Some(Elicitation::Ordinary) | None => mcp::Elicitation::Ordinary,
    };
    options
}
