//! Execution of a commit: entry by entry, each in one step that can be undone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Gid, OFlags, RenameFlags, Uid, fstat, renameat_with};
use rustix::io::Errno;

use crate::attributes::Marks;
use crate::exchange_dirs::{OnStep, Parents, Sides, Walker, name_of, step, taken_name};
use crate::folder::{Holders, LIST, PLACE, look, names, open, open_known, set_mode, set_modified};
use crate::parallel;
use crate::state_cache::StateCache;
use crate::true_modes::TrueModes;
use crate::{Change, Changes, DEEPEST, Entry, Error, Kind, Result, StepKind, Time, attributes};

/// Reason why a swap was not finished.
pub(crate) enum SwapError {
    /// The entry is not the one that was checked.
    Conflict(PathBuf),
    Failed(Error),
}

impl From<Error> for SwapError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Facts about the changes, collected before any entry is moved.
#[derive(Clone, Copy)]
pub(crate) struct ChangeFacts<'a> {
    pub(crate) changes: &'a Changes,
    pub(crate) loosened: &'a TrueModes,
    /// Files that the drafts of the call wrote.
    pub(crate) known: &'a StateCache,
    pub(crate) baseline: Option<Time>,
}

/// Moves every new entry into its place and every old one into the folder of the call. Then folders
/// that stay get their rights and times, and new entries lose their marks.
pub(crate) fn swap(sides: &Sides, found: ChangeFacts<'_>, on_step: OnStep<'_>) -> Result<(), SwapError> {
    let changes = found.changes;
    let mut walker = Walker::new(sides);
    let mut moved = HashSet::new();
    let moves = changes.list.iter().enumerate().filter(|(_, change)| change.what.moves());
    let moves: Vec<(usize, &Change)> = moves.collect();
    for alike in moves.chunk_by(|(_, one), (_, other)| is_by_itself(one) == is_by_itself(other)) {
        if is_by_itself(alike[0].1) {
            move_several(sides, found, alike, on_step)?;
            continue;
        }
        for (number, change) in alike {
            move_one(&mut walker, found, (*number, change), &moved, on_step)?;
            moved.extend(change.old.filter(|old| old.has_other_names).map(|old| (old.device, old.inode)));
        }
    }
    finish(&mut walker, changes, found.loosened, on_step)?;
    Ok(())
}

/// Returns true if a change does not depend on others: the new entry is no folder, and the old one,
/// if any, is no folder and has no other names.
fn is_by_itself(change: &Change) -> bool {
    let is_plain = |entry: Entry| entry.kind != Kind::Folder && !entry.has_other_names;
    change.what != StepKind::Remove && change.new.is_some_and(is_plain) && change.old.is_none_or(is_plain)
}

/// Moves the entries of independent changes, in any order.
///
/// The system exchanges names one at a time, but examines several entries at once.
fn move_several(
    sides: &Sides,
    found: ChangeFacts<'_>,
    changes: &[(usize, &Change)],
    on_step: OnStep<'_>,
) -> Result<(), SwapError> {
    let (moved, has_stopped) = (HashSet::new(), AtomicBool::new(false));
    let move_next = |walker: &mut Walker<'_>, change: &(usize, &Change)| {
        if has_stopped.load(Ordering::Relaxed) {
            // Everything will be undone.
            return Ok(());
        }
        let done = move_one(walker, found, *change, &moved, on_step);
        has_stopped.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    parallel::each(changes, |(_, change)| &change.path, || Walker::new(sides), move_next).map(drop)
}

