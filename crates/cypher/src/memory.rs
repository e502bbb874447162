//! A property graph in memory, compact and unchangeable: adjacency in compressed rows, names as numbers,
//! properties in columns. It is made by a [`GraphBuilder`], and knows no query.

mod adjacency;
mod assembly;
mod builder;
mod column;
mod index;
mod stored;

use std::sync::Arc;

use crate::graph::{Graph, KeyId, LabelId, Link, NodeId, RelationshipId, Side, TypeId};
use crate::value::Value;
use adjacency::Adjacency;
use assembly::Counts;
pub use builder::{BuildError, GraphBuilder};
use column::Columns;
use index::Index;

/// A property graph in memory.
#[derive(Debug, Default)]
pub struct MemoryGraph {
    labels: Vec<Arc<str>>,
    types: Vec<Arc<str>>,
    keys: Vec<Arc<str>>,
    /// Every set of labels that a node has, once.
    label_sets: Vec<Vec<LabelId>>,
    /// The number of the label set of each node.
    label_set_of: Vec<u32>,
    nodes_by_label: Vec<Vec<NodeId>>,
    relationships_by_type: Vec<usize>,
    counts: Counts,
    outgoing: Adjacency,
    incoming: Adjacency,
    /// The start of each relationship. Its end is in `outgoing`, at the number of the relationship.
    starts: Vec<NodeId>,
    /// Every text of the properties, once.
    texts: Vec<Arc<str>>,
    node_columns: Columns,
    relationship_columns: Columns,
    /// The index of each property key that has one, by the number of the key.
    indexes: Vec<Option<Index>>,
}

impl Graph for MemoryGraph {
    fn node_count(&self) -> usize {
        self.label_set_of.len()
    }

    fn relationship_count(&self) -> usize {
        self.starts.len()
    }

    fn labels(&self) -> &[Arc<str>] {
        &self.labels
    }

    fn relationship_types(&self) -> &[Arc<str>] {
        &self.types
    }

    fn property_keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    fn nodes_with_label(&self, label: LabelId) -> &[NodeId] {
        self.nodes_by_label.get(usize::from(label.0)).map_or(&[], Vec::as_slice)
    }

    fn count_of_type(&self, relationship_type: TypeId) -> usize {
        self.relationships_by_type.get(usize::from(relationship_type.0)).copied().unwrap_or(0)
    }

    fn count_at(&self, relationship_type: TypeId, side: Side, label: LabelId) -> usize {
        self.counts.at(relationship_type, side, label)
    }

    fn labels_of(&self, node: NodeId) -> &[LabelId] {
        let set = self.label_set_of.get(node.0 as usize).and_then(|set| self.label_sets.get(*set as usize));
        set.map_or(&[], Vec::as_slice)
    }

    fn links(&self, node: NodeId, side: Side, relationship_type: Option<TypeId>) -> &[Link] {
        match side {
            Side::Outgoing => self.outgoing.links(node, relationship_type),
            Side::Incoming => self.incoming.links(node, relationship_type),
        }
    }

    fn ends(&self, relationship: RelationshipId) -> (NodeId, NodeId) {
        let at = relationship.0 as usize;
        let start = self.starts.get(at).copied().unwrap_or(NodeId(0));
        (start, self.outgoing.neighbour_at(at).unwrap_or(start))
    }

    fn type_of(&self, relationship: RelationshipId) -> TypeId {
        self.outgoing.type_at(relationship.0 as usize).unwrap_or(TypeId(0))
    }

    fn node_property(&self, node: NodeId, key: KeyId) -> Value {
        self.node_columns.value(key, node.0, &self.texts)
    }

    fn relationship_property(&self, relationship: RelationshipId, key: KeyId) -> Value {
        self.relationship_columns.value(key, relationship.0, &self.texts)
    }

    fn keys_of_node(&self, node: NodeId) -> Vec<KeyId> {
        self.node_columns.keys(node.0)
    }

    fn keys_of_relationship(&self, relationship: RelationshipId) -> Vec<KeyId> {
        self.relationship_columns.keys(relationship.0)
    }

    fn find(&self, label: Option<LabelId>, key: KeyId, value: &Value) -> Option<Vec<NodeId>> {
        let index = self.indexes.get(usize::from(key.0))?.as_ref()?;
        let has_label = |node: &NodeId| label.is_none_or(|label| self.labels_of(*node).contains(&label));
        Some(index.nodes(value).filter(has_label).collect())
    }

    fn estimate(&self, key: KeyId, value: Option<&Value>) -> Option<usize> {
        let index = self.indexes.get(usize::from(key.0))?.as_ref()?;
        Some(value.map_or_else(|| index.average(), |value| index.nodes(value).count()))
    }
}
