//! Conversion of a tool's specification to its entry in `tools/list`.

use std::sync::Arc;

use dialects::{CatalogueKind, Dialect};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use tool::{AnyTool, Presentation};

/// Lists the tools of a catalogue for a client.
///
/// `structured` is true if the client supports output schemas, which exist from revision 2025-06-18 on.
pub(crate) fn list(
    tools: &[Arc<dyn AnyTool>],
    dialect: Dialect,
    catalogue: CatalogueKind,
    structured: bool,
) -> Vec<Tool> {
    let listed = tools.iter().filter(|tool| catalogue.lists(tool.as_ref()));
    listed.map(|tool| line(tool.as_ref(), dialect, catalogue, structured)).collect()
}

/// Returns true if output schemas are listed, so that records are also sent as structured content.
/// Only the full catalogue lists them, because its clients are programs. For other clients the
/// structured content would only repeat the text.
pub(crate) fn promises_structure(catalogue: CatalogueKind) -> bool {
    catalogue == CatalogueKind::Full
}

/// Builds the entry of a tool. A client of the full catalogue searches in it without help, so its
/// entries omit nothing.
fn line(tool: &dyn AnyTool, dialect: Dialect, catalogue: CatalogueKind, structured: bool) -> Tool {
    let spec = tool.spec();
    let whole = catalogue == CatalogueKind::Full;
    let description =
        format!("{}\nExample: {}", tool.description().trim_end(), compact(spec.example.arguments));
    let annotations = ToolAnnotations::new()
        .read_only(spec.class.reads_only)
        .destructive(spec.class.destructive)
        .idempotent(spec.class.idempotent)
        .open_world(spec.class.open_world);
    let schema = if whole { tool.input_schema().clone() } else { input(tool.input_schema()) };
    let mut listed =
        Tool::new(tool.name().to_owned(), description, object(&schema)).with_annotations(annotations);
    if whole {
        listed.title = Some(spec.title.to_owned());
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::input;

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