fn move_one(
    walker: &mut Walker<'_>,
    ChangeFacts { changes, known, baseline, .. }: ChangeFacts<'_>,
    (number, change): (usize, &Change),
    moved: &HashSet<(u64, u64)>,
    on_step: OnStep<'_>,
) -> Result<(), SwapError> {
    let path = &change.path;
    let failed = |doing| move |errno: Errno| stopped(doing, path, errno);
    let name = name_of(path);
    let parents = walker.parents(path).map_err(failed("reach"))?;
    let Parents { stage, workspace } = &*parents;
    if let Some(new) = &change.new
        && !known.wrote(new)
    {
        // The upper folder belongs to this program alone, but entries left by a command are still
        // checked before they are moved by name. Entries written by this program were never visible
        // to a command, and were checked when the changes were read.
        let found = look(stage, name).map_err(failed("inspect"))?;
        if !found.is_some_and(|found| found.is_same_object(new)) {
            return Err(SwapError::Conflict(path.clone()));
        }
    }
    if let Some(old) = &change.old {
        let found = look(workspace, name).map_err(failed("inspect"))?;
        // Moving one name of a file away changes the file under its other names.
        let is_moved = moved.contains(&(old.device, old.inode));
        let unchanged = |found: Entry| {
            found.is_unchanged(old)
                && (found.changed == old.changed
                    || old.kind == Kind::Folder
                    || change.regenerable
                    || is_moved)
        };
        if !found.is_some_and(unchanged) {
            return Err(SwapError::Conflict(path.clone()));
        }
        step(on_step)?;
        walker.make_movable(workspace, name, old).map_err(failed("move"))?;
    }
    step(on_step)?;
    let moved = match change.what {
        StepKind::Create => renameat_with(stage, name, workspace, name, RenameFlags::NOREPLACE),
        StepKind::Replace => renameat_with(stage, name, workspace, name, RenameFlags::EXCHANGE),
        StepKind::Remove => {
            renameat_with(workspace, name, &walker.sides.taken, taken_name(number), RenameFlags::NOREPLACE)
        }
        StepKind::Attributes | StepKind::Times => Ok(()),
    };
    moved.map_err(failed("swap"))?;
    let Some(old) = &change.old else { return Ok(()) };
    // Check the old entry again: somebody may have changed it since the check.
    let (folder, name) = match change.what {
        StepKind::Remove => (&walker.sides.taken, &*taken_name(number)),
        _ => (stage, name),
    };
    let found = look(folder, name).map_err(failed("inspect"))?;
    if !found.is_some_and(|found| found.is_unchanged(old)) {
        return Err(SwapError::Conflict(path.clone()));
    }
    if let (Kind::Folder, false, Some(baseline)) = (old.kind, change.regenerable, baseline)
        && let Some(changed) = changed_since(folder, (name, path, old), baseline, changes)?
    {
        return Err(SwapError::Conflict(changed));
    }
    Ok(())
}

/// Converts an error: a change to the workspace that the check did not see is a conflict, not a
/// failure.
fn stopped(doing: &'static str, path: &Path, errno: Errno) -> SwapError {
    match errno {
        Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => {
            SwapError::Conflict(path.to_owned())
        }
        errno => SwapError::Failed(Error::while_doing(doing, path)(errno)),
    }
}

/// Finds the first entry below a folder that changed since the baseline, except in regenerable
/// folders.
///
/// A rename of the folder itself changes none of its entries, so the result covers changes by others
/// up to the moment of the swap.
fn changed_since(
    parent: impl AsFd,
    (name, path, folder): (&OsStr, &Path, &Entry),
    baseline: Time,
    changes: &Changes,
) -> Result<Option<PathBuf>> {
    let look_into = |parent: BorrowedFd<'_>, name: &OsStr, path: &Path, folder: &Entry| {
        let failed = Error::while_doing("list", path);
        let opened = open_known(parent, name, folder, LIST).map_err(&failed)?;
        let names = names(&opened).map_err(&failed)?;
        Ok::<_, Error>((opened, path.to_owned(), names))
    };
    let mut open = vec![look_into(parent.as_fd(), name, path, folder)?];
    while let Some((folder, path, names)) = open.last_mut() {
        let Some(name) = names.pop() else {
            open.pop();
            continue;
        };
        let path = path.join(&name);
        let Some(entry) = look(&*folder, &name).map_err(Error::while_doing("inspect", &path))? else {
            return Ok(Some(path));
        };
        if entry.kind == Kind::Folder && changes.regenerable.contains(&path) {
            continue;
        }
        if entry.changed >= baseline {
            return Ok(Some(path));
        }
        if entry.kind == Kind::Folder {
            if open.len() >= DEEPEST {
                return Err(Error::TooDeep { path, limit: DEEPEST });
            }
            let Some((folder, ..)) = open.last() else { break };
            let next = look_into(folder.as_fd(), &name, &path, &entry)?;
            open.push(next);
        }
    }
    Ok(None)
}

