//! `handfast browser`: the extension for the user's own browser, and its pairing.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use browser::extension::{PairingCode, PairingProblem, extension_files, forget_pairing, is_paired, pair};
use serde_json::json;
use tool::Code;

use super::{Failure, print, tokio_runtime};
use crate::cli::Global;
use crate::cli_browser::BrowserCommand;
use crate::clock::SystemClock;
use crate::host_environment::HostEnvironment;
use crate::places::{open_store, state_folder};
use crate::report::note;
use crate::signals::Signals;

pub(super) fn run(global: &Global, command: &BrowserCommand) -> Result<ExitCode, Failure> {
    match command {
        BrowserCommand::Extension { out } => extension(out),
        BrowserCommand::Pair { port } => pair_on(global, *port),
        BrowserCommand::Unpair => unpair(global),
    }
}

fn extension(folder: &Path) -> Result<ExitCode, Failure> {
    for (path, content) in extension_files() {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, content))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    note(&format!(
        "the extension is in {}; open chrome://extensions, turn on the developer mode, and load this folder with \"Load unpacked\"; then run `handfast browser pair`",
        folder.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn pair_on(global: &Global, port: u16) -> Result<ExitCode, Failure> {
    let (options, host_environment) = (global.run_options(), HostEnvironment::of_this_process());
    let state = state_folder(&options, &host_environment)?;
    if is_paired(&state) {
        return Err(Failure::usage("a browser is paired already; `handfast browser unpair` forgets it"));
    }
    let code = Arc::new(PairingCode::new(Instant::now())?);
    let store = open_store(&options, &host_environment)?;
    let work = || -> Result<ExitCode, Failure> {
        tokio_runtime()?.block_on(async {
            let mut signals = Signals::listen()?;
            let waiting = async {
                print(&format!("{}\n", code.shown()))?;
                note(&format!(
                    "type this code into the options of the extension Handfast within two minutes (port {port})"
                ));
                pair(port, Arc::clone(&code), &state).await.map_err(failure)
            };
            tokio::select! {
                paired = waiting => {
                    paired?;
                    note("the browser is paired; share a tab in the extension's popup, and agents reach it with browser_connect and this port");
                    Ok(ExitCode::SUCCESS)
                }
                code = signals.next() => {
                    note("no browser was paired");
                    Ok(ExitCode::from(code))
                }
            }
        })
    };
    let runtime = |_: &Failure| Code::Runtime;
    engine::by_hand((store.as_ref(), &SystemClock), "browser pair", &json!({"port": port}), runtime, work)
}

/// Returns the failure with the error of the system, which says why.
fn failure(problem: PairingProblem) -> Failure {
    match std::error::Error::source(&problem) {
        Some(source) => format!("{problem}: {source}").into(),
        None => problem.into(),
    }
}

fn unpair(global: &Global) -> Result<ExitCode, Failure> {
    let (options, host_environment) = (global.run_options(), HostEnvironment::of_this_process());
    let state = state_folder(&options, &host_environment)?;
    let store = open_store(&options, &host_environment)?;
    let runtime = |_: &Failure| Code::Runtime;
    let work = || forget_pairing(&state).map_err(failure);
    let was_paired =
        engine::by_hand((store.as_ref(), &SystemClock), "browser unpair", &json!({}), runtime, work)?;
    note(if was_paired {
        "the browser is paired no more; forget the pairing in the options of its extension too"
    } else {
        "no browser is paired"
    });
    Ok(ExitCode::SUCCESS)
}
