//! Graphs in which numbers of nodes are free, and names that nothing has.

use std::sync::Arc;

use cypher::{
    Graph, GraphBuilder, KeyId, LabelId, Link, MemoryGraph, NodeId, Options, Parameters, RelationshipId,
    Side, TypeId, Value, query,
};

/// A graph without one of its nodes, which has neither labels nor relationships.
struct Without(MemoryGraph, NodeId);

impl Graph for Without {
    fn node_count(&self) -> usize {
        self.0.node_count() - 1
    }

    fn node_bound(&self) -> usize {
        self.0.node_count()
    }

    fn has_node(&self, node: NodeId) -> bool {
        node != self.1 && self.0.has_node(node)
    }

    fn relationship_count(&self) -> usize {
        self.0.relationship_count()
    }

    fn labels(&self) -> &[Arc<str>] {
        self.0.labels()
    }

    fn relationship_types(&self) -> &[Arc<str>] {
        self.0.relationship_types()
    }

    fn property_keys(&self) -> &[Arc<str>] {
        self.0.property_keys()
    }

    fn nodes_with_label(&self, label: LabelId) -> &[NodeId] {
        self.0.nodes_with_label(label)
    }

    fn count_of_type(&self, relationship_type: TypeId) -> usize {
        self.0.count_of_type(relationship_type)
    }

    fn count_at(&self, relationship_type: TypeId, side: Side, label: LabelId) -> usize {
        self.0.count_at(relationship_type, side, label)
    }

    fn labels_of(&self, node: NodeId) -> &[LabelId] {
        self.0.labels_of(node)
    }

    fn links(&self, node: NodeId, side: Side, relationship_type: Option<TypeId>) -> &[Link] {
        self.0.links(node, side, relationship_type)
    }

    fn ends(&self, relationship: RelationshipId) -> (NodeId, NodeId) {
        self.0.ends(relationship)
    }

    fn type_of(&self, relationship: RelationshipId) -> TypeId {
        self.0.type_of(relationship)
    }

    fn node_property(&self, node: NodeId, key: KeyId) -> Value {
        self.0.node_property(node, key)
    }

    fn relationship_property(&self, relationship: RelationshipId, key: KeyId) -> Value {
        self.0.relationship_property(relationship, key)
    }

    fn keys_of_node(&self, node: NodeId) -> Vec<KeyId> {
        self.0.keys_of_node(node)
    }

    fn keys_of_relationship(&self, relationship: RelationshipId) -> Vec<KeyId> {
        self.0.keys_of_relationship(relationship)
    }

    fn find(&self, label: Option<LabelId>, key: KeyId, value: &Value) -> Option<Vec<NodeId>> {
        self.0.find(label, key, value)
    }

    fn estimate(&self, key: KeyId, value: Option<&Value>) -> Option<usize> {
        self.0.estimate(key, value)
    }
}

fn rows(graph: &dyn Graph, text: &str) -> Vec<String> {
    let answer = query(graph, text, &Parameters::new(), &Options::default()).unwrap();
    answer.rows.iter().map(|row| row.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_number_without_a_node_is_no_node() {
    let mut builder = GraphBuilder::new();
    for name in ["a", "b", "c"] {
        builder.add_node(&[], &[("name", Value::from(name))]).unwrap();
    }
    let graph = Without(builder.build(), NodeId(1));
    assert_eq!(rows(&graph, "MATCH (n) RETURN n.name ORDER BY n.name"), ["'a'", "'c'"]);
    assert_eq!(rows(&graph, "MATCH (n) RETURN count(*)"), ["2"]);
    assert_eq!(rows(&graph, "MATCH (n) WHERE id(n) = 1 RETURN n.name"), Vec::<String>::new());
    assert_eq!(rows(&graph, "MATCH (n) WHERE id(n) = 2 RETURN n.name"), ["'c'"]);
    assert_eq!(rows(&graph, "MATCH (n) WHERE id(n) = 3 RETURN n.name"), Vec::<String>::new());
}

#[test]
fn a_declared_name_is_known_although_nothing_has_it() {
    let mut builder = GraphBuilder::new();
    builder.declare(&["A", "B"], &["R"], &["x", "y"]).unwrap();
    builder.add_node(&["B"], &[("y", Value::from(1))]).unwrap();
    let graph = builder.build();
    assert_eq!(graph.labels().iter().map(|name| &**name).collect::<Vec<_>>(), ["A", "B"]);
    assert_eq!(rows(&graph, "MATCH (n:A)-[:R]->() WHERE n.x = 1 RETURN n"), Vec::<String>::new());
    assert_eq!(rows(&graph, "MATCH (n:B) RETURN n.y, n.x, keys(n)"), ["1 null ['y']"]);
    let unknown = query(&graph, "MATCH (n:C) RETURN n", &Parameters::new(), &Options::default());
    assert!(unknown.is_err());
}
