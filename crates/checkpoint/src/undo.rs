//! Taking a commit back: one that met a conflict half-way, or one whose process was killed.
//!
//! Taking back, and not finishing, is right: whoever was to get the answer has not got one, so that for them the command
//! did not happen; design promises that a command killed with the whole program leaves the workspace as it was. The
//! changes are whole again afterwards and can be applied later.
//!
//! Every step first looks at how far it had come, so that this can itself be killed and begun again at any point.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{OFlags, RenameFlags, fstat, renameat_with};
use rustix::io::Errno;

use crate::beneath::{PLACE, look, open, open_known, set_mode};
use crate::sides::{OnStep, Parents, Sides, Walker, look_or_none, name_of, step, taken_name};
use crate::swap::settle;
use crate::{Change, Entry, Error, Kind, Result, What, attributes};

/// What came of taking back, where that is not the state before.
#[derive(Debug, Default)]
pub(crate) struct Undone {
    /// Entries that somebody else has changed meanwhile: they stay so, and nothing is lost.
    pub(crate) others: Vec<PathBuf>,
    /// Entries that somebody else has changed since they were swapped: they stay so, and what was there before the commit
    /// stays in the folder of the call.
    pub(crate) left: Vec<PathBuf>,
}

/// Takes back what was done of `changes`.
pub(crate) fn undo(sides: &Sides, changes: &[Change], on_step: OnStep<'_>) -> Result<Undone> {
    let mut walker = Walker::new(sides);
    let mut undone = Undone::default();
    loosen_what_stays(sides, changes);
    for (number, change) in changes.iter().enumerate().rev() {
        let done = match change.what {
            What::Attributes | What::Times => continue,
            What::Create | What::Replace | What::Remove => put_back(&mut walker, number, change, on_step),
        };
        match done {
            Ok(Now::AsBefore) => {}
            Ok(Now::AsOthersMadeIt) => undone.others.push(change.path.clone()),
            Ok(Now::Left) => undone.left.push(change.path.clone()),
            Err(Failure::BrokenOff(error)) => return Err(error),
            Err(Failure::System(errno)) => {
                return Err(Error::NotUndone { path: change.path.clone(), source: errno.into() });
            }
        }
    }
    for change in changes {
        if let (What::Attributes | What::Times, Some(old)) = (change.what, &change.old) {
            step(on_step)?;
            let attributes = change.attributes.as_ref().map(|(old, _)| old);
            if !settle(sides, &change.path, old, old, attributes, Some(old.modified))? {
                undone.others.push(change.path.clone());
            }
        }
    }
    Ok(undone)
}

/// Lets an ordinary user reach everything again: folders may have got their final modes already, outer ones last.
fn loosen_what_stays(sides: &Sides, changes: &[Change]) {
    if rustix::process::geteuid().is_root() {
        return;
    }
    for change in changes.iter().rev() {
        let (What::Attributes | What::Times, Some(old)) = (change.what, &change.old) else { continue };
        let Ok(folder) = open(sides.workspace.as_fd(), &change.path, PLACE) else { continue };
        let Ok(now) = fstat(&folder).map(|stat| Entry::of(&stat)) else { continue };
        if now.is_same_object(old) && now.mode & 0o700 != 0o700 {
            // Where this fails, what needs it fails too, and says so.
            let _ = set_mode(folder.as_fd(), now.mode | 0o700);
        }
    }
}

/// How an entry came out of being taken back.
enum Now {
    /// As it was before the commit.
    AsBefore,
    /// As somebody else made it, and nothing is lost.
    AsOthersMadeIt,
    /// As somebody else made it, and what was there before the commit stays in the folder of the call.
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
) -> Result<Now, Failure> {
    let name = name_of(&change.path);
    let parents = match walker.parents(&change.path) {
        Ok(parents) => parents,
        // Somebody took the parent away: there is nothing to put back into.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Now::Left),
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
        What::Create | What::Replace if not_swapped && untouched => present,
        What::Create | What::Replace if not_swapped => return Ok(Now::AsOthersMadeIt),
        What::Create if was_placed => {
            on_step()?;
            renameat_with(workspace, name, stage, name, RenameFlags::NOREPLACE)?;
            mark_again(&parents, change)?;
            return Ok(Now::AsBefore);
        }
        // Whatever lies on the stage was in the workspace, also where it is not what was checked.
        What::Replace if staged.is_some() && was_placed => {
            on_step()?;
            renameat_with(workspace, name, stage, name, RenameFlags::EXCHANGE)?;
            mark_again(&parents, change)?;
            staged
        }
        What::Remove => {
            let taken = taken_name(number);
            match look(&walker.sides.taken, &taken)? {
                Some(_) if present.is_some() => return Ok(Now::Left),
                Some(found) => {
                    on_step()?;
                    renameat_with(&walker.sides.taken, &taken, workspace, name, RenameFlags::NOREPLACE)?;
                    Some(found)
                }
                None if untouched => present,
                None => return Ok(Now::AsOthersMadeIt),
            }
        }
        What::Replace if staged.is_some() => return Ok(Now::Left),
        _ => return Ok(Now::AsOthersMadeIt),
    };
    if !came_back.as_ref().is_none_or(is_old) {
        return Ok(Now::AsOthersMadeIt);
    }
    restore_mode(workspace, name, change)?;
    Ok(Now::AsBefore)
}

/// A folder that was loosened so that it could be moved.
fn restore_mode(parent: impl AsFd, name: &OsStr, change: &Change) -> rustix::io::Result<()> {
    let Some(old) = change.old.filter(|old| old.kind == Kind::Folder && old.mode & 0o700 != 0o700) else {
        return Ok(());
    };
    let place = open_known(parent, name, &old, OFlags::PATH)?;
    set_mode(place.as_fd(), old.mode)
}

/// The marks were taken off in the workspace; whoever reads the changes again needs them.
fn mark_again(parents: &Parents, change: &Change) -> rustix::io::Result<()> {
    let name = name_of(&change.path);
    match attributes::mark_again(parents.stage.as_fd(), name, change.marks) {
        // A read-only file of an ordinary user: its mark only tells that the file was there before.
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        done => done,
    }
}
