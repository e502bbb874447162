//! Files through which a later program would run code, for commands that write directly to the
//! workspace.
//!
//! A file that exists when the command starts is read-only for it. A file that appears while it
//! runs may be the command's own, and nothing shows who made it. Such a file is judged like the
//! changes of a command on a snapshot. If it needs an approval, it is taken out of the workspace
//! and stored as a held change, which `handfast changes` shows and puts back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoint::{TakeMethod, Time};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, chmod, fstat, openat2};
use rustix::process::geteuid;
use sandbox::LateMasks;
use watch::{MarkedPaths, Watch};

use super::left::Record;
use super::lists::split;
use super::{DeniedFiles, State};
use crate::change_area::ChangeArea;
use crate::protected::{ChangeJudge, News};

/// Number of files taken away after which a command is killed: making so many is no mistake. Files
/// that it has made in addition are taken away too.
const MAX_TAKEN: usize = 50;

/// Limit on the notes that a command gets about files that were taken away.
const MAX_NOTES: usize = 60;

/// A cell that runs, or is about to.
pub(super) struct RunningCell {
    masks: Arc<LateMasks>,
    /// Paths that its command cannot have made: those that existed before, and those that Handfast
    /// made.
    known: BTreeSet<PathBuf>,
    /// A time before its command begins, if recorded. Anything older is not the command's.
    begins: Option<Time>,
    /// Paths to judge again. Some appeared before it was known that the cell had begun, because its
    /// command may have started slightly earlier. Others could not be inspected or taken away.
    early: BTreeSet<PathBuf>,
    /// Paths that were judged harmless by their content, which may change.
    harmless: BTreeMap<PathBuf, Stamp>,
    /// Ids of the changes that store the files taken away, by the folder that they belong to.
    kept: BTreeMap<PathBuf, String>,
    /// Number of files that were taken away.
    taken: usize,
    /// Record of the command, for the start after a kill.
    record: Option<checkpoint::Call>,
}

/// Origin of a file, as seen from a command that writes directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The file existed before, and the command could not change it.
    Known,
    /// The file existed before.
    Older,
    /// The command may have made the file.
    Command,
}

/// Selects the paths to take away, each with the reason: each auto-run file that the command may
/// have made. If a file that existed before gets its meaning from `path`, `path` is taken away
/// instead. If `path` is then a folder, the file is taken away after all.
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
            // The file ran before.
            Origin::Known => continue,
            Origin::Older if !is_folder => path,
            Origin::Older | Origin::Command => file,
        };
        targets.entry(goes.to_owned()).or_insert_with(|| why.clone());
    }
    targets
}

/// Identity of a file's state: device, inode number, and the time of its last change.
pub(super) type Stamp = (u64, u64, i64, i64);

