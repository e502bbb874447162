//! Checkpoints: files are saved before a call changes them.
//!
//! A commit saves the files that it replaces. The files that a tool changes itself are those of its
//! plan; they are saved before the tool runs, and the guard of its roots restricts the tool to
//! them. In both cases the row is written first, so a change without a row is impossible. The next
//! start settles the rows of killed processes, and removes the checkpoints of changes that did not
//! happen.

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use checkpoint::{ChangeEntries, Workspace};
use jiff::SignedDuration;
use policy::Part;
use store_api::{CheckResult, CheckpointRetention, CheckpointState, Chore, Retention, Store};
use tool::{Code, Effect, EffectState, Lane, Plan, PreparedCall, Spec, ToolError};

use crate::Engine;
use crate::call::Call;
use crate::checkpoint_rows::Author;
use crate::saved_contents::SavedContents;
use crate::settle_checkpoints::settle;
use crate::snapshot::Snapshots;

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
            let contents = SavedContents::new(engine.store.as_ref(), Some(&stop));
            save_directly(engine.store.as_ref(), &snapshots, &author, (&paths, renamed), &contents)
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

    /// Returns true if everything that a call changes is saved and can be undone, as line 8 of the
    /// decision and leases of what runs code of the project require.
    ///
    /// For a command the result is a prediction from a check of this machine and workspace. If its
    /// cell has no overlay nevertheless, the command is not run.
    pub(crate) fn is_undoable(&self, spec: &Spec, effects: &[Part], plan: &Plan) -> bool {
        let Some(snapshots) = &self.snapshots else { return false };
        if plan.background {
            return false;
        }
        if !plan.on_snapshot {
            let changes = effects.iter().filter(|part| !matches!(part.effect, Effect::Read { .. })).count();
            return changes > 0 && self.direct_paths(effects, plan).len() == changes;
        }
        spec.lane != Lane::Command || self.can_give_overlay(snapshots, &self.policy)
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
            let settled = settle(engine.store.as_ref(), &workspace, &id, saved, (&roots, &renamed));
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
    pub fn prune(&self) -> Result<(), store_api::StoreError> {
        self.prune_while(&|| true)
    }

    /// Prunes for a process that makes one call and ends: only if no process has pruned for the
    /// interval, and for at most [`LONGEST_PRUNE`]. A later process removes the rest. Blocks.
    pub fn prune_briefly(&self) -> Result<(), store_api::StoreError> {
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
    pub fn check_saved(&self) -> Result<Option<CheckResult>, store_api::StoreError> {
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

    fn prune_while(&self, goes_on: &dyn Fn() -> bool) -> Result<(), store_api::StoreError> {
        let now = self.clock.now();
        self.store.begin(Chore::Prune, now)?;
        self.store.checkpoints().prune(&RETENTION, now)?;
        self.store.outputs().prune(&OUTPUTS, now, goes_on).map(drop)
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
    store: &dyn Store,
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
