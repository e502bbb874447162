//! Keeps the knowledge index current while `up` runs. Changes below `knowledge/` are indexed after
//! a short quiet period, by an ordinary call of the tool, so that policy and audit cover it.
//!
//! No feature depends on this: a search checks for changes itself. The benefit is that vectors are
//! ready before somebody waits for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{CallRequest, Door, Engine, Internal, NoAsker, Principal};
use rustix::event::Timespec;
use rustix::io::Errno;
use serde_json::json;
use tokio::sync::mpsc;
use tool::{Owner, SessionId, Stop};
use watch::{Inotify, Notice};

use super::change_notices::{ChangeNotices, WANTED};
use crate::compose::Composed;
use crate::report::warn;

/// Folder in the workspace, and the tool that indexes it.
const FOLDER: &str = "knowledge";
const TOOL: &str = "knowledge_index";

/// Duration of the quiet period.
const QUIET: Timespec = Timespec { tv_sec: 1, tv_nsec: 500_000_000 };

/// Maximum number of watched folders.
const MAX_FOLDERS: usize = 2_000;

/// Starts the indexing if this runtime has the tool. Requires a tokio runtime. The engine's end
/// ends it.
pub(super) fn keep_up(composed: &Composed) {
    let engine = &composed.engine;
    if !engine.tools().iter().any(|tool| tool.name() == TOOL) {
        return;
    }
    let (sender, mut changed) = mpsc::channel::<()>(1);
    let folder = composed.workspace.clone();
    let started = engine.threads().start("knowledge", Owner::Runtime, move |stop| {
        // Without change events, searches check for changes themselves.
        let _ = watch(&folder, &sender, stop);
    });
    if let Err(error) = started {
        warn(&format!("the knowledge index is not kept current between searches: {}", error.message));
        return;
    }
    let principal = principal(composed.session.clone(), composed.toolset.dialect.as_str());
    let engine = Arc::downgrade(engine);
    tokio::spawn(async move {
        while changed.recv().await.is_some()
            && let Some(engine) = engine.upgrade()
        {
            // The audit records the outcome.
            let _ = index(&engine, principal.clone()).await;
        }
    });
}

/// Returns the watcher as a caller. Nobody can be asked for its calls.
fn principal(session: SessionId, dialect: &'static str) -> Principal {
    let asker = Arc::new(NoAsker { hint: "nobody asked for this call".to_owned() });
    Principal::new(Door::Internal(Internal::KnowledgeWatcher), session, dialect, asker)
}

async fn index(engine: &Arc<Engine>, principal: Principal) -> bool {
    engine.call(CallRequest::new(principal, TOOL, json!({"scope": "changed_only"}))).await.ok()
}

/// Reports changes until a stop is requested or the receiver is gone.
fn watch(workspace: &Path, sender: &mpsc::Sender<()>, stop: &Stop) -> Result<(), Errno> {
    let notices = ChangeNotices::open(stop)?;
    let inotify = &notices.inotify;
    let base = workspace.join(FOLDER);
    let around = inotify.add(workspace, WANTED)?;
    if add_below(inotify, &base) && sender.blocking_send(()).is_err() {
        return Ok(());
    }
    loop {
        notices.wait(None)?;
        let mut concerns = read(inotify, around)?;
        // Wait for a quiet moment: an editor writes a file in several steps, and a checkout writes
        // many files.
        while stop.requested().is_none() && notices.wait(Some(&QUIET))? {
            concerns = read(inotify, around)? || concerns;
        }
        if stop.requested().is_some() {
            return Ok(());
        }
        if !concerns {
            continue;
        }
        // The kernel reports a new folder only by its name, without watching it.
        add_below(inotify, &base);
        match sender.try_send(()) {
            Err(mpsc::error::TrySendError::Closed(())) => return Ok(()),
            // A pending notification covers this change as well.
            Ok(()) | Err(mpsc::error::TrySendError::Full(())) => {}
        }
    }
}

/// Reads the pending events. Returns true if one of them concerns the base.
fn read(inotify: &Inotify, around: i32) -> Result<bool, Errno> {
    Ok(inotify.read()?.iter().any(|notice| match notice {
        Notice::Came { watch, name } | Notice::Left { watch, name } => {
            *watch != around || name == FOLDER.as_bytes()
        }
        Notice::Gone { .. } => false,
        Notice::Lost => true,
    }))
}

/// Watches a folder and the folders below it, best effort. Returns true if the folder exists.
fn add_below(inotify: &Inotify, base: &Path) -> bool {
    let mut waiting: Vec<PathBuf> = vec![base.to_owned()];
    let mut watched = 0;
    while let Some(folder) = waiting.pop() {
        if watched >= MAX_FOLDERS || inotify.add(&folder, WANTED).is_err() {
            continue;
        }
        watched += 1;
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(folders.map(|entry| entry.path()));
    }
    watched > 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use tool::{ResourcePool, Threads};

    use super::*;

    #[test]
    fn changes_in_the_base_are_told_of_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().to_owned();
        let (sender, mut changed) = mpsc::channel(1);
        let threads = Threads::new(Arc::new(testkit::FixedClock::default()));
        let watched = workspace.clone();
        let work = move |stop: &Stop| watch(&watched, &sender, stop).unwrap();
        threads.start("knowledge", Owner::Runtime, work).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut told = |change: &dyn Fn()| {
            runtime.block_on(async {
                // Repeat the change until it is noticed, because the watch may not be active yet.
                loop {
                    change();
                    if tokio::time::timeout(Duration::from_secs(4), changed.recv()).await.is_ok() {
                        return;
                    }
                }
            });
        };
        let base = workspace.join(FOLDER);
        told(&|| std::fs::create_dir_all(base.join("user/deep")).unwrap());
        told(&|| std::fs::write(base.join("user/deep/a.md"), "a").unwrap());
        told(&|| std::fs::write(base.join("user/deep/a.md"), "b").unwrap());
        told(&|| {
            let _ = std::fs::remove_file(base.join("user/deep/a.md"));
            std::fs::write(base.join("b.md"), "b").unwrap();
        });
        threads.stop(&Owner::Runtime);
        threads.join(&Owner::Runtime);
        assert_eq!(threads.list(Timestamp::UNIX_EPOCH), [], "the watch ends while nothing changes");
    }
}