impl RunningCell {
    pub(super) fn new(masks: Arc<LateMasks>, marked: &MarkedPaths) -> Self {
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

    /// Writes the record that its command writes directly.
    pub(super) fn write_record(&mut self, roots: &[PathBuf], area: &ChangeArea) -> Result<(), String> {
        let (record, begins) = Record::write(roots, &self.known, area)?;
        (self.record, self.begins) = (Some(record), Some(begins));
        Ok(())
    }

    /// Updates the record, which shows that its command is still watched.
    pub(super) fn renew_record(&self) {
        // If that fails, the next start inspects less than it could.
        let _renewed = self.record.as_ref().map(checkpoint::Call::still_watches);
    }

    /// Removes the record, after the command has ended and its changes were judged.
    pub(super) fn end(self) {
        // If the folder cannot be removed now, the next start removes it.
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

    /// Returns true if the cell has ended, or will never begin.
    pub(super) fn is_over(&self) -> bool {
        self.masks.have_ended() || Arc::strong_count(&self.masks) == 1
    }

    /// Returns true if the cell must be inspected although nothing has appeared.
    pub(super) fn needs_a_look(&self) -> bool {
        self.is_over() || !self.harmless.is_empty() || self.waits_for_its_begin()
    }

    /// Returns true if something is to be judged as soon as the cell begins.
    pub(super) fn waits_for_its_begin(&self) -> bool {
        !self.early.is_empty()
    }

    /// Hides and freezes paths that have appeared. If that fails, the cell is killed, and its
    /// caller gets a note.
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

    /// Returns true if an entry existed before the command.
    fn is_older(&self, path: &Path) -> bool {
        self.begins.is_some_and(|begins| is_before(path, begins))
    }

    /// Leaves a note, unless there are too many.
    fn note(&self, note: impl FnOnce() -> String) {
        if self.taken <= MAX_NOTES {
            self.masks.note(note());
        }
    }
}

impl DeniedFiles {
    /// Judges the paths that have appeared.
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

    /// Judges again the harmless files that have changed, and the paths that appeared before their
    /// cell was known to have begun.
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
        let changed = ChangeJudge::all(&set, &root, &news);
        let found = changed.found(&relative);
        let counts_by_content = changed.counts_by_content(&relative);
        let mut may_be_open = None;
        for cell in &mut state.running {
            if cell.knows(path) {
                // Another program has replaced it, because the command could not.
                freeze_again(cell, path);
                continue;
            }
            // Paths in a closed folder are judged after the folder was opened, at the latest when
            // the command ends.
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
                "{shown} is too large to copy; the command was killed because it may have the file open"
            ));
            cell.give_up();
        }
    }

    /// Returns true if a human has had the file put there, also by another process.
    fn was_applied(&self, path: &Path) -> bool {
        let (Some(area), Some((_, _, seconds, _))) = (&self.area, stamp_of(path)) else {
            return false;
        };
        area.folder().was_applied(path, Time { seconds, nanoseconds: 0 })
    }

    /// Takes a file away. Returns true if it was too large to be copied and was moved, so that no
    /// command that may have it open can continue.
    fn take_away(&self, cell: &mut RunningCell, root: &Path, relative: &Path, why: &str) -> bool {
        let shown = tool::path_text(relative);
        cell.taken += 1;
        let taken = match &self.area {
            None => Err("there is no place to store it".to_owned()),
            Some(area) => take_away(area, &mut cell.kept, root, relative, why)
                .map_err(|error| format!("it could not be moved out: {error}")),
        };
        let mut is_moved = false;
        match taken {
            Ok(None) => {}
            Ok(Some((id, taken))) => {
                cell.note(|| {
                    format!(
                        "{shown}: {why}; it needs approval and was moved out of the workspace: the \
                         user can see it with `handfast changes show {id}` and put it back with \
                         `handfast changes apply {id}`"
                    )
                });
                // A program that has the file open could change it after a human has inspected it.
                is_moved = taken == TakeMethod::Moved;
            }
            Err(problem) => {
                cell.note(|| format!("{shown}: {why}; {problem}, so the command was killed"));
                cell.give_up();
                // When the command has ended, taking it away is possible.
                cell.early.insert(root.join(relative));
            }
        }
        if cell.taken == MAX_TAKEN {
            cell.masks.note(
                "the command was killed because it kept making files that run automatically".to_owned(),
            );
            cell.give_up();
        }
        is_moved
    }
}

/// Takes a file away and stores the id of its change in `kept`. Returns this id and how the file
/// was taken, or `None` if the file is gone.
pub(super) fn take_away(
    area: &ChangeArea,
    kept: &mut BTreeMap<PathBuf, String>,
    root: &Path,
    relative: &Path,
    why: &str,
) -> Result<Option<(String, TakeMethod)>, checkpoint::Error> {
    let mut take = |root: &Path, relative: &Path| {
        let taken = area.take_away(kept.get(root).map(String::as_str), root, relative, why)?;
        if let Some((id, _)) = &taken {
            kept.insert(root.to_owned(), id.clone());
        }
        Ok(taken)
    };
    match take(root, relative) {
        // A change belongs to one mount. A mount below it has its own.
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

/// Makes a new path read-only for a command that could write to it directly.
fn freeze_again(cell: &RunningCell, path: &Path) {
    if cell.masks.write_directly(path) {
        // If that fails, the cell is killed, and its caller gets a note.
        let _killed = cell.masks.freeze(&[path.to_owned()]);
    }
}

/// Opens a folder of this user for inspection, if a command that writes directly has made and
/// closed it. Returns true if it did.
///
/// The command no longer sees the folder: a folder that cannot be inspected is covered in its cell
/// before this.
pub(super) fn open_up(cells: &[RunningCell], folder: &Path) -> bool {
    let made_by_one = cells
        .iter()
        .any(|cell| cell.masks.have_begun() && cell.masks.write_directly(folder) && !cell.knows(folder));
    if !made_by_one {
        return false;
    }
    // INVARIANT: no symbolic link anywhere on the path, which could lead to a folder of another
    // user.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else {
        return false;
    };
    let Ok(found) = fstat(&opened) else { return false };
    // Write permission is needed as well, so that files can be taken out of the folder.
    let needed = Mode::RWXU;
    let mode = Mode::from_raw_mode(found.st_mode);
    if mode.contains(needed) || found.st_uid != geteuid().as_raw() {
        return false;
    }
    chmod(format!("/proc/self/fd/{}", opened.as_raw_fd()), mode | needed).is_ok()
}

/// Returns true if a folder above an entry is closed, so that the entry cannot be inspected.
fn is_closed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Returns true if an entry has not changed since `time`.
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
