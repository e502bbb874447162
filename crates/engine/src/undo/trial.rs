//! Trial of an undo.

use std::sync::Arc;

use serde::Serialize;
use tool::{Checkpoints, Code, ToolError, UndoRequest};

use super::{ForCall, failed};
use crate::Engine;

/// Effects that an undo would have.
#[derive(Debug, Serialize)]
pub struct UndoTrial {
    /// Number of paths that would change.
    pub paths: u64,
    /// Diff of the undo.
    pub diff: String,
    /// Paths that would stay or cannot be restored, with the reason, one line each.
    pub notes: Vec<String>,
    /// Conflict because of which the undo would be refused; `None` if it would succeed.
    pub conflict: Option<String>,
}

impl Engine {
    /// Returns the effects that [`Engine::undo`] would have, without changing anything.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id.
    pub fn try_undo(&self, request: &UndoRequest) -> Result<UndoTrial, ToolError> {
        let snapshots = self.snapshots.as_ref().ok_or_else(|| {
            ToolError::new(
                Code::Unavailable,
                "this runtime does not isolate changes, so nothing can be undone",
            )
        })?;
        let undo = self.undo_parts();
        let found = undo.find(&request.checkpoint)?;
        let chosen = if request.and_later { undo.since(&found)? } else { vec![found] };
        let for_call = ForCall { undo, draft: None, undoes: Arc::default(), data: Arc::default() };
        let diff = self.covered(for_call.preview(request)?);
        let data = for_call.undo.data(&chosen, request)?;
        let snapshot = snapshots.take(crate::snapshot::ChangedBy::Restoration, None).map_err(failed)?;
        let laid = snapshot.draft().and_then(|draft| {
            let rows = for_call.undo.check_data(&data)?;
            for_call.undo.lay_out(&draft, &chosen, request).map(|laid| (laid.paths + rows, laid.notes))
        });
        // The next start removes folders that cannot be removed now.
        drop(snapshot.discard());
        match laid {
            Ok((paths, notes)) => Ok(UndoTrial { paths, diff, notes, conflict: None }),
            Err(error) if error.code == Code::Conflict => Ok(UndoTrial {
                paths: 0,
                diff,
                notes: Vec::new(),
                conflict: Some(self.covered(error.message)),
            }),
            Err(error) => Err(error),
        }
    }
}
