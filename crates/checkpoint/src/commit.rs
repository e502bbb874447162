//! Commits of a call's changes to the workspace: all of them, or none.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use locks::{FileLock, Kind};
use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat, syncfs};
use rustix::io::Errno;

use crate::copy::Copier;
use crate::exchange_dirs::{OnStep, Sides, name_of, step, taken_name};
use crate::folder::{LIST, is_empty, look, open};
use crate::hidden::HiddenFiles;
use crate::journal::Journal;
use crate::read::Reading;
use crate::regenerable::Regenerable;
use crate::save::{NotKept, save_changes};
use crate::staging::{Call, TAKEN, UPPER};
use crate::swap::{ChangeFacts, SwapError, swap};
use crate::true_modes::TrueModes;
use crate::undo::undo;
use crate::{
    Action, Changes, Conflict, Entry, Error, Judge, LaterChange, RefusedChange, Result, Save, SavedEntry,
    StepKind, Time, Verdict, Workspace,
};

/// Terms under which changes are read and committed.
pub struct Terms<'a> {
    /// Time that separates changes of others: entries changed at this time or later count as theirs.
    /// See [`Call::baseline`].
    ///
    /// `None` overwrites changes of others (`force`). Even then, a change during the commit is never
    /// overwritten.
    pub baseline: Option<Time>,
    /// Path of git's index in the workspace, and the file opened before the command started, if it
    /// existed.
    pub index: Option<(PathBuf, Option<File>)>,
    /// Judge of every entry that a commit would touch. If the judge does not allow one of them,
    /// nothing is committed.
    pub judge: Judge<'a>,
    /// Events that the commit must survive.
    pub durability: Durability,
    /// Destination for the entries that the commit replaces and removes, so that it can be undone.
    pub save: Option<Save<'a>>,
    /// Callback before every system call that changes anything. On [`ControlFlow::Break`], the
    /// commit ends at once with [`Error::BrokenOff`] and leaves everything as a killed process
    /// would; for tests.
    pub on_step: OnStep<'a>,
}

/// Events that a commit as a whole survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of this process at any point. Nothing is flushed; a direct run of the command would
    /// not flush its writes either.
    #[default]
    Process,
    /// Additionally a power loss: one flush of the file system before the swap, and one after it
    /// (`syncfs(2)`).
    Power,
}

impl Terms<'_> {
    /// Returns the default terms of a call: everything allowed, nothing flushed.
    pub fn since(baseline: Time) -> Self {
        Self {
            baseline: Some(baseline),
            index: None,
            judge: &|_| Verdict::Allow,
            durability: Durability::default(),
            save: None,
            on_step: &|| ControlFlow::Continue(()),
        }
    }
}

/// Result of a commit.
#[derive(Debug)]
pub enum Outcome {
    /// All changes were committed.
    Committed(CommitSummary),
    /// Somebody else changed the same entries, and nothing was committed. [`Changes::conflicts`]
    /// lists them.
    Conflict(Changes),
    /// The judge did not allow everything, and nothing was committed. [`Changes::held`] lists the
    /// entries.
    Held(Changes),
}

/// A successful commit.
#[derive(Debug)]
pub struct CommitSummary {
    /// Committed changes.
    pub changes: Changes,
    /// Path of the old entries until the call is discarded.
    old: PathBuf,
}

impl CommitSummary {
    /// Returns the path of the old entry that the change of this number took out of the workspace,
    /// if any. The entry keeps its content, attributes and times until the call is discarded.
    ///
    /// The content is unchanged, unless a program that had the file open writes into it.
    pub fn old_place(&self, number: usize) -> Option<PathBuf> {
        let change = self.changes.list.get(number)?;
        match change.what {
            StepKind::Replace => Some(self.old.join(UPPER).join(&change.path)),
            StepKind::Remove => Some(self.old.join(TAKEN).join(taken_name(number))),
            StepKind::Create | StepKind::Attributes | StepKind::Times => None,
        }
    }
}

impl Call {
    /// Reads the changes and compares them with the workspace, without changing the workspace.
    ///
    /// The overlay must be unmounted, and all processes that wrote to it must have ended.
    ///
    /// # Errors
    /// Returns an error if an entry cannot be read, or has a form that cannot be committed.
    pub fn changes(&self, workspace: &Workspace, terms: &Terms<'_>) -> Result<Changes> {
        let mut loosened = TrueModes::open(self.folder.as_fd())?;
        self.read(workspace, terms, &mut loosened)
    }

