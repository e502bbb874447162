//! The store of facts that a view uses: facts on disk, and languages beyond those that were compiled in.

use std::path::Path;

use codegraph::{
    ExtractLimits, Extraction, FactsFolder, FactsKey, FactsStore, FileFacts, Language, MoreLanguages,
    extract, is_indexed_with, is_supported,
};
use parking_lot::Mutex;

/// Maximum size of the facts on disk, in bytes. Above it, facts that nobody used are dropped.
pub(crate) const FACTS: u64 = 512 << 20;

/// The languages that can be extracted at the time of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grammars {
    /// Number that differs whenever other languages are available.
    pub(crate) stamp: u64,
    /// Languages beyond those that were compiled in.
    more: Vec<Language>,
}

impl Grammars {
    /// Asks which languages there are now.
    pub(crate) fn now(languages: &dyn MoreLanguages) -> Self {
        let (stamp, more) = languages.available();
        Self { stamp, more }
    }

    /// Returns true if the facts of files of a language can be extracted.
    pub(crate) fn has(&self, language: Language) -> bool {
        is_supported(language) || self.more.contains(&language)
    }

    /// Returns true if a file of this path is read.
    pub(crate) fn reads(&self, path: &str) -> bool {
        is_indexed_with(path, |language| self.has(language))
    }
}

/// The facts on disk.
#[derive(Default)]
pub(crate) struct Facts {
    folder: Option<FactsFolder>,
    /// Reason why the folder cannot be used. Facts are then extracted again after each start.
    problem: Option<String>,
}

impl Facts {
    /// Opens the folder at the first use.
    fn open(&mut self, folder: &Path) -> Option<&mut FactsFolder> {
        if self.folder.is_none() && self.problem.is_none() {
            match FactsFolder::open(folder, FACTS) {
                Ok(opened) => self.folder = Some(opened),
                Err(error) => self.problem = Some(error.to_string()),
            }
        }
        self.folder.as_mut()
    }

    /// Writes what is in memory alone. Returns the reason if facts are not kept.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let flushed = self.folder.as_mut().map_or(Ok(()), FactsFolder::flush);
        flushed.err().map(|error| error.to_string()).or_else(|| self.problem.clone())
    }
}

/// The store that a view uses. It locks the facts for one file at a time.
pub(crate) struct Keeper<'a> {
    /// Facts on disk.
    pub(crate) facts: &'a Mutex<Facts>,
    /// Folder of the facts.
    pub(crate) folder: &'a Path,
    /// Languages beyond those that were compiled in.
    pub(crate) languages: &'a dyn MoreLanguages,
    /// Languages that can be extracted now.
    pub(crate) grammars: &'a Grammars,
    /// Function that returns true once nobody waits for the facts.
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
}

impl FactsStore for Keeper<'_> {
    fn has(&self, key: &FactsKey) -> bool {
        self.facts.lock().open(self.folder).is_some_and(|folder| folder.has(key))
    }

    fn load(&self, key: &FactsKey) -> Option<FileFacts> {
        self.facts.lock().open(self.folder)?.load(key)
    }

    fn load_relationships(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        self.facts.lock().open(self.folder)?.load_relationships(key)
    }

    fn save_relationships(&mut self, key: &[u8; 32], bytes: &[u8]) {
        if let Some(folder) = self.facts.lock().open(self.folder) {
            folder.save_relationships(key, bytes);
        }
    }

    fn save(&mut self, key: &FactsKey, facts: &FileFacts) {
        if let Some(folder) = self.facts.lock().open(self.folder) {
            folder.save(key, facts);
        }
    }

    fn supports(&self, language: Language) -> bool {
        self.grammars.has(language)
    }

    fn extract(&self, language: Language, content: &[u8], limits: &ExtractLimits) -> Option<Extraction> {
        if is_supported(language) {
            return extract(language, content, limits).map(Extraction::Lasting);
        }
        self.languages.extract(language, content, limits, self.is_stopped)
    }
}
