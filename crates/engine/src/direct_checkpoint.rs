//! Checkpoints: files are saved before a call changes them.
//!
//! A commit saves the files that it replaces. The files that a tool changes itself are those of its
//! plan; they are saved before the tool runs, and the guard of its roots restricts the tool to
//! them. In both cases the row is written first, so a change without a row is impossible. The next
//! start settles the rows of killed processes, and removes the checkpoints of changes that did not
//! happen.

use std::cell::{Cell, OnceCell};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use checkpoint::{ChangeEntries, SavedEntry, State, Workspace};
use database::Databases;
use jiff::{SignedDuration, Timestamp};
use policy::Part;
use store::{
    CheckResult, Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState, Chore, Hash, Retention,
    Store,
};
use tool::{Code, Effect, EffectState, Lane, Plan, PreparedCall, Spec, ToolError};

use crate::call::Call;
use crate::db_checkpoint::is_of_database;
use crate::saved_contents::SavedContents;
use crate::snapshot::Snapshots;
use crate::{Engine, db_checkpoint};

/// Time for which a change can be undone: a month. The last hundred changes of a workspace can
/// always be undone.
const RETENTION: CheckpointRetention = CheckpointRetention {
    max_bytes: 4 * 1024 * 1024 * 1024,
    max_age: Duration::from_hours(30 * 24),
    keep_newest: 100,
};

/// Interval at which a long-lived runtime prunes saved files: at its start, and then after a change.
const PRUNED_EVERY: SignedDuration = SignedDuration::from_mins(15);

/// Maximum time for which a process that is about to end prunes saved files.
const LONGEST_PRUNE: Duration = Duration::from_millis(100);

/// Interval at which the runtimes of one state folder verify the saved files.
const CHECKED_EVERY: SignedDuration = SignedDuration::from_hours(24);

/// Ratio of rest to reading, so that verification uses at most a tenth of one processor.
const REST: u32 = 9;

/// Time for which the full text of a shortened output can be read: also a month.
const OUTPUTS: Retention =
    Retention { max_bytes: 4 * 1024 * 1024 * 1024, max_age: Duration::from_hours(30 * 24), keep_newest: 100 };

/// Author of a change.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    /// Id of the call, which is also that of its checkpoint.
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) tool: String,
    pub(crate) now: Timestamp,
    /// Id of the checkpoint that this change undoes, or those of the first and the last one.
    pub(crate) undoes: Option<String>,
}

impl Author {
    /// Records the changes that are about to happen. Returns true if any of them can be undone.
    pub(crate) fn prepare(
        &self,
        store: &Store,
        workspace: &Path,
        folder: &str,
        saved: &ChangeEntries,
    ) -> io::Result<bool> {
        if !saved.entries.iter().any(SavedEntry::can_be_undone) {
            return Ok(false);
        }
        self.add(store, workspace, folder, CheckpointState::Prepared, saved, &[])
            .map_err(io::Error::other)?;
        Ok(true)
    }

    fn add(
        &self,
        store: &Store,
        workspace: &Path,
        folder: &str,
        state: CheckpointState,
        saved: &ChangeEntries,
        roots: &[PathBuf],
    ) -> Result<(), store::StoreError> {
        let checkpoint = Checkpoint {
            id: self.id.clone(),
            session: self.session.clone(),
            tool: self.tool.clone(),
            workspace: workspace.to_owned(),
            made_at: self.now,
            folder: folder.to_owned(),
            state,
            undoes: self.undoes.clone(),
            paths: telling(saved),
            bytes: saved.bytes,
            unsaved: saved.unsaved.clone(),
            roots: roots.to_vec(),
        };
        store.require_room(saved.entries.len())?;
        let needed: Vec<Hash> = saved.needed.iter().copied().map(Hash::from).collect();
        store.checkpoints().add_with(&checkpoint, rows(saved), &needed)
    }
}

fn telling(saved: &ChangeEntries) -> u64 {
    saved.entries.iter().filter(|entry| entry.is_telling()).count() as u64
}

fn rows(saved: &ChangeEntries) -> impl Iterator<Item = CheckpointEntry> {
    let row = |entry: &SavedEntry| CheckpointEntry {
        path: entry.path.clone(),
        before: entry.before.as_ref().map(State::encode),
        after: entry.after.as_ref().map(State::encode),
        content: entry.before.as_ref().and_then(|before| before.content).map(Into::into),
    };
    saved.entries.iter().map(row)
}

