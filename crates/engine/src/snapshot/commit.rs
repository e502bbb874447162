//! A commit together with the checkpoint of what it replaces: neither is there without the other.

use std::path::Path;

use checkpoint::{Committed, Outcome, Save, Saved, Terms, Workspace};
use store::Store;
use tool::{Code, EffectState, Stop, StopReason, ToolError};

use super::{Done, count, note, shortened};
use crate::saved_contents::SavedContents;
use crate::saving::Author;

/// What there is of the checkpoint of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointOf {
    Nothing,
    Change,
    /// The commit has happened, and only the next start can say so.
    UnsettledChange,
}

/// Commits, and saves what that replaces.
pub(super) fn commit_saved(
    store: &Store,
    author: &Author,
    call: &checkpoint::Call,
    workspace: &Workspace,
    terms: Terms<'_>,
    (approved, stop): (bool, &Stop),
) -> Result<(Outcome, CheckpointOf), checkpoint::Error> {
    let contents = SavedContents::new(store, Some(stop));
    let made = std::cell::Cell::new(false);
    let keep = |saved: &Saved| {
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
        // Recovery takes the rest back, and the row with it.
        Err(checkpoint::Error::NotUndone { .. } | checkpoint::Error::BrokenOff) => CheckpointOf::Nothing,
        _ => {
            // What cannot be removed now, the next start removes.
            drop(store.checkpoints().remove(&author.id));
            CheckpointOf::Nothing
        }
    };
    outcome.map(|outcome| (outcome, checkpoint))
}

pub(super) fn done(committed: &Committed, checkpoint: CheckpointOf) -> Done {
    let is_settled = checkpoint != CheckpointOf::UnsettledChange;
    let mut warnings = shortened(committed.changes.notes.iter().map(note));
    if !is_settled {
        warnings.push("the checkpoint could not be completed; the next start does it".to_owned());
    }
    Done {
        paths: count(&committed.changes),
        came: committed.changes.coming().map(Path::to_owned).collect(),
        warnings,
        unsaved: committed.changes.unsaved.clone(),
        has_checkpoint: checkpoint != CheckpointOf::Nothing,
        is_settled,
    }
}

/// Tells that a call was stopped while what it replaces was being saved.
pub(super) fn stopped(reason: StopReason) -> ToolError {
    let (code, why) = match reason {
        StopReason::Deadline => (Code::Timeout, "saving what the call replaces took too long"),
        StopReason::Cancelled => {
            (Code::Cancelled, "the call was stopped while what it replaces was being saved")
        }
    };
    ToolError::new(code, format!("{why}, so nothing of it is in the workspace")).effect(EffectState::None)
}
