//! The relationships that start in one file, from the values of its expressions. Their ends are stable keys, so
//! they stay valid as long as the file and the declarations of the others do.

mod calls;
mod compiler;
mod declarations;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::DefinitionId;
use crate::fast_hash::FastMap;
use crate::relation::{Confidence, Relation, Via};
use crate::solve::Solver;
use crate::symbols::SymbolKeys;
use crate::world::{FileId, GlobalDefinition, World, WorldFile};

/// The start of a relationship, as its file sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// The file.
    File,
    /// A definition; 0 is the top level of the file.
    Definition(DefinitionId),
    /// A variable.
    Variable(u32),
    /// A definition of any file, by its key.
    Symbol(Arc<str>),
}

/// The end of a relationship.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Target {
    /// A definition or a variable, by its key.
    Symbol(Arc<str>),
    /// A file, by its path.
    File(Arc<str>),
    /// Something outside of the project, by its path.
    External(Arc<str>),
}

/// The kind, start and end of a relationship: relationships that agree in it are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkKey {
    /// Start.
    pub(crate) origin: Origin,
    /// Type.
    pub(crate) relation: Relation,
    /// End.
    pub(crate) target: Target,
}

/// The properties of a relationship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// First line of the file at which it shows.
    pub(crate) line: u32,
    /// Number of places at which it shows.
    pub(crate) count: u32,
    /// Best certainty of these places.
    pub(crate) confidence: Confidence,
    /// Way of the place with that certainty.
    pub(crate) via: Via,
    /// Name, alias or kind, as the type of the relationship has it.
    pub(crate) detail: Option<Arc<str>>,
}

/// The relationships that start in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileLinks {
    /// Relationships.
    pub(crate) links: BTreeMap<LinkKey, Link>,
    /// Number of calls of each definition for which no target was found.
    pub(crate) unresolved: BTreeMap<DefinitionId, u32>,
}

/// The collection of the relationships of one file.
struct Collector<'a, 'w> {
    world: &'w World,
    keys: &'a [Arc<SymbolKeys>],
    solver: &'a mut Solver<'w>,
    file: FileId,
    found: &'w WorldFile,
    links: FileLinks,
    /// Node of the graph around each definition.
    callers: FastMap<DefinitionId, DefinitionId>,
}

/// Collects the relationships of the files that a solver has solved.
pub(crate) fn collect(world: &World, keys: &[Arc<SymbolKeys>], files: &[FileId]) -> Vec<FileLinks> {
    let mut solver = Solver::solve(world, files);
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let Some(found) = world.file(*file) else { continue };
        let mut collector = Collector {
            world,
            keys,
            solver: &mut solver,
            file: *file,
            found,
            links: FileLinks::default(),
            callers: FastMap::default(),
        };
        collector.declarations();
        collector.calls();
        all.push(collector.links);
    }
    all
}

impl Collector<'_, '_> {
    /// Adds a relationship, or counts it if it is there.
    fn add(&mut self, key: LinkKey, line: u32, confidence: Confidence, via: Via, detail: Option<Arc<str>>) {
        let link = Link { line, count: 0, confidence, via, detail };
        let known = self.links.links.entry(key).or_insert(link);
        known.count += 1;
        known.line = known.line.min(line);
        if confidence < known.confidence {
            known.confidence = confidence;
            known.via = via;
        }
    }

    /// Returns the key of a definition that is a node of the graph.
    fn key_of(&self, definition: GlobalDefinition) -> Option<Arc<str>> {
        let (file, _, local) = self.world.local(definition)?;
        self.keys.get(file as usize)?.definitions.get(local as usize)?.clone()
    }

    /// Returns the innermost node of the graph around a definition that can call.
    fn caller_of(&mut self, definition: DefinitionId) -> DefinitionId {
        if let Some(caller) = self.callers.get(&definition) {
            return *caller;
        }
        let own = self.keys.get(self.file as usize);
        let mut at = definition;
        loop {
            let is_node =
                own.is_some_and(|keys| keys.definitions.get(at as usize).is_some_and(Option::is_some));
            let kind = self
                .found
                .facts
                .definitions
                .get(at as usize)
                .map(|definition| (definition.kind, definition.parent));
            let Some((kind, parent)) = kind else { break };
            if at == 0 || is_node && kind.is_function() {
                break;
            }
            at = parent;
        }
        self.callers.insert(definition, at);
        at
    }
}
