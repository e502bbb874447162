//! Files of an index whose facts are not in memory. A graph that was kept needs none of them until the first edit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CodeIndex, FactsStore};
use crate::extract::ExtractLimits;
use crate::facts_key::FactsKey;
use crate::stored::RESOLVER_VERSION;

/// A file of which only this is in memory.
#[derive(Debug, Clone)]
pub(super) struct SleepingFile {
    /// Key of the facts.
    pub(super) key: FactsKey,
    /// Hash of the content.
    pub(super) content: [u8; 32],
    /// Size, in bytes.
    pub(super) size: usize,
}

impl CodeIndex {
    /// Creates an empty index that leaves facts in the store until [`CodeIndex::wake`], which has to be called
    /// before anything is resolved. [`crate::LiveGraph::open`] may make that needless.
    pub fn lazy(limits: ExtractLimits) -> Self {
        Self { is_lazy: true, ..Self::new(limits) }
    }

    /// Returns true if facts may be left in the store: nothing needs them yet.
    pub(crate) fn may_sleep(&self) -> bool {
        self.is_lazy && self.generation == 0
    }

    /// Returns true if facts of some files are only in the store.
    pub fn is_asleep(&self) -> bool {
        !self.asleep.is_empty()
    }

    /// Reads the facts that are only in the store. Returns false if some of them are no longer there; their files
    /// are then no longer in the index, and have to be taken again.
    pub fn wake(&mut self, store: &dyn FactsStore) -> bool {
        let mut is_whole = true;
        for (path, file) in std::mem::take(&mut self.asleep) {
            match store.load(&file.key) {
                Some(facts) => self.insert(path, &file, facts),
                None => is_whole = false,
            }
        }
        is_whole
    }

    /// Notes that a graph of exactly these files was found, so that nothing has to be resolved.
    pub(crate) fn note_opened(&mut self) {
        self.generation += 1;
    }

    /// Returns a hash of everything that the relationships depend on.
    pub(crate) fn relationships_key(&mut self) -> [u8; 32] {
        let (_, manifests) = self.project();
        let mut hasher = manifests;
        hasher.update(&RESOLVER_VERSION.to_le_bytes());
        let awake = self.files.iter().map(|(path, file)| (path, &file.key));
        let all: BTreeMap<&Arc<str>, &FactsKey> =
            self.asleep.iter().map(|(path, file)| (path, &file.key)).chain(awake).collect();
        for (path, key) in all {
            hasher.update(path.as_bytes()).update(&[0]).update(&key.0);
        }
        *hasher.finalize().as_bytes()
    }

    /// Returns the number of files.
    pub fn file_count(&self) -> usize {
        self.files.len() + self.asleep.len()
    }

    /// Returns true if a file or manifest is in the index.
    pub fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.asleep.contains_key(path) || self.manifests.contains_key(path)
    }

    /// Returns true if the index has a file or manifest with this content.
    pub fn has_content(&self, path: &str, content: &[u8]) -> bool {
        let awake = self.files.get(path).map(|file| &file.content);
        let known = awake.or_else(|| self.asleep.get(path).map(|file| &file.content));
        known.is_some_and(|known| known == blake3::hash(content).as_bytes())
            || self.manifests.get(path).is_some_and(|known| known == content)
    }

    /// Returns the paths and the hashes (blake3) of the contents of all files, in the order of the paths.
    pub fn content_hashes(&self) -> impl Iterator<Item = (&str, &[u8; 32])> {
        let awake = self.files.iter().map(|(path, file)| (&**path, &file.content));
        let asleep = self.asleep.iter().map(|(path, file)| (&**path, &file.content));
        awake.chain(asleep).collect::<BTreeMap<_, _>>().into_iter()
    }
}
