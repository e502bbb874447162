//! Commit together with the checkpoint of the replaced files. Neither exists without the other.

use std::path::Path;

use checkpoint::{ChangeEntries, CommitSummary, Outcome, Save, Terms, Workspace};
use store_api::Store;
use tool::{Code, EffectState, Stop, StopReason, ToolError};

use super::{SuccessfulCommit, count, note, shortened};
use crate::direct_checkpoint::Author;
use crate::saved_contents::SavedContents;

/// State of a commit's checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointOf {
    Nothing,
    Change,
    /// The commit has happened, but only the next start can record it.
    UnsettledChange,
}

/// Commits the changes, and saves the files that they replace.
pub(super) fn commit_saved(
    store: &dyn Store,
    author: &Author,
    call: &checkpoint::Call,
    workspace: &Workspace,
    terms: Terms<'_>,
    (approved, stop): (bool, &Stop),
) -> Result<(Outcome, CheckpointOf), checkpoint::Error> {
    let contents = SavedContents::new(store, Some(stop));
    let made = std::cell::Cell::new(false);
    let keep = |saved: &ChangeEntries| {
        contents.finish().map_err(std::io::Error::other)?;
        made.set(author.prepare(store, workspace.path(), call.id(), saved)?);
        Ok(())
    };
    let save = Some(Save { contents: &contents, keep: &keep, loss_is_agreed: approved });
    let outcome = call.commit(workspace, &Terms { save, ..terms });
    let checkpoint = match &outcome {
        _ if !made.get() => CheckpointOf::Nothing,
        Ok(Outcome::Committed(_)) => match store.checkpoints().complete(&author.id) {
            Ok(()) => CheckpointOf::Change,
            Err(_) => CheckpointOf::UnsettledChange,
        },
        // Recovery rolls back the rest, and removes the row.
        Err(checkpoint::Error::NotUndone { .. } | checkpoint::Error::BrokenOff) => CheckpointOf::Nothing,
        _ => {
            // A row that cannot be removed now is removed by the next start.
            drop(store.checkpoints().remove(&author.id));
            CheckpointOf::Nothing
        }
    };
    outcome.map(|outcome| (outcome, checkpoint))
}

pub(super) fn done(committed: &CommitSummary, checkpoint: CheckpointOf) -> SuccessfulCommit {
    let is_settled = checkpoint != CheckpointOf::UnsettledChange;
    let mut warnings = shortened(committed.changes.notes.iter().map(note));
    if !is_settled {
        warnings.push("the checkpoint could not be completed; the next start completes it".to_owned());
    }
    SuccessfulCommit {
        paths: count(&committed.changes),
        came: committed.changes.coming().map(Path::to_owned).collect(),
        warnings,
        unsaved: committed.changes.unsaved.clone(),
        has_checkpoint: checkpoint != CheckpointOf::Nothing,
        is_settled,
    }
}

/// Returns the error of a call that was stopped while the replaced files were being saved.
pub(super) fn stopped(reason: StopReason) -> ToolError {
    let (code, why) = match reason {
        StopReason::Deadline => (Code::Timeout, "saving the files that the call replaces took too long"),
        StopReason::Cancelled => {
            (Code::Cancelled, "the call was stopped while the files that it replaces were being saved")
        }
    };
    ToolError::new(code, format!("{why}, so none of its changes are in the workspace"))
        .effect(EffectState::None)
}
