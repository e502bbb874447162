//! The graph of an index that changes.

use std::sync::Arc;

use cypher::{BuildError, MemoryGraph};

use super::Whole;
use super::difference::Difference;
use super::patch::{Patch, PatchedGraph};
use crate::index::CodeIndex;

/// Number of nodes and relationships that a patch compares at most. More of them take longer than a new graph of a
/// small project; the graph of a large one may be patched further, in proportion to its size.
const SMALL_PATCH: usize = 20_000;
/// Part of a graph that a patch compares at most.
const PART: usize = 16;

/// The graph of one index, kept so that an edit of a file costs what the file has, and not what the project has.
///
/// Its graphs have the same nodes and relationships as [`CodeIndex::graph`]; their numbers may differ.
#[derive(Debug)]
pub struct LiveGraph {
    pub(super) name: Box<str>,
    pub(super) whole: Option<Whole>,
    /// Graph that was opened, until [`LiveGraph::complete`].
    pub(super) opened: Option<Arc<MemoryGraph>>,
}

impl LiveGraph {
    /// Creates an empty one. `name` is the name of the project.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), whole: None, opened: None }
    }

    /// Returns the graph of an index as it is now. It builds a new one if there is none, or if too much of it is
    /// different.
    ///
    /// # Errors
    /// Returns [`BuildError`] if the graph would have more nodes or relationships than 32 bits can number.
    pub fn graph(&mut self, index: &CodeIndex) -> Result<PatchedGraph, BuildError> {
        if let Some(graph) = &self.opened {
            return Ok(Patch::new(graph.clone()).build());
        }
        let whole = match self.whole.take() {
            Some(whole) => whole,
            None => Whole::new(index, &self.name)?,
        };
        let difference = Difference::new(&whole, index);
        let (whole, difference) = if difference.weight > whole.allowance() {
            (Whole::new(index, &self.name)?, Difference::default())
        } else {
            (whole, difference)
        };
        let graph = difference.patch(&whole, index, &self.name);
        self.whole = Some(whole);
        graph
    }

    /// Builds a new graph, so that the next patches are small. To be called when nobody waits, if
    /// [`LiveGraph::is_worn`].
    ///
    /// # Errors
    /// Returns [`BuildError`] as [`LiveGraph::graph`] does.
    pub fn rebuild(&mut self, index: &CodeIndex) -> Result<(), BuildError> {
        self.whole = Some(Whole::new(index, &self.name)?);
        self.opened = None;
        Ok(())
    }

    /// Returns true if so much is different that half of what a patch may compare is used up, or if there is no
    /// graph yet.
    pub fn is_worn(&self, index: &CodeIndex) -> bool {
        self.opened.is_none()
            && self
                .whole
                .as_ref()
                .is_none_or(|whole| Difference::new(whole, index).weight > whole.allowance() / 2)
    }
}

impl Whole {
    /// Returns how much a patch may compare.
    fn allowance(&self) -> usize {
        use cypher::Graph;
        SMALL_PATCH.max((self.graph.node_count() + self.graph.relationship_count()) / PART)
    }
}
