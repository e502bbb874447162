//! A graph as an earlier one and what is different. It knows no code: only numbers of nodes and relationships.

mod build;

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use cypher::{Graph, KeyId, LabelId, Link, MemoryGraph, NodeId, RelationshipId, Side, TypeId, Value};

use crate::fast_hash::{FastHasher, FastMap};
pub(super) use build::Patch;

/// A set with a fast hash.
type FastSet<T> = HashSet<T, BuildHasherDefault<FastHasher>>;

/// Properties by their keys.
type Cells = Vec<(KeyId, Value)>;

/// A graph of code that shares most of an earlier one. It does not change while queries read it.
#[derive(Debug)]
pub struct PatchedGraph {
    base: Arc<MemoryGraph>,
    /// Nodes behind those of the base.
    added: Vec<Node>,
    /// Nodes of the base with other properties.
    changed: FastMap<NodeId, Node>,
    removed: FastSet<NodeId>,
    /// Relationships behind those of the base.
    added_relationships: Vec<Relationship>,
    /// Relationships of the base with other properties.
    changed_relationships: FastMap<RelationshipId, Cells>,
    relationship_count: usize,
    /// Links of the nodes that have others than in the base.
    rows: FastMap<(NodeId, Side), Row>,
    /// Nodes of each label that has others than in the base.
    by_label: FastMap<LabelId, Vec<NodeId>>,
    /// Counts that differ from those of the base.
    by_type: FastMap<TypeId, usize>,
    counts: FastMap<(TypeId, Side, LabelId), usize>,
    /// Added and changed nodes by the texts that the base has an index of.
    found: FastMap<KeyId, FastMap<Arc<str>, Vec<NodeId>>>,
}

/// A node with its labels and properties.
#[derive(Debug, Default)]
struct Node {
    labels: Vec<LabelId>,
    cells: Cells,
}

/// A relationship with its ends, type and properties.
#[derive(Debug)]
struct Relationship {
    start: NodeId,
    kind: TypeId,
    end: NodeId,
    cells: Cells,
}

/// The links of a node on one side, sorted by their types.
#[derive(Debug, Default)]
struct Row {
    links: Vec<Link>,
    types: Vec<TypeId>,
}

impl PatchedGraph {
    /// Returns the graph that this one shares everything with, if nothing is different.
    pub(super) fn unpatched(&self) -> Option<&MemoryGraph> {
        self.is_whole().then_some(&*self.base)
    }

    /// Returns true if nothing is different from the graph that was built or opened.
    pub fn is_whole(&self) -> bool {
        self.added.is_empty()
            && self.changed.is_empty()
            && self.removed.is_empty()
            && self.changed_relationships.is_empty()
            && self.rows.is_empty()
    }

    fn node(&self, node: NodeId) -> Option<&Node> {
        match (node.0 as usize).checked_sub(self.base.node_bound()) {
            Some(at) => self.added.get(at),
            None => self.changed.get(&node),
        }
    }

    fn added_relationship(&self, relationship: RelationshipId) -> Option<&Relationship> {
        let at = (relationship.0 as usize).checked_sub(self.base.relationship_count())?;
        self.added_relationships.get(at)
    }

    fn relationship_cells(&self, relationship: RelationshipId) -> Option<&Cells> {
        self.added_relationship(relationship)
            .map(|added| &added.cells)
            .or_else(|| self.changed_relationships.get(&relationship))
    }

    /// Returns the added and changed nodes that may have a value.
    fn found(&self, key: KeyId, value: &Value) -> &[NodeId] {
        let Value::String(text) = value else { return &[] };
        self.found.get(&key).and_then(|nodes| nodes.get(text)).map(Vec::as_slice).unwrap_or_default()
    }
}

fn cell(cells: &Cells, key: KeyId) -> Value {
    cells.iter().find(|(known, _)| *known == key).map_or(Value::Null, |(_, value)| value.clone())
}

fn keys(cells: &Cells) -> Vec<KeyId> {
    let mut keys: Vec<KeyId> = cells.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys
}

