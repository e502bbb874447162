//! The known folders and their marked entries. This module makes no system calls.
//!
//! A folder costs about 130 bytes here, and about 1 KB in the kernel if it is watched.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::Marks;

/// Number of a folder. No other folder gets the number, so an old one finds its folder or nothing.
pub(crate) type Id = u32;

/// Entry name, shared between the maps that use it.
pub(crate) type Name = Arc<[u8]>;

/// First value that stands for a root instead of a folder.
const FIRST_ROOT: u32 = 1 << 31;

/// A known folder.
#[derive(Debug)]
struct Folder {
    /// Number of the parent folder, or `FIRST_ROOT` plus the index of the root that this folder is.
    above: u32,
    name: Name,
    /// inotify watch descriptor; negative if the folder is not watched.
    pub(crate) watch: i32,
}

/// Marks of an entry, with the reason for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryMarks {
    pub(crate) marks: Marks,
    pub(crate) why: MarkReason,
}

/// Reason why an entry is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkReason {
    /// A rule marks this folder.
    Folder,
    /// A rule marks this symbolic link: its target is marked.
    Link,
    /// The entry is a Unix socket, and the rules hide every socket.
    Socket,
    /// A rule marks this entry, which is neither a folder nor a link.
    File,
    /// The entry is a further name (hard link) of a marked file.
    FurtherName,
    /// The entry is a folder that cannot be opened or listed.
    Sealed,
}

/// Location of an entry: its root, and the path below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) root: usize,
    /// Path below the root, empty for the root itself.
    pub(crate) relative: Vec<u8>,
}

impl Place {
    pub(crate) fn push(&mut self, name: &[u8]) {
        if !self.relative.is_empty() {
            self.relative.push(b'/');
        }
        self.relative.extend_from_slice(name);
    }
}

/// All known folders, and the marked entries in them.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    known: HashMap<Id, Folder>,
    next: Id,
    below: BTreeMap<(Id, Name), Id>,
    found: BTreeMap<(Id, Name), EntryMarks>,
    /// Number of marks set or removed so far.
    marked_times: u64,
}

impl Folders {
    /// Adds the folder of a root, given by its index.
    pub(crate) fn add_root(&mut self, root: usize) -> Id {
        let root = u32::try_from(root).unwrap_or(u32::MAX - FIRST_ROOT);
        self.insert(Folder { above: FIRST_ROOT + root, name: Name::from([]), watch: -1 })
    }

    /// Adds a folder to its parent, and replaces an earlier folder of that name.
    pub(crate) fn add(&mut self, above: Id, name: &[u8]) -> Id {
        let name = Name::from(name);
        let id = self.insert(Folder { above, name: name.clone(), watch: -1 });
        self.below.insert((above, name), id);
        id
    }

    fn insert(&mut self, folder: Folder) -> Id {
        let id = self.next;
        // After two thousand million folders, a new folder may get the number of a removed one.
        self.next = (self.next + 1) % FIRST_ROOT;
        self.known.insert(id, folder);
        id
    }

