//! Undoing the changes of calls, by tools and by the user on the command line.

mod by_user;
mod overview;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoint::{
    Conflict, Draft, LaterChange, Restoration, SavedEntry, Workspace, add_saved_later, compose,
};
use database::Databases;
use jiff::Timestamp;
use parking_lot::Mutex;
use policy::Policy;
use serde::Serialize;
use store_api::{Checkpoint, CheckpointState, Store};
use tool::{
    CheckpointSummary, Checkpoints, Code, EffectState, Place, Retry, ToolError, UndoReport, UndoRequest,
};

use crate::checkpoint_rows::entries;
use crate::db_change::{DataUndo, is_of_database};
use crate::difference::{Differences, Direction};
use crate::direct_checkpoint::left_out;
use crate::saved_contents::SavedContents;
pub use overview::ChangeOverview;
pub(crate) use overview::first_paths;
pub use trial::UndoTrial;

/// Checkpoint with all its paths.
#[derive(Debug, Serialize)]
pub struct CheckpointDetails {
    /// Summary, as in the list.
    #[serde(flatten)]
    pub summary: CheckpointSummary,
    /// Paths that the checkpoint changed.
    pub changes: Vec<ChangedPath>,
    /// Paths that cannot be restored.
    pub unsaved: Vec<String>,
}

/// Path of a checkpoint.
#[derive(Debug, Serialize)]
pub struct ChangedPath {
    /// `created`, `changed` or `removed`.
    pub what: &'static str,
    /// Path, relative to the workspace.
    pub path: String,
}

impl ChangedPath {
    pub(crate) fn of(entry: &SavedEntry) -> Self {
        let what = match (&entry.before, &entry.after) {
            (None, _) => "created",
            (_, None) => "removed",
            _ => "changed",
        };
        Self { what, path: tool::path_text(&entry.path) }
    }
}

/// Starting point of an undo.
#[derive(Debug, Clone)]
pub enum UndoSince {
    /// Changes since this time.
    Time(Timestamp),
    /// Changes of this call and of all later ones.
    Call(String),
}

/// Result of an undo by the user.
#[derive(Debug, Serialize)]
pub struct UndoOutcome {
    /// Id of the checkpoint that undoes this undo; `None` if nothing changed.
    pub checkpoint: Option<String>,
    /// Number of changed paths.
    pub paths: u64,
    /// Paths that stay or cannot be restored, with the reason, one line each.
    pub notes: Vec<String>,
}

/// Parts of the runtime that undoing needs.
#[derive(Clone)]
pub(crate) struct Undo {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) place: Place,
    pub(crate) databases: Option<Arc<Databases>>,
}

/// Checkpoints from the view of one call.
pub(crate) struct ForCall {
    pub(crate) undo: Undo,
    /// Draft in which an undo is staged; `None` if the call has no snapshot.
    pub(crate) draft: Option<Draft>,
    /// Id of the checkpoint that the call undoes, set by the call.
    pub(crate) undoes: Arc<Mutex<Option<String>>>,
    /// Undo work in databases, which follows when the files are in place.
    pub(crate) data: Arc<Mutex<Vec<DataUndo>>>,
}

impl Checkpoints for ForCall {
    fn list(&self, limit: u32) -> Result<Vec<CheckpointSummary>, ToolError> {
        self.undo.list(limit)
    }

    fn diff(&self, checkpoint: &str, paths: &[PathBuf]) -> Result<String, ToolError> {
        let found = self.undo.find(checkpoint)?;
        let paths = self.undo.relative(paths)?;
        let all = self.undo.entries(&found)?;
        let wanted = all.iter().filter(|entry| is_below(&entry.path, &paths) && entry.is_telling());
        let files = self.undo.differences()?.of(wanted, Direction::Done);
        Ok(files + &self.undo.difference_of_data(&[found], &paths, Direction::Done)?)
    }