    /// Returns the changes with the states before and after of each path, without the bytes. Changes
    /// nothing.
    ///
    /// # Errors
    /// Same as [`Call::changes`]; `ESTALE` if the workspace changes during the read.
    pub fn preview(&self, workspace: &Workspace, terms: &Terms<'_>) -> Result<(Changes, Vec<SavedEntry>)> {
        let mut loosened = TrueModes::open(self.folder.as_fd())?;
        let changes = self.read(workspace, terms, &mut loosened)?;
        let upper = self.open(UPPER)?;
        match save_changes(&NotKept, &workspace.folder, &upper, &changes, (&loosened, &self.known)) {
            Ok(saved) => Ok((changes, saved.entries)),
            Err(SwapError::Failed(error)) => Err(error),
            Err(SwapError::Conflict(path)) => Err(Error::system("inspect", path, Errno::STALE)),
        }
    }

    fn read(&self, workspace: &Workspace, terms: &Terms<'_>, loosened: &mut TrueModes) -> Result<Changes> {
        let upper = self.open(UPPER)?;
        let reading = Reading::new(
            terms.baseline,
            terms.index.as_ref(),
            terms.judge,
            (loosened, &self.known),
            Regenerable::of(&workspace.path),
        );
        let reading = reading.hiding(HiddenFiles::of(&self.folder)?);
        reading.of_draft(self.is_draft()?).whole(upper.as_fd(), workspace.folder.as_fd())
    }

    /// Commits all changes to the workspace, or none.
    ///
    /// The overlay must be unmounted, and all processes that wrote to it must have ended.
    ///
    /// # Errors
    /// After an error the workspace is unchanged, except after [`Error::NotUndone`] and
    /// [`Error::BrokenOff`]. [`crate::Area::recover`] then undoes the rest.
    pub fn commit(&self, workspace: &Workspace, terms: &Terms<'_>) -> Result<Outcome> {
        if self.has_no_changes()? {
            // Most commands change nothing. There is nothing to compare then, and no lock is needed.
            let changes = Changes::default();
            return Ok(Outcome::Committed(CommitSummary { changes, old: self.path.clone() }));
        }
        if self.has_only_placeholders(workspace, terms)? {
            let changes = Changes::default();
            return Ok(Outcome::Committed(CommitSummary { changes, old: self.path.clone() }));
        }
        let _serialised = self.lock_workspace(workspace)?;
        if Journal::read(self.folder.as_fd())?.is_some() {
            return Err(Error::UnderWay { id: self.id().to_owned() });
        }
        let mut loosened = TrueModes::open(self.folder.as_fd())?;
        let mut changes = self.read(workspace, terms, &mut loosened)?;
        if !changes.held.is_empty() {
            return Ok(Outcome::Held(changes));
        }
        if !changes.conflicts.is_empty() {
            return Ok(Outcome::Conflict(changes));
        }
        self.leave_out(&changes.copied)?;
        if changes.list.is_empty() {
            return Ok(Outcome::Committed(CommitSummary { changes, old: self.path.clone() }));
        }
        if let Some(save) = &terms.save {
            self.save(workspace, save, &mut changes, &loosened, terms.on_step)?;
            if !changes.held.is_empty() {
                return Ok(Outcome::Held(changes));
            }
            if !changes.conflicts.is_empty() {
                return Ok(Outcome::Conflict(changes));
            }
        }
        let staging =
            if workspace.shares_mount_with(&self.folder) { None } else { Some(self.staging_name()) };
        let root =
            fstat(&workspace.folder).map_err(|errno| Error::system("inspect", &workspace.path, errno))?;
        let root_modified = staging.as_ref().map(|_| Entry::of(&root).modified);
        let journal = |changes: &Changes| Journal {
            workspace: workspace.path.clone(),
            identity: workspace.identity,
            staging: staging.clone(),
            root_modified,
            baseline: terms.baseline,
            index: terms.index.as_ref().map(|(path, _)| path.clone()),
            changes: changes.list.clone(),
        };
        if staging.is_some() {
            // The journal names the folder before it is created, so that recovery knows about it.
            step(terms.on_step)?;
            Journal { changes: Vec::new(), ..journal(&Changes::default()) }
                .write(self.folder.as_fd(), None)?;
            if let Err(error) = self.stage(workspace, staging.as_deref(), &mut changes, terms.on_step) {
                return Err(self.give_up(workspace, journal(&Changes::default()), error, terms.on_step));
            }
            step(terms.on_step)?;
        }
        let sides = self.sides(workspace, staging.as_deref())?;
        step(terms.on_step)?;
        let flush = || self.flush(&sides);
        let flush: Option<&dyn Fn() -> Result<()>> =
            if terms.durability == Durability::Power { Some(&flush) } else { None };
        let written = journal(&changes).write(self.folder.as_fd(), flush);
        if let Err(error) = written {
            return Err(self.give_up(workspace, journal(&Changes::default()), error, terms.on_step));
        }
        let found = ChangeFacts {
            changes: &changes,
            loosened: &loosened,
            known: &self.known,
            baseline: terms.baseline,
        };
        let swapped = swap(&sides, found, terms.on_step);
        let flushed = swapped.and_then(|()| {
            flush.map_or(Ok(()), |flush| flush())?;
            step(terms.on_step)?;
            Ok(Journal::mark_committed(self.folder.as_fd())?)
        });
        match flushed {
            Ok(()) => {
                let old = staging.map_or_else(|| self.path.clone(), |name| workspace.path.join(name));
                Ok(Outcome::Committed(CommitSummary { changes, old }))
            }
            Err(SwapError::Failed(Error::BrokenOff)) => Err(Error::BrokenOff),
            Err(SwapError::Failed(error)) => {
                self.take_back(workspace, &sides, journal(&changes), terms.on_step)?;
                Err(error)
            }
            Err(SwapError::Conflict(path)) => {
                let left = self.take_back(workspace, &sides, journal(&changes), terms.on_step)?;
                let during = |path| Conflict { path, meanwhile: LaterChange::ChangedDuringCommit };
                changes.conflicts.push(during(path));
                for path in left {
                    if changes.conflicts.iter().all(|known| known.path != path) {
                        changes.conflicts.push(during(path));
                    }
                }
                Ok(Outcome::Conflict(changes))
            }
        }
    }

