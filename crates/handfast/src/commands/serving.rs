//! Shared code of the commands that serve many calls: `mcp`, `csp` and `up`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandbox::{Pool, StartingSpawner};
use tokio::runtime::Runtime;

use crate::compose::{Composed, slower};
use crate::listening::{Listening, Server};
use crate::report::warn;

/// Begins the start of the spawner, then raises the limit on this process's open files to its maximum.
/// Cells keep the earlier limit. Must be called before any thread is started.
pub(super) fn start_spawner() -> Option<StartingSpawner> {
    let started = StartingSpawner::begin(Pool::default());
    let limit = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, the present limit applies.
    let _as_before = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    started.inspect_err(|error| warn(&slower(error))).ok()
}

/// Interval at which a server asks whether saved content is due for a check.
const CHECK_ASKED_EVERY: Duration = Duration::from_hours(1);

/// Time before the preparations, in which a client gets the list of tools without waiting for them.
const AFTER_START: Duration = Duration::from_millis(50);

/// Prepares for the first command and prunes expired content in the background. From then on, the
/// server reads saved content back once a day.
pub(super) fn prepare(runtime: &Runtime, engine: &Arc<Engine>) {
    let engine = engine.clone();
    runtime.spawn(async move {
        engine.timer().sleep(AFTER_START).await;
        let first = engine.clone();
        let made_ready = tokio::task::spawn_blocking(move || {
            first.make_ready();
            if let Err(error) = first.prune() {
                warn(&format!("cannot remove old checkpoints and outputs: {error}"));
            }
        });
        let mut ended = made_ready.await;
        // A failure of one of these tasks is always a defect. The server continues without the
        // remaining checks.
        while ended.is_ok() {
            let checking = engine.clone();
            ended = tokio::task::spawn_blocking(move || check_saved(&checking)).await;
            engine.timer().sleep(CHECK_ASKED_EVERY).await;
        }
    });
}

/// Reads back saved content if that is due, and warns about damage.
fn check_saved(engine: &Engine) {
    match engine.check_saved() {
        Ok(Some(checked)) if !checked.damaged.is_empty() => warn(&damaged(&checked.damaged)),
        Ok(_) => {}
        Err(error) => warn(&format!("cannot read back the content saved for undo: {error}")),
    }
}

/// Maximum number of changes that are named when saved content is damaged.
const MAX_NAMED: usize = 5;

/// Describes which changes cannot be undone completely, from their ids and the number of damaged
/// files of each.
pub(super) fn damaged(checkpoints: &[(String, u64)]) -> String {
    let named: Vec<String> =
        checkpoints.iter().take(MAX_NAMED).map(|(id, files)| format!("{id} ({files})")).collect();
    let more = checkpoints.len().saturating_sub(named.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "saved content of these changes is damaged or missing (with the number of saved files): \
         {}{more}",
        named.join(", ")
    )
}

/// Registers this process as a server until the value is dropped, for `handfast status` and for
/// servers at the same address.
pub(super) fn present(composed: &Composed, address: Option<SocketAddr>) -> Option<Listening> {
    let begun = Listening::begin(&composed.state, &Server::of_this_process(address, &composed.workspace));
    begun.inspect_err(|error| warn(&format!("cannot record this server for other processes: {error}"))).ok()
}
