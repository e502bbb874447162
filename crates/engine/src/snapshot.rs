//! Snapshots of the workspace for commands and drafts, and the commit of their changes.
//!
//! The cell keeps the changes of a command apart until the last of its processes has ended; a draft
//! is apart from the beginning. Then all changes are swapped into the workspace, or none. Before
//! that, each changed path is judged again by its actual change.

mod changes;
mod commit;
mod judge;
mod kept;
mod open;
mod ready;
mod recovery;
mod result;
mod taking;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use checkpoint::{Area, Workspace};
use parking_lot::Mutex;
use policy::Policy;
use sandbox::{Isolation, Spawner};
use tool::{Code, ToolError};

use crate::cell::folders;
use crate::change_area::ChangeArea;

pub(crate) use changes::{ChangedBy, PendingChanges, Preview, Snapshot};
use changes::{GIT_INDEX, overlay};
pub(crate) use judge::HeldChanges;
pub use kept::{KeptDetails, KeptError};
pub(crate) use open::open;
use result::failed;
pub(crate) use result::{CommitResult, Question};

/// Folder for the changes of commands, and the workspace to which they belong.
pub(crate) struct Snapshots {
    area: Arc<ChangeArea>,
    workspace: PathBuf,
    /// Folders for the next command, prepared while no call waits for them. A waiting cell keeps
    /// changes there.
    ready_for_command: Mutex<Option<checkpoint::Call>>,
    /// Spawner of the waiting cell.
    ready_in: Mutex<Weak<Spawner>>,
    /// Folders for the next draft.
    ready_for_draft: Mutex<Option<checkpoint::Call>>,
    /// Lock for the preparation of folders. True if no call follows any more.
    making: Mutex<bool>,
}

impl Snapshots {
    /// Takes a snapshot for one call. The cost depends on the amount of changes, not on the size of
    /// the workspace.
    ///
    /// `spawner` is the one in whose cells a command runs. Prepared folders are already mounted in
    /// a cell of one spawner. If a cell of another spawner mounted them again, they would not be
    /// kept apart.
    pub(crate) fn take(
        &self,
        changed_by: ChangedBy,
        spawner: Option<&Arc<Spawner>>,
    ) -> Result<Snapshot, checkpoint::Error> {
        let workspace = Workspace::open(&self.workspace)?;
        let index = workspace.open_file(Path::new(GIT_INDEX));
        // Without a readable index there is nothing to compare with, so any change of the index is
        // a conflict.
        let index = index.unwrap_or_default();
        let call = match changed_by {
            ChangedBy::Command if !self.is_ready_in(spawner) => self.area().begin()?,
            _ => self.folder(changed_by)?,
        };
        Ok(Snapshot { changed_by, call, workspace, index })
    }

    /// Reopens the changes that an earlier call has kept aside.
    pub(crate) fn take_up(&self, id: &str) -> Result<PendingChanges, ToolError> {
        let missing = || {
            ToolError::new(Code::NotFound, format!("there are no kept changes `{}`", tool::visible(id)))
                .hint("use `meta.changes.id` of a dry run; changes are kept for a week")
        };
        let (call, kept) = self.area().take_up(id).map_err(|_| missing())?;
        let workspace = kept.workspace().map_err(failed)?;
        let terms = kept.terms(&call).map_err(failed)?;
        let (index, since) = (terms.index.and_then(|(_, before)| before), terms.baseline);
        if workspace.path() != self.workspace {
            return Err(missing());
        }
        let snapshot = Snapshot { changed_by: ChangedBy::Command, call, workspace, index };
        Ok(snapshot.changes_since(since.ok_or_else(missing)?))
    }

    /// Returns true if a command would change the workspace through an overlay alone. Blocks for
    /// some milliseconds the first time.
    pub(crate) fn have_overlays(&self, isolation: &Isolation, policy: &Policy) -> bool {
        let mut tried = None;
        let begin = || {
            let call = self.area().begin().map_err(io::Error::other)?;
            Ok(overlay(tried.insert(call)))
        };
        let cell = folders(policy, &self.workspace);
        let have = isolation.can_give_overlay(&cell, self.area().path(), begin);
        // The next start removes folders that cannot be removed now.
        drop(tried.map(checkpoint::Call::discard));
        have
    }

    /// Returns the workspace, and a folder for a call that changes the workspace itself.
    pub(crate) fn begin(&self) -> Result<(checkpoint::Call, Workspace), checkpoint::Error> {
        Ok((self.folder(ChangedBy::Draft)?, Workspace::open(&self.workspace)?))
    }

    fn folder(&self, changed_by: ChangedBy) -> Result<checkpoint::Call, checkpoint::Error> {
        let ready = self.ready(changed_by).take();
        ready.map_or_else(|| self.area().begin(), Ok)
    }

    /// Returns the folder of the changes.
    pub(crate) fn area(&self) -> &Area {
        self.area.folder()
    }

    /// Returns the folder of the changes, with what dead processes left there.
    pub(crate) fn change_area(&self) -> &Arc<ChangeArea> {
        &self.area
    }
}
