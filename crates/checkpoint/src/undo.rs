//! Undo of a commit that met a conflict half-way, or whose process was killed.
//!
//! The commit is undone and not finished, because its caller has received no answer: for the caller,
//! the command did not happen. The design promises that a command killed with the whole program
//! leaves the workspace unchanged. Afterwards the changes are complete again and can be applied
//! later.
//!
//! Every step first checks how far it got, so that the undo itself can be killed and started again
//! at any point.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{OFlags, RenameFlags, fstat, renameat_with};
use rustix::io::Errno;

use crate::exchange_dirs::{OnStep, Parents, Sides, Walker, look_or_none, name_of, step, taken_name};
use crate::folder::{PLACE, look, open, open_known, set_mode};
use crate::swap::settle;
use crate::{Change, Entry, Error, Kind, Result, StepKind, attributes};

/// Entries that the undo did not restore to the state before.
#[derive(Debug, Default)]
pub(crate) struct UndoOutcome {
    /// Entries that somebody else changed meanwhile: they stay unchanged, and nothing is lost.
    pub(crate) others: Vec<PathBuf>,
    /// Entries that somebody else changed after they were swapped: they stay unchanged. The entries
    /// from before the commit stay in the folder of the call.
    pub(crate) left: Vec<PathBuf>,
}

/// Undoes the completed steps of `changes`.
pub(crate) fn undo(sides: &Sides, changes: &[Change], on_step: OnStep<'_>) -> Result<UndoOutcome> {
    let mut walker = Walker::new(sides);
    let mut undone = UndoOutcome::default();
    loosen_what_stays(sides, changes);
    for (number, change) in changes.iter().enumerate().rev() {
        let done = match change.what {
            StepKind::Attributes | StepKind::Times => continue,
            StepKind::Create | StepKind::Replace | StepKind::Remove => {
                put_back(&mut walker, number, change, on_step)
            }
        };
        match done {
            Ok(CurrentState::AsBefore) => {}
            Ok(CurrentState::AsOthersMadeIt) => undone.others.push(change.path.clone()),
            Ok(CurrentState::Left) => undone.left.push(change.path.clone()),
            Err(Failure::BrokenOff(error)) => return Err(error),
            Err(Failure::System(errno)) => {
                return Err(Error::NotUndone { path: change.path.clone(), source: errno.into() });
            }
        }
    }
    for change in changes {
        if let (StepKind::Attributes | StepKind::Times, Some(old)) = (change.what, &change.old) {
            step(on_step)?;
            let attributes = change.attributes.as_ref().map(|(old, _)| old);
            if !settle(sides, &change.path, old, old, attributes, Some(old.modified))? {
                undone.others.push(change.path.clone());
            }
        }
    }
    Ok(undone)
}

/// Makes all folders accessible to an ordinary user again: they may already have their final modes,
/// outer ones last.
fn loosen_what_stays(sides: &Sides, changes: &[Change]) {
    if rustix::process::geteuid().is_root() {
        return;
    }
    for change in changes.iter().rev() {
        let (StepKind::Attributes | StepKind::Times, Some(old)) = (change.what, &change.old) else {
            continue;
        };
        let Ok(folder) = open(sides.workspace.as_fd(), &change.path, PLACE) else { continue };
        let Ok(now) = fstat(&folder).map(|stat| Entry::of(&stat)) else { continue };
        if now.is_same_object(old) && now.mode & 0o700 != 0o700 {
            // After a failure here, the steps that need the folder fail too, and report it.
            let _ = set_mode(folder.as_fd(), now.mode | 0o700);
        }
    }
}

/// State of an entry after the undo.
enum CurrentState {
    /// The entry is as it was before the commit.
    AsBefore,
    /// The entry is as somebody else made it, and nothing is lost.
    AsOthersMadeIt,
    /// The entry is as somebody else made it. The one from before the commit stays in the folder of
    /// the call.
    Left,
}

enum Failure {
    System(Errno),
    BrokenOff(Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

fn put_back(
    walker: &mut Walker<'_>,
    number: usize,
    change: &Change,
    on_step: OnStep<'_>,
) -> Result<CurrentState, Failure> {
    let name = name_of(&change.path);
    let parents = match walker.parents(&change.path) {
        Ok(parents) => parents,
        // Somebody removed the parent, so the entry cannot be restored.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(CurrentState::Left),
        Err(errno) => return Err(errno.into()),
    };
    let (stage, workspace) = (&parents.stage, &parents.workspace);
    let staged = look_or_none(stage, name)?;
    let present = look_or_none(workspace, name)?;
    let was_placed = present.zip(change.new).is_some_and(|(found, new)| found.is_unchanged_content(&new));
    let not_swapped = staged.zip(change.new).is_some_and(|(found, new)| found.is_same_object(&new));
    let is_old = |found: &Entry| change.old.is_some_and(|old| found.is_same_object(&old));
    let untouched = match (&present, &change.old) {
        (Some(found), Some(old)) => found.is_unchanged(old),
        (None, None) => true,
        _ => false,
    };
    let on_step = || step(on_step).map_err(Failure::BrokenOff);
    let came_back = match change.what {
        StepKind::Create | StepKind::Replace if not_swapped && untouched => present,
        StepKind::Create | StepKind::Replace if not_swapped => return Ok(CurrentState::AsOthersMadeIt),
        StepKind::Create if was_placed => {
            on_step()?;
            renameat_with(workspace, name, stage, name, RenameFlags::NOREPLACE)?;
            mark_again(&parents, change)?;
            return Ok(CurrentState::AsBefore);
        }
        // Any entry on the stage was in the workspace, even if it is not the one that was checked.
        StepKind::Replace if staged.is_some() && was_placed => {
            on_step()?;
            renameat_with(workspace, name, stage, name, RenameFlags::EXCHANGE)?;
            mark_again(&parents, change)?;
            staged
        }
        StepKind::Remove => {
            let taken = taken_name(number);
            match look(&walker.sides.taken, &taken)? {
                Some(_) if present.is_some() => return Ok(CurrentState::Left),
                Some(found) => {
                    on_step()?;
                    renameat_with(&walker.sides.taken, &taken, workspace, name, RenameFlags::NOREPLACE)?;
                    Some(found)
                }
                None if untouched => present,
                None => return Ok(CurrentState::AsOthersMadeIt),
            }
        }
        StepKind::Replace if staged.is_some() => return Ok(CurrentState::Left),
        _ => return Ok(CurrentState::AsOthersMadeIt),
    };
    if !came_back.as_ref().is_none_or(is_old) {
        return Ok(CurrentState::AsOthersMadeIt);
    }
    restore_mode(workspace, name, change)?;
    Ok(CurrentState::AsBefore)
}

/// Restores the mode of a folder that was loosened for its move.
fn restore_mode(parent: impl AsFd, name: &OsStr, change: &Change) -> rustix::io::Result<()> {
    let Some(old) = change.old.filter(|old| old.kind == Kind::Folder && old.mode & 0o700 != 0o700) else {
        return Ok(());
    };
    let place = open_known(parent, name, &old, OFlags::PATH)?;
    set_mode(place.as_fd(), old.mode)
}

/// Restores the marks that were removed in the workspace, for later readers of the changes.
fn mark_again(parents: &Parents, change: &Change) -> rustix::io::Result<()> {
    let name = name_of(&change.path);
    match attributes::mark_again(parents.stage.as_fd(), name, change.marks) {
        // A read-only file of an ordinary user: its mark only records that the file existed before.
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        done => done,
    }
}
