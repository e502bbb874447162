//! The description of a tool for callers.

use serde_json::{Map, Value, json};

use crate::AnyTool;

/// Returns the full description of a tool: its names and texts, level, timeouts in seconds, schemas
/// and worked example.
pub fn described(tool: &dyn AnyTool) -> Value {
    let spec = tool.spec();
    let example = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let files = spec.example.files.iter().map(|(path, content)| ((*path).to_owned(), json!(content)));
    json!({
        "name": tool.name(),
        "title": spec.title,
        "description": tool.description(),
        "level": spec.level,
        "timeout_seconds": { "default": spec.timeout.default.as_secs(), "max": spec.timeout.max.as_secs() },
        "input_schema": tool.input_schema(),
        "output_schema": tool.output_schema(),
        "example": {
            "files": files.collect::<Map<_, _>>(),
            "arguments": example(spec.example.arguments),
            "result": example(spec.example.result),
        },
    })
}
