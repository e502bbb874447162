//! The copy of any graph as one in memory.

use super::{BuildError, Edge, GraphBuilder, MemoryGraph, push_cell};
use crate::graph::{Graph, KeyId, NodeId, Side};

impl MemoryGraph {
    /// Copies a graph. Its nodes and relationships are numbered anew, without gaps.
    ///
    /// # Errors
    /// Returns [`BuildError`] if there are too many names, nodes or relationships, or if a value cannot be a
    /// property.
    pub fn copy_of(graph: &dyn Graph) -> Result<Self, BuildError> {
        let mut builder = GraphBuilder::new();
        let names = |names: &[std::sync::Arc<str>]| names.to_vec();
        for (names, known) in [
            (names(graph.labels()), &mut builder.labels),
            (names(graph.relationship_types()), &mut builder.types),
            (names(graph.property_keys()), &mut builder.keys),
        ] {
            for name in names {
                known.number(&name)?;
            }
        }
        let keys: Vec<KeyId> = (0..).map(KeyId).take(graph.property_keys().len()).collect();
        builder.indexed = keys.iter().copied().filter(|key| graph.estimate(*key, None).is_some()).collect();
        let bound = u32::try_from(graph.node_bound()).map_err(|_| BuildError::TooManyEntities)?;
        let mut numbers = vec![None; graph.node_bound()];
        for (node, number) in (0..bound).map(NodeId).zip(&mut numbers) {
            if !graph.has_node(node) {
                continue;
            }
            let row = builder.row(graph.labels_of(node).to_vec())?;
            *number = Some(NodeId(row));
            for key in &keys {
                let cell = builder.cell(graph.node_property(node, *key))?;
                push_cell(&mut builder.node_cells, *key, row, cell);
            }
        }
        let number_of = |node: NodeId| numbers.get(node.0 as usize).copied().flatten();
        for node in (0..bound).map(NodeId) {
            let Some(start) = number_of(node) else { continue };
            for link in graph.links(node, Side::Outgoing, None) {
                let end = number_of(link.neighbour).ok_or(BuildError::UnknownNode)?;
                let relationship_type = graph.type_of(link.relationship);
                let added = super::next_number(builder.relationships.len())?;
                builder.relationships.push(Edge { start, relationship_type, end, added });
                for key in &keys {
                    let cell = builder.cell(graph.relationship_property(link.relationship, *key))?;
                    push_cell(&mut builder.relationship_cells, *key, added, cell);
                }
            }
        }
        Ok(builder.build())
    }
}
