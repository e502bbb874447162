//! `handfast mcp`: serves one agent over standard input and output.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use door_mcp::FirstMessages;
use url::Url;

use super::serving::{prepare, present, start_spawner};
use super::{Failure, tokio_runtime};
use crate::cli::Global;
use crate::compose::{RuntimeOptions, compose};
use crate::host_environment::HostEnvironment;
use crate::mcp_options::{NoInput, early_options, mcp_options};
use crate::reload;
use crate::report::{note, warn};
use crate::signals::Signals;

pub(super) fn run(global: &Global) -> Result<ExitCode, Failure> {
    let spawner = start_spawner();
    let (global, first) = with_workspace_of_roots(global)?;
    let composed = compose(RuntimeOptions::serving(&global, spawner))?;
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
    let _listening = present(&composed, None);
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            served = door_mcp::serve_stdio_after(first, engine.clone(), options) => served.map(|()| 0).map_err(Failure::from),
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

/// Returns the options with the workspace that the client's roots name, and the messages that the client
/// sent meanwhile. Clients are asked only if no workspace was given and the current folder is the whole
/// file system or contains the user's home, where desktop programs start their servers.
fn with_workspace_of_roots(global: &Global) -> Result<(Global, FirstMessages), Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let is_no_project = |folder: &Path| {
        folder == Path::new("/")
            || host_environment.home.as_ref().is_some_and(|home| home.starts_with(folder))
    };
    let directory = host_environment.directory.as_ref().and_then(|folder| folder.canonicalize().ok());
    if global.workspace.is_some() || !directory.is_some_and(|folder| is_no_project(&folder)) {
        return Ok((global.clone(), FirstMessages::default()));
    }
    let options = early_options(global.dialect.unwrap_or_default());
    // The engine's own runtime has threads, and the spawner of cells must come before these.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let first = runtime.block_on(door_mcp::ask_for_roots_on_stdio(&options))?;
    runtime.shutdown_background();
    let folders = first.roots.iter().filter_map(|root| Url::parse(root).ok()?.to_file_path().ok());
    let mut folders = folders.filter_map(|folder| folder.canonicalize().ok());
    let workspace = folders.find(|folder| folder.is_dir() && !is_no_project(folder));
    match &workspace {
        Some(workspace) if first.roots.len() > 1 => {
            note(&format!("the tools work in {}, the first root of the client", workspace.display()));
        }
        None if !first.roots.is_empty() => {
            warn("none of the client's roots is a folder that can be a workspace");
        }
        _ => {}
    }
    Ok((Global { workspace, ..global.clone() }, first))
}