    /// Saves the entries that the changes take out of the workspace, before any change. Obstacles to
    /// the commit are added to `changes`.
    fn save(
        &self,
        workspace: &Workspace,
        save: &Save<'_>,
        changes: &mut Changes,
        loosened: &TrueModes,
        on_step: OnStep<'_>,
    ) -> Result<()> {
        let upper = self.open(UPPER)?;
        let saved =
            match save_changes(save.contents, &workspace.folder, &upper, changes, (loosened, &self.known)) {
                Ok(saved) => saved,
                Err(SwapError::Failed(error)) => return Err(error),
                Err(SwapError::Conflict(path)) => {
                    changes.conflicts.push(Conflict { path, meanwhile: LaterChange::ChangedDuringCommit });
                    return Ok(());
                }
            };
        if !saved.unreadable.is_empty() && !save.loss_is_agreed {
            let held = |path: PathBuf| RefusedChange {
                path,
                action: Action::Replace,
                may_be_approved: true,
                reason: "its old content cannot be read, so the change could not be undone".to_owned(),
            };
            changes.held.extend(saved.unreadable.into_iter().map(held));
            return Ok(());
        }
        step(on_step)?;
        (save.keep)(&saved).map_err(|source| Error::system("save", "the changing files", source))?;
        changes.unsaved = saved.unsaved;
        step(on_step)
    }

