//! Toolchains to which the user's search path leads, by the rules of one cell.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use policy::Policy;
use watch::{Kind, Rules};

use super::rules::KeyFiles;
use super::{ShownToolchains, Toolchain, Way};

/// A folder of the cells' search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchFolder {
    /// Path under which cells show the folder.
    pub path: PathBuf,
    /// Way by which the user's search path leads there. `None` if the folder belongs to the system or
    /// to a known toolchain, which have rules of their own.
    pub way: Option<Way>,
}

impl SearchFolder {
    /// Returns true if the folder, or a link that leads to it, lies in one of these folders. A
    /// folder of the system or of a known toolchain never counts.
    pub fn leads_through(&self, folders: &[PathBuf]) -> bool {
        let Some(way) = &self.way else { return false };
        let mut places = way.links.iter().chain([&self.path, &way.real]);
        places.any(|place| folders.iter().any(|folder| place.starts_with(folder)))
    }
}

/// Maximum number of entries of one part, because keys are searched in each.
const MAX_ENTRIES: usize = 200_000;

/// The rules of a cell that decide about such a toolchain.
pub(super) struct CellRules<'a> {
    /// Folders that the cell shows.
    pub(super) roots: &'a [PathBuf],
    /// Folders that calls can write.
    pub(super) written: &'a [PathBuf],
    pub(super) policy: &'a Arc<Policy>,
    /// Parts that were counted, each with true if it has too many entries.
    pub(super) counted: &'a Mutex<HashMap<PathBuf, bool>>,
}

/// Adds the parts of a toolchain that a cell may show, and the folders in which keys are searched.
pub(super) fn add(
    toolchain: &Toolchain,
    way: &Way,
    parts: Vec<PathBuf>,
    cell: &CellRules<'_>,
    shown: &mut ShownToolchains,
    looked_at: &mut Vec<PathBuf>,
) {
    if cell.is_written(way) {
        shown.left_out.push(toolchain.folder.clone());
        return;
    }
    for part in parts {
        let Ok(real) = fs::canonicalize(&part) else { continue };
        // The rules of a root hold for the whole root.
        if cell.roots.iter().any(|root| real.starts_with(root)) {
            continue;
        }
        let is_left_out =
            if real.is_dir() { !way.listed && cell.is_too_large(&real) } else { cell.denies(&real) };
        if is_left_out || cell.holds_what_changes(&real) {
            shown.left_out.push(part);
            continue;
        }
        let is_in = |outer: &PathBuf| {
            part.starts_with(outer) && fs::canonicalize(outer).is_ok_and(|outer| real.starts_with(outer))
        };
        if shown.parts.iter().any(is_in) {
            continue;
        }
        if real.is_dir() && !looked_at.iter().any(|folder| real.starts_with(folder)) {
            looked_at.push(real);
        }
        shown.parts.push(part);
    }
}

impl CellRules<'_> {
    /// Returns true if calls can write the toolchain, or a link that leads to it.
    fn is_written(&self, way: &Way) -> bool {
        let mut places = way.links.iter().chain([&way.real]);
        places.any(|place| self.written.iter().any(|folder| place.starts_with(folder)))
    }

    /// Returns true if a folder that calls can write, or a path that no call may reach, lies in a
    /// part, or around it.
    fn holds_what_changes(&self, real: &Path) -> bool {
        self.written.iter().any(|folder| folder.starts_with(real))
            || self.policy.protected().any(|path| path.starts_with(real) || real.starts_with(path))
    }

    /// Returns true if the search for keys in a part would take too long.
    fn is_too_large(&self, real: &Path) -> bool {
        let known = self.counted.lock().get(real).copied();
        known.unwrap_or_else(|| {
            let is_too_large = exceeds(real, MAX_ENTRIES);
            self.counted.lock().insert(real.to_owned(), is_too_large);
            is_too_large
        })
    }

    /// Returns true if the rules hide a single file.
    fn denies(&self, file: &Path) -> bool {
        let Some(folder) = file.parent() else { return true };
        let rules = KeyFiles::new(self.policy.clone(), Vec::new());
        rules.marks(&rules.below(&rules.top(folder), file, Kind::File)).hidden
    }
}

/// Returns true if there are more entries than this below a folder.
fn exceeds(folder: &Path, most: usize) -> bool {
    let (mut pending, mut count) = (vec![folder.to_owned()], 0);
    while let Some(folder) = pending.pop() {
        // A folder that cannot be listed is hidden as a whole.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            count += 1;
            if count > most {
                return true;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    false
}

impl ShownToolchains {
    /// Returns true if a folder of the search path leads only to what is left out.
    pub(crate) fn leaves_out(&self, folder: &SearchFolder) -> bool {
        let Some(way) = &folder.way else { return false };
        let within = |places: &[PathBuf]| places.iter().any(|place| way.real.starts_with(place));
        within(&self.left_out) && !within(&self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_at_any_depth_and_behind_no_link() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b/c")).unwrap();
        fs::write(folder.path().join("a/b/c/d"), "").unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/loop")).unwrap();
        assert!(!exceeds(folder.path(), 5) && exceeds(folder.path(), 4));
        assert!(!exceeds(&folder.path().join("absent"), 0));
    }
}
