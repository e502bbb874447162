//! Keeps the code graph current while `up` runs, once a query has asked for it. After changes and a short quiet
//! period an ordinary call of the tool updates it, so that policy and audit cover that.
//!
//! No feature depends on this: a query checks for changes itself. The benefit is that many changes, such as those of
//! another branch, are read before somebody waits for them. A timer would walk through the workspace again and again
//! while nothing changes; notices cost nothing then.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use engine::{CallRequest, Door, Engine, Internal, NoAsker, Principal};
use rustix::event::Timespec;
use rustix::io::Errno;
use serde_json::json;
use tokio::sync::mpsc;
use tool::{Owner, SessionId, Stop};
use tools_graph::CodeGraphs;

use super::change_notices::{ChangeNotices, WANTED};
use crate::compose::Composed;
use crate::report::warn;

/// Tool that updates the graph.
const TOOL: &str = "graph_query";

/// Duration of the quiet period.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Maximum number of watched folders.
const MAX_FOLDERS: usize = 4_000;

/// A wish for an update. The sender is dropped when it is done.
type Wish = Sender<()>;

/// Prepares the updates if this runtime has the tool. Requires a tokio runtime. The engine's end ends them.
pub(super) fn keep_up(composed: &Composed) {
    let engine = &composed.engine;
    if !engine.tools().iter().any(|tool| tool.name() == TOOL) {
        return;
    }
    let (wishes, mut wished) = mpsc::channel::<Wish>(1);
    // The graphs keep the function, so it must not keep them.
    let (graphs, workspace) = (Arc::downgrade(&composed.graphs), composed.workspace.clone());
    let threads = Arc::downgrade(engine);
    composed.graphs.on_first_use(move || {
        let (Some(engine), Some(graphs)) = (threads.upgrade(), graphs.upgrade()) else { return };
        let started = engine.threads().start("code graph", Owner::Runtime, move |stop| {
            // Without notices, queries check for changes themselves.
            let _ = watch(&workspace, &graphs, &wishes, stop);
        });
        if let Err(error) = started {
            warn(&format!("the code graph is not kept current between queries: {}", error.message));
        }
    });
    let principal = principal(composed.session.clone(), composed.toolset.dialect.as_str());
    let (engine, graphs) = (Arc::downgrade(engine), composed.graphs.clone());
    tokio::spawn(async move {
        while let Some(wish) = wished.recv().await
            && let Some(engine) = engine.upgrade()
        {
            // The audit records the outcome.
            let _ = update(&engine, principal.clone()).await;
            let graphs = graphs.clone();
            // A failure means that the runtime ends.
            let _ = tokio::task::spawn_blocking(move || graphs.tidy()).await;
            drop(wish);
        }
    });
}

/// Returns the watcher as a caller. Nobody can be asked for its calls.
fn principal(session: SessionId, dialect: &'static str) -> Principal {
    let asker = Arc::new(NoAsker { hint: "nobody asked for this call".to_owned() });
    Principal::new(Door::Internal(Internal::CodeWatcher), session, dialect, asker)
}

async fn update(engine: &Arc<Engine>, principal: Principal) -> bool {
    engine.call(CallRequest::new(principal, TOOL, json!({"query": "RETURN 1"}))).await.ok()
}

/// Wishes for an update after each change, until a stop is requested or nobody receives the wishes.
fn watch(
    workspace: &Path,
    graphs: &CodeGraphs,
    wishes: &mpsc::Sender<Wish>,
    stop: &Stop,
) -> Result<(), Errno> {
    let notices = ChangeNotices::open(stop)?;
    loop {
        // An update may have found new folders. Watching one again changes nothing.
        for folder in graphs.folders().into_iter().take(MAX_FOLDERS) {
            // A folder that is gone is reported by the folder around it.
            let _gone = notices.inotify.add(workspace.join(folder), WANTED);
        }
        notices.wait(None)?;
        // An editor writes a file in several steps, and a checkout writes many files.
        while stop.requested().is_none() && notices.wait(Some(&QUIET))? {
            notices.inotify.read()?;
        }
        if stop.requested().is_some() {
            return Ok(());
        }
        let (wish, done): (Wish, Receiver<()>) = channel();
        if wishes.blocking_send(wish).is_err() {
            return Ok(());
        }
        // Ends with an error, because nothing is ever sent.
        let _done = done.recv();
    }
}
