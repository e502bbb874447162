//! Files through which a later program would run code, where a command writes to the workspace at once.
//!
//! What is there when it starts is read-only for it. What comes while it runs may be the command's own, and nothing tells who
//! made a file; so it is judged as what a command changed on a snapshot is, and what needs an approval is taken out of the
//! workspace and lies aside, as held changes do. `handfast changes` shows it and puts it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoint::{Taken, Time};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, chmod, fstat, openat2};
use rustix::process::geteuid;
use sandbox::LateMasks;
use watch::{Marked, Watch};

use super::left::Record;
use super::lists::split;
use super::{DeniedFiles, State};
use crate::protected::{Changed, News};
use crate::snapshot::Snapshots;

/// How much is taken away from one command before it is killed: what goes on making such files is no mistake. What it has made
/// besides is taken away all the same.
const MOST_TAKEN: usize = 50;

/// How many notes a command gets about what was taken away.
const MOST_NOTES: usize = 60;

/// A cell that runs, or is about to.
pub(super) struct RunningCell {
    masks: Arc<LateMasks>,
    /// What its command cannot have made: what was there before, and what Handfast put there.
    known: BTreeSet<PathBuf>,
    /// Before its command begins, where that is noted. What is older is not the command's.
    begins: Option<Time>,
    /// What is to be judged again: what has come before it was known that the cell begins, because its command may have been ahead
    /// of that, and what could not be looked at or taken away.
    early: BTreeSet<PathBuf>,
    /// What was judged harmless by its content, which may change.
    harmless: BTreeMap<PathBuf, Stamp>,
    /// The changes among which lies what was taken away, by the folder that they belong to.
    kept: BTreeMap<PathBuf, String>,
    /// How much was taken away.
    taken: usize,
    /// The record of the command, for the start after a kill.
    record: Option<checkpoint::Call>,
}

/// The origin of a file, as seen from a command that writes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was there, and the command could not change it.
    Known,
    /// It was there.
    Older,
    /// The command may have made it.
    Command,
}

/// Chooses what goes, with the reason: each file that the command may have made to run by itself, and what gives a meaning to one
/// that was there before, unless that is a folder.
pub(super) fn targets(
    found: &[(PathBuf, String)],
    (root, path): (&Path, &Path),
    origin: impl Fn(&Path) -> Origin,
) -> BTreeMap<PathBuf, String> {
    let mut targets = BTreeMap::new();
    let is_folder = root.join(path).symlink_metadata().is_ok_and(|found| found.is_dir());
    for (file, why) in found {
        let goes = match origin(file) {
            _ if file == path => path,
            // It ran before.
            Origin::Known => continue,
            Origin::Older if !is_folder => path,
            Origin::Older | Origin::Command => file,
        };
        targets.entry(goes.to_owned()).or_insert_with(|| why.clone());
    }
    targets
}

/// By which a file is told from what it was: device, number, and the time of its last change.
pub(super) type Stamp = (u64, u64, i64, i64);

impl RunningCell {
    pub(super) fn new(masks: Arc<LateMasks>, marked: &Marked) -> Self {
        let known = marked.guarded.iter().chain(&marked.hidden).chain(&marked.frozen);
        let known = known.cloned().collect();
        Self {
            masks,
            known,
            begins: None,
            early: BTreeSet::new(),
            harmless: BTreeMap::new(),
            kept: BTreeMap::new(),
            taken: 0,
            record: None,
        }
    }

    /// Writes down that its command writes at once.
    pub(super) fn write_record(&mut self, roots: &[PathBuf], snapshots: &Snapshots) -> Result<(), String> {
        let (record, begins) = Record::write(roots, &self.known, snapshots)?;
        (self.record, self.begins) = (Some(record), Some(begins));
        Ok(())
    }

    /// Says that its command is watched still.
    pub(super) fn renew_record(&self) {
        // Where that fails, the next start looks at less than it could.
        let _renewed = self.record.as_ref().map(checkpoint::Call::still_watches);
    }

    /// Its command has ended, and what it did was judged.
    pub(super) fn end(self) {
        // What cannot be removed now, the next start removes.
        drop(self.record.map(checkpoint::Call::discard));
    }

    fn origin(&self, path: &Path) -> Origin {
        if self.knows(path) {
            Origin::Known
        } else if self.is_older(path) {
            Origin::Older
        } else {
            Origin::Command
        }
    }

    /// Whether the cell has ended, or will never be.
    pub(super) fn is_over(&self) -> bool {
        self.masks.have_ended() || Arc::strong_count(&self.masks) == 1
    }

