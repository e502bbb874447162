//! Undoing and listing of checkpoints by the user, outside any call.

use std::path::PathBuf;
use std::sync::Arc;

use tool::{CheckpointSummary, Checkpoints, Code, EffectState, ToolError, UndoRequest};

use super::{
    ChangedPath, CheckpointDetails, ForCall, Undo, UndoOutcome, UndoSince, failed, shown, summary, undoes,
    unreadable,
};
use crate::db_checkpoint::after_the_files;
use crate::snapshot::{CommitResult, HeldChanges, Snapshots};
use crate::{Engine, KeptError};

impl Engine {
    pub(crate) fn undo_parts(&self) -> Undo {
        Undo {
            store: self.store.clone(),
            policy: self.successor().map_or_else(|| self.policy.clone(), |latest| latest.policy.clone()),
            place: self.place.clone(),
            databases: self.databases.clone(),
        }
    }

    /// Lists the checkpoints of this workspace, newest first.
    ///
    /// # Errors
    /// Returns an error if the checkpoints cannot be read.
    pub fn checkpoints(&self, limit: u32) -> Result<Vec<CheckpointSummary>, ToolError> {
        self.undo_parts().list(limit)
    }

    /// Returns a checkpoint with all its paths, by its id, or by the beginning or the end of the id.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id.
    pub fn checkpoint_details(&self, id: &str) -> Result<CheckpointDetails, ToolError> {
        let undo = self.undo_parts();
        let found = undo.find(id)?;
        let all = undo.entries(&found)?;
        let changed = all.iter().filter(|entry| entry.is_telling()).map(ChangedPath::of);
        let of_data = undo.changes_of(&found)?;
        let of_data =
            of_data.iter().map(|(path, _)| ChangedPath { what: "changed", path: self.place.show(path) });
        Ok(CheckpointDetails {
            changes: changed.chain(of_data).collect(),
            unsaved: found.unsaved.iter().map(|path| tool::path_text(path)).collect(),
            summary: summary(found),
        })
    }

    /// Returns the changes since a checkpoint, as a unified diff from the saved state to the
    /// current one.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id.
    pub fn checkpoint_diff(&self, id: &str, paths: &[PathBuf]) -> Result<String, ToolError> {
        ForCall { undo: self.undo_parts(), draft: None, undoes: Arc::default(), data: Arc::default() }
            .diff(id, paths)
    }

    /// Returns the id of the first checkpoint since a time or a call.
    ///
    /// # Errors
    /// `ENOTFOUND` if nothing has changed since.
    pub fn first_since(&self, since: &UndoSince) -> Result<String, ToolError> {
        let (checkpoints, workspace) = (self.store.checkpoints(), &self.place.workspace);
        let first = match since {
            UndoSince::Time(time) => checkpoints.first_since(workspace, *time),
            UndoSince::Call(typed) => {
                checkpoints.first_since_call(workspace, &crate::history::full_id(&*self.store, typed)?)
            }
        };
        first
            .map_err(unreadable)?
            .map(|checkpoint| checkpoint.id)
            .ok_or_else(|| ToolError::new(Code::NotFound, "no change since then can be undone"))
    }

    /// Undoes the requested checkpoints. The caller is the user, so the undo counts as approved;
    /// denied changes stay denied.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id, `ECONFLICT` with the diff if paths have changed since.
    pub async fn undo(&self, request: &UndoRequest) -> Result<UndoOutcome, ToolError> {
        let snapshots = self.snapshots.clone().ok_or_else(|| {
            ToolError::new(
                Code::Unavailable,
                "this runtime does not isolate changes, so nothing can be undone",
            )
        })?;
        let arguments = serde_json::json!({
            "id": request.checkpoint, "and_later": request.and_later,
            "paths": shown(&request.paths), "force": shown(&request.force),
        });
        let latest = self.successor();
        let engine = latest.as_deref().unwrap_or(self);
        let mut outcome = None;
        let recorded = self.recorded("undo", arguments, |author| {
            let done = engine.undo_now(&snapshots, request, author.clone());
            let result = if done.is_ok() { Ok(()) } else { Err(KeptError::Refused(String::new())) };
            outcome = Some(done);
            result
        });
        match (recorded.await, outcome) {
            (_, Some(Err(error))) => Err(error),
            (Err(error), done) => {
                let effect = if done.is_some() { EffectState::Done } else { EffectState::None };
                Err(ToolError::new(Code::Runtime, error.to_string()).effect(effect))
            }
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => Err(ToolError::internal("nothing was undone")),
        }
    }

    fn undo_now(
        &self,
        snapshots: &Snapshots,
        request: &UndoRequest,
        mut author: crate::checkpoint_rows::Author,
    ) -> Result<UndoOutcome, ToolError> {
        let undo = self.undo_parts();
        let found = undo.find(&request.checkpoint)?;
        let chosen = if request.and_later { undo.since(&found)? } else { vec![found] };
        author.undoes = Some(undoes(&chosen));
        let data = undo.data(&chosen, request)?;
        let rows = undo.check_data(&data)?;
        let of_data = author.clone();
        let snapshot = snapshots.take(crate::snapshot::ChangedBy::Restoration, None).map_err(failed)?;
        let draft = snapshot.draft()?;
        let laid = undo.lay_out(&draft, &chosen, request);
        let laid = match laid {
            Ok(laid) => laid,
            Err(error) => {
                // The next start removes folders that cannot be removed now.
                drop(snapshot.discard());
                return Err(error);
            }
        };
        // Without this record, new files would be attributed to a command with direct writes.
        let changes = snapshot.changes_since(laid.taken_at.into());
        snapshots.area().set_applied(changes.id(), &changes.coming()).map_err(failed)?;
        let stop = tool::Stop::default();
        let ended = changes.commit(&self.policy, self.store.as_ref(), &author, HeldChanges::Nothing, &stop);
        let undone = match ended {
            CommitResult::Committed(done) => {
                if !done.is_settled {
                    return Ok(UndoOutcome {
                        checkpoint: Some(author.id),
                        paths: done.paths,
                        notes: done.warnings,
                    });
                }
                let checkpoint = done.has_checkpoint.then_some(author.id);
                let notes = [laid.notes, done.warnings].concat();
                Ok(UndoOutcome { checkpoint, paths: laid.paths, notes })
            }
            CommitResult::Held(question) => Err(ToolError::new(Code::Permission, question.lines.join("; "))),
            CommitResult::Refused(error) => Err(error),
        };
        drop(changes.discard());
        let mut undone = undone?;
        if data.is_empty() {
            return Ok(undone);
        }
        let id = of_data.id.clone();
        let (made, faults) = self
            .undo_data_as(of_data, &data)
            .map_err(|error| if undone.checkpoint.is_some() { after_the_files(error) } else { error })?;
        undone.paths += rows;
        undone.notes.extend(faults);
        undone.checkpoint = undone.checkpoint.or(made.then_some(id));
        Ok(undone)
    }
}
