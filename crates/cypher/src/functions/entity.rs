//! Functions of nodes, relationships and paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Function, refused, refused_value};
use crate::error::Result;
use crate::graph::{Graph, KeyId, NodeId, RelationshipId};
use crate::value::Value;

pub(super) fn call(function: Function, value: &Value, graph: &dyn Graph) -> Result<Value> {
    Ok(match (function, value) {
        (Function::Id, Value::Node(NodeId(id)) | Value::Relationship(RelationshipId(id))) => {
            Value::Integer(i64::from(*id))
        }
        (Function::ElementId, Value::Node(NodeId(id)) | Value::Relationship(RelationshipId(id))) => {
            Value::string(&id.to_string())
        }
        (Function::StartNode, Value::Relationship(id)) => Value::Node(graph.ends(*id).0),
        (Function::EndNode, Value::Relationship(id)) => Value::Node(graph.ends(*id).1),
        (Function::Type, Value::Relationship(id)) => type_name(graph, *id),
        (Function::Labels, Value::Node(node)) => {
            let names = graph.labels();
            let labels = graph.labels_of(*node).iter().filter_map(|label| names.get(usize::from(label.0)));
            Value::list(labels.cloned().map(Value::String).collect())
        }
        (Function::Nodes, Value::Path(path)) => {
            Value::list(path.nodes.iter().copied().map(Value::Node).collect())
        }
        (Function::Relationships, Value::Path(path)) => {
            Value::list(path.relationships.iter().copied().map(Value::Relationship).collect())
        }
        (Function::Properties, Value::Map(_)) => value.clone(),
        (Function::Properties, Value::Node(_) | Value::Relationship(_)) => {
            Value::map(properties(graph, value))
        }
        (Function::Keys, Value::Map(map)) => {
            Value::list(map.entries().keys().cloned().map(Value::String).collect())
        }
        (Function::Keys, Value::Node(_) | Value::Relationship(_)) => {
            Value::list(properties(graph, value).into_keys().map(Value::String).collect())
        }
        (Function::Labels | Function::Type, _) => return Err(refused_value(function, value)),
        _ => return Err(refused(function, value)),
    })
}

/// Returns the name of a relationship's type.
fn type_name(graph: &dyn Graph, relationship: RelationshipId) -> Value {
    let number = usize::from(graph.type_of(relationship).0);
    graph.relationship_types().get(number).cloned().map_or(Value::Null, Value::String)
}

/// Returns the properties of a node or a relationship; anything else has none.
pub(crate) fn properties(graph: &dyn Graph, entity: &Value) -> BTreeMap<Arc<str>, Value> {
    let names = graph.property_keys();
    let name = |key: KeyId| names.get(usize::from(key.0)).cloned();
    match entity {
        Value::Node(node) => {
            let keys = graph.keys_of_node(*node).into_iter();
            keys.filter_map(|key| Some((name(key)?, graph.node_property(*node, key)))).collect()
        }
        Value::Relationship(id) => {
            let keys = graph.keys_of_relationship(*id).into_iter();
            keys.filter_map(|key| Some((name(key)?, graph.relationship_property(*id, key)))).collect()
        }
        _ => BTreeMap::new(),
    }
}
