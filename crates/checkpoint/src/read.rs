//! Reading of changes from an upper folder, and their comparison with the current workspace.
//!
//! # Conflicts
//!
//! `baseline` is the time before the overlay was mounted. *Since* means that an entry of the
//! workspace has a change time at or after the baseline. Below, *new* is the entry in the upper
//! folder, and *old* is the current entry in the workspace.
//!
//! | new | old: nothing | old: same kind | old: another kind |
//! | nothing (whiteout, socket, device) | nothing to do | removed; conflict if it, or anything below it, changed since | as for the same kind |
//! | file, link, FIFO, made by the command | created | replaced; changed since: conflict, unless content and mode are equal, then the old stays | replaced; conflict if it, or anything below it, changed since |
//! | file, link, FIFO, copied up | conflict: somebody removed it, unless the command may have moved it here | as above; nothing to do if it is still a faithful copy | as above |
//! | folder, copied up | conflict: somebody removed it | merged | conflict: somebody replaced it |
//! | folder, made by the command | created, with all in it | merged | as a file |
//! | folder that hides the old one (opaque) | created, with all in it | replaced whole; conflict if the old one, or anything below it, changed since | as a file |
//!
//! Entries that others create or remove in a merged folder are no conflict. If the folder's mode,
//! owner or attributes differ from those in the upper folder, the command or somebody else changed
//! them. A change since the baseline is then a conflict, because the two cases cannot be told apart.
//!
//! In a regenerable folder, changes of a command never conflict; a draft of a change there means
//! exactly that file. `.git/index` has its own rule, see [`crate::git_index`].
//!
//! Two cases cannot be detected. The first is a changed file that somebody removed meanwhile. It
//! looks like a file that the command moved there, if the command moved or removed any file at all.
//! The same holds if the file had several names, because the overlay does not mark these copies. The
//! commit then creates the file again. The second is a *parent* folder that somebody replaced by
//! another one. If the new folder has an entry of the same name, older than the baseline, that entry
//! is taken for the old one.

mod folders;
mod placeholders;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::attributes::{self, Marks};
use crate::commit_entry::{TouchedEntry, Touches};
use crate::compare::{has_same_content, is_faithful_copy};
use crate::folder::{LIST, PLACE, look, names, open, open_known, set_mode};
use crate::git_index::{self, Winner};
use crate::hidden::HiddenFiles;
use crate::parallel;
use crate::regenerable::Regenerable;
use crate::state_cache::StateCache;
use crate::true_modes::TrueModes;
use crate::{
    Action, Change, Changes, Conflict, Entry, Error, Judge, Kind, LaterChange, MAX_CHANGES, Note,
    RefusedChange, Result, StepKind, Time, Verdict,
};
use folders::PendingFolder;

/// Maximum depth of changes, in folders. Each level takes two descriptors, of which a process
/// usually has 1,024.
pub const DEEPEST: usize = 256;

/// Maximum number of reported conflicts; one is enough to stop a commit.
const MAX_CONFLICTS: usize = 1_000;

/// State of a reading, apart from the two folders.
pub(crate) struct Reading<'a> {
    /// Baseline of the terms; `None` overwrites all changes of others.
    pub(crate) baseline: Option<Time>,
    /// Path of git's index, and the file from before the command started.
    pub(crate) index: Option<&'a (PathBuf, Option<File>)>,
    pub(crate) judge: Judge<'a>,
    pub(crate) loosened: &'a mut TrueModes,
    /// Files that the drafts of the call wrote.
    known: &'a StateCache,
    regenerable: Regenerable,
    /// True if this program drafted the changes, and no command made them.
    is_draft: bool,
    changes: Changes,
    /// Entries that the judge must be asked about.
    touched: Vec<TouchedEntry>,
    /// True if there is any sign that the command moved files: a removed or replaced entry.
    moves: bool,
    /// Folders in which a git index was only refreshed, so that their time proves nothing.
    refreshed: HashSet<PathBuf>,
    /// Files for which the command saw placeholders.
    hidden: HiddenFiles,
    /// Entries outside regenerable folders that are removed or replaced.
    gone: BTreeSet<PathBuf>,
    /// Entries that came in place of a hidden file, together with their folder.
    made_again: Vec<PathBuf>,
    /// Entries of `made_again` that are equal to the hidden file.
    came_back: BTreeSet<PathBuf>,
    /// Copied-up files without a lower entry: the command moved them here, or somebody removed the
    /// lower one.
    moved_or_removed: Vec<PathBuf>,
}

