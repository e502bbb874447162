//! `tool_call`: calls an unlisted tool by its name.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::{
    AnyTool, Class, Example, Lane, Level, Place, PreparedCall, Presentation, Spec, TextCap, Timeout,
    ToolError,
};

/// The tool `tool_call`. The engine runs the named tool instead, so the policy, the audit and
/// errors refer to that tool only.
pub struct ToolCall {
    input_schema: Value,
    output_schema: Value,
}

const SPEC: Spec = Spec {
    name: "tool_call",
    title: "Call a tool",
    description: "Call any tool by name, even if it is not listed here; tool_describe shows its arguments.",
    example: Example {
        files: &[("draft.md", "# Title\n")],
        arguments: r#"{"name": "file_move", "arguments": {"source": "draft.md", "destination": "title.md"}}"#,
        result: r#"{"moved": true}"#,
    },
    // Values that a client must assume while the named tool is unknown. For a call, the values of
    // the named tool apply.
    level: Level::Critical,
    class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
    timeout: Timeout::fixed(3600),
    lane: Lane::Read,
    text: TextCap::Default,
    presentation: Presentation::Text { field: "" },
};

impl ToolCall {
    /// Creates the tool.
    pub fn tool() -> Arc<dyn AnyTool> {
        let text = |description: &str| json!({"type": "string", "description": description});
        Arc::new(Self {
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": text("Tool name."),
                    "arguments": {"type": "object", "description": "Its arguments."},
                },
                "required": ["name"],
                "additionalProperties": false,
            }),
            output_schema: json!({"type": "object", "properties": {}}),
        })
    }
}

impl AnyTool for ToolCall {
    fn spec(&self) -> &Spec {
        &SPEC
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    /// Returns true, because an unreadable name may refer to a tool that takes secrets.
    fn takes_secrets(&self) -> bool {
        true
    }

    fn is_secret(&self, argument: &str) -> bool {
        argument != "name"
    }

    fn names_another(&self, arguments: &Value) -> Option<(String, Value)> {
        let name = arguments.get("name")?.as_str()?.to_owned();
        let its_own = arguments.get("arguments").cloned();
        Some((name, its_own.unwrap_or_else(|| Value::Object(Map::new()))))
    }

    fn prepare(&self, _arguments: Value, _place: &Place) -> Result<PreparedCall, ToolError> {
        Err(ToolError::internal("a call that names another tool was not led to it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_lies_in_the_portable_subset() {
        let tool = ToolCall::tool();
        assert_eq!(tool::subset_violations(tool.input_schema()), Vec::<String>::new());
        assert_eq!(tool.input_schema()["additionalProperties"], false);
    }

    #[test]
    fn another_call_is_named_and_nothing_is_ever_prepared() {
        let tool = ToolCall::tool();
        let named = tool.names_another(&json!({"name": "a", "arguments": {"b": 1}}));
        assert_eq!(named, Some(("a".to_owned(), json!({"b": 1}))));
        assert_eq!(tool.names_another(&json!({"name": "a"})), Some(("a".to_owned(), json!({}))));
        let error = tool.prepare(json!({"name": "a"}), &Place::at("/w".into())).err().unwrap();
        assert_eq!(error.code, tool::Code::Internal);
    }
}