/// Decodes entries from their rows. Returns `None` if a row is damaged.
pub(crate) fn entries(rows: Vec<CheckpointEntry>) -> Option<Vec<SavedEntry>> {
    let state = |bytes: Option<Vec<u8>>| match bytes {
        None => Some(None),
        Some(bytes) => State::decode(&bytes).map(Some),
    };
    let entry = |row: CheckpointEntry| {
        Some(SavedEntry { path: row.path, before: state(row.before)?, after: state(row.after)? })
    };
    rows.into_iter().map(entry).collect()
}

/// Saved files that a tool is about to change itself.
pub(crate) struct DirectSave {
    /// Marks this process as alive for other processes.
    folder: checkpoint::Call,
    workspace: Workspace,
    id: String,
    saved: ChangeEntries,
    roots: Vec<PathBuf>,
    /// Old and new paths of entries that are only renamed.
    renamed: Vec<PathBuf>,
}

impl DirectSave {
    /// Returns the absolute paths that the tool may change.
    pub(crate) fn covered(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| self.workspace.path().join(root)).collect()
    }
}

impl Engine {
    /// Saves the files that the tool will change itself: every path of its plan in the workspace.
    pub(crate) async fn save_directly(
        self: &Arc<Self>,
        call: &Call,
        prepared: &PreparedCall,
    ) -> Result<Option<DirectSave>, ToolError> {
        let paths = self.direct_paths(&call.effects, &prepared.plan);
        let renamed = self.renamed_paths(&call.effects, &prepared.plan);
        let Some(snapshots) = self.snapshots.clone().filter(|_| !paths.is_empty()) else { return Ok(None) };
        let (engine, author, stop) = (self.clone(), call.author(self.clock.now()), call.stop.clone());
        let saved = tokio::task::spawn_blocking(move || {
            let contents = SavedContents::new(&engine.store, Some(&stop));
            save_directly(&engine.store, &snapshots, &author, (&paths, renamed), &contents)
        });
        let saved = saved.await.map_err(|panic| ToolError::internal("saving failed").because(panic))?;
        saved.map(Some).map_err(|error| call.stop.check().err().unwrap_or(error))
    }

