//! Commit together with the checkpoint of the replaced files. Neither exists without the other.

use checkpoint::{ChangeEntries, Outcome, Save, Terms, Workspace};
use store_api::Store;
use tool::Stop;

use super::result::CheckpointOf;
use crate::checkpoint_rows::Author;
use crate::saved_contents::SavedContents;

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