    /// Whether it must be looked at although nothing has come.
    pub(super) fn needs_a_look(&self) -> bool {
        self.is_over() || !self.harmless.is_empty() || self.waits_for_its_begin()
    }

    /// Whether something is to be judged as soon as the cell begins.
    pub(super) fn waits_for_its_begin(&self) -> bool {
        !self.early.is_empty()
    }

    /// Hides and freezes what has come. Where that fails, the cell is killed, and its caller is told so.
    pub(super) fn cover(&self, hidden: &[PathBuf], frozen: &[PathBuf]) {
        let _killed = (hidden.is_empty() || self.masks.cover(hidden).is_ok())
            && (frozen.is_empty() || self.masks.freeze(frozen).is_ok());
    }

    pub(super) fn give_up(&self) {
        self.masks.give_up();
    }

    fn knows(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.known.contains(above))
    }

    fn know(&mut self, path: &Path) {
        self.known.insert(path.to_owned());
    }

    /// Tells whether an entry was there before the command.
    fn is_older(&self, path: &Path) -> bool {
        self.begins.is_some_and(|begins| is_before(path, begins))
    }

    /// Leaves a note, unless there are many.
    fn note(&self, note: impl FnOnce() -> String) {
        if self.taken <= MOST_NOTES {
            self.masks.note(note());
        }
    }
}

impl DeniedFiles {
    /// Judges what has come.
    pub(super) fn judge_come(&self, state: &mut State, come: Vec<PathBuf>) {
        for path in come {
            if state.own.expected.iter().any(|expected| path.starts_with(expected)) {
                for cell in &mut state.running {
                    cell.know(&path);
                    freeze_again(cell, &path);
                }
            } else if state.own.under_way > 0 {
                state.own.undecided.push(path);
            } else {
                self.judge(state, &path);
            }
        }
    }

    /// Judges again what was harmless and has changed since, and what came before its cell was known to begin.
    pub(super) fn judge_again(&self, state: &mut State) {
        let begun = state.running.iter_mut().filter(|cell| cell.masks.have_begun());
        let early: BTreeSet<PathBuf> = begun.flat_map(|cell| std::mem::take(&mut cell.early)).collect();
        for path in early {
            self.judge(state, &path);
        }
        let changed: BTreeSet<PathBuf> = state
            .running
            .iter()
            .flat_map(|cell| &cell.harmless)
            .filter(|(path, stamp)| stamp_of(path).as_ref() != Some(stamp))
            .map(|(path, _)| path.clone())
            .collect();
        for path in changed {
            self.judge(state, &path);
        }
    }

    fn judge(&self, state: &mut State, path: &Path) {
        let roots = state.watch.as_ref().map(Watch::roots).unwrap_or_default();
        let Some((root, relative)) =
            split(roots, path).map(|(root, below)| (root.to_owned(), below.to_owned()))
        else {
            return;
        };
        let is_closed = is_closed(path);
        let set = self.protected_in(state, &root);
        let news = News::default();
        let changed = Changed::all(&set, &root, &news);
        let found = changed.found(&relative);
        let counts_by_content = changed.counts_by_content(&relative);
        let mut may_be_open = None;
        for cell in &mut state.running {
            if cell.knows(path) {
                // Somebody else has replaced it, because the command could not.
                freeze_again(cell, path);
                continue;
            }
            // What lies in a closed folder is judged when that was opened, at the end of the command at the latest.
            if !cell.masks.have_begun() || is_closed && cell.masks.write_directly(path) {
                cell.early.insert(path.to_owned());
                continue;
            }
            if !cell.masks.write_directly(path) {
                continue;
            }
            cell.harmless.remove(path);
            if found.is_empty() {
                if let Some(stamp) = stamp_of(path).filter(|_| counts_by_content) {
                    cell.harmless.insert(path.to_owned(), stamp);
                }
                continue;
            }
            if self.was_applied(path) {
                cell.know(path);
                freeze_again(cell, path);
                continue;
            }
            for (goes, why) in targets(&found, (&root, &relative), |file| cell.origin(&root.join(file))) {
                if self.take_away(cell, &root, &goes, &why) {
                    may_be_open = Some(goes);
                }
            }
        }
        let Some(goes) = may_be_open else { return };
        for cell in state.running.iter().filter(|cell| cell.masks.write_directly(path)) {
            let shown = tool::path_text(&goes);
            cell.masks.note(format!(
                "{shown} is too large to be copied, and the command was killed, because it may have the file open"
            ));
            cell.give_up();
        }
    }

