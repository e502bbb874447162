//! Restoration of saved entries.
//!
//! The entries to be restored are laid out in the folder of a call, in the form that an overlay
//! would leave. A commit then treats them like the changes of a command: all or nothing, judged,
//! journaled, and saved in turn.
//!
//! Each current entry is read once, both to compare it with the state after the change, and to save
//! it for the commit. Only saved paths are touched. An entry that differs from the state after the
//! change is a conflict, unless it already equals the old state, or is forced. A folder created by
//! the change stays if others have put anything into it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::current_state::{ContentSink, OpenEntry};
use crate::exchange_dirs::name_of;
use crate::folder::{Holders, PLACE, look};
use crate::git_index;
use crate::layout::Layout;
use crate::parallel;
use crate::renamed::{SavedLater, find_bytes};
use crate::{Conflict, Contents, Draft, Entry, Error, Kind, LaterChange, Result, SavedEntry, State, Time};

/// Entries to be restored, and the options of the restoration.
pub struct Restoration<'a> {
    /// Saved entries, sorted by path.
    pub entries: &'a [SavedEntry],
    /// Paths to restore, with everything below them; if empty, everything is restored.
    pub only: &'a [PathBuf],
    /// Callback that decides whether a path is restored although somebody changed it since.
    pub force: &'a (dyn Fn(&Path) -> bool + Sync),
    /// Storage for the saved bytes, and for the bytes of replaced files as they are read. The commit
    /// must use the same storage, and the bytes must be durable before it.
    pub contents: &'a dyn Contents,
}

/// Result of laying out a restoration for the commit.
#[derive(Debug, Default)]
pub struct RestoreOutcome {
    /// Number of paths that will change, without the times of folders.
    pub paths: u64,
    /// Paths that others changed since. With any conflict, nothing was laid out.
    pub conflicts: Vec<Conflict>,
    /// Folders that stay, because others have put entries into them.
    pub left: Vec<PathBuf>,
    /// Files that get their bytes back, but not their set-user-id and set-group-id bits.
    pub without_set_id: Vec<PathBuf>,
}

/// Composes several changes into one, from the first to the last. The second value lists the paths
/// that others changed between two of them.
///
/// `contents` contains the bytes: a git index that others only refreshed between two changes counts
/// as unchanged.
pub fn compose(
    changes: impl IntoIterator<Item = Vec<SavedEntry>>,
    contents: &dyn Contents,
) -> (Vec<SavedEntry>, Vec<PathBuf>) {
    let mut changes = changes.into_iter().peekable();
    let mut first = changes.next().unwrap_or_default();
    // Usually there is only one change, and it is sorted.
    if changes.peek().is_none() && first.is_sorted_by(|one, next| one.path < next.path) {
        first.retain(|entry| entry.before.is_some() || entry.after.is_some());
        return (first, Vec::new());
    }
    let mut all: BTreeMap<PathBuf, SavedEntry> =
        first.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    let (mut disturbed, mut saved_later) = (Vec::new(), SavedLater::default());
    for entry in changes.flatten() {
        saved_later.note(entry.before.as_ref());
        let Some(earlier) = all.get_mut(&entry.path) else {
            all.insert(entry.path.clone(), entry);
            continue;
        };
        let fits = match (&earlier.after, &entry.before) {
            (Some(left), Some(found)) => {
                left.is_same_as(found) || is_same_index(&entry.path, (left, found), contents)
            }
            (None, None) => true,
            _ => false,
        };
        if !fits {
            disturbed.push(entry.path);
        }
        earlier.after = entry.after;
    }
    for entry in all.values_mut() {
        saved_later.add_to(entry.before.as_mut());
    }
    let entries = all.into_values().filter(|entry| entry.before.is_some() || entry.after.is_some());
    (entries.collect(), disturbed)
}