impl Graph for PatchedGraph {
    fn node_count(&self) -> usize {
        (self.base.node_count() + self.added.len()).saturating_sub(self.removed.len())
    }

    fn node_bound(&self) -> usize {
        self.base.node_bound() + self.added.len()
    }

    fn has_node(&self, node: NodeId) -> bool {
        (node.0 as usize) < self.node_bound() && !self.removed.contains(&node)
    }

    fn relationship_count(&self) -> usize {
        self.relationship_count
    }

    fn labels(&self) -> &[Arc<str>] {
        self.base.labels()
    }

    fn relationship_types(&self) -> &[Arc<str>] {
        self.base.relationship_types()
    }

    fn property_keys(&self) -> &[Arc<str>] {
        self.base.property_keys()
    }

    fn nodes_with_label(&self, label: LabelId) -> &[NodeId] {
        self.by_label.get(&label).map_or_else(|| self.base.nodes_with_label(label), Vec::as_slice)
    }

    fn count_of_type(&self, relationship_type: TypeId) -> usize {
        let known = self.by_type.get(&relationship_type).copied();
        known.unwrap_or_else(|| self.base.count_of_type(relationship_type))
    }

    fn count_at(&self, relationship_type: TypeId, side: Side, label: LabelId) -> usize {
        let known = self.counts.get(&(relationship_type, side, label)).copied();
        known.unwrap_or_else(|| self.base.count_at(relationship_type, side, label))
    }

    fn labels_of(&self, node: NodeId) -> &[LabelId] {
        self.node(node).map_or_else(|| self.base.labels_of(node), |node| &node.labels)
    }

    fn links(&self, node: NodeId, side: Side, relationship_type: Option<TypeId>) -> &[Link] {
        let Some(row) = self.rows.get(&(node, side)) else {
            return self.base.links(node, side, relationship_type);
        };
        let Some(wanted) = relationship_type else { return &row.links };
        let first = row.types.partition_point(|known| *known < wanted);
        let rest = row.types.get(first..).unwrap_or_default();
        let length = rest.partition_point(|known| *known == wanted);
        row.links.get(first..first + length).unwrap_or_default()
    }

    fn ends(&self, relationship: RelationshipId) -> (NodeId, NodeId) {
        self.added_relationship(relationship)
            .map_or_else(|| self.base.ends(relationship), |added| (added.start, added.end))
    }

    fn type_of(&self, relationship: RelationshipId) -> TypeId {
        self.added_relationship(relationship)
            .map_or_else(|| self.base.type_of(relationship), |added| added.kind)
    }

    fn node_property(&self, node: NodeId, key: KeyId) -> Value {
        self.node(node).map_or_else(|| self.base.node_property(node, key), |node| cell(&node.cells, key))
    }

    fn relationship_property(&self, relationship: RelationshipId, key: KeyId) -> Value {
        self.relationship_cells(relationship)
            .map_or_else(|| self.base.relationship_property(relationship, key), |cells| cell(cells, key))
    }

    fn keys_of_node(&self, node: NodeId) -> Vec<KeyId> {
        self.node(node).map_or_else(|| self.base.keys_of_node(node), |node| keys(&node.cells))
    }

    fn keys_of_relationship(&self, relationship: RelationshipId) -> Vec<KeyId> {
        self.relationship_cells(relationship)
            .map_or_else(|| self.base.keys_of_relationship(relationship), keys)
    }

    fn find(&self, label: Option<LabelId>, key: KeyId, value: &Value) -> Option<Vec<NodeId>> {
        let mut nodes = self.base.find(label, key, value)?;
        nodes.retain(|node| !self.removed.contains(node) && !self.changed.contains_key(node));
        let has_label = |node: &&NodeId| label.is_none_or(|label| self.labels_of(**node).contains(&label));
        nodes.extend(self.found(key, value).iter().filter(has_label));
        nodes.sort_unstable();
        Some(nodes)
    }

    fn estimate(&self, key: KeyId, value: Option<&Value>) -> Option<usize> {
        let base = self.base.estimate(key, value)?;
        Some(base + value.map_or(0, |value| self.found(key, value).len()))
    }
}