    /// Returns the paths, relative to the workspace, that the tool of a call will change itself.
    fn direct_paths(&self, effects: &[Part], plan: &Plan) -> Vec<PathBuf> {
        if plan.on_snapshot || plan.background {
            return Vec::new();
        }
        let changed = effects.iter().filter_map(|part| match part.effect.path()? {
            (tool::Access::Write, path) => Some(part.real.as_deref().unwrap_or(path)),
            (tool::Access::Read, _) => None,
        });
        let inside = changed.filter_map(|path| path.strip_prefix(&self.place.workspace).ok());
        inside.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned).collect()
    }

    /// Returns the old and the new path of an entry that a call renames without changing it,
    /// relative to the workspace. Returns no paths if one of them lies outside the workspace,
    /// because undoing the rename then requires the bytes.
    fn renamed_paths(&self, effects: &[Part], plan: &Plan) -> Vec<PathBuf> {
        let Some((from, to)) = &plan.renames else { return Vec::new() };
        let inside = |named: &Path| {
            let part =
                effects.iter().find(|part| part.effect.path().is_some_and(|(_, path)| path == named))?;
            let real = part.real.as_deref().unwrap_or(named);
            real.strip_prefix(&self.place.workspace).ok().map(Path::to_owned)
        };
        inside(from).zip(inside(to)).map(|(from, to)| vec![from, to]).unwrap_or_default()
    }

    /// Returns true if everything that a call changes is saved and can be undone: line 8 of the
    /// decision.
    ///
    /// For a command the result is a prediction. If its cell then has no overlay, the command is
    /// not run, and a new decision is made.
    pub(crate) fn is_undoable(&self, spec: &Spec, effects: &[Part], plan: &Plan) -> bool {
        if !self.policy.passes_undoable() || self.snapshots.is_none() || plan.background {
            return false;
        }
        if !plan.on_snapshot {
            let changes = effects.iter().filter(|part| !matches!(part.effect, Effect::Read { .. })).count();
            return changes > 0 && self.direct_paths(effects, plan).len() == changes;
        }
        let writes_elsewhere =
            || self.policy.roots().iter().any(|root| root.write && root.path != self.place.workspace);
        spec.lane != Lane::Command || !writes_elsewhere() && sandbox::has_namespaces()
    }

    /// Examines the changes that a tool has made itself, and completes the checkpoint.
    pub(crate) async fn settle_direct(
        self: &Arc<Self>,
        call: &mut Call,
        direct: DirectSave,
        has_ended: bool,
    ) {
        if !has_ended {
            // The tool may still be changing files, so the next start examines the result.
            call.warnings.push("the changes of the call can be undone after the next start".to_owned());
            return;
        }
        let engine = self.clone();
        let settled = tokio::task::spawn_blocking(move || {
            let DirectSave { folder, workspace, id, saved, roots, renamed } = direct;
            let settled = settle(&engine.store, &workspace, &id, saved, (&roots, &renamed));
            (settled, folder)
        });
        match settled.await {
            Ok((Ok(settled), folder)) => {
                call.checkpoint = settled.made.then(|| call.id.0.clone());
                if !settled.unsaved.is_empty() {
                    call.warnings.push(left_out(&settled.unsaved));
                }
                self.removals.remove(folder);
                self.prune_where_due();
            }
            // The row stays unchanged, and the next start settles it.
            Ok((Err(error), _)) => call.warnings.push(format!("the checkpoint is not complete: {error}")),
            Err(panic) => call.warnings.push(format!("the checkpoint is not complete: {panic}")),
        }
    }

    /// Prunes saved files after the response, if the interval has passed.
    pub(crate) fn prune_where_due(self: &Arc<Self>) {
        let now = self.clock.now();
        {
            let mut pruned = self.pruned.lock();
            if now.duration_since(*pruned).abs() < PRUNED_EVERY {
                return;
            }
            *pruned = now;
        }
        let engine = self.clone();
        // A failed attempt is repeated the next time.
        self.removals.work(move || drop(engine.prune()));
    }

    /// Removes saved files that have expired. Blocks.
    pub fn prune(&self) -> Result<(), store::StoreError> {
        self.prune_while(&|| true)
    }

    /// Prunes for a process that makes one call and ends: only if no process has pruned for the
    /// interval, and for at most [`LONGEST_PRUNE`]. A later process removes the rest. Blocks.
    pub fn prune_briefly(&self) -> Result<(), store::StoreError> {
        if !self.store.is_due(Chore::Prune, PRUNED_EVERY, self.clock.now())? {
            return Ok(());
        }
        // The time counts from the first file on, so that each run examines at least one file,
        // however slow the machine is.
        let begun = OnceCell::new();
        self.prune_while(&|| begun.get_or_init(Instant::now).elapsed() < LONGEST_PRUNE)
    }

    /// Verifies the saved files once a day for all runtimes of the state folder, and rests nine
    /// tenths of the time. Returns `None` if no verification is due, or if the engine shuts down.
    /// Blocks.
    ///
    /// # Errors
    /// Returns an error if the state folder cannot be read.
    pub fn check_saved(&self) -> Result<Option<CheckResult>, store::StoreError> {
        let now = self.clock.now();
        if !self.store.is_due(Chore::Check, CHECKED_EVERY, now)? {
            return Ok(None);
        }
        self.store.begin(Chore::Check, now)?;
        let begun = Cell::new(Instant::now());
        self.store.blobs().check(&|_| {
            std::thread::sleep(begun.get().elapsed() * REST);
            begun.set(Instant::now());
            !self.closed.load(Ordering::SeqCst)
        })
    }

    fn prune_while(&self, goes_on: &dyn Fn() -> bool) -> Result<(), store::StoreError> {
        let now = self.clock.now();
        self.store.begin(Chore::Prune, now)?;
        self.store.checkpoints().prune(&RETENTION, now)?;
        self.store.outputs().prune_while(&OUTPUTS, now, goes_on).map(drop)
    }
}

/// Returns a message about the files that undoing does not restore.
pub(crate) fn left_out(unsaved: &[PathBuf]) -> String {
    let named: Vec<String> = unsaved.iter().take(5).map(|path| tool::path_text(path)).collect();
    let more = unsaved.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("not saved, because tools regenerate it: {}{more}", named.join(", "))
}

fn save_directly(
    store: &Store,
    snapshots: &Snapshots,
    author: &Author,
    (paths, renamed): (&[PathBuf], Vec<PathBuf>),
    contents: &SavedContents<'_>,
) -> Result<DirectSave, ToolError> {
    let failed = |error: checkpoint::Error| {
        let message =
            format!("the files that the call would change could not be saved, so nothing was done: {error}");
        ToolError::caused_by(&message, error)
    };
    let (folder, workspace) = snapshots.begin().map_err(failed)?;
    let (saved, roots) = workspace.save(paths, &renamed, contents).map_err(failed)?;
    if let Some(path) = saved.unreadable.first() {
        let message = format!(
            "{} cannot be read and so could not be restored; nothing was done",
            tool::path_text(path)
        );
        return Err(ToolError::new(Code::Permission, message).hint("make it readable first"));
    }
    contents
        .finish()
        .and_then(|()| {
            author.add(store, workspace.path(), folder.id(), CheckpointState::Direct, &saved, &roots)
        })
        .map_err(|error| {
            let message = format!(
                "the files that the call would change could not be saved, so nothing was done: {error}"
            );
            ToolError::new(Code::Runtime, message).because(error).effect(EffectState::None)
        })?;
    Ok(DirectSave { folder, workspace, id: author.id.clone(), saved, roots, renamed })
}

