//! What is noted, for callers that ask for all of it.

use std::path::PathBuf;

use crate::Rules;
use crate::watch::Watch;

impl<R: Rules> Watch<R> {
    /// Lists what is noted, by its own name, as of the last [`Watch::sync`].
    pub fn noted(&self) -> Vec<PathBuf> {
        let noted = self.folders.marked().filter(|(_, _, found)| found.marks.noted);
        let paths = noted.filter_map(|(id, name, _)| {
            let mut place = self.folders.place(id)?;
            place.push(name);
            Some(self.roots.get(place.root)?.absolute(&place.relative))
        });
        paths.collect()
    }

    /// Tells one state of what is marked from another one: as long as this is the same, so is that.
    pub fn state(&self) -> (u64, u64) {
        (self.walks, self.folders.marked_times())
    }
}