/// Returns true if both states are git indexes with the same data about every file.
fn is_same_index(path: &Path, (one, other): (&State, &State), contents: &dyn Contents) -> bool {
    let hashes = one.content.as_ref().zip(other.content.as_ref());
    path.file_name().is_some_and(git_index::may_be)
        && one.entry.has_same_rights(&other.entry)
        && hashes.is_some_and(|(one, other)| git_index::are_alike(contents, one, other))
}

/// Action on one path.
pub(crate) enum Act<'a> {
    /// Put this state in place of the current entry.
    Put(&'a State),
    /// Give the existing folder these rights, and this time.
    Settle(&'a State, Option<Time>),
    /// Remove the entry.
    Remove,
}

/// Decision about one path.
enum RestoreDecision<'a> {
    /// An action, with the current entry.
    Act(Act<'a>, Option<Entry>),
    /// Absence of an action: the path already has the wanted state.
    Nothing,
    Conflict(LaterChange),
}

/// Actions by path, with the current entries.
pub(crate) type Acts<'a> = BTreeMap<&'a Path, (Act<'a>, Option<Entry>)>;

impl Draft {
    /// Lays out the entries to be restored in this empty draft, to be committed. Changes nothing in
    /// the workspace.
    ///
    /// # Errors
    /// Returns an error if an entry cannot be read or saved, or if its saved bytes are gone.
    pub fn restore(&self, wanted: &Restoration<'_>) -> Result<RestoreOutcome> {
        let mut restored = RestoreOutcome::default();
        let mut acts = Vec::with_capacity(wanted.entries.len());
        let chosen = wanted.entries.iter().filter(|entry| is_wanted(entry, wanted.only, &self.workspace));
        let chosen: Vec<&SavedEntry> = chosen.collect();
        let begin = || Holders::new(self.workspace.as_fd(), PLACE);
        let decided = parallel::each(
            &chosen,
            |entry| &entry.path,
            begin,
            |holders, entry| self.decide(holders, entry, wanted),
        )?;
        for (entry, decided) in chosen.into_iter().zip(decided) {
            match decided {
                RestoreDecision::Act(act, now) => acts.push((entry.path.as_path(), (act, now))),
                RestoreDecision::Nothing => {}
                RestoreDecision::Conflict(meanwhile) => {
                    restored.conflicts.push(Conflict { path: entry.path.clone(), meanwhile });
                }
            }
        }
        // The actions are sorted, so the map is built in one pass.
        let acts: Acts<'_> = acts.into_iter().collect();
        // Neighbouring paths share their parent folders.
        let mut free: Option<&Path> = None;
        for (path, (act, _)) in &acts {
            if !matches!(act, Act::Put(_)) || path.parent().is_some_and(|parent| free == Some(parent)) {
                continue;
            }
            match in_the_way(&self.workspace, path, &acts)? {
                None => free = path.parent(),
                Some(above) if restored.conflicts.iter().all(|known| known.path != above) => {
                    restored.conflicts.push(Conflict { path: above, meanwhile: LaterChange::Changed });
                }
                Some(_) => {}
            }
        }
        let there = find_bytes(self, &acts, wanted, &mut restored.conflicts)?;
        if !restored.conflicts.is_empty() {
            return Ok(restored);
        }
        Layout::of(self, (&acts, &there), wanted, restored).all()
    }

    fn decide<'a>(
        &self,
        holders: &mut Holders<'_>,
        entry: &'a SavedEntry,
        wanted: &Restoration<'_>,
    ) -> Result<RestoreDecision<'a>> {
        let path = &entry.path;
        let found = find_in(holders, path)?;
        let now = found.as_ref().map(|(_, now)| *now);
        // A later change than the draft's beginning is a conflict of the commit.
        let is_kept = !self.is_tried && now.is_some_and(|now| now.changed < self.since());
        let keeping = is_kept.then_some(ContentSink { contents: wanted.contents, known: &self.known });
        let mut there = found.map(|(folder, now)| OpenEntry::new(folder, path, now, keeping));
        let mut is = |state: &Option<State>| match (state, &mut there) {
            (None, None) => Ok(true),
            (Some(state), Some(now)) => Ok(now.is(state)? || now.is_same_index(state, wanted.contents)),
            _ => Ok(false),
        };
        let is_as_before = is(&entry.before)?;
        let both_folders = match (&entry.before, now) {
            (Some(before), Some(now)) if before.entry.kind == Kind::Folder && now.kind == Kind::Folder => {
                Some((before, now))
            }
            _ => None,
        };
        let act = if let Some((before, now)) = both_folders {
            // The time is restored if nobody has touched the folder since.
            let left = entry.after.as_ref().is_some_and(|after| after.entry.modified == now.modified);
            let time = left.then_some(before.entry.modified);
            if is_as_before {
                Some(time.filter(|time| *time != now.modified).map(|time| Act::Settle(before, Some(time))))
            } else if is(&entry.after)? || (wanted.force)(path) {
                Some(Some(Act::Settle(before, time)))
            } else {
                None
            }
        } else if is_as_before {
            // At most the time of the entry differs. The time is restored too, unless somebody
            // changed it since.
            let time = |state: &Option<State>| state.as_ref().map(|state| state.entry.modified);
            let modified = now.map(|now| now.modified);
            let is_left = modified == time(&entry.after) && modified != time(&entry.before);
            Some(entry.before.as_ref().filter(|_| is_left).map(Act::Put))
        } else if is(&entry.after)? || (wanted.force)(path) {
            Some(Some(entry.before.as_ref().map_or(Act::Remove, Act::Put)))
        } else {
            None
        };
        Ok(match act {
            Some(Some(act)) => RestoreDecision::Act(act, now),
            Some(None) => RestoreDecision::Nothing,
            None if now.is_some() => RestoreDecision::Conflict(LaterChange::Changed),
            None => RestoreDecision::Conflict(LaterChange::Removed),
        })
    }
}

