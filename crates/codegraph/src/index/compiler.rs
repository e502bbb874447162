//! Findings of compilers in files of the index, as long as the files are those that the compilers read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::CodeIndex;
use crate::imported::{Imported, ImportedFile};

impl CodeIndex {
    /// Takes what compilers found, in place of what was taken before. The relationships follow with
    /// [`CodeIndex::settle_changes`].
    pub fn set_imported(&mut self, imported: Arc<Imported>) {
        self.imported = imported;
        // The hash of the manifests has that of what was imported in it.
        self.project = None;
    }

    /// Returns what compilers found in the files whose content is still the one that was imported.
    pub fn current_imports(&self) -> BTreeMap<Arc<str>, Arc<ImportedFile>> {
        let current = |path: &Arc<str>, content| {
            self.imported.current(path, content).map(|found| (path.clone(), found.clone()))
        };
        self.files.iter().filter_map(|(path, file)| current(path, &file.content)).collect()
    }
}
