//! Files that are taken out of a workspace because a command that writes there at once made them.

use std::path::Path;
use std::sync::PoisonError;

use checkpoint::{Taken, Terms, Time, Workspace};

use super::Snapshots;

/// Leftovers of a dead process that watched: the folder of its call, what it noted there, and when it last watched.
pub(crate) type LeftWatched = (checkpoint::Call, Vec<u8>, Time);

impl Snapshots {
    /// Hands over what commands of dead processes wrote to at once, to be judged.
    pub(crate) fn take_left(&self) -> Vec<LeftWatched> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a file, not a folder, out of a workspace, to lie aside until a human decides: among the changes that are kept
    /// under `kept`, or under an id of its own. Gives the id and how it was taken; nothing where the file is gone.
    pub(crate) fn take_away(
        &self,
        kept: Option<&str>,
        root: &Path,
        relative: &Path,
        why: &str,
    ) -> Result<Option<(String, Taken)>, checkpoint::Error> {
        let workspace = Workspace::open(root)?;
        // Those from before may have been discarded by now.
        if let Some(id) = kept
            && let Ok((call, _)) = self.area.take_up(id)
        {
            return Ok(call.take_away(&workspace, relative)?.map(|taken| (id.to_owned(), taken)));
        }
        let call = self.area.begin()?;
        let terms = Terms::since(call.baseline()?);
        let Some(taken) = call.take_away(&workspace, relative)? else {
            call.discard()?;
            return Ok(None);
        };
        let reason = format!("a command that writes directly made {}: {why}", tool::path_text(relative));
        call.keep(&workspace, &terms, &reason).map(|id| Some((id, taken)))
    }
}
