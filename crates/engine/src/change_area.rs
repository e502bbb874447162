//! The folder of changes that are not in their workspaces, and the files that are moved there
//! because a command with direct writes created them.

use std::path::Path;

use checkpoint::{Area, TakeMethod, Terms, Time, Workspace};
use parking_lot::Mutex;

/// Records of a dead process that watched: the folder of its call, its notes there, and the time of
/// its last check.
pub(crate) type LeftWatched = (checkpoint::Call, Vec<u8>, Time);

/// Folder for changes.
pub(crate) struct ChangeArea {
    area: Area,
    /// Direct writes by commands of dead processes, until they are judged.
    left: Mutex<Vec<LeftWatched>>,
}

impl ChangeArea {
    /// Wraps the folder, with the records that dead processes left there.
    pub(crate) fn new(area: Area, left: Vec<LeftWatched>) -> Self {
        Self { area, left: Mutex::new(left) }
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Area {
        &self.area
    }

    /// Takes the records about direct writes by commands of dead processes, to be judged.
    pub(crate) fn take_left(&self) -> Vec<LeftWatched> {
        std::mem::take(&mut *self.left.lock())
    }

    /// Moves a file, not a folder, out of a workspace until a human decides. The file joins the
    /// changes that are kept under `kept`, or gets a new id. Returns the id and the way of the
    /// move, or `None` if the file no longer exists.
    pub(crate) fn take_away(
        &self,
        kept: Option<&str>,
        root: &Path,
        relative: &Path,
        why: &str,
    ) -> Result<Option<(String, TakeMethod)>, checkpoint::Error> {
        let workspace = Workspace::open(root)?;
        // The earlier changes may have been discarded meanwhile.
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