    /// Returns the number of known folders.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn set_watch(&mut self, id: Id, watch: i32) {
        if let Some(folder) = self.known.get_mut(&id) {
            folder.watch = watch;
        }
    }

    /// Returns the location of a folder, or `None` if the folder is gone.
    pub(crate) fn place(&self, id: Id) -> Option<Place> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut folder = self.known.get(&id)?;
        while folder.above < FIRST_ROOT {
            names.push(&folder.name);
            folder = self.known.get(&folder.above)?;
        }
        let mut place = Place { root: (folder.above - FIRST_ROOT) as usize, relative: Vec::new() };
        for name in names.into_iter().rev() {
            place.push(name);
        }
        Some(place)
    }

    /// Returns the child folder with this name.
    pub(crate) fn child(&self, above: Id, name: &[u8]) -> Option<Id> {
        self.below.get(&(above, Name::from(name))).copied()
    }

    /// Returns the child folders of a folder.
    pub(crate) fn children(&self, above: Id) -> Vec<Id> {
        keys_of(&self.below, above).iter().filter_map(|key| self.below.get(key)).copied().collect()
    }

    /// Returns the parent folder and the folder's own name, or `None` for a root.
    pub(crate) fn above(&self, id: Id) -> Option<(Id, Name)> {
        let folder = self.known.get(&id)?;
        (folder.above < FIRST_ROOT).then(|| (folder.above, folder.name.clone()))
    }

    /// Iterates over the numbers of all known folders.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.known.keys().copied()
    }

    /// Removes a folder with everything below it. `each` gets the number and the watch of every
    /// removed folder.
    pub(crate) fn remove(&mut self, id: Id, each: &mut dyn FnMut(Id, i32)) {
        let Some(top) = self.known.get(&id) else { return };
        self.below.remove(&(top.above, top.name.clone()));
        let mut going = vec![id];
        while let Some(id) = going.pop() {
            for key in keys_of(&self.below, id) {
                going.extend(self.below.remove(&key));
            }
            for key in keys_of(&self.found, id) {
                self.marked_times += 1;
                self.found.remove(&key);
            }
            if let Some(folder) = self.known.remove(&id) {
                each(id, folder.watch);
            }
        }
    }

    /// Marks an entry of a folder.
    pub(crate) fn mark(&mut self, folder: Id, name: &[u8], found: EntryMarks) {
        self.marked_times += 1;
        self.found.insert((folder, Name::from(name)), found);
    }

    /// Removes the marks of an entry, and returns them.
    pub(crate) fn unmark(&mut self, folder: Id, name: &[u8]) -> Option<EntryMarks> {
        let found = self.found.remove(&(folder, Name::from(name)));
        self.marked_times += u64::from(found.is_some());
        found
    }

    /// Returns the number of marks set or removed so far.
    pub(crate) fn marked_times(&self) -> u64 {
        self.marked_times
    }

    /// Returns the marks of an entry.
    pub(crate) fn found(&self, folder: Id, name: &[u8]) -> Option<EntryMarks> {
        self.found.get(&(folder, Name::from(name))).copied()
    }

    /// Iterates over the marked entries.
    pub(crate) fn marked(&self) -> impl Iterator<Item = (Id, &Name, EntryMarks)> {
        self.found.iter().map(|((folder, name), found)| (*folder, name, *found))
    }
}

fn keys_of<T>(map: &BTreeMap<(Id, Name), T>, id: Id) -> Vec<(Id, Name)> {
    let first = (id, Name::from([]));
    let behind = (Bound::Included(first), Bound::Unbounded);
    map.range(behind).map(|(key, _)| key).take_while(|(above, _)| *above == id).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_all_below_it_and_nothing_else() {
        let mut folders = Folders::default();
        let root = folders.add_root(3);
        let a = folders.add(root, b"a");
        let b = folders.add(a, b"b");
        let beside = folders.add(root, b"aa");
        for id in [root, a, b, beside] {
            folders.mark(
                id,
                b"x",
                EntryMarks { marks: Marks { hidden: true, ..Marks::default() }, why: MarkReason::File },
            );
        }
        assert_eq!(folders.place(b), Some(Place { root: 3, relative: b"a/b".to_vec() }));
        let mut gone = Vec::new();
        folders.remove(a, &mut |id, _| gone.push(id));
        gone.sort_unstable();
        assert_eq!(gone, [a, b]);
        assert_eq!((folders.place(b), folders.child(root, b"a")), (None, None));
        assert_eq!(folders.marked().map(|(id, _, _)| id).collect::<Vec<_>>(), [root, beside]);
        assert_eq!(folders.count(), 2);
        let again = folders.add(root, b"a");
        assert!(![a, b].contains(&again), "a number is not used again");
        assert_eq!(folders.place(again), Some(Place { root: 3, relative: b"a".to_vec() }));
    }
}
