//! What was read or written on the way to a commit, so that the commit does not read it once more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::attributes::Marks;
use crate::{Entry, State};

/// How many entries are remembered on each side; each takes some 300 bytes. What is beyond is read again.
const MOST: usize = 100_000;

/// States of files, by inode.
///
/// INVARIANT: one is given for an entry only where that is what it was in everything, the change time included, which no
/// program can set. A commit relies on no more than that itself when it swaps.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Of the workspace: what was kept, byte for byte, by the contents of the commit to come.
    kept: Mutex<HashMap<(u64, u64), State>>,
    /// Of the folder of the call: what this program wrote there, and whether it marked it as drafted.
    written: Mutex<HashMap<(u64, u64), (State, bool)>>,
}

impl Known {
    /// Says that the bytes of a file of the workspace are kept.
    pub(crate) fn note_kept(&self, state: State) {
        note(&self.kept, state.entry, state);
    }

    /// Says what was written into the folder of the call. `drafted` says that it carries that mark, and no other.
    pub(crate) fn note_written(&self, state: State, drafted: bool) {
        note(&self.written, state.entry, (state, drafted));
    }

    /// A file of the workspace whose bytes are kept already.
    pub(crate) fn kept(&self, entry: &Entry) -> Option<State> {
        lock(&self.kept).get(&place(entry)).filter(|state| state.entry == *entry).cloned()
    }

    /// A file in the folder of the call.
    pub(crate) fn written(&self, entry: &Entry) -> Option<State> {
        let written = lock(&self.written);
        written.get(&place(entry)).filter(|(state, _)| state.entry == *entry).map(|(state, _)| state.clone())
    }

    /// Whether a file in the folder of the call is what this program wrote there.
    pub(crate) fn wrote(&self, entry: &Entry) -> bool {
        lock(&self.written).get(&place(entry)).is_some_and(|(state, _)| state.entry == *entry)
    }

    /// The marks of a file in the folder of the call.
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
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note<T>(map: &Mutex<HashMap<(u64, u64), T>>, entry: Entry, value: T) {
    let mut map = lock(map);
    if map.len() < MOST {
        map.insert(place(&entry), value);
    }
}
