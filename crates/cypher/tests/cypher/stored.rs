//! Graphs as bytes: what is opened is what was written, and damaged or forged bytes harm nothing.

use std::sync::Arc;

use cypher::{
    Graph, GraphBuilder, KeyId, LabelId, List, MemoryGraph, NodeId, RelationshipId, Side, TypeId, Value,
};

use crate::small::{graph, rows};

/// Returns everything that the interface of a graph shows.
fn everything(graph: &dyn Graph) -> Vec<String> {
    let mut all = vec![format!(
        "{:?} {:?} {:?} {} {}",
        graph.labels(),
        graph.relationship_types(),
        graph.property_keys(),
        graph.node_count(),
        graph.relationship_count()
    )];
    let keys: Vec<KeyId> = (0..).map(KeyId).take(graph.property_keys().len()).collect();
    for node in (0..u32::try_from(graph.node_bound()).unwrap()).map(NodeId) {
        let values: Vec<Value> = keys.iter().map(|key| graph.node_property(node, *key)).collect();
        let found: Vec<_> =
            keys.iter().zip(&values).map(|(key, value)| graph.find(None, *key, value)).collect();
        let sides = [Side::Outgoing, Side::Incoming].map(|side| graph.links(node, side, None).to_vec());
        let keys = graph.keys_of_node(node);
        all.push(format!("{node:?} {:?} {values:?} {found:?} {sides:?} {keys:?}", graph.labels_of(node)));
    }
    for number in (0..u32::try_from(graph.relationship_count()).unwrap()).map(RelationshipId) {
        let values: Vec<Value> = keys.iter().map(|key| graph.relationship_property(number, *key)).collect();
        let keys = graph.keys_of_relationship(number);
        all.push(format!("{:?} {:?} {values:?} {keys:?}", graph.ends(number), graph.type_of(number)));
    }
    for kind in (0..).map(TypeId).take(graph.relationship_types().len()) {
        all.push(format!("{}", graph.count_of_type(kind)));
        for label in (0..).map(LabelId).take(graph.labels().len()) {
            all.push(format!(
                "{:?}",
                [Side::Outgoing, Side::Incoming].map(|side| graph.count_at(kind, side, label))
            ));
            all.push(format!("{:?}", graph.nodes_with_label(label)));
        }
    }
    all.extend(keys.iter().map(|key| format!("{:?}", graph.estimate(*key, None))));
    all
}

/// Returns a graph with a property of every kind.
fn of_every_kind() -> MemoryGraph {
    let mut builder = GraphBuilder::new();
    builder.declare(&["Unused"], &["UNUSED"], &["unused"]).unwrap();
    let list = Value::List(Arc::new(List::new(vec![Value::from("é"), Value::from(2), Value::Boolean(true)])));
    let values = [Value::from("text"), Value::from(i64::MIN), Value::from(0.5), Value::Boolean(false), list];
    let mut last = builder.add_node(&[], &[]).unwrap();
    for value in values {
        let properties = [("mixed", value), ("text", Value::from("shared")), ("truth", Value::Boolean(true))];
        let node = builder.add_node(&["A", "B"], &properties).unwrap();
        builder.add_relationship(node, "R", last, &properties).unwrap();
        builder.add_relationship(last, "S", node, &[]).unwrap();
        builder.add_relationship(node, "R", node, &[("small", Value::from(-7))]).unwrap();
        last = node;
    }
    builder.add_index("mixed").unwrap();
    builder.add_index("absent").unwrap();
    builder.build()
}

#[test]
fn what_is_opened_is_what_was_written() {
    for graph in [graph(), of_every_kind(), GraphBuilder::new().build()] {
        let bytes = graph.to_bytes();
        let opened = MemoryGraph::from_bytes(&bytes).unwrap();
        assert_eq!(everything(&opened), everything(&graph));
        assert_eq!(opened.to_bytes(), bytes);
    }
    let opened = MemoryGraph::from_bytes(&graph().to_bytes()).unwrap();
    for query in [
        "MATCH (f:Function {name: 'f7'})-[:CALLS*1..2]->(g) RETURN g.name",
        "MATCH (c:Class)-[:DEFINES]->(f)<-[r:CALLS]-(g) RETURN c.name, f.id, r.line, g.id",
    ] {
        assert_eq!(rows(&opened, query), rows(&graph(), query));
    }
}

#[test]
fn a_copy_of_a_graph_equals_it() {
    for graph in [graph(), of_every_kind(), GraphBuilder::new().build()] {
        assert_eq!(everything(&MemoryGraph::copy_of(&graph).unwrap()), everything(&graph));
    }
}

#[test]
fn bytes_that_are_cut_short_or_too_long_are_refused() {
    let bytes = of_every_kind().to_bytes();
    for length in 0..bytes.len() {
        assert!(MemoryGraph::from_bytes(&bytes[..length]).is_none(), "{length} of {} bytes", bytes.len());
    }
    assert!(MemoryGraph::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_none());
    assert!(MemoryGraph::from_bytes(&bytes).is_some(), "the control");
}

#[test]
fn forged_bytes_are_refused_or_give_a_graph_that_can_be_asked() {
    let mut refused = 0;
    let mut opened = 0;
    for (whole, step) in [(of_every_kind().to_bytes(), 1), (graph().to_bytes(), 11)] {
        for at in (0..whole.len()).step_by(step) {
            // A flipped bit, the largest byte, and a length that no memory has.
            for (offset, byte) in [(0, whole[at] ^ 1), (0, 0xff), (7, 0x7f)] {
                let mut forged = whole.clone();
                let Some(place) = forged.get_mut(at + offset) else { continue };
                *place = byte;
                match MemoryGraph::from_bytes(&forged) {
                    None => refused += 1,
                    Some(graph) if at % 4 == 0 => {
                        opened += 1;
                        everything(&graph);
                        for query in [
                            "MATCH (a)-[r]->(b) RETURN labels(a), type(r), properties(r), properties(b)",
                            "MATCH (a {name: 'f7'})-[*1..3]-(b) RETURN count(*)",
                            "MATCH p = shortestPath((a {id: 3})-[*..4]->(b {id: 9})) RETURN length(p)",
                        ] {
                            let options =
                                cypher::Options { strict_names: false, ..cypher::Options::default() };
                            // An error of the query, such as a limit, is an answer too.
                            drop(cypher::query(&graph, query, &cypher::Parameters::new(), &options));
                        }
                    }
                    Some(_) => opened += 1,
                }
            }
        }
    }
    assert!(refused > 1000 && opened > 1000, "{refused} refused, {opened} opened");
}
