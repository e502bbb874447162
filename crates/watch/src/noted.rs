//! The noted paths, for callers that need the complete list.

use std::path::PathBuf;

use crate::Rules;
use crate::watch::Watch;

impl<R: Rules> Watch<R> {
    /// Returns all noted paths, by their own names, as of the last [`Watch::sync`].
    pub fn noted(&self) -> Vec<PathBuf> {
        let noted = self.folders.marked().filter(|(_, _, found)| found.marks.noted);
        let paths = noted.filter_map(|(id, name, _)| {
            let mut place = self.folders.place(id)?;
            place.push(name);
            Some(self.roots.get(place.root)?.absolute(&place.relative))
        });
        paths.collect()
    }

    /// Returns a version of the set of marks: as long as the version is equal, so is the set.
    pub fn state(&self) -> (u64, u64) {
        (self.walks, self.folders.marked_times())
    }
}