    /// Whether a human has had it put there, be it by another process.
    fn was_applied(&self, path: &Path) -> bool {
        let (Some(snapshots), Some((_, _, seconds, _))) = (&self.snapshots, stamp_of(path)) else {
            return false;
        };
        snapshots.area().was_applied(path, Time { seconds, nanoseconds: 0 })
    }

    /// Gives whether what was taken is too large to be copied, so that no command may run on that could have it open.
    fn take_away(&self, cell: &mut RunningCell, root: &Path, relative: &Path, why: &str) -> bool {
        let shown = tool::path_text(relative);
        cell.taken += 1;
        let taken = match &self.snapshots {
            None => Err("there is no place to keep it".to_owned()),
            Some(snapshots) => take_away(snapshots, &mut cell.kept, root, relative, why)
                .map_err(|error| format!("it could not be taken away: {error}")),
        };
        let mut is_moved = false;
        match taken {
            Ok(None) => {}
            Ok(Some((id, taken))) => {
                cell.note(|| {
                    format!(
                        "{shown}: {why}; it needs an approval of its own and was taken out of the workspace: the user \
                         sees it with `handfast changes show {id}`, and puts it back with `handfast changes apply {id}`"
                    )
                });
                // Whoever has it open could change it after a human has looked at it.
                is_moved = taken == Taken::Moved;
            }
            Err(problem) => {
                cell.note(|| format!("{shown}: {why}; {problem}, so the command was killed"));
                cell.give_up();
                // When it has ended, nothing stands in the way any more.
                cell.early.insert(root.join(relative));
            }
        }
        if cell.taken == MOST_TAKEN {
            cell.masks.note(
                "the command was killed, because it goes on making files that run by themselves".to_owned(),
            );
            cell.give_up();
        }
        is_moved
    }
}

/// Takes a file away, and remembers under which id it is kept. Gives that and how it was taken; nothing where the file is gone.
pub(super) fn take_away(
    snapshots: &Snapshots,
    kept: &mut BTreeMap<PathBuf, String>,
    root: &Path,
    relative: &Path,
    why: &str,
) -> Result<Option<(String, Taken)>, checkpoint::Error> {
    let mut take = |root: &Path, relative: &Path| {
        let taken = snapshots.take_away(kept.get(root).map(String::as_str), root, relative, why)?;
        if let Some((id, _)) = &taken {
            kept.insert(root.to_owned(), id.clone());
        }
        Ok(taken)
    };
    match take(root, relative) {
        // Changes belong to one mount; what is mounted below it has its own.
        Err(checkpoint::Error::Mounted { .. }) => {
            let path = root.join(relative);
            match (path.parent(), path.file_name()) {
                (Some(folder), Some(name)) => take(folder, Path::new(name)),
                _ => Ok(None),
            }
        }
        taken => taken,
    }
}

/// Makes what has come read-only for a command that could write to it at once.
fn freeze_again(cell: &RunningCell, path: &Path) {
    if cell.masks.write_directly(path) {
        // Where that fails, the cell is killed, and its caller is told so.
        let _killed = cell.masks.freeze(&[path.to_owned()]);
    }
}

/// Opens a folder of this user up to be looked into, where a command that writes directly has made it and closed it. Gives whether
/// it did.
///
/// The command itself sees it no more: what cannot be looked into is covered in its cell before this.
pub(super) fn open_up(cells: &[RunningCell], folder: &Path) -> bool {
    let made_by_one = cells
        .iter()
        .any(|cell| cell.masks.have_begun() && cell.masks.write_directly(folder) && !cell.knows(folder));
    if !made_by_one {
        return false;
    }
    // INVARIANT: no link anywhere, which could lead to a folder of somebody else's.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else {
        return false;
    };
    let Ok(found) = fstat(&opened) else { return false };
    // To be written as well, so that something can be taken out of it.
    let needed = Mode::RWXU;
    let mode = Mode::from_raw_mode(found.st_mode);
    if mode.contains(needed) || found.st_uid != geteuid().as_raw() {
        return false;
    }
    chmod(format!("/proc/self/fd/{}", opened.as_raw_fd()), mode | needed).is_ok()
}

/// Tells whether a folder above an entry is closed, so that the entry cannot be looked at.
fn is_closed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Tells whether an entry has not changed since then.
pub(super) fn is_before(path: &Path, time: Time) -> bool {
    stamp_of(path).is_some_and(|(_, _, seconds, nanoseconds)| {
        (seconds, nanoseconds) < (time.seconds, i64::from(time.nanoseconds))
    })
}

pub(super) fn stamp_of(path: &Path) -> Option<Stamp> {
    fs::symlink_metadata(path).ok().as_ref().map(stamp)
}

fn stamp(found: &fs::Metadata) -> Stamp {
    (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
}
