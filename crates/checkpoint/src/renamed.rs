//! Bytes that were not saved because a change only renamed their file: the renamed file still has
//! them.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;

use crate::current_state::OpenEntry;
use crate::folder::{Holders, PLACE};
use crate::restore::{Act, Acts, find_in};
use crate::{Conflict, Draft, Entry, Kind, LaterChange, Restoration, Result, SavedEntry, State, Time};

/// A file in the workspace, with its metadata.
pub(crate) type WorkspaceFile<'a> = (&'a Path, Entry);

/// Identity of a file's content without reading its bytes.
type Identity = (u64, u64, u64, Time);

fn identity(entry: &Entry) -> Identity {
    (entry.device, entry.inode, entry.size_bytes, entry.modified)
}

fn is_without_bytes(state: &State) -> bool {
    state.entry.kind == Kind::File && state.content.is_none()
}

/// Finds the bytes of restored files whose bytes were not saved, by path. If others changed the
/// renamed file since, that is a conflict.
pub(crate) fn find_bytes<'a>(
    draft: &Draft,
    acts: &Acts<'a>,
    wanted: &Restoration<'a>,
    conflicts: &mut Vec<Conflict>,
) -> Result<HashMap<&'a Path, WorkspaceFile<'a>>> {
    let needed = acts.iter().filter_map(|(path, (act, _))| match act {
        Act::Put(state) if is_without_bytes(state) => Some((*path, *state)),
        _ => None,
    });
    let needed: Vec<(&Path, &State)> = needed.collect();
    if needed.is_empty() {
        return Ok(HashMap::new());
    }
    let left = |entry: &'a SavedEntry| Some((identity(&entry.after.as_ref()?.entry), entry));
    let names: HashMap<Identity, &SavedEntry> = wanted.entries.iter().filter_map(left).collect();
    let mut holders = Holders::new(draft.workspace.as_fd(), PLACE);
    let mut there = HashMap::new();
    for (path, state) in needed {
        // The layout reports that the bytes were not saved.
        let Some(SavedEntry { path: name, after: Some(after), .. }) = names.get(&identity(&state.entry))
        else {
            continue;
        };
        let found = find_in(&mut holders, name)?;
        let now = found.as_ref().map(|(_, now)| *now);
        let is_left = match found {
            Some((folder, now)) => OpenEntry::new(folder, name, now, None).is(after)?,
            None => false,
        };
        match now {
            Some(now) if is_left || now.kind == Kind::File && (wanted.force)(name) => {
                there.insert(path, (name.as_path(), now));
            }
            _ if conflicts.iter().any(|known| known.path == *name) => {}
            _ => {
                let meanwhile = if now.is_some() { LaterChange::Changed } else { LaterChange::Removed };
                conflicts.push(Conflict { path: name.clone(), meanwhile });
            }
        }
    }
    Ok(there)
}

impl SavedEntry {
    /// Returns true if the bytes of the old file were not saved. The renamed file has them, or a
    /// later change of that file saved them.
    pub fn lacks_bytes(&self) -> bool {
        self.before.as_ref().is_some_and(is_without_bytes)
    }
}

/// Adds the bytes that later changes saved to the entries that lack them.
pub fn add_saved_later<'a>(entries: &mut [SavedEntry], later: impl IntoIterator<Item = &'a [SavedEntry]>) {
    let mut saved_later = SavedLater::default();
    for entry in later.into_iter().flatten() {
        saved_later.note(entry.before.as_ref());
    }
    for entry in entries {
        saved_later.add_to(entry.before.as_mut());
    }
}

/// Bytes, saved by later changes, of files that earlier changes only renamed.
#[derive(Default)]
pub(crate) struct SavedLater(HashMap<Identity, (crate::ContentHash, bool)>);

impl SavedLater {
    pub(crate) fn note(&mut self, before: Option<&State>) {
        let file = before.filter(|state| state.entry.kind == Kind::File);
        if let Some((state, content)) = file.and_then(|state| Some((state, state.content?))) {
            self.0.insert(identity(&state.entry), (content, state.is_sparse));
        }
    }

    /// Adds the bytes to a state without them.
    pub(crate) fn add_to(&self, before: Option<&mut State>) {
        if let Some(state) = before.filter(|state| is_without_bytes(state))
            && let Some((content, is_sparse)) = self.0.get(&identity(&state.entry))
        {
            (state.content, state.is_sparse) = (Some(*content), *is_sparse);
        }
    }
}
