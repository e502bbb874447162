//! The links of all nodes on one side, in compressed rows: one array of links, sorted by node and type.

use crate::graph::{Link, NodeId, TypeId};

/// The links of all nodes on one side.
#[derive(Debug, Default)]
pub(super) struct Adjacency {
    /// The index of the first link of each node, and the number of links at the end.
    offsets: Vec<u32>,
    links: Vec<Link>,
    /// The type of each link.
    types: Vec<TypeId>,
}

impl Adjacency {
    /// Creates the rows from links that are sorted by node and type.
    pub(super) fn new(nodes: usize, sorted: impl ExactSizeIterator<Item = (NodeId, TypeId, Link)>) -> Self {
        let mut all = Self {
            offsets: Vec::with_capacity(nodes + 1),
            links: Vec::with_capacity(sorted.len()),
            types: Vec::with_capacity(sorted.len()),
        };
        let mut count = 0_u32;
        for (node, relationship_type, link) in sorted {
            while all.offsets.len() <= node.0 as usize {
                all.offsets.push(count);
            }
            all.links.push(link);
            all.types.push(relationship_type);
            count += 1;
        }
        all.offsets.resize(nodes + 1, count);
        all
    }

    /// Returns the links of a node: of one type, or of all types.
    pub(super) fn links(&self, node: NodeId, relationship_type: Option<TypeId>) -> &[Link] {
        let at = node.0 as usize;
        let (Some(first), Some(last)) = (self.offsets.get(at), self.offsets.get(at + 1)) else { return &[] };
        let row = *first as usize..*last as usize;
        let links = self.links.get(row.clone()).unwrap_or_default();
        let Some(wanted) = relationship_type else { return links };
        let types = self.types.get(row).unwrap_or_default();
        let begin = types.partition_point(|known| *known < wanted);
        let length = types.get(begin..).unwrap_or_default().partition_point(|known| *known == wanted);
        links.get(begin..begin + length).unwrap_or_default()
    }

    /// Returns the node at the far end of a link.
    pub(super) fn neighbour_at(&self, at: usize) -> Option<NodeId> {
        self.links.get(at).map(|link| link.neighbour)
    }

    /// Returns the type of a link.
    pub(super) fn type_at(&self, at: usize) -> Option<TypeId> {
        self.types.get(at).copied()
    }
}
