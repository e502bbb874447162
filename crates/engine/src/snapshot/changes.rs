//! The snapshot of one call, and the changes in it that are not in the workspace.

use std::fs::File;
use std::path::{Path, PathBuf};

use checkpoint::{Changes, Durability, HiddenFile, Outcome, SavedEntry, Terms, Time, Workspace};
use policy::Policy;
use sandbox::Overlay;
use store_api::Store;
use tool::{Stop, ToolError};

use super::commit::commit_saved;
use super::judge::{HeldChanges, Judge};
use super::result::{CommitResult, conflict, count, done, failed, held, shortened, stopped};
use crate::approvals::ForeseenWrites;
use crate::checkpoint_rows::Author;
use crate::denied::DeniedFiles;
use crate::difference::{Differences, Direction};
use crate::saved_contents::SavedContents;

/// Path of git's index in a workspace.
pub(super) const GIT_INDEX: &str = ".git/index";

/// Snapshot of one call.
pub(crate) struct Snapshot {
    pub(super) changed_by: ChangedBy,
    pub(super) call: checkpoint::Call,
    pub(super) workspace: Workspace,
    /// Git's index at the time of the snapshot.
    pub(super) index: Option<File>,
}

/// Changes in a snapshot that are not in the workspace: those of a run that has ended, or those
/// that an earlier call has kept aside.
pub(crate) struct PendingChanges {
    snapshot: Snapshot,
    /// Time since which changes by others conflict with these.
    since: Time,
}

/// Author of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// Command in a cell, over an overlay.
    Command,
    /// File tool. Its changes survive a loss of power, as those of every file tool do.
    Draft,
    /// Undo of an earlier call's changes. Its plan does not name the paths.
    Restoration,
}

/// Preview of changes before they are committed to the workspace.
pub(crate) struct Preview {
    pub(crate) paths: u64,
    pub(crate) diff: String,
    /// Changes that a human would be asked about, or that a rule denies.
    pub(crate) held: Vec<String>,
    /// Paths that others have changed since the snapshot.
    pub(crate) conflicts: Vec<String>,
    /// Reason why the changes would be refused in any case: a rule denies them, or others changed
    /// the same paths.
    pub(crate) refused: Option<ToolError>,
}

impl Snapshot {
    /// Returns the overlay into which the cell writes the changes.
    pub(crate) fn overlay(&self) -> Overlay {
        overlay(&self.call)
    }

    /// Records the files that the command sees as placeholders.
    pub(crate) fn hide(&self, hidden: &[HiddenFile]) -> Result<(), ToolError> {
        if hidden.is_empty() { Ok(()) } else { self.call.hide(hidden).map_err(failed) }
    }

    /// Returns the draft into which a file tool writes its changes.
    pub(crate) fn draft(&self) -> Result<checkpoint::Draft, ToolError> {
        self.call.draft(&self.workspace).map_err(failed)
    }

    /// Returns the changes of a run that has ended. Changes that others have made since `begun`
    /// conflict with these.
    pub(crate) fn changes_since(self, begun: Time) -> PendingChanges {
        PendingChanges { snapshot: self, since: begun }
    }

    /// Removes the folders of the snapshot. Takes long for many entries.
    pub(crate) fn discard(self) -> Result<(), checkpoint::Error> {
        self.call.discard()
    }
}

impl PendingChanges {
    /// Returns the diff of the changes, and the conflicts and rules that prevent a commit. Changes
    /// nothing.
    pub(crate) fn preview(
        &self,
        policy: &Policy,
        denied: &DeniedFiles,
        store: &dyn Store,
    ) -> Result<Preview, ToolError> {
        let upper = self.snapshot.call.upper();
        let nothing = ForeseenWrites::default();
        let judge = Judge::new(
            policy,
            self.snapshot.workspace.path(),
            HeldChanges::AsFoundBy(denied, &nothing, None),
        );
        let terms = Terms { judge: &|touch| judge.verdict(touch), ..self.terms().map_err(failed)? };
        let (changes, entries) =
            self.snapshot.call.preview(&self.snapshot.workspace, &terms).map_err(failed)?;
        let open = |path: &Path| Workspace::open(path).map_err(failed);
        let differences = Differences {
            contents: SavedContents::new(store, None),
            policy,
            workspace: open(self.snapshot.workspace.path())?,
            changed: Some(open(&upper)?),
        };
        // Held changes come first, because a human is asked about them.
        let is_held = |entry: &&SavedEntry| changes.held.iter().any(|held| held.path == entry.path);
        let (first, others): (Vec<&SavedEntry>, Vec<&SavedEntry>) =
            entries.iter().filter(|entry| entry.is_telling()).partition(is_held);
        let lines =
            changes.held.iter().map(|held| format!("{}: {}", tool::path_text(&held.path), held.reason));
        let refused = match held(&changes) {
            CommitResult::Refused(error) => Some(error),
            _ if !changes.conflicts.is_empty() => Some(conflict(&changes.conflicts)),
            _ => None,
        };
        Ok(Preview {
            refused,
            paths: count(&changes),
            // The two parts are rendered separately, so that the line about a folder replaces no
            // line of the other part.
            diff: differences.of(first.into_iter(), Direction::Planned)
                + &differences.of(others.into_iter(), Direction::Planned),
            held: shortened(lines),
            conflicts: shortened(changes.conflicts.iter().map(ToString::to_string)),
        })
    }