    fn preview(&self, request: &UndoRequest) -> Result<String, ToolError> {
        let found = self.undo.find(&request.checkpoint)?;
        let chosen = if request.and_later { self.undo.since(&found)? } else { vec![found] };
        let only = self.undo.relative(&request.paths)?;
        let all: Vec<Vec<SavedEntry>> =
            chosen.iter().map(|checkpoint| self.undo.entries(checkpoint)).collect::<Result<_, _>>()?;
        let (entries, _) = compose(all, &SavedContents::new(self.undo.store.as_ref(), None));
        let wanted = entries.iter().filter(|entry| is_below(&entry.path, &only) && entry.is_telling());
        let files = self.undo.differences()?.of(wanted, Direction::Undoing);
        Ok(files + &self.undo.difference_of_data(&chosen, &only, Direction::Undoing)?)
    }

    fn undo(&self, request: &UndoRequest) -> Result<UndoReport, ToolError> {
        let draft = self.draft.as_ref().ok_or_else(|| {
            ToolError::new(
                Code::Unavailable,
                "this runtime does not isolate changes, so nothing can be undone",
            )
        })?;
        let found = self.undo.find(&request.checkpoint)?;
        let chosen = if request.and_later { self.undo.since(&found)? } else { vec![found] };
        let data = self.undo.data(&chosen, request)?;
        let rows = self.undo.check_data(&data)?;
        let mut laid = self.undo.lay_out(draft, &chosen, request)?;
        laid.paths += rows;
        *self.data.lock() = data;
        *self.undoes.lock() = Some(undoes(&chosen));
        Ok(laid)
    }
}

/// Maximum number of checkpoints that are compared with a part of an id.
const MAX_MATCHES: u32 = 50;

fn is_below(path: &Path, paths: &[PathBuf]) -> bool {
    paths.is_empty() || paths.iter().any(|wanted| path.starts_with(wanted))
}

impl Undo {
    fn list(&self, limit: u32) -> Result<Vec<CheckpointSummary>, ToolError> {
        let all = self.store.checkpoints().list(&self.place.workspace, limit).map_err(unreadable)?;
        Ok(all.into_iter().map(summary).collect())
    }

    /// Finds a checkpoint by its id, or by the beginning or the end of the id.
    fn find(&self, id: &str) -> Result<Checkpoint, ToolError> {
        if id.is_empty() {
            return Err(ToolError::validation("id", "it is empty and would match every checkpoint").hint(
                "an id has 22 hexadecimal digits, and its first or last ones are enough; \
                 checkpoint_list lists them",
            ));
        }
        if let Some(found) = self.store.checkpoints().find(id).map_err(unreadable)? {
            return self.usable(found);
        }
        let fits = self.store.checkpoints().with_part(&self.place.workspace, id, MAX_MATCHES);
        let fits = fits.map_err(unreadable)?.into_iter();
        let mut fits = fits.filter(|checkpoint| tool::names_id(id, &checkpoint.id));
        match (fits.next(), fits.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(ToolError::validation(
                "id",
                format!("`{id}` matches several checkpoints; add more digits"),
            )),
            (None, _) => {
                Err(ToolError::new(Code::NotFound, format!("there is no checkpoint `{}`", tool::visible(id)))
                    .hint(
                        "checkpoint_list lists those of this workspace, for the user `handfast \
                         checkpoints list`; old ones are removed after some time",
                    ))
            }
        }
    }

    fn usable(&self, found: Checkpoint) -> Result<Checkpoint, ToolError> {
        if found.workspace != self.place.workspace {
            let elsewhere = tool::path_text(&found.workspace);
            let message = format!("the checkpoint {} belongs to the workspace {elsewhere}", found.id);
            return Err(ToolError::new(Code::NotFound, message).hint("work in that workspace to undo it"));
        }
        if found.state != CheckpointState::Done {
            let message = format!("the call of the checkpoint {} has not ended", found.id);
            return Err(ToolError::new(Code::Conflict, message).retry(Retry::Now));
        }
        Ok(found)
    }