/// The two open folders that are compared, and their depth.
struct Pair<'a> {
    upper: &'a OwnedFd,
    lower: &'a OwnedFd,
    depth: usize,
    regenerable: bool,
}

/// One name in both folders.
struct ReadPair<'a> {
    name: &'a OsStr,
    path: &'a Path,
    new: Entry,
    marks: Marks,
    old: Option<Entry>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(
        baseline: Option<Time>,
        index: Option<&'a (PathBuf, Option<File>)>,
        judge: Judge<'a>,
        (loosened, known): (&'a mut TrueModes, &'a StateCache),
        regenerable: Regenerable,
    ) -> Self {
        let (changes, touched, moved_or_removed) = (Changes::default(), Vec::new(), Vec::new());
        let (is_draft, moves) = (false, false);
        Self {
            baseline,
            index,
            judge,
            loosened,
            known,
            regenerable,
            is_draft,
            changes,
            touched,
            moves,
            refreshed: HashSet::new(),
            hidden: HiddenFiles::default(),
            gone: BTreeSet::new(),
            made_again: Vec::new(),
            came_back: BTreeSet::new(),
            moved_or_removed,
        }
    }

    /// Adds the hidden files, for a command that saw placeholders.
    pub(crate) fn hiding(self, hidden: HiddenFiles) -> Self {
        Self { hidden, ..self }
    }

    /// Records whether this program drafted the changes.
    pub(crate) fn of_draft(self, is_draft: bool) -> Self {
        Self { is_draft, ..self }
    }

    /// Reads all changes.
    pub(crate) fn whole(mut self, upper: BorrowedFd<'_>, lower: BorrowedFd<'_>) -> Result<Changes> {
        let here = Path::new("");
        let failed = Error::while_doing("open", here);
        let upper_folder = open(upper, here, LIST).map_err(&failed)?;
        let lower_folder = open(lower, here, PLACE).map_err(&failed)?;
        let pair = Pair { upper: &upper_folder, lower: &lower_folder, depth: 0, regenerable: false };
        let direct = self.level(&pair, here)?;
        let stat = |folder: &OwnedFd| rustix::fs::fstat(folder).map(|stat| Entry::of(&stat)).map_err(&failed);
        let (new, old) = (stat(&upper_folder)?, stat(&lower_folder)?);
        if !self.moves {
            for path in std::mem::take(&mut self.moved_or_removed) {
                self.conflict(&path, LaterChange::Removed);
            }
        }
        // The rights of the root are the overlay's own, so only its time counts.
        let sets_time = direct && !self.since(old.modified);
        if sets_time || direct && self.must_loosen(&old) {
            self.stays(here, (new, old), false, sets_time)?;
        }
        self.ask(upper, lower)?;
        self.judge_made_again(upper, lower)?;
        self.tell_of_hidden();
        self.changes.regenerable = self.regenerable.found().collect();
        Ok(self.changes)
    }

    /// Reads one folder. Returns true if any entry directly in it comes or goes.
    fn level(&mut self, pair: &Pair<'_>, path: &Path) -> Result<bool> {
        if pair.depth >= DEEPEST {
            return Err(Error::TooDeep { path: path.to_owned(), limit: DEEPEST });
        }
        let mut names = names(pair.upper).map_err(Error::while_doing("list", path))?;
        names.sort_unstable();
        let mut direct = false;
        for name in &names {
            direct |= self.entry(pair, name, &path.join(name))?;
        }
        Ok(direct)
    }

    fn entry(&mut self, pair: &Pair<'_>, name: &OsStr, path: &Path) -> Result<bool> {
        let failed = Error::while_doing("inspect", path);
        let Some(mut new) = look(pair.upper, name).map_err(&failed)? else { return Ok(false) };
        new = self.loosened.truly(path, new);
        let folder = match new.kind {
            Kind::Folder => Some(self.loosened.open_folder(pair.upper, name, path, &new)?),
            _ => None,
        };
        let marks = match self.known.marks(&new) {
            Some(marks) => marks,
            None => attributes::marks(pair.upper.as_fd(), name, new.kind, path)?,
        };
        let old = look(pair.lower, name).map_err(&failed)?;
        if new.kind == Kind::File {
            new = self.without_set_id(pair.upper, name, path, new)?;
        }
        let both = ReadPair { name, path, new, marks, old };
        match (new.kind, old) {
            _ if marks.placeholder.is_some() => {
                if !self.hidden.is_untouched((pair.upper, path), &new, marks.placeholder) {
                    self.held_as_moved(path, marks);
                }
                Ok(false)
            }
            _ if marks.whiteout => self.gone(pair, &both),
            (Kind::Whiteout, _) => self.gone(pair, &both),
            (Kind::Socket | Kind::Device, _) => {
                self.changes.notes.push(Note::Dropped { path: path.to_owned(), kind: new.kind });
                self.gone(pair, &both)
            }
            (Kind::Folder, Some(old)) if !marks.opaque && old.kind == Kind::Folder => {
                let folder = folder.as_ref().unwrap_or(pair.upper);
                self.merge(pair, &both, folder, old)?;
                Ok(false)
            }
            _ => self.placed(pair, &both, folder.as_ref()),
        }
    }

    /// Returns true if this time is at or after the baseline.
    fn since(&self, time: Time) -> bool {
        self.baseline.is_some_and(|baseline| time >= baseline)
    }

    fn conflict(&mut self, path: &Path, meanwhile: LaterChange) {
        let conflicts = &self.changes.conflicts;
        let told = conflicts.last().is_some_and(|last| last.path == path);
        if !told && conflicts.len() < MAX_CONFLICTS {
            self.changes.conflicts.push(Conflict { path: path.to_owned(), meanwhile });
        }
    }

    fn touch(&mut self, path: &Path, action: Action, (old, new): (Option<Entry>, Option<Entry>)) {
        self.touched.push(TouchedEntry { path: path.to_owned(), action, old, new });
    }

    /// Asks the judge about all touched entries.
    fn ask(&mut self, upper: BorrowedFd<'_>, lower: BorrowedFd<'_>) -> Result<()> {
        let touched = std::mem::take(&mut self.touched);
        let judge = self.judge;
        let all = Touches::new(&touched, upper, lower);
        let ask = |(): &mut (), touched: &TouchedEntry| Ok::<_, Error>(all.verdict(judge, touched));
        let verdicts = parallel::each(&touched, |touched| &touched.path, || (), ask)?;
        for (touched, verdict) in touched.into_iter().zip(verdicts) {
            let (may_be_approved, reason) = match verdict {
                Verdict::Allow => continue,
                Verdict::Hold(reason) => (true, reason),
                Verdict::Deny(reason) => (false, reason),
            };
            let TouchedEntry { path, action, .. } = touched;
            self.changes.held.push(RefusedChange { path, action, may_be_approved, reason });
        }
        Ok(())
    }

    fn push(&mut self, change: Change) -> Result<()> {
        if self.changes.list.len() >= MAX_CHANGES {
            return Err(Error::TooMany { limit: MAX_CHANGES });
        }
        self.changes.list.push(change);
        Ok(())
    }

    /// Handles an entry that the command removed.
    fn gone(&mut self, pair: &Pair<'_>, both: &ReadPair<'_>) -> Result<bool> {
        self.moves = true;
        let Some(old) = both.old else { return Ok(false) };
        let regenerable = pair.regenerable
            || old.kind == Kind::Folder && self.regenerable.is(&[pair.lower], both.name, both.path);
        self.touch(both.path, Action::Remove, (Some(old), None));
        if !regenerable {
            self.gone.insert(both.path.to_owned());
        }
        self.leaves(pair.lower, both.name, both.path, old, regenerable)?;
        self.push(Change::of(both, StepKind::Remove, None, regenerable))?;
        Ok(true)
    }

    /// Handles an entry that the command created or changed, other than a merged folder.
    fn placed(&mut self, pair: &Pair<'_>, both: &ReadPair<'_>, folder: Option<&OwnedFd>) -> Result<bool> {
        let &ReadPair { name, path, new, marks, old } = both;
        let hides = !self.hidden.is_empty();
        if let Some(folder) = folder.filter(|_| hides && marks.copied_up && !marks.opaque)
            && self.has_only_placeholders(folder, path, pair.depth + 1)?
        {
            // Somebody has removed or replaced the folder, and the command changed nothing in it.
            return Ok(false);
        }
        if hides && self.is_left_out(pair, both) {
            return Ok(false);
        }
        let both_sides = [pair.lower, pair.upper];
        let holders = match old {
            Some(old) if old.kind == Kind::Folder => &both_sides[..1],
            Some(_) => &[],
            None => &both_sides,
        };
        let of_tools = folder.is_some() && !self.is_draft && self.regenerable.is(holders, name, path);
        let regenerable = pair.regenerable || of_tools;
        let checked = !regenerable && self.baseline.is_some();
        self.moves |= marks.opaque || old.is_some() && folder.is_none() && !marks.copied_up;
        if checked && marks.drafted && old.is_none() {
            self.conflict(path, LaterChange::Removed);
        } else if checked && marks.copied_up && old.is_none() {
            if folder.is_some() {
                self.conflict(path, LaterChange::Removed);
            } else if !new.has_other_names {
                self.moved_or_removed.push(path.to_owned());
            }
        }
        if checked && marks.copied_up && folder.is_some() && !marks.opaque && old.is_some() {
            self.conflict(path, LaterChange::Changed);
        }
        if let Some(old) = old {
            if old.kind == new.kind && folder.is_none() {
                let (upper, lower) = (pair.upper.as_fd(), pair.lower.as_fd());
                // A copy that also got another name is committed under both names, so that they stay
                // one file.
                if !new.has_other_names && is_faithful_copy(upper, lower, name, &new, &old) {
                    return Ok(false);
                }
                if !self.is_draft && is_refreshed_index(pair, name, &new, &old) {
                    if checked && self.since(old.changed) {
                        self.changes.notes.push(Note::IndexKept { path: path.to_owned() });
                    }
                    self.refreshed.extend(path.parent().map(Path::to_owned));
                    return Ok(false);
                }
                if checked && self.since(old.changed) {
                    if old.mode == new.mode && has_same_content(upper, lower, name, &new, &old) {
                        return Ok(false);
                    }
                    match self.winner_of_index(pair, both, &old) {
                        Some(Winner::Command) => {}
                        Some(Winner::Others) => {
                            self.changes.notes.push(Note::IndexKept { path: path.to_owned() });
                            return Ok(false);
                        }
                        None => self.conflict(path, LaterChange::Changed),
                    }
                }
            } else {
                self.leaves(pair.lower, name, path, old, regenerable)?;
            }
            if old.kind == Kind::File && old.has_other_names {
                self.changes.notes.push(Note::LinkBroken { path: path.to_owned() });
            }
        }
        self.judge_index(pair.upper, path, &new);
        let what = if old.is_some() { StepKind::Replace } else { StepKind::Create };
        let action = if old.is_some() { Action::Replace } else { Action::Create };
        self.touch(path, action, (old, Some(new)));
        if old.is_some_and(|old| old.kind == Kind::Folder || old.kind != new.kind) && !regenerable {
            self.gone.insert(path.to_owned());
        }
        if let Some(folder) = folder {
            self.comes(
                folder,
                path,
                PendingFolder { depth: pair.depth + 1, is_new: old.is_none(), regenerable },
            )?;
        }
        self.push(Change::of(both, what, Some(new), regenerable))?;
        Ok(true)
    }

    /// Merges a folder that exists on both sides.
    fn merge(&mut self, pair: &Pair<'_>, both: &ReadPair<'_>, folder: &OwnedFd, old: Entry) -> Result<()> {
        let &ReadPair { name, path, new, marks, .. } = both;
        let regenerable =
            pair.regenerable || !self.is_draft && self.regenerable.is(&[pair.lower], name, path);
        let lower =
            open(pair.lower.as_fd(), Path::new(name), PLACE).map_err(Error::while_doing("open", path))?;
        let below = Pair { upper: folder, lower: &lower, depth: pair.depth + 1, regenerable };
        let direct = self.level(&below, path)?;
        let failed = Error::while_doing("read the attributes of", path);
        let wanted = attributes::kept(pair.upper.as_fd(), name).map_err(&failed)?;
        let had = attributes::kept(pair.lower.as_fd(), name).map_err(&failed)?;
        let is_refreshed = self.refreshed.remove(path) && !direct;
        let is_later = direct || new.modified != old.modified && !is_refreshed;
        let sets_time = is_later && !self.since(old.modified);
        if marks.drafted || new.has_same_rights(&old) && wanted == had {
            if sets_time || direct && self.must_loosen(&old) {
                self.stays(path, (new, old), regenerable, sets_time)?;
            }
            return Ok(());
        }
        if !regenerable && self.since(old.changed) {
            self.conflict(path, LaterChange::Changed);
        }
        self.touch(path, Action::Attributes, (Some(old), Some(new)));
        let attributes = (wanted != had).then_some((had, wanted));
        let mut change = Change::of(both, StepKind::Attributes, Some(new), regenerable);
        (change.attributes, change.sets_time) = (attributes, sets_time);
        self.push(change)
    }

    /// Returns true if the mode of a folder must be loosened before its entries are swapped. The
    /// journal must then contain the folder.
    fn must_loosen(&self, folder: &Entry) -> bool {
        self.loosened.needed() && folder.mode & 0o300 != 0o300
    }

    fn stays(
        &mut self,
        path: &Path,
        (new, old): (Entry, Entry),
        regenerable: bool,
        sets_time: bool,
    ) -> Result<()> {
        let new = Entry { modified: new.modified, ..old };
        let both = ReadPair { name: OsStr::new(""), path, new, marks: Marks::default(), old: Some(old) };
        let mut change = Change::of(&both, StepKind::Times, Some(new), regenerable);
        change.sets_time = sets_time;
        self.push(change)
    }

    /// Removes the bits that run a program as its owner or group from a file.
    fn without_set_id(&mut self, folder: &OwnedFd, name: &OsStr, path: &Path, new: Entry) -> Result<Entry> {
        if new.mode & 0o6000 == 0 {
            return Ok(new);
        }
        let strip = || -> rustix::io::Result<Entry> {
            let place = open_known(folder, name, &new, OFlags::PATH)?;
            set_mode(place.as_fd(), new.mode & 0o1777)?;
            look(folder, name)?.ok_or(Errno::STALE)
        };
        let stripped = strip().map_err(Error::while_doing("clear the set-id bits of", path))?;
        self.changes.notes.push(Note::SetIdRemoved { path: path.to_owned() });
        Ok(stripped)
    }

    fn winner_of_index(&self, pair: &Pair<'_>, both: &ReadPair<'_>, old: &Entry) -> Option<Winner> {
        let (path, before) = self.index?;
        if path != both.path || both.new.kind != Kind::File {
            return None;
        }
        let open = |folder: &OwnedFd, entry: &Entry| {
            open_known(folder, both.name, entry, OFlags::RDONLY).ok().map(File::from)
        };
        let command = open(pair.upper, &both.new)?;
        let others = open(pair.lower, old)?;
        git_index::winner(before.as_ref(), &others, &command)
    }
}

/// Returns true if a git index was replaced by one with the same data about every file.
fn is_refreshed_index(pair: &Pair<'_>, name: &OsStr, new: &Entry, old: &Entry) -> bool {
    if !git_index::may_be(name) || new.kind != Kind::File || !new.has_same_rights(old) {
        return false;
    }
    let open = |folder, entry| open_known(folder, name, entry, OFlags::RDONLY).ok().map(File::from);
    open(pair.upper, new)
        .zip(open(pair.lower, old))
        .is_some_and(|(new, old)| git_index::is_refreshed(&new, &old))
}

impl Change {
    fn of(both: &ReadPair<'_>, what: StepKind, new: Option<Entry>, regenerable: bool) -> Self {
        let &ReadPair { path, marks, old, .. } = both;
        let path = path.to_owned();
        Self { path, what, old, new, regenerable, marks, attributes: None, sets_time: false }
    }
}
