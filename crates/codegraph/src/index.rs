//! The index of a project: the facts of its files, and the relationships that follow from them. After any
//! changes it is equal to an index that was built anew.

mod asleep;
mod compiler;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::extract::{ExtractLimits, extract, is_supported};
use crate::facts::FileFacts;
use crate::facts_key::FactsKey;
use crate::imported::Imported;
use crate::interface::Interface;
use crate::language::{Family, Language};
use crate::links::{FileLinks, collect};
use crate::project::{Project, is_manifest};
use crate::sources::{Change, Sources};
use crate::stored::{self, Resolved};
use crate::symbols::SymbolKeys;
use crate::world::{Names, SourceFile, Structure, StructureChange, Symbol, World};
use asleep::SleepingFile;

/// Number of names of files that are gone that are kept at most, besides as many as there are.
const SPARE_NAMES: usize = 10_000;

/// Number of resolved files from which their relationships are handed to the store at once.
const MANY: usize = 64;

/// The index of a project.
#[derive(Debug, Clone, Default)]
pub struct CodeIndex {
    limits: ExtractLimits,
    files: BTreeMap<Arc<str>, IndexedFile>,
    /// Files whose facts are only in the store. There are none once anything was resolved.
    asleep: BTreeMap<Arc<str>, SleepingFile>,
    is_lazy: bool,
    manifests: BTreeMap<String, Vec<u8>>,
    /// Content of the manifests as it was read, and a hash of it, until they change.
    project: Option<(Arc<Project>, blake3::Hasher)>,
    resolved: HashMap<Arc<str>, Resolved>,
    /// State of each family that is resolved file by file.
    settled: BTreeMap<Family, Settled>,
    names: Names,
    imported: Arc<Imported>,
    generation: u64,
    /// Key of the relationships that a store has.
    kept: Option<[u8; 32]>,
}

/// A file of the index.
#[derive(Debug, Clone)]
pub(crate) struct IndexedFile {
    /// Key of the facts.
    pub(crate) key: FactsKey,
    /// Hash of the content.
    pub(crate) content: [u8; 32],
    /// Size, in bytes.
    pub(crate) size: usize,
    /// Facts.
    pub(crate) facts: Arc<FileFacts>,
    /// Interface.
    interface: Arc<Interface>,
    /// Keys of the definitions.
    pub(crate) keys: Arc<SymbolKeys>,
    /// Symbols of the names, in [`CodeIndex::names`].
    symbols: Arc<[Symbol]>,
}

/// The state of a family at its last resolution.
#[derive(Debug, Clone, Default)]
struct Settled {
    structure: Structure,
    interfaces: HashMap<Arc<str>, Arc<Interface>>,
}

/// The work that an update did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Update {
    /// Number of files whose facts were extracted.
    pub extracted: usize,
    /// Number of files whose relationships were resolved.
    pub resolved: usize,
}

/// Facts that are kept elsewhere, by their keys.
pub trait FactsStore {
    /// Returns true if the facts of a key are kept.
    fn has(&self, _key: &FactsKey) -> bool {
        false
    }

    /// Returns the facts of a key, if they are kept.
    fn load(&self, key: &FactsKey) -> Option<FileFacts>;

    /// Keeps the facts of a key.
    fn save(&mut self, key: &FactsKey, facts: &FileFacts);

    /// Returns the relationships of a key, if they are kept.
    fn load_relationships(&self, _key: &[u8; 32]) -> Option<Vec<u8>> {
        None
    }

    /// Keeps the relationships of a key.
    fn save_relationships(&mut self, _key: &[u8; 32], _bytes: &[u8]) {}

    /// Returns true if the facts of files of a language can be extracted.
    fn supports(&self, language: Language) -> bool {
        is_supported(language)
    }

    /// Extracts the facts of a file. Returns `None` if that is impossible now, and the file is to stay as it was.
    fn extract(&self, language: Language, content: &[u8], limits: &ExtractLimits) -> Option<Extraction> {
        extract(language, content, limits).map(Extraction::Lasting)
    }
}

/// The facts of a file, and whether another extraction would find the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extraction {
    /// Facts that depend on the content alone.
    Lasting(FileFacts),
    /// Facts of this time, because the extraction failed. They are kept nowhere.
    Passing(FileFacts),
}

/// A store that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStore;

impl FactsStore for NoStore {
    fn load(&self, _key: &FactsKey) -> Option<FileFacts> {
        None
    }

    fn save(&mut self, _key: &FactsKey, _facts: &FileFacts) {}
}

