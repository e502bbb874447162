//! Graphs that are kept for the next start. An opened one answers queries at once; only the first edit needs the
//! facts and relationships that it was made of.

use std::io;
use std::sync::Arc;

use cypher::{BuildError, Graph, MemoryGraph, NodeId, Value};

use super::live::LiveGraph;
use super::patch::{Patch, PatchedGraph};
use super::segment::{Place, Segment};
use super::{INDEXED, Whole};
use crate::cache::GraphFolder;
use crate::fast_hash::FastMap;
use crate::index::CodeIndex;
use crate::language::Family;
use crate::relation::{LABELS, PROPERTIES, Relation};

/// The version of the way from facts and relationships to a graph. It must change with every change of that way.
const GRAPH_VERSION: u32 = 1;

impl LiveGraph {
    /// Opens the graph that was kept of exactly the files of an index that has resolved nothing yet. Returns `None`
    /// if there is none, or only a damaged one or one of another version.
    pub fn open(&mut self, index: &mut CodeIndex, folder: &GraphFolder) -> Option<PatchedGraph> {
        if !index.may_sleep() {
            return None;
        }
        let bytes = folder.load(&self.key(index))?;
        let graph = Arc::new(MemoryGraph::from_bytes(&bytes)?);
        index.note_opened();
        self.whole = None;
        self.opened = Some(graph.clone());
        Some(Patch::new(graph).build())
    }

    /// Returns true if the graph was opened, and not completed since. It must be before a change of the index.
    pub fn is_opened(&self) -> bool {
        self.opened.is_some()
    }

    /// Completes a graph that was opened, so that it can follow changes. The index has to be awake and settled, and
    /// still that of the graph.
    pub fn complete(&mut self, index: &CodeIndex) {
        if let Some(graph) = self.opened.take() {
            self.whole = Some(Whole::of_opened(graph, index));
        }
    }

    /// Returns the key of the graph of an index: a hash of everything that it depends on.
    pub fn key(&self, index: &mut CodeIndex) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes()).update(&GRAPH_VERSION.to_le_bytes());
        let names = Relation::ALL.map(Relation::name);
        for text in LABELS.iter().chain(&names).chain(&PROPERTIES).chain(&INDEXED).chain(&[&*self.name]) {
            hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
        }
        hasher.update(&index.relationships_key());
        *hasher.finalize().as_bytes()
    }
}

impl PatchedGraph {
    /// Keeps the graph for the next start.
    ///
    /// # Errors
    /// Returns the error of the operating system if the graph cannot be written.
    pub fn keep(&self, key: &[u8; 32], folder: &GraphFolder) -> io::Result<()> {
        let bytes = match self.unpatched() {
            Some(graph) => graph.to_bytes(),
            None => {
                MemoryGraph::copy_of(self).map_err(|error: BuildError| io::Error::other(error))?.to_bytes()
            }
        };
        folder.save(key, &bytes)
    }
}

impl Whole {
    /// Creates what later graphs are compared with, from an opened graph and its index.
    fn of_opened(graph: Arc<MemoryGraph>, index: &CodeIndex) -> Self {
        let places = places(&graph);
        let is_missing = |end: &Place| !end.is_shared() && !places.contains_key(end);
        let segments =
            index.files().iter().map(|(path, file)| Segment { path, file, links: index.links(path) });
        let dangling = segments
            .filter(|segment| segment.link_ends().any(|(from, to)| is_missing(&from) || is_missing(&to)))
            .map(|segment| segment.path.clone());
        let dangling = dangling.collect();
        Self { graph, places, files: Self::files_of(index), dangling }
    }
}

/// Returns the node of each place of a graph.
fn places(graph: &MemoryGraph) -> FastMap<Place, NodeId> {
    let label = |name: &str| (0..).zip(graph.labels()).find(|(_, known)| &***known == name);
    let [repo, folder, file, external] = ["Repo", "Directory", "File", "External"]
        .map(|name| label(name).map(|(number, _)| cypher::LabelId(number)));
    let key =
        |name: &str| (0..).map(cypher::KeyId).zip(graph.property_keys()).find(|(_, known)| &***known == name);
    let [id, path, qualified, language] =
        ["id", "path", "qualified_name", "language"].map(|name| key(name).map(|(key, _)| key));
    let text = |node: NodeId, key: Option<cypher::KeyId>| match key.map(|key| graph.node_property(node, key))
    {
        Some(Value::String(text)) => text,
        _ => Arc::from(""),
    };
    let mut places = FastMap::default();
    places.reserve(graph.node_count());
    for node in (0..u32::try_from(graph.node_bound()).unwrap_or(u32::MAX)).map(NodeId) {
        let first = graph.labels_of(node).first().copied();
        let place = if first == repo {
            Place::Folder("".into())
        } else if first == folder {
            Place::Folder(text(node, path))
        } else if first == file {
            Place::File(text(node, path))
        } else if first == external {
            let language = text(node, language);
            let Some(family) = Family::ALL.into_iter().find(|family| family.name() == &*language) else {
                continue;
            };
            Place::External(family, text(node, qualified))
        } else {
            Place::Symbol(text(node, id))
        };
        places.insert(place, node);
    }
    places
}
