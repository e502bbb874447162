//! `handfast mcp`: serves one agent over standard input and output.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use super::serving::{prepare, start_spawner};
use super::{Failure, tokio_runtime};
use crate::cli::Global;
use crate::compose::{RuntimeOptions, compose};
use crate::mcp_options::{NoInput, mcp_options};
use crate::reload;
use crate::report::note;
use crate::signals::Signals;

pub(super) fn run(global: &Global) -> Result<ExitCode, Failure> {
    let composed = compose(RuntimeOptions::serving(global, start_spawner()))?;
    let options = mcp_options(&composed, NoInput(global.no_input));
    if io::stdin().is_terminal() {
        note(
            "serving MCP on standard input and output, for an agent that starts this program; \
             Ctrl-D ends it",
        );
    }
    let runtime = tokio_runtime()?;
    let engine = composed.engine.clone();
    prepare(&runtime, &engine);
    reload::keep_current(&composed.engine, &composed.store, composed.reload.clone());
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            served = door_mcp::serve_stdio(engine.clone(), options) => served.map(|()| 0).map_err(Failure::from),
            code = signals.next() => {
                engine.shutdown().await;
                Ok(code)
            }
        }
    });
    runtime.shutdown_background();
    composed.store.close()?;
    composed.close_traces();
    ended.map(ExitCode::from)
}
