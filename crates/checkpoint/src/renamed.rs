//! Bytes that were not saved, because a change only gave their file another name: they lie there.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;

use crate::beneath::{Holders, PLACE};
use crate::now::Now;
use crate::restore::{Act, Acts, find_in};
use crate::{Conflict, Draft, Entry, Kind, Meanwhile, Restoration, Result, SavedEntry, State, Time};

/// A file that lies in the workspace, and what was found there.
pub(crate) type There<'a> = (&'a Path, Entry);

/// What tells one content of a file from another where its bytes were not read.
type Identity = (u64, u64, u64, Time);

fn identity(entry: &Entry) -> Identity {
    (entry.device, entry.inode, entry.size_bytes, entry.modified)
}

fn is_without_bytes(state: &State) -> bool {
    state.entry.kind == Kind::File && state.content.is_none()
}

/// Where the bytes lie of the files that are put back and whose bytes were not saved, by their paths. Where others changed what
/// has that name now, that is a conflict.
pub(crate) fn find_bytes<'a>(
    draft: &Draft,
    acts: &Acts<'a>,
    wanted: &Restoration<'a>,
    conflicts: &mut Vec<Conflict>,
) -> Result<HashMap<&'a Path, There<'a>>> {
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
        // Whoever lays it out says that it was not saved.
        let Some(SavedEntry { path: name, after: Some(after), .. }) = names.get(&identity(&state.entry))
        else {
            continue;
        };
        let found = find_in(&mut holders, name)?;
        let now = found.as_ref().map(|(_, now)| *now);
        let is_left = match found {
            Some((folder, now)) => Now::new(folder, name, now, None).is(after)?,
            None => false,
        };
        match now {
            Some(now) if is_left || now.kind == Kind::File && (wanted.force)(name) => {
                there.insert(path, (name.as_path(), now));
            }
            _ if conflicts.iter().any(|known| known.path == *name) => {}
            _ => {
                let meanwhile = if now.is_some() { Meanwhile::Changed } else { Meanwhile::Removed };
                conflicts.push(Conflict { path: name.clone(), meanwhile });
            }
        }
    }
    Ok(there)
}

impl SavedEntry {
    /// Whether the bytes of the file that was there were not saved: they lie where the change put the file, or were saved by a
    /// later change of that.
    pub fn lacks_bytes(&self) -> bool {
        self.before.as_ref().is_some_and(is_without_bytes)
    }
}

/// Adds the bytes that later changes saved to entries that lack theirs.
pub fn add_saved_later<'a>(entries: &mut [SavedEntry], later: impl IntoIterator<Item = &'a [SavedEntry]>) {
    let mut saved_later = SavedLater::default();
    for entry in later.into_iter().flatten() {
        saved_later.note(entry.before.as_ref());
    }
    for entry in entries {
        saved_later.add_to(entry.before.as_mut());
    }
}

/// The bytes that later changes saved of files that earlier ones only gave another name.
#[derive(Default)]
pub(crate) struct SavedLater(HashMap<Identity, (crate::ContentHash, bool)>);

impl SavedLater {
    pub(crate) fn note(&mut self, before: Option<&State>) {
        let file = before.filter(|state| state.entry.kind == Kind::File);
        if let Some((state, content)) = file.and_then(|state| Some((state, state.content?))) {
            self.0.insert(identity(&state.entry), (content, state.is_sparse));
        }
    }

    /// Adds them to a state without them.
    pub(crate) fn add_to(&self, before: Option<&mut State>) {
        if let Some(state) = before.filter(|state| is_without_bytes(state))
            && let Some((content, is_sparse)) = self.0.get(&identity(&state.entry))
        {
            (state.content, state.is_sparse) = (Some(*content), *is_sparse);
        }
    }
}