    /// Returns true if every change was named in advance, so that the approval of the call covers
    /// exactly these changes.
    pub(crate) fn is_foreseen(&self) -> bool {
        self.snapshot.changed_by == ChangedBy::Draft
    }

    /// Commits the changes, after the replaced files were saved.
    pub(crate) fn commit(
        &self,
        policy: &Policy,
        store: &dyn Store,
        author: &Author,
        holds: HeldChanges<'_>,
        stop: &Stop,
    ) -> CommitResult {
        let judge = Judge::new(policy, self.snapshot.workspace.path(), holds);
        let approved = matches!(holds, HeldChanges::Nothing);
        let terms = match self.terms() {
            Ok(terms) => terms,
            Err(error) => return CommitResult::Refused(failed(error)),
        };
        let durability = match self.snapshot.changed_by {
            ChangedBy::Command | ChangedBy::Restoration => Durability::Process,
            ChangedBy::Draft => Durability::Power,
        };
        let terms = Terms { judge: &|touch| judge.verdict(touch), durability, ..terms };
        match commit_saved(
            store,
            author,
            &self.snapshot.call,
            &self.snapshot.workspace,
            terms,
            (approved, stop),
        ) {
            Ok((Outcome::Committed(committed), saved)) => CommitResult::Committed(done(&committed, saved)),
            Ok((Outcome::Held(changes), _)) => held(&changes),
            Ok((Outcome::Conflict(changes), _)) => CommitResult::Refused(conflict(&changes.conflicts)),
            Err(error) => CommitResult::Refused(match (stop.requested(), &error) {
                (Some(reason), checkpoint::Error::System { .. }) => stopped(reason),
                _ => failed(error),
            }),
        }
    }

    /// Returns true if a command made the changes.
    pub(crate) fn is_of_a_command(&self) -> bool {
        self.snapshot.changed_by == ChangedBy::Command
    }

    /// Returns the absolute paths that a commit would create or change.
    pub(crate) fn coming(&self) -> Vec<PathBuf> {
        let changes =
            self.terms().and_then(|terms| self.snapshot.call.changes(&self.snapshot.workspace, &terms));
        let coming = |changes: &Changes| {
            changes.coming().map(|path| self.snapshot.workspace.path().join(path)).collect::<Vec<_>>()
        };
        changes.as_ref().map(coming).unwrap_or_default()
    }

    /// Returns the name of the folder of the changes.
    pub(crate) fn id(&self) -> &str {
        self.snapshot.call.id()
    }

    /// Returns the number of changes, so that discarded ones can be reported.
    pub(crate) fn count(&self) -> u64 {
        let changes =
            self.terms().and_then(|terms| self.snapshot.call.changes(&self.snapshot.workspace, &terms));
        changes.map_or(0, |changes| count(&changes))
    }

    /// Keeps the changes aside. Returns their id.
    pub(crate) fn keep(self, reason: &str) -> Result<String, checkpoint::Error> {
        let terms = self.terms()?;
        self.snapshot.call.keep(&self.snapshot.workspace, &terms, reason)
    }

    /// Removes the changes, or the entries that a commit took out of the workspace. Takes long for
    /// many entries.
    pub(crate) fn discard(self) -> Result<(), checkpoint::Error> {
        self.snapshot.discard()
    }

    fn terms(&self) -> Result<Terms<'static>, checkpoint::Error> {
        let mut terms = Terms::since(self.since);
        let copy = self.snapshot.index.as_ref().map(File::try_clone).transpose();
        let copy = copy.map_err(|source| checkpoint::Error::System {
            doing: "open",
            path: GIT_INDEX.into(),
            source,
        })?;
        terms.index = Some((GIT_INDEX.into(), copy));
        Ok(terms)
    }
}

/// Returns the overlay in the folders of a call.
pub(super) fn overlay(call: &checkpoint::Call) -> Overlay {
    Overlay { upper: call.upper(), work: call.work() }
}
