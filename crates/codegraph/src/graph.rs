//! The graph of an index, for queries: whole, or as a patch of an earlier one.

mod difference;
mod live;
mod opening;
mod patch;
mod segment;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cypher::{BuildError, GraphBuilder, MemoryGraph, NodeId};

use crate::fast_hash::FastMap;
use crate::index::{CodeIndex, IndexedFile};
use crate::links::FileLinks;
use crate::project::folder_of;
use crate::relation::{LABELS, PROPERTIES, Relation};
pub use live::LiveGraph;
pub use patch::PatchedGraph;
use segment::{Place, Segment, Texts, shared_node};

/// Property keys of nodes that queries find nodes by.
const INDEXED: [&str; 4] = ["id", "name", "path", "qualified_name"];

/// A graph, and what it was made of.
#[derive(Debug)]
struct Whole {
    graph: Arc<MemoryGraph>,
    /// Node of each place.
    places: FastMap<Place, NodeId>,
    /// Files with their links.
    files: BTreeMap<Arc<str>, (IndexedFile, Option<Arc<FileLinks>>)>,
    /// Files with relationships that are not there, because an end of them is missing.
    dangling: BTreeSet<Arc<str>>,
}

/// The graph of an index under construction.
struct Filler<'a> {
    name: &'a str,
    builder: GraphBuilder,
    places: FastMap<Place, NodeId>,
}

impl CodeIndex {
    /// Returns the graph of the index. `name` is the name of the project.
    ///
    /// # Errors
    /// Returns [`BuildError`] if the graph would have more nodes or relationships than 32 bits can number.
    pub fn graph(&self, name: &str) -> Result<MemoryGraph, BuildError> {
        Ok(Filler::fill(self, name)?.0.builder.build())
    }
}

impl Whole {
    /// Creates the graph of an index, with what later ones are compared with.
    fn new(index: &CodeIndex, name: &str) -> Result<Self, BuildError> {
        let (filler, dangling) = Filler::fill(index, name)?;
        let graph = Arc::new(filler.builder.build());
        Ok(Self { graph, places: filler.places, files: Self::files_of(index), dangling })
    }

    /// Returns the files of an index with their links.
    fn files_of(index: &CodeIndex) -> BTreeMap<Arc<str>, (IndexedFile, Option<Arc<FileLinks>>)> {
        let version = |(path, file): (&Arc<str>, &IndexedFile)| {
            (path.clone(), (file.clone(), index.links(path).cloned()))
        };
        index.files().iter().map(version).collect()
    }
}

impl<'a> Filler<'a> {
    /// Adds everything. Returns the files with relationships that lead nowhere, too.
    fn fill(index: &CodeIndex, name: &'a str) -> Result<(Self, BTreeSet<Arc<str>>), BuildError> {
        let mut filler = Self { name, builder: GraphBuilder::new(), places: FastMap::default() };
        // Always all of them, so that a patch needs no new ones.
        filler.builder.declare(&LABELS, &Relation::ALL.map(Relation::name), &PROPERTIES)?;
        for key in INDEXED {
            filler.builder.add_index(key)?;
        }
        filler.shared(&Place::Folder("".into()))?;
        let mut texts = Texts::default();
        let segments =
            index.files().iter().map(|(path, file)| Segment { path, file, links: index.links(path) });
        for segment in segments.clone() {
            for node in segment.nodes(&mut texts) {
                let number = filler.builder.add_node(node.labels, &node.properties)?;
                filler.places.insert(node.place, number);
            }
        }
        let mut dangling = BTreeSet::new();
        for segment in segments {
            for ((from, relation, to), properties) in segment.relationships(&mut texts) {
                let is_missing = |end: &Place| !end.is_shared() && !filler.places.contains_key(end);
                if is_missing(&from) || is_missing(&to) {
                    dangling.insert(segment.path.clone());
                    continue;
                }
                let (from, to) = (filler.shared(&from)?, filler.shared(&to)?);
                filler.builder.add_relationship(from, relation.name(), to, &properties)?;
            }
        }
        Ok((filler, dangling))
    }

    /// Returns the node of a place, and creates it if it is one that files share.
    fn shared(&mut self, place: &Place) -> Result<NodeId, BuildError> {
        if let Some(node) = self.places.get(place) {
            return Ok(*node);
        }
        let mut missing = place.clone();
        let mut inner = None;
        let mut first = None;
        loop {
            let known = self.places.get(&missing).copied();
            let node = match known {
                Some(node) => node,
                None => {
                    let (labels, properties) = shared_node(&missing, self.name);
                    self.builder.add_node(labels, &properties)?
                }
            };
            if let Some(inner) = inner {
                self.builder.add_relationship(node, Relation::Contains.name(), inner, &[])?;
            }
            let first = *first.get_or_insert(node);
            if known.is_some() {
                return Ok(first);
            }
            self.places.insert(missing.clone(), node);
            let Place::Folder(path) = &missing else { return Ok(first) };
            if path.is_empty() {
                return Ok(first);
            }
            inner = Some(node);
            missing = Place::Folder(folder_of(path).into());
        }
    }
}
