//! The interface between queries and a property graph. It says nothing about how a graph is stored, and a
//! query reads a graph in no other way.

use std::sync::Arc;

pub use crate::identifier::{KeyId, LabelId, NodeId, RelationshipId, TypeId};
use crate::value::Value;

/// One end of a relationship, as the node at its other end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The relationship.
    pub relationship: RelationshipId,
    /// The node at the far end.
    pub neighbour: NodeId,
}

/// The side of a node at which its links are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Relationships that start at the node.
    Outgoing,
    /// Relationships that end at the node.
    Incoming,
}

/// A property graph that does not change while it is read.
pub trait Graph: Sync {
    /// Returns the number of nodes.
    fn node_count(&self) -> usize;

    /// Returns the number after the highest one that a node has. It is that of the nodes if no number between is
    /// free.
    fn node_bound(&self) -> usize {
        self.node_count()
    }

    /// Returns true if a node has this number.
    fn has_node(&self, node: NodeId) -> bool {
        (node.0 as usize) < self.node_bound()
    }

    /// Returns the number of relationships.
    fn relationship_count(&self) -> usize;

    /// Returns the names of the labels, by their numbers.
    fn labels(&self) -> &[Arc<str>];

    /// Returns the names of the relationship types, by their numbers.
    fn relationship_types(&self) -> &[Arc<str>];

    /// Returns the names of the property keys of nodes and relationships, by their numbers.
    fn property_keys(&self) -> &[Arc<str>];

    /// Returns the nodes with a label, in ascending order.
    fn nodes_with_label(&self, label: LabelId) -> &[NodeId];

    /// Returns the number of relationships of a type.
    fn count_of_type(&self, relationship_type: TypeId) -> usize;

    /// Returns the number of relationships of a type whose node at one end has a label: their starts for
    /// [`Side::Outgoing`], their ends for [`Side::Incoming`].
    fn count_at(&self, relationship_type: TypeId, side: Side, label: LabelId) -> usize;

    /// Returns the labels of a node, in the order of their numbers.
    fn labels_of(&self, node: NodeId) -> &[LabelId];

    /// Returns the links of a node on one side: of one type, or of all types.
    fn links(&self, node: NodeId, side: Side, relationship_type: Option<TypeId>) -> &[Link];

    /// Returns the start and the end of a relationship.
    fn ends(&self, relationship: RelationshipId) -> (NodeId, NodeId);

    /// Returns the type of a relationship.
    fn type_of(&self, relationship: RelationshipId) -> TypeId;

    /// Returns a property of a node, or null.
    fn node_property(&self, node: NodeId, key: KeyId) -> Value;

    /// Returns a property of a relationship, or null.
    fn relationship_property(&self, relationship: RelationshipId, key: KeyId) -> Value;

    /// Returns the keys that a node has values for.
    fn keys_of_node(&self, node: NodeId) -> Vec<KeyId>;

    /// Returns the keys that a relationship has values for.
    fn keys_of_relationship(&self, relationship: RelationshipId) -> Vec<KeyId>;

    /// Returns the nodes whose property may equal a value, in ascending order, or `None` without an index.
    /// With a label, only nodes with that label.
    fn find(&self, label: Option<LabelId>, key: KeyId, value: &Value) -> Option<Vec<NodeId>>;

    /// Returns about how many nodes [`Graph::find`] finds: for a given value, or on the average.
    fn estimate(&self, key: KeyId, value: Option<&Value>) -> Option<usize>;
}

/// Returns the number of a name in a list of names.
pub(crate) fn number_of(names: &[Arc<str>], name: &str) -> Option<u16> {
    names.iter().position(|known| **known == *name).and_then(|at| u16::try_from(at).ok())
}
