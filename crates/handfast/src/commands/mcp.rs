//! `handfast mcp`: serves one agent over standard input and output.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use sandbox::{Pool, SessionLimits, Spawner};

use super::{Failure, tokio_runtime};
use crate::cli::Global;
use crate::compose::compose;
use crate::config::Elicitation;
use crate::report::{note, warn};
use crate::signals::Signals;

pub(super) fn run(global: &Global) -> Result<ExitCode, Failure> {
    // Before anything makes a thread. Without it every command makes its own cell, which is slower and no different.
    let spawner = match Spawner::start(Pool::default()) {
        Ok(spawner) => Some(Arc::new(spawner)),
        Err(error) => {
            warn(&format!("commands will start more slowly: {error}"));
            None
        }
    };
    let composed = compose(global, spawner, Some(SessionLimits::default()))?;
    let mut options = mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), composed.session.clone());
    options.title = Some("Handfast".to_owned());
    options.instructions = Some(format!(
        "These tools work in {}; relative paths start there. Commands run in a sandbox that shows that folder, the system's \
         programs and no network.",
        composed.workspace.display()
    ));
    options.catalogue = composed.catalogue;
    options.on_warning = Arc::new(warn);
    options.elicitation = match composed.elicitation {
        Some(Elicitation::Off) => mcp::Elicitation::Off,
        Some(Elicitation::Trusted) => mcp::Elicitation::Trusted,
        Some(Elicitation::Ordinary) | None => mcp::Elicitation::Ordinary,
    };
    if io::stdin().is_terminal() {
        note("serving MCP on standard input and output, which are usually an agent's; Ctrl-D ends it");
    }
    let runtime = tokio_runtime()?;
    let engine = composed.engine.clone();
    let beforehand = engine.clone();
    runtime.spawn_blocking(move || {
        beforehand.make_ready();
        // What was kept for too long goes while nobody waits.
        if let Err(error) = beforehand.prune() {
            warn(&format!("old checkpoints and outputs cannot be removed: {error}"));
        }
    });
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            served = mcp::serve_stdio(engine.clone(), options) => served.map(|()| 0).map_err(Failure::from),
            code = signals.next() => {
                engine.shutdown().await;
                Ok(code)
            }
        }
    });
    runtime.shutdown_background();
    composed.store.close()?;
    ended.map(ExitCode::from)
}