    /// Flushes the file system of the changes, and that of the journal if it is another.
    fn flush(&self, sides: &Sides) -> Result<()> {
        let device = |folder: &OwnedFd| fstat(folder).map(|found| found.st_dev);
        let failed = |errno: Errno| Error::system("flush", UPPER, errno);
        syncfs(&sides.stage).map_err(failed)?;
        if device(&sides.stage).map_err(failed)? != device(&self.folder).map_err(failed)? {
            syncfs(&self.folder).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns true if the call changed nothing, and no earlier commit has begun to move the
    /// changes.
    fn has_no_changes(&self) -> Result<bool> {
        if Journal::read(self.folder.as_fd())?.is_some() {
            return Ok(false);
        }
        let upper = self.open(UPPER)?;
        is_empty(&upper).map_err(Error::while_doing("list", Path::new(UPPER)))
    }

    /// Returns true if the only entries are placeholders of hidden files, so that no lock is needed
    /// either.
    fn has_only_placeholders(&self, workspace: &Workspace, terms: &Terms<'_>) -> Result<bool> {
        if HiddenFiles::of(&self.folder)?.is_empty() || Journal::read(self.folder.as_fd())?.is_some() {
            return Ok(false);
        }
        let changes = self.read(workspace, terms, &mut TrueModes::open(self.folder.as_fd())?)?;
        let Changes { list, notes, conflicts, held, copied, .. } = &changes;
        Ok(list.is_empty()
            && notes.is_empty()
            && conflicts.is_empty()
            && held.is_empty()
            && copied.is_empty())
    }

    /// Undoes the commit. Returns the entries that could not be restored because somebody else
    /// changed them.
    fn take_back(
        &self,
        workspace: &Workspace,
        sides: &Sides,
        journal: Journal,
        on_step: OnStep<'_>,
    ) -> Result<Vec<PathBuf>> {
        let undone = undo(sides, &journal.changes, on_step)?;
        if journal.staging.is_some() {
            self.rescue(sides, &journal.changes, &undone.left, on_step)?;
        }
        self.clean_up(workspace, journal, on_step)?;
        Ok([undone.others, undone.left].concat())
    }

    /// Cleans up before any entry was swapped, and returns the original error.
    fn give_up(&self, workspace: &Workspace, journal: Journal, error: Error, on_step: OnStep<'_>) -> Error {
        if !matches!(error, Error::BrokenOff) {
            // Recovery removes the rest; the first error is the one that counts.
            drop(self.clean_up(workspace, journal, on_step));
        }
        error
    }

    /// Copies the new entries into a folder of the workspace, so that they lie on its file system.
    fn stage(
        &self,
        workspace: &Workspace,
        staging: Option<&Path>,
        changes: &mut Changes,
        on_step: OnStep<'_>,
    ) -> Result<()> {
        let Some(name) = staging else { return Ok(()) };
        let failed = |errno: Errno| Error::system("make", name, errno);
        let private = Mode::from_raw_mode(0o700);
        step(on_step)?;
        mkdirat(&workspace.folder, name, private).map_err(failed)?;
        let folder = open(workspace.folder.as_fd(), name, LIST).map_err(failed)?;
        for part in [UPPER, TAKEN] {
            step(on_step)?;
            mkdirat(&folder, part, private).map_err(failed)?;
        }
        let to = open(folder.as_fd(), Path::new(UPPER), LIST).map_err(failed)?;
        let from = self.open(UPPER)?;
        let mut copier = Copier::new(on_step);
        for change in &mut changes.list {
            if matches!(change.what, StepKind::Attributes | StepKind::Times) {
                continue;
            }
            let path = change.path.clone();
            let failed = Error::while_doing("copy", &path);
            let parent = path.parent().unwrap_or(Path::new(""));
            let target = open_or_make(&to, parent).map_err(&failed)?;
            let Some(new) = &mut change.new else { continue };
            let source = open(from.as_fd(), parent, LIST).map_err(&failed)?;
            let name = name_of(&path);
            // Look at the actual entry, because its mode may have been loosened.
            let Some(found) = look(&source, name).map_err(&failed)? else {
                return Err(failed(Errno::STALE));
            };
            copier.copy(&source, &target, name, &path, &found)?;
            let Some(copied) = look(&target, name).map_err(&failed)? else {
                return Err(failed(Errno::STALE));
            };
            *new = Entry { mode: new.mode, ..copied };
            change.marks.any = false;
        }
        changes.marked.clear();
        Ok(())
    }

    pub(crate) fn sides(&self, workspace: &Workspace, staging: Option<&Path>) -> Result<Sides> {
        let open_in = |folder: &OwnedFd, part: &str| {
            open(folder.as_fd(), Path::new(part), LIST).map_err(Error::while_doing("open", Path::new(part)))
        };
        let around = match staging {
            Some(name) => {
                open(workspace.folder.as_fd(), name, LIST).map_err(Error::while_doing("open", name))?
            }
            None => self.open("")?,
        };
        let workspace =
            workspace.folder.try_clone().map_err(|source| Error::system("open", &workspace.path, source))?;
        Ok(Sides { stage: open_in(&around, UPPER)?, taken: open_in(&around, TAKEN)?, workspace })
    }

    /// Waits until no other commit to this workspace is under way, in this process or another one.
    pub(crate) fn lock_workspace(&self, workspace: &Workspace) -> Result<FileLock> {
        let name = format!("workspace-{:x}-{:x}.lock", workspace.identity.0, workspace.identity.1);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let failed = |errno: Errno| Error::system("lock", &name, errno);
        let file = openat(&self.area, &name, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        FileLock::wait(file, Kind::Exclusive, &name).map_err(|error| Error::system("lock", &name, error))
    }
}

fn open_or_make(folder: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    match open(folder.as_fd(), path, LIST) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let mut at = open(folder.as_fd(), Path::new(""), LIST)?;
    for name in path {
        match mkdirat(&at, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        at = open(at.as_fd(), Path::new(name), LIST)?;
    }
    Ok(at)
}
