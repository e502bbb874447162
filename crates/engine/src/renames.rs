//! Folders that a change only renamed, so that they take one line and not one line per file.
//!
//! The comparison uses the saved entries. A folder that is gone and a new folder are the same if
//! most entries of the one exist unchanged in the other. Changed entries are reported separately.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use checkpoint::{Kind, SavedEntry, State};

/// Maximum number of new folders that a gone folder is compared with: folders with one of its files
/// at the same relative path.
const MAX_COMPARED: usize = 16;

/// Maximum number of files of a gone folder that are looked up.
const MAX_LOOKED_FOR: usize = 16;

/// Number of new files with the same name and size above which a file identifies no folder.
const MAX_ALIKE: usize = 64;

/// A folder that was renamed.
pub(crate) struct RenamedFolder<'a> {
    pub(crate) from: &'a Path,
    pub(crate) to: PathBuf,
    /// Entries that exist under the same relative path as before, by that path.
    pub(crate) within: BTreeMap<&'a Path, RenamedEntry<'a>>,
}

/// An entry of a renamed folder.
pub(crate) struct RenamedEntry<'a> {
    before: &'a State,
    after: &'a State,
    /// True if the change left the entry unchanged.
    pub(crate) is_same: bool,
}

impl<'a> RenamedFolder<'a> {
    /// Returns true if this path is the folder or one of its entries, under the old or the new
    /// name.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let below = path.strip_prefix(self.from).or_else(|_| path.strip_prefix(&self.to));
        below.is_ok_and(|below| below.as_os_str().is_empty() || self.within.contains_key(below))
    }

    /// Returns an entry of the folder as a change under its new name.
    pub(crate) fn entry(&self, name: &Path, inside: &RenamedEntry<'a>) -> SavedEntry {
        let (before, after) = (Some(inside.before.clone()), Some(inside.after.clone()));
        SavedEntry { path: self.to.join(name), before, after }
    }
}

impl RenamedEntry<'_> {
    /// Returns the state under the new name.
    pub(crate) fn after(&self) -> &State {
        self.after
    }
}

type Paths<'a> = BTreeMap<&'a Path, &'a State>;

/// Returns every folder among these entries that was only renamed.
pub(crate) fn moved<'a>(entries: &[&'a SavedEntry]) -> Vec<RenamedFolder<'a>> {
    let side = |entry: &&'a SavedEntry| (entry.path.as_path(), entry.before.as_ref(), entry.after.as_ref());
    let gone: Paths<'a> = entries
        .iter()
        .map(side)
        .filter_map(|(path, before, after)| before.filter(|_| after.is_none()).map(|state| (path, state)))
        .collect();
    let made: Paths<'a> = entries
        .iter()
        .map(side)
        .filter_map(|(path, before, after)| after.filter(|_| before.is_none()).map(|state| (path, state)))
        .collect();
    let mut new_files: HashMap<_, Vec<&Path>> = HashMap::new();
    for (path, state) in made.iter().filter(|(_, state)| state.entry.kind == Kind::File) {
        new_files.entry((path.file_name(), state.entry.size_bytes)).or_default().push(path);
    }
    let (made, mut found) = (&made, Vec::<RenamedFolder<'a>>::new());
    for (from, _) in gone.iter().filter(|(_, state)| state.entry.kind == Kind::Folder) {
        if found.last().is_some_and(|last| from.starts_with(last.from)) {
            continue;
        }
        let within = below(&gone, from);
        let looked_for = within.iter().filter_map(|(path, state)| {
            let alike = new_files.get(&(path.file_name(), state.entry.size_bytes))?;
            let name = path.strip_prefix(from).ok()?;
            (state.entry.kind == Kind::File && alike.len() <= MAX_ALIKE).then_some((name, *state, alike))
        });
        let folders = looked_for.take(MAX_LOOKED_FOR).flat_map(|(name, state, alike)| {
            let same =
                alike.iter().filter(move |path| path.ends_with(name) && made[**path].is_same_as(state));
            same.filter_map(move |path| path.ancestors().nth(name.components().count()))
        });
        let mut seen = BTreeSet::new();
        let is_new = |folder: &&Path| made.get(folder).is_some_and(|made| made.entry.kind == Kind::Folder);
        let folders = folders.filter(|folder| is_new(folder) && seen.insert(*folder));
        let mut compared = folders.take(MAX_COMPARED).map(|to| compare(from, to, &within, made));
        found.extend(compared.find_map(|compared| compared));
    }
    found
}

fn below<'a>(paths: &Paths<'a>, folder: &Path) -> Vec<(&'a Path, &'a State)> {
    let behind = paths.range::<Path, _>((Bound::Excluded(folder), Bound::Unbounded));
    behind.take_while(|(path, _)| path.starts_with(folder)).map(|(path, state)| (*path, *state)).collect()
}

/// Compares two folders. Returns the move if at least half of the entries are unchanged.
fn compare<'a>(
    from: &'a Path,
    to: &Path,
    within: &[(&'a Path, &'a State)],
    made: &Paths<'a>,
) -> Option<RenamedFolder<'a>> {
    let inside = |(path, before): &(&'a Path, &'a State)| {
        let name = path.strip_prefix(from).ok()?;
        let after = *made.get(to.join(name).as_path())?;
        Some((name, RenamedEntry { before, after, is_same: after.is_same_as(before) }))
    };
    let moved = RenamedFolder { from, to: to.to_owned(), within: within.iter().filter_map(inside).collect() };
    let same = moved.within.values().filter(|inside| inside.is_same).count();
    (same * 2 >= within.len()).then_some(moved)
}

