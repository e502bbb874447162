//! Generation of JSON Schemas in the subset that every model provider accepts, and the check for it.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// Returns the schema of a tool's arguments.
pub fn schema_of_input<T: JsonSchema>() -> Value {
    finished(settings().for_deserialize().into_generator().into_root_schema_for::<T>())
}

/// Returns the schema of a tool's output.
pub fn schema_of_output<T: JsonSchema>() -> Value {
    let mut schema = finished(settings().for_serialize().into_generator().into_root_schema_for::<T>());
    name_every_type(&mut schema);
    schema
}

/// Returns an `anyOf` list of all JSON types, in the form that clients map to their own schemas.
fn any_type() -> Value {
    let types = ["object", "array", "string", "number", "boolean", "null"];
    types.into_iter().map(|name| serde_json::json!({ "type": name })).collect()
}

/// Adds the list of all types to each part of an output schema that accepts any value. Without it,
/// clients warn that a schema says nothing.
// BOUNDED: by the schemas of the tools.
pub fn name_every_type(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = Value::Object(Map::new());
    }
    let Some(object) = schema.as_object_mut() else { return };
    if !["type", "enum", "anyOf"].iter().any(|says| object.contains_key(*says)) {
        object.insert("anyOf".to_owned(), any_type());
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(name_every_type);
    }
    for inner in ["items", "additionalProperties"] {
        match object.get_mut(inner) {
            Some(Value::Bool(_)) | None => {}
            Some(inner) => name_every_type(inner),
        }
    }
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

fn finished(mut schema: Schema) -> Value {
    ToSubset.transform(&mut schema);
    let mut value = Value::from(schema);
    if let Some(root) = value.as_object_mut() {
        // The description of the tool replaces that of its arguments.
        root.remove("description");
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    value
}

/// Transform of the schemas that schemars writes for plain Rust types into the subset: no titles,
/// no formats, no null unions.
#[derive(Clone)]
struct ToSubset;

impl Transform for ToSubset {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(object) = schema.as_object_mut() {
            object.remove("title");
            object.remove("format");
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            // schemars writes items of any type as `true`, which most providers do not accept as a
            // schema.
            if object.get("items") == Some(&Value::Bool(true)) {
                object.insert("items".to_owned(), Value::Object(Map::new()));
            }
            // An optional field may be left out. A null union says the same in a form that half of
            // the providers refuse.
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
        }
        transform_subschemas(self, schema);
    }
}

/// Returns the violations of the portable subset (design section 3) in a schema, as readable sentences.
pub fn subset_violations(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        found.push("the root is not of type object".to_owned());
    }
    walk(schema, "", &mut found);
    found
}

const FORBIDDEN: [&str; 8] = ["oneOf", "anyOf", "allOf", "not", "$ref", "$defs", "const", "if"];

// BOUNDED: by the schemas of the tools.
fn walk(schema: &Value, at: &str, found: &mut Vec<String>) {
    let Some(object) = schema.as_object() else {
        found.push(format!("{at}: a boolean schema"));
        return;
    };
    // A value of any type occurs only in outputs, which no provider reads.
    let is_any = object.get("anyOf").is_some_and(|types| *types == any_type());
    for key in FORBIDDEN.iter().filter(|key| object.contains_key(**key) && !(is_any && **key == "anyOf")) {
        found.push(format!("{at}: uses {key}"));
    }
    match object.get("type") {
        Some(Value::String(kind)) if kind == "array" => match object.get("items") {
            // Items of any type, such as the parameters of a statement.
            Some(Value::Object(items)) if items.is_empty() => {}
            Some(items) => walk(items, &format!("{at}/items"), found),
            None => found.push(format!("{at}: an array without items")),
        },
        Some(Value::String(_)) => {}
        Some(Value::Array(_)) => found.push(format!("{at}: a type array")),
        // A schema without a type accepts any JSON value.
        None if !at.is_empty() => {}
        _ => found.push(format!("{at}: no type")),
    }
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            walk(property, &format!("{at}/{name}"), found);
            if property.get("description").is_none() {
                found.push(format!("{at}/{name}: no description"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Args {
        /// The path.
        path: String,
        /// Maximum number of lines; 10 by default.
        limit: Option<u32>,
        /// Range of lines.
        lines: Option<Lines>,
        /// Kind of entries.
        #[serde(default)]
        kind: Kind,
        /// Values of any kind.
        values: Option<Vec<Value>>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Lines {
        /// First line.
        start: u64,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Default)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        #[default]
        All,
        Some,
    }

    #[test]
    fn plain_rust_types_land_in_the_subset() {
        let schema = schema_of_input::<Args>();
        assert_eq!(subset_violations(&schema), Vec::<String>::new(), "{schema:#}");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["limit"]["type"], "integer");
        assert_eq!(schema["properties"]["lines"]["type"], "object");
        assert_eq!(schema["required"], serde_json::json!(["path"]));
        assert_eq!(schema["properties"]["values"]["items"], serde_json::json!({}));
        assert_eq!(schema["properties"]["kind"]["enum"], serde_json::json!(["all", "some"]));
    }

    #[test]
    fn every_part_of_an_output_schema_has_a_type() {
        let schema = schema_of_output::<Args>();
        assert_eq!(schema["properties"]["values"]["items"]["anyOf"], any_type());
        assert_eq!(subset_violations(&schema), Vec::<String>::new(), "{schema:#}");
        assert_eq!(schema["properties"]["path"]["type"], "string");
    }

    #[test]
    fn what_lies_outside_the_subset_is_named() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "a": {"anyOf": [], "description": "x"},
                "b": {"type": ["string", "null"], "description": "x"},
                "c": {"type": "array", "description": "x"},
                "d": {"type": "string"},
            },
        });
        let found = subset_violations(&schema).join("\n");
        for expected in
            ["/a: uses anyOf", "/b: a type array", "/c: an array without items", "/d: no description"]
        {
            assert!(found.contains(expected), "{found}");
        }
    }
}
