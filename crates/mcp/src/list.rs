//! From a tool's specification to its line in `tools/list`.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use tool::{AnyTool, Presentation};

/// The tools as this client may see them.
///
/// `structured` says whether the client knows output schemas, as those from the revision of 2025-06-18 on do.
pub(crate) fn list(tools: &[Arc<dyn AnyTool>], structured: bool) -> Vec<Tool> {
    tools.iter().map(|tool| line(tool.as_ref(), structured)).collect()
}

fn line(tool: &dyn AnyTool, structured: bool) -> Tool {
    let spec = tool.spec();
    let description = format!("{}\nExample: {}", spec.description.trim_end(), spec.example.arguments);
    let annotations = ToolAnnotations::new()
        .read_only(spec.class.reads_only)
        .destructive(spec.class.destructive)
        .idempotent(spec.class.idempotent)
        .open_world(spec.class.open_world);
    let listed = Tool::new(spec.name, description, object(tool.input_schema()))
        .with_title(spec.title)
        .with_annotations(annotations);
    if structured && spec.presentation == Presentation::Record {
        listed.with_raw_output_schema(object(&shape(tool.output_schema())))
    } else {
        listed
    }
}

fn object(schema: &Value) -> Arc<JsonObject> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// The schema without its words: every client pays for each character of the list, and no model is shown what comes back before it
/// comes back. The words stand in the manual and in `handfast tools --json`.
fn shape(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut shaped = JsonObject::new();
    for (keyword, value) in schema {
        let value = match (keyword.as_str(), value) {
            ("description" | "title" | "$schema", Value::String(_)) => continue,
            ("properties" | "$defs", Value::Object(members)) => {
                Value::Object(members.iter().map(|(name, member)| (name.clone(), shape(member))).collect())
            }
            ("items" | "additionalProperties", schema) => shape(schema),
            (_, value) => value.clone(),
        };
        shaped.insert(keyword.clone(), value);
    }
    Value::Object(shaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::shape;

    #[test]
    fn an_output_schema_keeps_its_meaning_and_loses_its_words() {
        let schema = json!({
            "type": "object",
            "title": "Output",
            "properties": {
                "description": {"type": "string", "description": "What it is."},
                "entries": {"type": "array", "items": {"type": "object", "description": "x",
                    "properties": {"title": {"type": "string", "title": "x"}}}},
            },
            "required": ["description"],
        });
        assert_eq!(
            shape(&schema),
            json!({
                "type": "object",
                "properties": {
                    "description": {"type": "string"},
                    "entries": {"type": "array", "items": {"type": "object",
                        "properties": {"title": {"type": "string"}}}},
                },
                "required": ["description"],
            })
        );
    }
}
