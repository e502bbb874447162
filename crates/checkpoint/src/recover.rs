//! Recovery of calls whose process is gone.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use crate::copy::Copier;
use crate::exchange_dirs::{OnStep, Sides, name_of, step, taken_name};
use crate::folder::{LIST, look, open};
use crate::journal::{Journal, Stage};
use crate::remove::remove_tree;
use crate::staging::{Area, Call, remove_staging};
use crate::undo::{UndoOutcome, undo};
use crate::{Change, Error, KeptChanges, Result, StepKind, Workspace};

/// Folder, in the folder of a call, for entries that could not be restored, by their last names.
const LEFT: &str = "left";

/// Result of the recovery of one call.
#[derive(Debug)]
pub struct Recovered {
    /// Id of the call.
    pub id: String,
    /// Action that the recovery took.
    pub action: Recovery,
}

/// Action of a recovery on a call whose process is gone.
#[derive(Debug)]
pub enum Recovery {
    /// The call had not begun to commit: its changes were dropped.
    Dropped,
    /// The call was committing: the commit was undone, and the changes are kept under its id.
    TakenBack {
        /// Entries that somebody else changed meanwhile; they stay unchanged, and nothing is lost.
        others: Vec<PathBuf>,
        /// Entries that somebody else changed after they were swapped; they stay unchanged. The
        /// entries from before the commit stay in the folder of the call.
        left: Vec<PathBuf>,
    },
    /// The call had committed: its leftovers were removed.
    Cleaned,
    /// The call could not be recovered. The next recovery tries again.
    Failed(Error),
}

/// Callback with the id of a call that had committed.
pub type OnCommitted<'a> = &'a dyn Fn(&str) -> std::io::Result<()>;

impl Area {
    /// Recovers every call whose process is gone: see [`Recovery`]. Kept changes stay.
    ///
    /// The recovery may be killed at any point and started again. `on_step` is called before each
    /// change. `on_committed` is called before a committed call is cleaned up: if it fails, the next
    /// recovery handles that call again.
    ///
    /// # Errors
    /// Returns an error if the calls cannot be listed, or if `on_step` interrupted the recovery.
    pub fn recover(&self, on_step: OnStep<'_>, on_committed: OnCommitted<'_>) -> Result<Vec<Recovered>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            let call = {
                let _alone = self.alone()?;
                self.claim(&id, false)
            };
            let action = match call {
                Ok(Some(call)) => recover_one(call, on_step, on_committed),
                // The process of the call lives.
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            let action = match action {
                Ok(None) => continue,
                Ok(Some(action)) => action,
                Err(Error::BrokenOff) => return Err(Error::BrokenOff),
                Err(error) => Recovery::Failed(error),
            };
            all.push(Recovered { id, action });
        }
        Ok(all)
    }
}

fn recover_one(call: Call, on_step: OnStep<'_>, on_committed: OnCommitted<'_>) -> Result<Option<Recovery>> {
    match Journal::read(call.folder.as_fd())? {
        Some((Stage::Committed, _)) => {
            step(on_step)?;
            on_committed(&call.id)
                .map_err(|source| Error::system("record the commit of", &call.id, source))?;
            step(on_step)?;
            call.discard()?;
            Ok(Some(Recovery::Cleaned))
        }
        Some((Stage::UnderWay, journal)) => {
            let workspace = Workspace::again(&journal.workspace, journal.identity)?;
            let _serialised = call.lock_workspace(&workspace)?;
            let undone = if journal.changes.is_empty() {
                UndoOutcome::default()
            } else {
                let sides = call.sides(&workspace, journal.staging.as_deref())?;
                let undone = undo(&sides, &journal.changes, on_step)?;
                if journal.staging.is_some() {
                    call.rescue(&sides, &journal.changes, &undone.left, on_step)?;
                }
                undone
            };
            step(on_step)?;
            keep(&call, &journal, &undone)?;
            call.clean_up(&workspace, journal, on_step)?;
            Ok(Some(Recovery::TakenBack { others: undone.others, left: undone.left }))
        }
        None if KeptChanges::read(&call.area, &call.id)?.is_some() => Ok(None),
        None => {
            step(on_step)?;
            call.discard()?;
            Ok(Some(Recovery::Dropped))
        }
    }
}

/// Keeps the changes of a commit that was undone.
fn keep(call: &Call, journal: &Journal, undone: &UndoOutcome) -> Result<()> {
    let already = KeptChanges::read(&call.area, &call.id)?;
    if already.is_some() && journal.changes.is_empty() {
        // An earlier recovery did this, and was interrupted.
        return Ok(());
    }
    // Restored entries have a change time of this moment. If everything is as it was when the commit
    // checked it, only later changes by others count. Otherwise all changes since the command
    // started count.
    let clean = !journal.changes.is_empty() && undone.left.is_empty() && undone.others.is_empty();
    let now = call.baseline()?;
    let baseline = if clean { Some(now) } else { journal.baseline };
    let kept = match already {
        Some(kept) => KeptChanges { baseline, ..kept },
        None => KeptChanges {
            id: call.id.clone(),
            workspace: journal.workspace.clone(),
            identity: journal.identity,
            baseline,
            since: now,
            reason: "the program ended while they were being committed".to_owned(),
            index: journal.index.clone(),
            has_index: false,
        },
    };
    kept.write(&call.folder)
}

impl Call {
    /// Ends a commit that was undone: removes the staging folder in the workspace, and then the
    /// journal.
    ///
    /// INVARIANT: a journal with changes has the folders needed to undo them, so it loses its
    /// changes before the folder goes.
    pub(crate) fn clean_up(
        &self,
        workspace: &Workspace,
        mut journal: Journal,
        on_step: OnStep<'_>,
    ) -> Result<()> {
        if let Some(staging) = &journal.staging {
            step(on_step)?;
            journal.changes = Vec::new();
            journal.write(self.folder.as_fd(), None)?;
            step(on_step)?;
            remove_staging(workspace, staging, journal.root_modified)?;
        }
        step(on_step)?;
        Journal::remove(self.folder.as_fd())
    }

    /// Copies the entries from before a commit that could not be restored into the folder of the
    /// call.
    pub(crate) fn rescue(
        &self,
        sides: &Sides,
        changes: &[Change],
        left: &[PathBuf],
        on_step: OnStep<'_>,
    ) -> Result<()> {
        let mut copier = Copier::new(on_step);
        for path in left {
            let Some(number) = changes.iter().position(|change| change.path == *path) else { continue };
            let failed = Error::while_doing("rescue", path);
            let (folder, name) = match changes[number].what {
                StepKind::Remove => (open(sides.taken.as_fd(), Path::new(""), LIST), taken_name(number)),
                StepKind::Replace => {
                    let parent = path.parent().unwrap_or(Path::new(""));
                    (open(sides.stage.as_fd(), parent, LIST), name_of(path).to_owned())
                }
                _ => continue,
            };
            let folder = folder.map_err(&failed)?;
            let Some(entry) = look(&folder, &name).map_err(&failed)? else { continue };
            let rescued = OsString::from(LEFT);
            match mkdirat(&self.folder, &rescued, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let place = self.open(LEFT)?;
            remove_tree(place.as_fd(), &name).map_err(&failed)?;
            copier.copy(&folder, &place, &name, path, &entry)?;
        }
        Ok(())
    }
}