    /// Lists this checkpoint and all later ones, oldest first.
    fn since(&self, first: &Checkpoint) -> Result<Vec<Checkpoint>, ToolError> {
        self.store.checkpoints().since(&self.place.workspace, first).map_err(unreadable)
    }

    fn entries(&self, checkpoint: &Checkpoint) -> Result<Vec<SavedEntry>, ToolError> {
        let rows = self.store.checkpoints().entries(&checkpoint.id).map_err(unreadable)?;
        let files = rows.into_iter().filter(|row| !is_of_database(row)).collect();
        entries(files).ok_or_else(|| {
            ToolError::new(Code::Runtime, format!("the checkpoint {} is damaged", checkpoint.id))
        })
    }

    fn relative(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError> {
        let relative = |path: &PathBuf| {
            path.strip_prefix(&self.place.workspace).map(Path::to_owned).map_err(|_| {
                let message = format!("{} lies outside the workspace", tool::path_text(path));
                ToolError::new(Code::Permission, message).hint("only files in the workspace are saved")
            })
        };
        paths.iter().map(relative).collect()
    }

    /// Returns the changes of these checkpoints in databases, as lines like those of a diff.
    fn difference_of_data(
        &self,
        checkpoints: &[Checkpoint],
        only: &[PathBuf],
        direction: Direction,
    ) -> Result<String, ToolError> {
        let mut text = String::new();
        for checkpoint in checkpoints {
            for (path, change) in self.changes_of(checkpoint)? {
                let shown = self.place.show(&path);
                if !is_below(Path::new(&shown), only) {
                    continue;
                }
                let undoing = matches!(direction, Direction::Undoing);
                let lines = change.lines(undoing);
                text.push_str(&format!("--- a/{shown}\n+++ b/{shown}\n"));
                for line in lines {
                    text.push_str(&format!("{line}\n"));
                }
            }
        }
        Ok(text)
    }

    fn differences(&self) -> Result<Differences<'_>, ToolError> {
        let workspace = Workspace::open(&self.place.workspace).map_err(failed)?;
        let contents = SavedContents::new(self.store.as_ref(), None);
        Ok(Differences { contents, policy: &self.policy, workspace, changed: None })
    }

    /// Stages the undo of these checkpoints, which are sorted from the oldest to the newest.
    fn lay_out(
        &self,
        draft: &Draft,
        checkpoints: &[Checkpoint],
        request: &UndoRequest,
    ) -> Result<UndoReport, ToolError> {
        let (only, force) = (self.relative(&request.paths)?, self.relative(&request.force)?);
        let all: Vec<Vec<SavedEntry>> =
            checkpoints.iter().map(|checkpoint| self.entries(checkpoint)).collect::<Result<_, _>>()?;
        let contents = SavedContents::new(self.store.as_ref(), None);
        let (mut entries, disturbed) = compose(all, &contents);
        if let Some(last) = checkpoints.last()
            && entries.iter().any(SavedEntry::lacks_bytes)
        {
            let later = self.since(last)?;
            let later: Vec<Vec<SavedEntry>> =
                later.iter().map(|checkpoint| self.entries(checkpoint)).collect::<Result<_, _>>()?;
            add_saved_later(&mut entries, later.iter().map(Vec::as_slice));
        }
        let is_forced = |path: &Path| force.iter().any(|forced| path.starts_with(forced));
        let wanted = Restoration { entries: &entries, only: &only, force: &is_forced, contents: &contents };
        let mut laid = draft.restore(&wanted).map_err(failed)?;
        for path in disturbed {
            let told = laid.conflicts.iter().any(|conflict| conflict.path == path);
            if !told && is_below(&path, &only) && !is_forced(&path) {
                laid.conflicts.push(Conflict { path, meanwhile: LaterChange::Changed });
            }
        }
        if !laid.conflicts.is_empty() {
            return Err(self.conflict(&entries, &laid.conflicts));
        }
        // The commit assumes that the contents that were read are stored.
        contents.finish().map_err(unsaved)?;
        let mut notes: Vec<String> = laid
            .left
            .iter()
            .map(|path| format!("{} stays: others have added files to it", tool::path_text(path)))
            .collect();
        notes.extend(laid.without_set_id.iter().map(|path| {
            format!("{} is restored without its set-user-id or set-group-id bit", tool::path_text(path))
        }));
        let mut unsaved: Vec<PathBuf> =
            checkpoints.iter().flat_map(|checkpoint| checkpoint.unsaved.clone()).collect();
        unsaved.sort();
        unsaved.dedup();
        unsaved.retain(|path| is_below(path, &only));
        if !unsaved.is_empty() {
            notes.push(left_out(&unsaved));
        }
        notes.extend(checkpoints.iter().filter_map(|checkpoint| self.told_by_reached(checkpoint)));
        Ok(UndoReport { paths: laid.paths, notes, taken_at: draft.begun() })
    }

