//! Requirements that every tool must meet.

use std::sync::Arc;

use serde_json::Value;
use tool::{AnyTool, Presentation, subset_violations};

use crate::{Workspace, run_tool};

/// Checks every tool of a family, and that no two have the same name. `workspace` makes the
/// workspace for each example.
pub fn check_family(tools: &[Arc<dyn AnyTool>], workspace: impl Fn() -> Workspace) {
    let mut names: Vec<_> = tools.iter().map(|tool| tool.spec().name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "two tools have one name: {names:?}");
    for tool in tools {
        check_tool(tool.as_ref(), workspace());
    }
}

/// Checks a tool's name, schemas and example.
pub fn check_tool(tool: &dyn AnyTool, workspace: Workspace) {
    let spec = tool.spec();
    let name = spec.name;
    let well_formed = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.len() <= 40;
    assert!(well_formed, "`{name}` is no name of a tool");
    for (kind, schema) in [("input", tool.input_schema()), ("output", tool.output_schema())] {
        assert_eq!(subset_violations(schema), Vec::<String>::new(), "the {kind} schema of {name}");
    }
    assert_eq!(
        tool.input_schema().get("additionalProperties"),
        Some(&Value::Bool(false)),
        "{name} takes unknown fields"
    );
    if let Presentation::Text { field } = spec.presentation {
        let shown = tool.output_schema().pointer(&format!("/properties/{field}/type"));
        assert_eq!(shown, Some(&Value::from("string")), "{name} shows `{field}`, which is no text");
    }
    assert!(spec.timeout.default <= spec.timeout.max, "the timeout of {name}");
    check_example(tool, workspace);
}

/// Runs the example, and compares the fields of the result that it names.
fn check_example(tool: &dyn AnyTool, workspace: Workspace) {
    let spec = tool.spec();
    let json = |what: &str, text: &str| -> Value {
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("the example's {what} of {}: {error}", spec.name))
    };
    let expected = json("result", spec.example.result);
    assert!(expected.as_object().is_some_and(|fields| !fields.is_empty()), "an example shows a result");
    let workspace = workspace.with_files(spec.example.files);
    let result = run_tool(tool, &workspace, json("arguments", spec.example.arguments));
    let result = result.unwrap_or_else(|error| panic!("the example of {}: {error}", spec.name));
    assert_contains(&result, &expected);
}

/// Asserts that `whole` contains everything that `part` names: fields of objects at any depth,
/// lists item by item.
pub fn assert_contains(whole: &Value, part: &Value) {
    if let Some(difference) = difference(whole, part, "") {
        panic!("{difference}\nin {whole:#}");
    }
}

fn difference(whole: &Value, part: &Value, at: &str) -> Option<String> {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().find_map(|(key, part)| {
            let at = format!("{at}/{key}");
            match whole.get(key) {
                Some(whole) => difference(whole, part, &at),
                None => Some(format!("{at} is missing")),
            }
        }),
        (Value::Array(whole), Value::Array(part)) if whole.len() == part.len() => whole
            .iter()
            .zip(part)
            .enumerate()
            .find_map(|(index, (whole, part))| difference(whole, part, &format!("{at}/{index}"))),
        _ if whole == part => None,
        _ => Some(format!("{at} is {whole}, not {part}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_found_at_any_depth() {
        let whole = json!({"a": {"b": [1, {"c": 2, "d": 3}]}, "e": null});
        assert_eq!(difference(&whole, &json!({"a": {"b": [1, {"c": 2}]}}), ""), None);
        let found = |part| difference(&whole, &part, "").unwrap();
        assert_eq!(found(json!({"a": {"b": [1, {"c": 3}]}})), "/a/b/1/c is 2, not 3");
        assert_eq!(found(json!({"a": {"x": 1}})), "/a/x is missing");
        assert_eq!(found(json!({"a": {"b": [1]}})), r#"/a/b is [1,{"c":2,"d":3}], not [1]"#);
    }
}
