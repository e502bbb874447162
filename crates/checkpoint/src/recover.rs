//! Calls whose process is gone.

use std::os::fd::AsFd;
use std::path::PathBuf;

use crate::area::{Area, Call, remove_staging};
use crate::journal::{Journal, Stage};
use crate::sides::{OnStep, step};
use crate::undo::{Undone, undo};
use crate::{Error, Kept, Result, Workspace};

/// What recovery did with one call whose process is gone.
#[derive(Debug)]
pub struct Recovered {
    /// Its id.
    pub id: String,
    /// What was done.
    pub action: Recovery,
}

/// What recovery does with a call whose process is gone.
#[derive(Debug)]
pub enum Recovery {
    /// It had not begun to commit: its changes were dropped.
    Dropped,
    /// It was committing: what it had done was taken back, and the changes are kept under its id.
    TakenBack {
        /// Entries that somebody else changed meanwhile; they stay so, and nothing is lost.
        others: Vec<PathBuf>,
        /// Entries that somebody else changed since they were swapped; they stay so, and what was there before the commit
        /// is among the kept changes.
        left: Vec<PathBuf>,
    },
    /// It had committed: what was left of it was removed.
    Cleaned,
    /// It could not be recovered now. The next recovery tries again.
    Failed(Error),
}

impl Area {
    /// Brings every call whose process is gone to an end: see [`Recovery`]. Kept changes stay.
    ///
    /// It may be killed at any point and begun again. `on_step` is asked before everything that it changes.
    ///
    /// # Errors
    /// Where not even the list of calls can be had, or `on_step` broke it off.
    pub fn recover(&self, on_step: OnStep<'_>) -> Result<Vec<Recovered>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            let call = {
                let _alone = self.alone()?;
                self.claim(&id, false)
            };
            let action = match call {
                Ok(Some(call)) => recover_one(call, on_step),
                // Its process lives.
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

fn recover_one(call: Call, on_step: OnStep<'_>) -> Result<Option<Recovery>> {
    match Journal::read(call.folder.as_fd())? {
        Some((Stage::Committed, _)) => {
            step(on_step)?;
            call.discard()?;
            Ok(Some(Recovery::Cleaned))
        }
        Some((Stage::UnderWay, journal)) => {
            let workspace = Workspace::again(&journal.workspace, journal.identity)?;
            let _serialised = call.lock_workspace(&workspace)?;
            let mut undone = Undone::default();
            if !journal.changes.is_empty() {
                let sides = call.sides(&workspace, journal.staging.as_deref())?;
                undone = undo(&sides, &journal.changes, on_step)?;
            }
            step(on_step)?;
            let Undone { others, left } = undone;
            if left.is_empty() {
                remove_staging(&workspace, journal.staging.as_deref())?;
            }
            if Kept::read(&call.area, &call.id)?.is_none() {
                step(on_step)?;
                // What was put back has a change time of just now. Where all is as it was when the commit checked it, what
                // counts from here on is what changes after that; otherwise everything since the command started.
                let baseline = if left.is_empty() && others.is_empty() {
                    Some(call.baseline()?)
                } else {
                    journal.baseline
                };
                let kept = Kept {
                    id: call.id.clone(),
                    workspace: journal.workspace,
                    identity: journal.identity,
                    baseline,
                    since: call.baseline()?,
                    reason: "the program ended while they were being committed".to_owned(),
                    index: journal.index,
                    has_index: false,
                };
                kept.write(&call.folder)?;
            }
            step(on_step)?;
            Journal::remove(call.folder.as_fd())?;
            Ok(Some(Recovery::TakenBack { others, left }))
        }
        None if Kept::read(&call.area, &call.id)?.is_some() => Ok(None),
        None => {
            step(on_step)?;
            call.discard()?;
            Ok(Some(Recovery::Dropped))
        }
    }
}
