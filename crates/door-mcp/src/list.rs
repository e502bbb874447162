//! Conversion of a tool's specification to its entry in `tools/list`.

use std::sync::Arc;

use dialects::{CatalogueKind, Dialect};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use tool::{AnyTool, Presentation};

use crate::client_info::ClientInfo;

/// Lists the tools of a catalogue for a client.
pub(crate) fn list(
    tools: &[Arc<dyn AnyTool>],
    dialect: Dialect,
    catalogue: CatalogueKind,
    client: &ClientInfo,
) -> Vec<Tool> {
    let listed = tools.iter().filter(|tool| catalogue.lists(tool.as_ref()));
    listed.map(|tool| entry(tool.as_ref(), dialect, catalogue, Some(client))).collect()
}

/// Returns true if output schemas are listed, so that records are also sent as structured content.
/// Only the full catalogue lists them, because its clients are programs. For other clients the
/// structured content would only repeat the text.
pub(crate) fn promises_structure(catalogue: CatalogueKind) -> bool {
    catalogue == CatalogueKind::Full
}

/// Builds the entry of a tool; `client` is `None` for a loop within this program. A client of the full catalogue searches in it without help, so its
/// entries omit nothing.
pub(crate) fn entry(
    tool: &dyn AnyTool,
    dialect: Dialect,
    catalogue: CatalogueKind,
    client: Option<&ClientInfo>,
) -> Tool {
    let spec = tool.spec();
    let whole = catalogue == CatalogueKind::Full;
    let mut description = tool.description().trim_end().to_owned();
    // The tools of other servers have none.
    if !spec.example.arguments.is_empty() {
        description.push_str(&format!("\nExample: {}", compact(spec.example.arguments)));
    }
    let annotations = ToolAnnotations::new()
        .read_only(spec.class.reads_only)
        .destructive(spec.class.destructive)
        .idempotent(spec.class.idempotent)
        .open_world(spec.class.open_world);
    let mut schema = if whole { tool.input_schema().clone() } else { input(tool.input_schema()) };
    if client.is_some_and(|client| client.needs_null) {
        declare_null(&mut schema);
    }
    let mut listed =
        Tool::new(tool.name().to_owned(), description, object(&schema)).with_annotations(annotations);
    if whole {
        listed.title = Some(spec.title.to_owned());
    }
    let structured = client.is_some_and(|client| client.structured);
    if structured && promises_structure(catalogue) && spec.presentation == Presentation::Record {
        let schema = dialect.answer_schema(tool.output_schema());
        listed.with_raw_output_schema(object(schema.as_ref().unwrap_or(tool.output_schema())))
    } else {
        listed
    }
}

/// Returns the example without the whitespace that makes it readable in the source.
fn compact(example: &str) -> String {
    serde_json::from_str::<Value>(example).map_or_else(|_| example.to_owned(), |example| example.to_string())
}

fn object(schema: &Value) -> Arc<JsonObject> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// Returns the schema without redundant keywords: a minimum of 0, a default of false, and the
/// prohibition of further fields. A call with a further field gets an error that names the field.
///
/// Every client pays for each character of the list.
// BOUNDED: by the schemas of the tools.
fn input(schema: &Value) -> Value {
    match schema {
        Value::Object(schema) => {
            let goes_without_saying = |keyword: &str, value: &Value| {
                let says_little = ["default", "additionalProperties"].contains(&keyword) && *value == false;
                keyword == "minimum" && *value == 0 || says_little
            };
            let said = schema.iter().filter(|(keyword, value)| !goes_without_saying(keyword, value));
            Value::Object(said.map(|(keyword, value)| (keyword.clone(), input(value))).collect())
        }
        other => other.clone(),
    }
}

/// Declares in a schema that every optional field takes `null`, which counts as absent: by `nullable`
/// of `OpenAPI` 3.0, and among the choices of an enumeration.
// BOUNDED: by the schemas of the tools.
fn declare_null(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    let required: Vec<String> = match schema.get("required") {
        Some(Value::Array(required)) => {
            required.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        for (name, field) in fields {
            declare_null(field);
            let Some(field) = field.as_object_mut().filter(|_| !required.contains(name)) else { continue };
            // Without a type, a field takes `null` already.
            if field.contains_key("type") {
                field.insert("nullable".to_owned(), true.into());
            }
            if let Some(Value::Array(choices)) = field.get_mut("enum") {
                choices.push(Value::Null);
            }
        }
    }
    if let Some(items) = schema.get_mut("items") {
        declare_null(items);
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(schemas)) = schema.get_mut(several) {
            schemas.iter_mut().for_each(declare_null);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{declare_null, input};

    #[test]
    fn optional_fields_take_null_at_every_depth_and_required_ones_do_not() {
        let mut schema = json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "edits": {"type": "array", "items": {
                    "type": "object", "required": ["old"],
                    "properties": {"old": {"type": "string"}, "all": {"type": "boolean"}},
                }},
                "data": {},
            },
        });
        declare_null(&mut schema);
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {"type": "string"},
                    "limit": {"type": "integer", "nullable": true},
                    "mode": {"type": "string", "enum": ["a", "b", null], "nullable": true},
                    "edits": {"type": "array", "nullable": true, "items": {
                        "type": "object", "required": ["old"],
                        "properties": {"old": {"type": "string"}, "all": {"type": "boolean", "nullable": true}},
                    }},
                    "data": {},
                },
            })
        );
    }

    #[test]
    fn an_input_schema_leaves_out_what_goes_without_saying() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "default": {"type": "boolean", "default": false},
                "backup": {"type": "boolean", "default": true},
                "limit": {"type": "integer", "minimum": 0, "default": 0},
                "wait": {"type": "integer", "minimum": 1, "enum": [0, 1]},
            },
        });
        assert_eq!(
            input(&schema),
            json!({
                "type": "object",
                "properties": {
                    "default": {"type": "boolean"},
                    "backup": {"type": "boolean", "default": true},
                    "limit": {"type": "integer", "default": 0},
                    "wait": {"type": "integer", "minimum": 1, "enum": [0, 1]},
                },
            })
        );
    }
}