#[cfg(test)]
mod tests {
    use checkpoint::{Entry, Time};

    use super::*;

    /// Builds the state of a file with a content of one byte, or of a folder, whose name ends with
    /// a slash.
    fn state(path: &str, content: u8) -> State {
        let (kind, size_bytes) = if path.ends_with('/') { (Kind::Folder, 0) } else { (Kind::File, 1) };
        let time = Time { seconds: 0, nanoseconds: 0 };
        let entry = Entry {
            kind,
            mode: 0o644,
            owner: 0,
            group: 0,
            size_bytes,
            modified: time,
            changed: time,
            has_other_names: false,
            device: 1,
            inode: 1,
        };
        let content = (kind == Kind::File).then_some([content; 32]);
        State { entry, attributes: Vec::new(), target: None, content, is_sparse: false }
    }

    fn entries(gone: &[(&str, u8)], made: &[(&str, u8)]) -> Vec<SavedEntry> {
        let entry =
            |(path, content): &(&str, u8)| (PathBuf::from(path.trim_end_matches('/')), state(path, *content));
        let gone =
            gone.iter().map(entry).map(|(path, state)| SavedEntry { path, before: Some(state), after: None });
        let made =
            made.iter().map(entry).map(|(path, state)| SavedEntry { path, before: None, after: Some(state) });
        let mut all: Vec<SavedEntry> = gone.chain(made).collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }

    /// Returns for each move: from, to, the number of its entries, and the number of unchanged
    /// ones.
    fn found(gone: &[(&str, u8)], made: &[(&str, u8)]) -> Vec<(String, String, usize, usize)> {
        let all = entries(gone, made);
        let all: Vec<&SavedEntry> = all.iter().collect();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let told = |moved: RenamedFolder| {
            let same = moved.within.values().filter(|inside| inside.is_same).count();
            (text(moved.from), text(&moved.to), moved.within.len(), same)
        };
        moved(&all).into_iter().map(told).collect()
    }

    #[test]
    fn a_folder_is_found_under_its_new_name_wherever_that_lies() {
        let gone = [("a/", 0), ("a/b/", 0), ("a/b/x", 1), ("a/y", 2)];
        let whole = |from: &str, to: &str, all| vec![(from.to_owned(), to.to_owned(), all, all)];
        for to in ["c", "n/c", "a2"] {
            let below = |name: &str| format!("{to}/{name}");
            let names = [below(""), below("b/"), below("b/x"), below("y"), "n/".to_owned(), below("more")];
            let contents = [0, 0, 1, 2, 0, 9];
            let made: Vec<(&str, u8)> = names.iter().map(String::as_str).zip(contents).collect();
            assert_eq!(found(&gone, &made), whole("a", to, 3), "{to}");
        }
        // A part of the folder moved, and the rest is gone.
        assert_eq!(found(&gone, &[("k/", 0), ("k/x", 1)]), whole("a/b", "k", 1));
    }

    #[test]
    fn what_changed_in_it_is_not_as_it_was_and_another_folder_is_not_it() {
        let gone = [("a/", 0), ("a/x", 1), ("a/y", 2), ("a/z", 3)];
        let changed = [("c/", 0), ("c/x", 1), ("c/y", 2), ("c/z", 9)];
        assert_eq!(found(&gone, &changed), [("a".to_owned(), "c".to_owned(), 3, 2)]);
        let first_changed = [("c/", 0), ("c/x", 9), ("c/y", 2), ("c/z", 3)];
        assert_eq!(found(&gone, &first_changed), [("a".to_owned(), "c".to_owned(), 3, 2)]);
        for other in [
            // Most entries differ.
            &[("c/", 0), ("c/x", 1), ("c/y", 8), ("c/z", 9)][..],
            &[("c/", 0), ("c/x", 1)],
            // No entry is at the same relative path.
            &[("c/", 0), ("c/d/", 0), ("c/d/w", 1)],
            &[("x", 1), ("y", 2), ("z", 3)],
            &[],
        ] {
            assert_eq!(found(&gone, other), [], "{other:?}");
        }
        assert_eq!(found(&[("a/", 0)], &[("c/", 0)]), [], "an empty one could be any");
        assert_eq!(found(&[("x", 1)], &[("c/", 0), ("c/x", 1)]), []);
    }

    fn alike(names: &[String]) -> Vec<(&str, u8)> {
        names.iter().map(|name| (name.as_str(), 1)).collect()
    }

    #[test]
    fn ten_thousand_files_are_one_folder_and_those_that_are_all_alike_are_compared_a_few_times() {
        let tree = |folder: &str| -> Vec<String> {
            let files = (0..10_000).map(|number| format!("{folder}/{}/{number}", number % 100));
            let folders = (0..100).map(|number| format!("{folder}/{number}/"));
            folders.chain(files).chain([format!("{folder}/")]).collect()
        };
        let (gone, made) = (tree("a"), tree("b"));
        assert_eq!(found(&alike(&gone), &alike(&made)), [("a".to_owned(), "b".to_owned(), 10_100, 10_100)]);
        let names: Vec<String> = (0..3_000).map(|number| format!("d/{number}")).collect();
        let gone: Vec<(&str, u8)> =
            [("d/", 0)].into_iter().chain(names.iter().map(|name| (name.as_str(), 1))).collect();
        let copies: Vec<String> =
            (0..1_000).flat_map(|copy| [format!("c{copy}/"), format!("c{copy}/0")]).collect();
        let made: Vec<(&str, u8)> = copies.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(found(&gone, &made), []);
    }
}
