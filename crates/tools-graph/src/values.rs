//! Values of queries as JSON, and JSON as values of queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use cypher::{Graph, KeyId, NodeId, Parameters, RelationshipId, Value};
use serde_json::{Map, Number, Value as Json, json};
use tool::ToolError;

/// Converts the parameters of a call. A dollar sign before a name is optional.
pub(crate) fn parameters(given: Option<&Map<String, Json>>) -> Result<Parameters, ToolError> {
    let entries = given.into_iter().flatten();
    entries
        .map(|(name, value)| Ok((name.strip_prefix('$').unwrap_or(name).to_owned(), value_of(name, value)?)))
        .collect()
}

// BOUNDED: the parser of JSON takes at most 128 levels.
fn value_of(name: &str, json: &Json) -> Result<Value, ToolError> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Value::Integer(value),
            (None, Some(value)) if !number.is_u64() => Value::Float(value),
            _ => return Err(ToolError::validation("params", format!("{name}: {number} is beyond 64 bits"))),
        },
        Json::String(text) => Value::string(text),
        Json::Array(items) => {
            Value::list(items.iter().map(|item| value_of(name, item)).collect::<Result<_, _>>()?)
        }
        Json::Object(entries) => {
            let entry =
                |(key, value): (&String, &Json)| Ok((Arc::from(key.as_str()), value_of(name, value)?));
            Value::map(entries.iter().map(entry).collect::<Result<BTreeMap<Arc<str>, Value>, ToolError>>()?)
        }
    })
}

/// Converts a value of an answer.
// BOUNDED: values of queries have at most 100 levels.
pub(crate) fn json_of(graph: &dyn Graph, value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => Json::Bool(*value),
        Value::Integer(value) => Json::from(*value),
        // JSON has no number for infinities and NaN.
        Value::Float(value) => {
            Number::from_f64(*value).map_or_else(|| json!(value.to_string()), Json::Number)
        }
        Value::String(text) => Json::from(&**text),
        Value::List(list) => list.items().iter().map(|item| json_of(graph, item)).collect(),
        Value::Map(map) => {
            let entry = |(key, value): (&Arc<str>, &Value)| (key.to_string(), json_of(graph, value));
            Json::Object(map.entries().iter().map(entry).collect())
        }
        Value::Node(node) => node_json(graph, *node),
        Value::Relationship(relationship) => relationship_json(graph, *relationship),
        Value::Path(path) => {
            let nodes: Vec<Json> = path.nodes.iter().map(|node| node_json(graph, *node)).collect();
            let relationships = path.relationships.iter();
            let relationships: Vec<Json> =
                relationships.map(|relationship| relationship_json(graph, *relationship)).collect();
            json!({"nodes": nodes, "relationships": relationships})
        }
    }
}

/// Returns a node with its labels and properties. Nodes of code have `file`, `start_line` and `end_line`.
fn node_json(graph: &dyn Graph, node: NodeId) -> Json {
    let labels: Vec<Json> = labels(graph, node).into_iter().map(Json::from).collect();
    let mut entries = Map::new();
    entries.insert("labels".to_owned(), Json::Array(labels));
    for key in graph.keys_of_node(node) {
        entries.insert(key_name(graph, key), json_of(graph, &graph.node_property(node, key)));
    }
    Json::Object(entries)
}

/// Returns a relationship with its type, the ids of its ends, and its properties.
fn relationship_json(graph: &dyn Graph, relationship: RelationshipId) -> Json {
    let (from, to) = graph.ends(relationship);
    let mut entries = Map::new();
    let kind = graph.relationship_types().get(graph.type_of(relationship).0 as usize);
    entries.insert("type".to_owned(), Json::from(kind.map_or("", |kind| kind)));
    entries.insert("from".to_owned(), Json::from(&*text(graph, from, "id")));
    entries.insert("to".to_owned(), Json::from(&*text(graph, to, "id")));
    for key in graph.keys_of_relationship(relationship) {
        let value = json_of(graph, &graph.relationship_property(relationship, key));
        entries.insert(key_name(graph, key), value);
    }
    Json::Object(entries)
}

fn key_name(graph: &dyn Graph, key: KeyId) -> String {
    graph.property_keys().get(key.0 as usize).map(ToString::to_string).unwrap_or_default()
}

/// Returns the names of a node's labels.
pub(crate) fn labels(graph: &dyn Graph, node: NodeId) -> Vec<&str> {
    let all = graph.labels();
    graph.labels_of(node).iter().filter_map(|label| Some(&**all.get(label.0 as usize)?)).collect()
}

/// Returns a property of a node that is a text, or an empty text.
pub(crate) fn text(graph: &dyn Graph, node: NodeId, key: &str) -> Arc<str> {
    match property(graph, node, key) {
        Value::String(text) => text,
        _ => Arc::default(),
    }
}

/// Returns a property of a node that is a count, or `None`.
pub(crate) fn number(graph: &dyn Graph, node: NodeId, key: &str) -> Option<i64> {
    match property(graph, node, key) {
        Value::Integer(number) => Some(number),
        _ => None,
    }
}

/// Returns a property of a node, or null.
pub(crate) fn property(graph: &dyn Graph, node: NodeId, key: &str) -> Value {
    key_of(graph, key).map_or(Value::Null, |key| graph.node_property(node, key))
}

/// Returns the number of a property key.
pub(crate) fn key_of(graph: &dyn Graph, key: &str) -> Option<KeyId> {
    let at = graph.property_keys().iter().position(|known| &**known == key)?;
    u16::try_from(at).ok().map(KeyId)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_keep_their_types_and_their_texts() {
        let given = json!({"$a": "x' OR 1=1 //", "b": [1, 2.5, null, {"c": true}]});
        let parameters = parameters(given.as_object()).unwrap();
        assert_eq!(parameters["a"], Value::from("x' OR 1=1 //"));
        let map = Value::map([("c".into(), Value::from(true))].into_iter().collect());
        let list = Value::list(vec![Value::from(1), Value::from(2.5), Value::Null, map]);
        assert_eq!(parameters["b"], list);
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        let given = json!({"n": u64::MAX});
        let error = parameters(given.as_object()).unwrap_err();
        assert_eq!(error.code, tool::Code::Validation);
        assert!(error.message.contains("18446744073709551615"), "{}", error.message);
    }
}
