//! The choice of the files that have to be read again, by what a listing says about them. It lists nothing and reads
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

/// Time after its last change in which a file may change again without another time of change, in nanoseconds. It
/// is that of the coarsest common file system.
const GRANULARITY: i64 = 2_000_000_000;

/// The signs of a change that a listing shows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Size, in bytes.
    pub size: u64,
    /// Time of the last change, in nanoseconds of the clock of the file system.
    pub modified: i64,
    /// Number of the file in its file system.
    pub inode: u64,
}

/// Something that an index has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Reading a file: it is new or may have another content.
    Read(String),
    /// Removing a file: it is gone.
    Gone(String),
}

/// The freshness of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freshness {
    /// Number of files that are in the index.
    pub indexed: usize,
    /// Number of files that are not in it as the last listing had them.
    pub pending: usize,
    /// Number of listings that were not as the one before.
    pub generation: u64,
}

/// The files of an index as they were when they were read.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    known: BTreeMap<String, Sighting>,
    /// Files that are due, as the last listing had them; `None` if they are gone.
    pending: BTreeMap<String, Option<Sighting>>,
    generation: u64,
}

/// A stamp, and whether the file may have changed later without another stamp.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    stamp: Stamp,
    is_young: bool,
}

impl Sweep {
    /// Compares a listing of all files with what is known. `taken` is the time at which the listing began, by the
    /// clock of the file system. Returns what is due, in the order of the paths.
    ///
    /// A file that had changed just before it was listed is due once more at the next listing, because a second
    /// change in the same tick of the clock does not show.
    pub fn look(&mut self, listing: impl IntoIterator<Item = (String, Stamp)>, taken: i64) -> Vec<Due> {
        let mut pending = BTreeMap::new();
        let mut missing: BTreeSet<&str> = self.known.keys().map(String::as_str).collect();
        for (path, stamp) in listing {
            missing.remove(path.as_str());
            let is_current = self.known.get(&path).is_some_and(|seen| seen.stamp == stamp && !seen.is_young);
            if !is_current {
                let is_young = stamp.modified.saturating_add(GRANULARITY) > taken;
                pending.insert(path, Some(Sighting { stamp, is_young }));
            }
        }
        pending.extend(missing.into_iter().map(|path| (path.to_owned(), None)));
        if !pending.is_empty() {
            self.generation += 1;
        }
        self.pending = pending;
        let due = self.pending.iter().map(|(path, seen)| match seen {
            Some(_) => Due::Read(path.clone()),
            None => Due::Gone(path.clone()),
        });
        due.collect()
    }

    /// Notes that the index has a file as it was read after the last listing, or no longer has it.
    pub fn note(&mut self, path: &str) {
        match self.pending.remove_entry(path) {
            Some((path, Some(seen))) => {
                self.known.insert(path, seen);
            }
            Some((path, None)) => {
                self.known.remove(&path);
            }
            None => {}
        }
    }

    /// Makes a file due at the next listing, whatever that says about it.
    pub fn forget(&mut self, path: &str) {
        if let Some(seen) = self.known.get_mut(path) {
            seen.is_young = true;
        }
    }

    /// Returns how fresh the index is.
    pub fn freshness(&self) -> Freshness {
        Freshness { indexed: self.known.len(), pending: self.pending.len(), generation: self.generation }
    }
}
