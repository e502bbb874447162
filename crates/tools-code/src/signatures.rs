//! The tools as a script's language needs them: names, arguments and one line of description.

use serde_json::{Map, Value, json};
use tool::{AnyTool, Lane};

/// Returns `{NAME: [DESCRIPTION, [ARGUMENT...], [REQUIRED ARGUMENT...]]}` of all tools that a script can call, with
/// the required arguments first.
pub(crate) fn signatures(tools: &[std::sync::Arc<dyn AnyTool>]) -> String {
    let callable = tools.iter().filter(|tool| tool.spec().lane != Lane::Script);
    let entries = callable.map(|tool| (tool.name().to_owned(), signature(tool.as_ref())));
    Value::Object(entries.collect::<Map<_, _>>()).to_string()
}

fn signature(tool: &dyn AnyTool) -> Value {
    let schema = tool.input_schema();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let optional = names.filter(|name| !required.contains(name));
    let names: Vec<&str> = required.iter().copied().chain(optional).collect();
    let description = tool.description();
    let line = description.lines().next().unwrap_or_default();
    json!([line, names, required])
}