    /// Returns a note about the hosts that the call of a checkpoint could reach. Undoing restores the
    /// files even if the audit cannot be read.
    fn told_by_reached(&self, checkpoint: &Checkpoint) -> Option<String> {
        let rows = self.store.audit().show(&checkpoint.id).unwrap_or_default();
        let plans = rows.iter().filter_map(|recorded| recorded.row.plan.as_deref());
        let reached = plans.rev().find_map(|plan| {
            let plan: serde_json::Value = serde_json::from_str(plan).ok()?;
            let reached = plan.get("reached")?.as_array()?;
            let hosts: Vec<&str> = reached.iter().filter_map(|host| host.as_str()).collect();
            (!hosts.is_empty()).then(|| hosts.join(", "))
        })?;
        Some(format!("what the call sent to {reached} stays sent"))
    }

    fn conflict(&self, entries: &[SavedEntry], conflicts: &[Conflict]) -> ToolError {
        let named: Vec<String> =
            conflicts.iter().take(10).map(|conflict| tool::path_text(&conflict.path)).collect();
        let more = conflicts.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("changed since, so nothing was undone: {}{more}", named.join(", "));
        let in_conflict =
            entries.iter().filter(|entry| conflicts.iter().any(|conflict| conflict.path == entry.path));
        let diff = self.differences().map(|differences| differences.of(in_conflict, Direction::Undoing));
        let error = ToolError::new(Code::Conflict, message)
            .hint("`data.diff` shows what undoing would change there; name the paths in `force` to do it");
        match diff {
            Ok(diff) => error.data(serde_json::json!({ "diff": diff })),
            Err(_) => error,
        }
    }
}

fn summary(checkpoint: Checkpoint) -> CheckpointSummary {
    let Checkpoint { id, tool, made_at, paths, bytes, undoes, .. } = checkpoint;
    CheckpointSummary { id, tool, made_at, paths, bytes, undoes }
}

fn unreadable(error: store_api::StoreError) -> ToolError {
    ToolError::new(Code::Runtime, format!("the checkpoints cannot be read: {error}")).because(error)
}

fn unsaved(error: store_api::StoreError) -> ToolError {
    let message = format!("nothing was undone: the files that it would replace could not be saved: {error}");
    ToolError::new(Code::Runtime, message).effect(EffectState::None).because(error)
}

pub(crate) fn failed(error: checkpoint::Error) -> ToolError {
    ToolError::caused_by(&format!("nothing was undone: {error}"), error).effect(EffectState::None)
}

fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| tool::path_text(path)).collect()
}

fn undoes(checkpoints: &[Checkpoint]) -> String {
    match checkpoints {
        [] => String::new(),
        [only] => only.id.clone(),
        [first, .., last] => format!("{}..{}", first.id, last.id),
    }
}