struct Settled {
    made: bool,
    unsaved: Vec<PathBuf>,
}

/// Completes the checkpoint of a direct change with the current state, or removes it if nothing has
/// changed.
fn settle(
    store: &Store,
    workspace: &Workspace,
    id: &str,
    saved: ChangeEntries,
    (roots, renamed): (&[PathBuf], &[PathBuf]),
) -> Result<Settled, Box<dyn std::error::Error + Send + Sync>> {
    let saved = workspace.note_after(saved, (roots, renamed), &SavedContents::new(store, None))?;
    let made = saved.entries.iter().any(SavedEntry::is_telling);
    if made {
        store.checkpoints().complete_as(id, rows(&saved), telling(&saved), &saved.unsaved)?;
    } else {
        store.checkpoints().remove(id)?;
    }
    Ok(Settled { made, unsaved: saved.unsaved })
}

/// Settles the checkpoints of processes that have ended, after their commits were rolled back or
/// cleaned up. `is_open` returns true if a folder still has a process or an unfinished commit.
pub(crate) fn settle_all(
    store: &Arc<Store>,
    databases: Option<&Databases>,
    is_open: impl Fn(&str) -> Result<bool, checkpoint::Error>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    for checkpoint in store.checkpoints().unfinished()? {
        if is_open(&checkpoint.folder)? {
            continue;
        }
        // The process may have completed the checkpoint and closed its folder after the list was
        // read. From now on no other process changes it.
        let now = store.checkpoints().find(&checkpoint.id)?;
        let Some(checkpoint) = now.filter(|now| now.state != CheckpointState::Done) else { continue };
        if checkpoint.state == CheckpointState::Prepared {
            store.checkpoints().remove(&checkpoint.id)?;
            continue;
        }
        let rows = store.checkpoints().entries(&checkpoint.id)?;
        if rows.iter().any(is_of_database) {
            db_checkpoint::settle(store, databases, &checkpoint, &rows)?;
            continue;
        }
        let Some(entries) = entries(rows) else { continue };
        // A workspace that no longer exists cannot be compared.
        let Ok(workspace) = Workspace::open(&checkpoint.workspace) else { continue };
        for root in &checkpoint.roots {
            // A file that is being renamed over another has a temporary name for a moment.
            roots::remove_abandoned_in(&checkpoint.workspace, root.parent().unwrap_or(Path::new("")))?;
        }
        let saved = ChangeEntries { entries, bytes: checkpoint.bytes, ..ChangeEntries::default() };
        settle(store, &workspace, &checkpoint.id, saved, (&checkpoint.roots, &[]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a store with one checkpoint that its process has not completed.
    fn store_with_prepared(folder: &Path, id: &str) -> Arc<Store> {
        let store = Arc::new(Store::open(folder).unwrap());
        let author = Author {
            id: id.to_owned(),
            session: None,
            tool: "file_write".to_owned(),
            now: Timestamp::UNIX_EPOCH,
            undoes: None,
        };
        author.add(&store, folder, "f", CheckpointState::Prepared, &ChangeEntries::default(), &[]).unwrap();
        store
    }

    #[test]
    fn a_checkpoint_that_its_process_completes_while_another_starts_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_prepared(folder.path(), "a");
        // The process completes its commit and closes its folder between the two checks of the
        // process that starts.
        let completed = |folder: &str| {
            store.checkpoints().complete_folder(folder).unwrap();
            Ok(false)
        };
        settle_all(&store, None, completed).unwrap();
        assert!(store.checkpoints().find("a").unwrap().is_some());
    }

    #[test]
    fn a_checkpoint_of_a_commit_that_did_not_happen_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_prepared(folder.path(), "a");
        settle_all(&store, None, |_| Ok(true)).unwrap();
        assert!(store.checkpoints().find("a").unwrap().is_some(), "its process lives");
        settle_all(&store, None, |_| Ok(false)).unwrap();
        assert!(store.checkpoints().find("a").unwrap().is_none());
    }
}