/// Returns true if an entry was requested, or is a folder needed to restore a requested one.
fn is_wanted(entry: &SavedEntry, only: &[PathBuf], workspace: &OwnedFd) -> bool {
    let is_needed = |wanted: &PathBuf| {
        wanted.starts_with(&entry.path)
            && entry.before.as_ref().is_some_and(|before| before.entry.kind == Kind::Folder)
            && !matches!(find(workspace, &entry.path), Ok(Some((_, now))) if now.kind == Kind::Folder)
    };
    only.is_empty() || only.iter().any(|wanted| entry.path.starts_with(wanted) || is_needed(wanted))
}

/// Finds an entry in place of a required parent folder that no action replaces. Even a forced
/// restoration must not replace it.
fn in_the_way(workspace: &OwnedFd, path: &Path, acts: &Acts<'_>) -> Result<Option<PathBuf>> {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let comes = matches!(acts.get(above), Some((Act::Put(state), _)) if state.entry.kind == Kind::Folder);
        if comes {
            return Ok(None);
        }
        if let Some((_, now)) = find(workspace, above)? {
            return Ok((now.kind != Kind::Folder).then(|| above.to_owned()));
        }
    }
    Ok(None)
}

/// Finds the current entry at a path of the workspace, with its open parent folder.
pub(crate) fn find(workspace: &OwnedFd, path: &Path) -> Result<Option<(OwnedFd, Entry)>> {
    let mut holders = Holders::new(workspace.as_fd(), PLACE);
    let found = find_in(&mut holders, path)?.map(|(_, entry)| entry);
    Ok(holders.into_last().zip(found))
}

/// Finds an entry like [`find`], with parent folders shared between neighbouring paths.
pub(crate) fn find_in<'a>(holders: &'a mut Holders<'_>, path: &Path) -> Result<Option<(&'a OwnedFd, Entry)>> {
    let failed = Error::while_doing("inspect", path);
    let folder = match holders.of(path) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.as_os_str().is_empty() => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    if path.as_os_str().is_empty() {
        let entry = Entry::of(&fstat(folder).map_err(&failed)?);
        return Ok(Some((folder, entry)));
    }
    let found = look(folder, name_of(path)).map_err(failed)?;
    Ok(found.map(|entry| (folder, entry)))
}
