//! Files that were read or written before a commit, so that the commit need not read them again.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

use crate::attributes::Marks;
use crate::{Entry, State};

/// Maximum number of remembered entries on each side, each about 300 bytes. Further ones are read
/// again.
const MOST: usize = 100_000;

/// States of files, by inode.
///
/// INVARIANT: a state is returned only for an entry that equals it in every field, including the
/// change time, which no program can set. A commit relies on no more than that when it swaps.
#[derive(Debug, Default)]
pub(crate) struct StateCache {
    /// Files of the workspace whose bytes are stored in the contents of the coming commit.
    kept: Mutex<HashMap<(u64, u64), State>>,
    /// Files that this program wrote in the folder of the call, and whether they carry the drafted
    /// mark.
    written: Mutex<HashMap<(u64, u64), (State, bool)>>,
}

impl StateCache {
    /// Records that the bytes of a file of the workspace are stored.
    pub(crate) fn note_kept(&self, state: State) {
        note(&self.kept, state.entry, state);
    }

    /// Records a file written into the folder of the call. `drafted` means that the file carries
    /// that mark and no other.
    pub(crate) fn note_written(&self, state: State, drafted: bool) {
        note(&self.written, state.entry, (state, drafted));
    }

    /// Returns the state of a workspace file whose bytes are stored already.
    pub(crate) fn kept(&self, entry: &Entry) -> Option<State> {
        lock(&self.kept).get(&place(entry)).filter(|state| state.entry == *entry).cloned()
    }

    /// Returns the state of a file in the folder of the call.
    pub(crate) fn written(&self, entry: &Entry) -> Option<State> {
        let written = lock(&self.written);
        written.get(&place(entry)).filter(|(state, _)| state.entry == *entry).map(|(state, _)| state.clone())
    }

    /// Returns true if a file in the folder of the call is unchanged since this program wrote it.
    pub(crate) fn wrote(&self, entry: &Entry) -> bool {
        lock(&self.written).get(&place(entry)).is_some_and(|(state, _)| state.entry == *entry)
    }

    /// Returns the marks of a file in the folder of the call.
    pub(crate) fn marks(&self, entry: &Entry) -> Option<Marks> {
        let written = lock(&self.written);
        let (_, drafted) = written.get(&place(entry)).filter(|(state, _)| state.entry == *entry)?;
        Some(Marks { drafted: *drafted, any: *drafted, all_told: true, ..Marks::default() })
    }
}

fn place(entry: &Entry) -> (u64, u64) {
    (entry.device, entry.inode)
}

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock()
}

fn note<T>(map: &Mutex<HashMap<(u64, u64), T>>, entry: Entry, value: T) {
    let mut map = lock(map);
    if map.len() < MOST {
        map.insert(place(&entry), value);
    }
}
