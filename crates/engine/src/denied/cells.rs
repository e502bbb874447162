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

use checkpoint::{Taken, Time, Workspace};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, chmod, fstat, openat2};
use rustix::process::geteuid;

use policy::{AutoRun, Entry, auto_run, git_config_change, git_pointer_change};
use sandbox::LateMasks;
use watch::{Marked, Watch};

use super::lists::{is_repository, split};
use super::{DeniedFiles, State};
use crate::snapshot::{LARGEST_CONFIGURATION, Snapshots, read_small};

/// How much is taken away from one command before it is killed: what goes on making such files is no mistake.
const MOST_TAKEN: usize = 50;

/// A cell that runs, or is about to.
pub(super) struct RunningCell {
    masks: Arc<LateMasks>,
    /// What its command cannot have made: what was there before, and what Handfast put there.
    known: BTreeSet<PathBuf>,
    /// What is to be judged again: what has come before it was known that the cell begins, because its command may have been ahead
    /// of that, and what could not be looked at or taken away.
    early: BTreeSet<PathBuf>,
    /// What was judged harmless by its content, which may change.
    harmless: BTreeMap<PathBuf, Stamp>,
    /// The changes among which lies what was taken away, by the folder that they belong to.
    kept: BTreeMap<PathBuf, String>,
    /// How much was taken away.
    taken: usize,
}

/// By which a file is told from what it was: device, number, and the time of its last change.
type Stamp = (u64, u64, i64, i64);

impl RunningCell {
    pub(super) fn new(masks: Arc<LateMasks>, marked: &Marked) -> Self {
        let known = marked.guarded.iter().chain(&marked.hidden).chain(&marked.frozen).cloned().collect();
        Self {
            masks,
            known,
            early: BTreeSet::new(),
            harmless: BTreeMap::new(),
            kept: BTreeMap::new(),
            taken: 0,
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
}

/// What a judgement of a file comes to.
enum Judged {
    /// No later program runs it.
    Plain,
    /// What it holds runs nothing.
    Harmless(Stamp),
    /// It needs an approval, for this reason.
    Runs(String),
    /// A folder above it was closed meanwhile. It is judged again when that was opened, at the end of the command at the latest.
    Closed,
}

impl DeniedFiles {
    /// Judges what has come.
    pub(super) fn judge_come(&self, state: &mut State, come: Vec<PathBuf>) {
        for path in come {
            if state.own.expected.iter().any(|expected| path.starts_with(expected)) {
                for cell in &mut state.running {
                    cell.known.insert(path.clone());
                    freeze_again(cell, &path);
                }
            } else if state.own.under_way > 0 {
                state.own.undecided.push(path);
            } else {
                self.judge(state, &path);
                for sibling in of_a_repository(&path) {
                    self.judge(state, &sibling);
                }
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
        let State { watch, running, .. } = state;
        let roots = watch.as_ref().map(Watch::roots).unwrap_or_default();
        let Some((root, relative)) = split(roots, path) else { return };
        let mut may_be_open = false;
        for cell in running.iter_mut() {
            if cell.knows(path) {
                // Somebody else has replaced it, because the command could not.
                freeze_again(cell, path);
            } else if !cell.masks.have_begun() {
                cell.early.insert(path.to_owned());
            } else if cell.masks.write_directly(path) {
                cell.harmless.remove(path);
                match judge(root, relative) {
                    Judged::Plain => {}
                    Judged::Closed => {
                        cell.early.insert(path.to_owned());
                    }
                    Judged::Harmless(stamp) => {
                        cell.harmless.insert(path.to_owned(), stamp);
                    }
                    Judged::Runs(_) if self.was_applied(path) => {
                        cell.known.insert(path.to_owned());
                        freeze_again(cell, path);
                    }
                    Judged::Runs(why) => may_be_open |= self.take_away(cell, root, relative, &why),
                }
            }
        }
        for cell in running.iter().filter(|cell| may_be_open && cell.masks.write_directly(path)) {
            let shown = tool::path_text(relative);
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
        if cell.taken >= MOST_TAKEN {
            cell.masks.note(format!(
                "{shown}: {why}; the command was killed, because it goes on making such files"
            ));
            cell.give_up();
            return false;
        }
        cell.taken += 1;
        let taken = match &self.snapshots {
            None => Err("there is no place to keep it".to_owned()),
            Some(snapshots) => take_away(snapshots, &mut cell.kept, root, relative, why)
                .map_err(|error| format!("it could not be taken away: {error}")),
        };
        match taken {
            Ok(None) => {}
            Ok(Some((id, taken))) => {
                cell.masks.note(format!(
                    "{shown}: {why}; it needs an approval of its own and was taken out of the workspace: `handfast changes \
                     show {id}` shows it, `handfast changes apply {id}` puts it back"
                ));
                // Whoever has it open could change it after a human has looked at it.
                return taken == Taken::Moved;
            }
            Err(problem) => {
                cell.masks.note(format!("{shown}: {why}; {problem}, so the command was killed"));
                cell.give_up();
                // When it has ended, nothing stands in the way any more.
                cell.early.insert(root.join(relative));
            }
        }
        false
    }
}

/// Takes a file away, and remembers under which id it is kept. Gives that and how it was taken; nothing where the file is gone.
fn take_away(
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

/// What lies in a folder that has just become a repository, if `path` may have made it one.
fn of_a_repository(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent().filter(|folder| is_repository(folder)) else { return Vec::new() };
    let mut all: Vec<PathBuf> =
        ["config", "config.worktree", "commondir"].iter().map(|name| folder.join(name)).collect();
    let hooks = fs::read_dir(folder.join("hooks")).into_iter().flatten().flatten();
    all.extend(hooks.map(|entry| entry.path()));
    all
}

fn judge(root: &Path, relative: &Path) -> Judged {
    let path = root.join(relative);
    let found = match fs::symlink_metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Judged::Closed,
        Err(_) => return Judged::Plain,
    };
    let entry = match found.file_type() {
        kind if kind.is_dir() => Entry::Folder,
        kind if kind.is_symlink() => Entry::Link,
        _ => Entry::File,
    };
    let is_repository = |folder: &Path| is_repository(&root.join(folder));
    let by_content = |judge: &dyn Fn(&[u8]) -> Option<String>| {
        let opened = Workspace::open(root).ok().and_then(|root| root.open_file(relative).ok()?);
        let content = opened.and_then(|file| read_small(file, LARGEST_CONFIGURATION).ok()?);
        match content.as_deref().map(judge) {
            Some(None) => Judged::Harmless(stamp(&found)),
            Some(Some(why)) => Judged::Runs(why),
            None => Judged::Runs("git reads it, and it cannot be read here".to_owned()),
        }
    };
    match auto_run(relative, entry, &is_repository) {
        None => Judged::Plain,
        Some(AutoRun::Any(why)) => Judged::Runs(why.to_owned()),
        Some(AutoRun::GitConfig) => by_content(&|content| git_config_change(&[], content)),
        Some(AutoRun::GitPointer) => by_content(&git_pointer_change),
    }
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    fs::symlink_metadata(path).ok().as_ref().map(stamp)
}

fn stamp(found: &fs::Metadata) -> Stamp {
    (found.dev(), found.ino(), found.ctime(), found.ctime_nsec())
}