fn finish(
    walker: &mut Walker<'_>,
    changes: &Changes,
    loosened: &TrueModes,
    on_step: OnStep<'_>,
) -> Result<()> {
    let workspace = walker.sides.workspace.as_fd();
    let placed = |change: &&Change| matches!(change.what, StepKind::Create | StepKind::Replace);
    let own = changes.list.iter().filter(placed).filter(|change| change.marks.any);
    let own = own.filter_map(|change| Some((&change.path, change.new?.kind, change.marks)));
    let mut holders = Holders::new(workspace, PLACE);
    let below = changes.marked.iter().map(|(path, kind, marks)| (path, *kind, *marks));
    for (path, kind, marks) in own.chain(below) {
        step(on_step)?;
        let failed = Error::while_doing("remove the marks of", path);
        let stripped = holders.of(path).and_then(|parent| strip_read_only_too(parent, path, kind, marks));
        unless_gone(stripped).map_err(failed)?;
    }
    for change in changes.list.iter().filter(placed) {
        for (path, mode) in loosened.below(&change.path) {
            step(on_step)?;
            let failed = Error::while_doing("set the mode of", path);
            let opened = open(workspace, path, OFlags::PATH);
            let set = opened.and_then(|opened| set_mode(opened.as_fd(), mode & 0o1777));
            unless_gone(set).map_err(failed)?;
        }
    }
    for (number, change) in changes.list.iter().enumerate() {
        match change.what {
            StepKind::Attributes | StepKind::Times => {
                step(on_step)?;
                let attributes = change.attributes.as_ref().map(|(_, new)| new);
                if let (Some(old), Some(new)) = (&change.old, &change.new) {
                    let modified = change.sets_time.then_some(new.modified);
                    settle(walker.sides, &change.path, old, new, attributes, modified)?;
                }
            }
            StepKind::Replace | StepKind::Remove => restore_old_mode(walker, number, change)?,
            StepKind::Create => {}
        }
    }
    Ok(())
}

/// Ignores an error about an entry that others removed after the swap.
fn unless_gone(done: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match done {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) => Ok(()),
        done => done,
    }
}

/// Sets the rights, attributes and time of a folder that stays. Returns true if the folder exists:
/// another folder with its name is left alone.
pub(crate) fn settle(
    sides: &Sides,
    path: &Path,
    known: &Entry,
    wanted: &Entry,
    attributes: Option<&crate::attributes::Attributes>,
    modified: Option<Time>,
) -> Result<bool> {
    let failed = Error::while_doing("set the attributes of", path);
    let folder = match open(sides.workspace.as_fd(), path, PLACE) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
        Err(errno) => return Err(failed(errno)),
    };
    let now = Entry::of(&fstat(&folder).map_err(&failed)?);
    if !now.is_same_object(known) {
        return Ok(false);
    }
    let reached = beneath::descriptor_path(folder.as_fd());
    if let Some(attributes) = attributes {
        attributes::set(folder.as_fd(), std::ffi::OsStr::new("."), attributes).map_err(&failed)?;
    }
    if (now.owner, now.group) != (wanted.owner, wanted.group) {
        let (owner, group) = (Uid::from_raw(wanted.owner), Gid::from_raw(wanted.group));
        rustix::fs::chownat(CWD, &reached, Some(owner), Some(group), AtFlags::empty()).map_err(&failed)?;
    }
    if let Some(modified) = modified {
        set_modified(folder.as_fd(), modified).map_err(&failed)?;
    }
    if now.mode != wanted.mode {
        set_mode(folder.as_fd(), wanted.mode).map_err(failed)?;
    }
    Ok(true)
}

/// Restores the mode of a folder that was loosened for its move, at its new place.
pub(crate) fn restore_old_mode(walker: &mut Walker<'_>, number: usize, change: &Change) -> Result<()> {
    let Some(old) = change.old.filter(|old| old.kind == Kind::Folder && old.mode & 0o700 != 0o700) else {
        return Ok(());
    };
    let failed = Error::while_doing("set the mode of", &change.path);
    let (folder, name) = match change.what {
        StepKind::Remove => (walker.sides.taken.try_clone(), taken_name(number)),
        _ => {
            let parents = walker.parents(&change.path).map_err(&failed)?;
            (parents.stage.try_clone(), name_of(&change.path).to_owned())
        }
    };
    let folder = folder.map_err(|source| Error::system("reach", &change.path, source))?;
    let place = open_known(&folder, &name, &old, OFlags::PATH).map_err(&failed)?;
    set_mode(place.as_fd(), old.mode).map_err(failed)
}

/// Strips marks from an entry, even a read-only one: an ordinary user cannot remove attributes of a
/// read-only file without changing its mode.
fn strip_read_only_too(
    parent: &std::os::fd::OwnedFd,
    path: &Path,
    kind: Kind,
    marks: Marks,
) -> rustix::io::Result<()> {
    let name = name_of(path);
    match attributes::strip(parent.as_fd(), name, kind, marks) {
        Err(Errno::ACCESS | Errno::PERM) => {}
        done => return done,
    }
    let entry = look(parent, name)?.ok_or(Errno::STALE)?;
    let place = open_known(parent, name, &entry, OFlags::PATH)?;
    set_mode(place.as_fd(), entry.mode | 0o600)?;
    let stripped = attributes::strip(parent.as_fd(), name, kind, marks);
    set_mode(place.as_fd(), entry.mode)?;
    stripped
}