impl CodeIndex {
    /// Creates an empty index.
    pub fn new(limits: ExtractLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Creates the index of a project.
    pub fn build(sources: &dyn Sources, limits: ExtractLimits) -> Self {
        let mut index = Self::new(limits);
        let mut changes = Vec::new();
        for path in sources.paths() {
            if is_indexed(&path)
                && let Some(content) = sources.read(&path)
            {
                changes.push(Change::Written { path, content });
            }
        }
        index.apply(changes, &mut NoStore);
        index
    }

    /// Applies changes of files, in the order in which they are given, and resolves what depends on them.
    pub fn apply(&mut self, changes: Vec<Change>, store: &mut dyn FactsStore) -> Update {
        let mut update = Update::default();
        for change in changes {
            update.extracted += self.take(change, store);
        }
        update.resolved = self.settle_changes();
        update
    }

    /// Takes one change of a file, and resolves nothing yet: the relationships are those before the change until
    /// [`CodeIndex::settle_changes`]. So a caller can hand in many files without all their contents in memory, and
    /// can stop between two. Returns 1 if facts were extracted, and 0 if they were known.
    pub fn take(&mut self, change: Change, store: &mut dyn FactsStore) -> usize {
        match change {
            Change::Removed { path } => {
                self.files.remove(path.as_str());
                self.asleep.remove(path.as_str());
                if self.manifests.remove(&path).is_some() {
                    self.project = None;
                }
                0
            }
            Change::Written { path, content } => {
                if is_manifest(&path) {
                    self.manifests.insert(path, content);
                    self.project = None;
                    return 0;
                }
                match Language::of_path(&path).filter(|known| store.supports(*known)) {
                    Some(language) => self.write(path.into(), language, &content, store),
                    None => 0,
                }
            }
        }
    }

    /// Resolves what depends on the changes that were taken. Returns the number of files that were resolved.
    pub fn settle_changes(&mut self) -> usize {
        self.generation += 1;
        self.resolve()
    }

    /// Resolves what depends on the changes, as [`CodeIndex::settle_changes`] does. An index that has resolved
    /// nothing yet takes the relationships that the store has for exactly its files. If much was resolved, the
    /// store gets the relationships.
    pub fn settle_with(&mut self, store: &mut dyn FactsStore) -> usize {
        if self.resolved.is_empty() && !self.files.is_empty() {
            let key = self.relationships_key();
            let found = store.load_relationships(&key).and_then(|bytes| stored::decode(&bytes));
            if let Some((resolved, structures)) = found {
                self.resolved = resolved;
                self.settled = structures.into_iter().map(|of| (of.0, self.as_settled(of))).collect();
                self.kept = Some(key);
            }
        }
        let count = self.settle_changes();
        if count >= MANY {
            self.keep_relationships(store);
        }
        count
    }

    /// Hands the relationships to a store, unless it has them. To be called when nothing is left to settle.
    pub fn keep_relationships(&mut self, store: &mut dyn FactsStore) {
        let key = self.relationships_key();
        if self.kept == Some(key) {
            return;
        }
        let structures = self.settled.iter().map(|(family, settled)| (*family, &settled.structure));
        if let Some(bytes) = stored::encode(&self.resolved, structures) {
            store.save_relationships(&key, &bytes);
            self.kept = Some(key);
        }
    }

    /// Returns the state of a family whose structure is known, for the files as they are.
    fn as_settled(&self, (family, structure): (Family, Structure)) -> Settled {
        let of_family = self.files.iter().filter(|(_, file)| file.facts.language.family() == family);
        let interfaces = of_family.map(|(path, file)| (path.clone(), file.interface.clone())).collect();
        Settled { structure, interfaces }
    }

    /// Takes the new content of a file. Returns 1 if its facts were extracted, and 0 if they were known.
    fn write(
        &mut self,
        path: Arc<str>,
        language: Language,
        content: &[u8],
        store: &mut dyn FactsStore,
    ) -> usize {
        let language = if store.supports(Language::Cpp) { language.refined(content) } else { language };
        let hash = *blake3::hash(content).as_bytes();
        let mut key = FactsKey::of_hash(language, &hash, &self.limits);
        if self.files.get(&path).is_some_and(|known| known.key == key) {
            return 0;
        }
        if self.may_sleep() && store.has(&key) {
            self.files.remove(&path);
            self.asleep.insert(path, SleepingFile { key, content: hash, size: content.len() });
            return 0;
        }
        let known = store.load(&key).map(Extraction::Lasting);
        let is_new = known.is_none();
        let (facts, is_lasting) = match known.or_else(|| store.extract(language, content, &self.limits)) {
            Some(Extraction::Lasting(facts)) => (facts, true),
            Some(Extraction::Passing(facts)) => (facts, false),
            None => return 0,
        };
        if !is_lasting {
            key = key.of_passing();
        }
        if is_new && is_lasting {
            store.save(&key, &facts);
        }
        self.asleep.remove(&path);
        self.insert(path, &SleepingFile { key, content: hash, size: content.len() }, facts);
        usize::from(is_new)
    }

    /// Adds a file with its facts.
    fn insert(&mut self, path: Arc<str>, file: &SleepingFile, facts: FileFacts) {
        let keys = SymbolKeys::new(&path, &facts);
        let file = IndexedFile {
            key: file.key,
            content: file.content,
            size: file.size,
            interface: Arc::new(Interface::new(&facts, &keys)),
            keys: Arc::new(keys),
            symbols: self.names.of_file(&facts),
            facts: Arc::new(facts),
        };
        self.files.insert(path, file);
    }

    /// Resolves the files whose relationships may have changed. Returns their number.
    fn resolve(&mut self) -> usize {
        let (project, manifests) = self.project();
        let surroundings = self.surroundings(&manifests);
        self.resolved.retain(|path, _| self.files.contains_key(path));
        let changed_names = self.changed_names();
        let mut keys: BTreeMap<Arc<str>, [u8; 32]> = BTreeMap::new();
        let mut stale: BTreeMap<Family, Vec<Arc<str>>> = BTreeMap::new();
        for (path, file) in &self.files {
            let family = file.facts.language.family();
            let mut hasher = surroundings.get(&family).cloned().unwrap_or_default();
            if !family.is_dynamic() {
                hasher.update(path.as_bytes());
                hasher.update(&file.key.0);
            }
            let key = *hasher.finalize().as_bytes();
            keys.insert(path.clone(), key);
            let has_asked = |known: &Resolved| {
                let names = changed_names.get(&family);
                names.is_some_and(|names| names.as_ref().is_none_or(|names| known.has_asked(names)))
            };
            let is_current =
                self.resolved.get(path).is_some_and(|known| known.key == key && !has_asked(known));
            if !is_current {
                stale.entry(family).or_default().push(path.clone());
            }
        }
        if stale.is_empty() {
            return 0;
        }
        self.drop_old_names();
        let source = |(path, file): (&Arc<str>, &IndexedFile)| SourceFile {
            path: path.clone(),
            facts: file.facts.clone(),
            symbols: file.symbols.clone(),
        };
        let is_stale = |file: &IndexedFile| stale.contains_key(&file.facts.language.family());
        let sources: Vec<SourceFile> =
            self.files.iter().filter(|(_, file)| is_stale(file)).map(source).collect();
        let symbols: Vec<Arc<SymbolKeys>> =
            self.files.values().filter(|file| is_stale(file)).map(|file| file.keys.clone()).collect();
        let mut world = World::new(&sources, project, std::mem::take(&mut self.names));
        world.imported = self.current_imports();
        let mut count = 0;
        for (family, mut paths) in stale {
            if !family.is_dynamic() {
                let change = self.settle(family, &world, &symbols);
                let is_affected = |(path, file): &(&Arc<str>, &IndexedFile)| {
                    file.facts.language.family() == family
                        && (paths.binary_search(path).is_ok()
                            || change.as_ref().is_none_or(|change| self.depends_on(path, change)))
                };
                paths = self.files.iter().filter(is_affected).map(|(path, _)| path.clone()).collect();
            }
            count += paths.len();
            let numbers: Vec<u32> = paths.iter().filter_map(|path| world.file_at(path)).collect();
            let groups: Vec<&[u32]> =
                if family.is_dynamic() { vec![&numbers] } else { numbers.chunks(1).collect() };
            let mut paths = paths.into_iter();
            for group in groups {
                drop(world.take_asked());
                let links = collect(&world, &symbols, group);
                let asked = if family.is_dynamic() { Arc::default() } else { world.take_asked() };
                for (links, path) in links.into_iter().zip(&mut paths) {
                    let key = keys.get(&path).copied().unwrap_or_default();
                    let resolved = Resolved { key, links: Arc::new(links), asked: asked.clone() };
                    self.resolved.insert(path, resolved);
                }
            }
        }
        self.names = world.into_names();
        count
    }

    /// Returns the short hashes of the names whose declarations have changed since the last resolution, or `None` if
    /// that is not all that has.
    fn changed_names(&self) -> BTreeMap<Family, Option<Vec<u32>>> {
        let mut changed: BTreeMap<Family, Option<Vec<u32>>> = BTreeMap::new();
        for (path, file) in &self.files {
            let family = file.facts.language.family();
            if let Some(known) = self.settled.get(&family).and_then(|settled| settled.interfaces.get(path))
                && !Arc::ptr_eq(known, &file.interface)
            {
                let names = changed.entry(family).or_insert_with(|| Some(Vec::new()));
                if let Some(found) = names
                    && !file.interface.add_differences(known, found)
                {
                    *names = None;
                }
            }
        }
        changed.values_mut().flatten().for_each(|names| names.sort_unstable());
        changed
    }

    /// Notes the state of a family. Returns what has changed in the structure of the types since the last
    /// resolution, or `None` if that can be anything.
    fn settle(
        &mut self,
        family: Family,
        world: &World,
        symbols: &[Arc<SymbolKeys>],
    ) -> Option<StructureChange> {
        let structure = world.structure(family, symbols);
        let change = self.settled.get(&family).and_then(|before| structure.change(&before.structure));
        let settled = self.as_settled((family, structure));
        self.settled.insert(family, settled);
        change
    }

    /// Returns true if a change of the structure concerns a file.
    fn depends_on(&self, path: &Arc<str>, change: &StructureChange) -> bool {
        change.files.binary_search(path).is_ok()
            || self.resolved.get(path).is_none_or(|known| known.has_asked(&change.names))
    }

    /// Numbers the names anew if most of them are of files that are gone.
    fn drop_old_names(&mut self) {
        let uses: usize = self.files.values().map(|file| file.symbols.len()).sum();
        if self.names.len() > 2 * uses + SPARE_NAMES {
            self.names = Names::default();
            for file in self.files.values_mut() {
                file.symbols = self.names.of_file(&file.facts);
            }
        }
    }

    /// Returns what the manifests say, and a hash of them.
    fn project(&mut self) -> (Arc<Project>, blake3::Hasher) {
        if let Some(known) = &self.project {
            return known.clone();
        }
        let mut project = Project::default();
        let mut hasher = blake3::Hasher::new();
        for (path, content) in &self.manifests {
            project.add(path, content);
            hasher.update(path.as_bytes());
            hasher.update(&[0]);
            hasher.update(blake3::hash(content).as_bytes());
        }
        if let Some(hash) = self.imported.hash() {
            hasher.update(&hash);
        }
        self.project.insert((Arc::new(project), hasher)).clone()
    }

    /// Returns what the files of each family depend on: of a family that is resolved as a whole the facts of all
    /// its files, of another one their interfaces.
    fn surroundings(&self, manifests: &blake3::Hasher) -> BTreeMap<Family, blake3::Hasher> {
        let mut all: BTreeMap<Family, blake3::Hasher> = BTreeMap::new();
        for (path, file) in &self.files {
            let family = file.facts.language.family();
            let hasher = all.entry(family).or_insert_with(|| manifests.clone());
            hasher.update(path.as_bytes());
            hasher.update(&[0]);
            hasher.update(if family.is_dynamic() { &file.key.0 } else { &file.interface.shape });
        }
        all
    }

    /// Returns the files by their paths.
    pub(crate) fn files(&self) -> &BTreeMap<Arc<str>, IndexedFile> {
        &self.files
    }

    /// Returns the relationships that start in a file.
    pub(crate) fn links(&self, path: &str) -> Option<&Arc<FileLinks>> {
        self.resolved.get(path).map(|known| &known.links)
    }

    /// Returns the number of lines of all files whose facts are in memory.
    pub fn line_count(&self) -> u64 {
        self.files.values().map(|file| u64::from(file.facts.line_count)).sum()
    }

    /// Returns the number of updates so far.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the facts of a file, if they are in memory.
    pub fn facts(&self, path: &str) -> Option<&FileFacts> {
        self.files.get(path).map(|file| &*file.facts)
    }
}

/// Returns true if a file of this path is read: code of a language that was compiled in, or a manifest.
pub fn is_indexed(path: &str) -> bool {
    is_indexed_with(path, is_supported)
}

/// Returns true if a file of this path is read by a program that has these languages.
pub fn is_indexed_with(path: &str, supports: impl FnOnce(Language) -> bool) -> bool {
    is_manifest(path) || Language::of_path(path).is_some_and(supports)
}
