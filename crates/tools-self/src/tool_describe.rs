//! `tool_describe`: the full description of some tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{
    Catalogue, CatalogueEntry, Class, Code, Context, Example, Lane, Level, Place, Plan, Presentation, Spec,
    TextCap, Timeout, Tool, ToolError,
};

/// The `tool_describe` tool, which also describes tools that are not listed.
pub struct ToolDescribe;

/// Arguments of `tool_describe`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Names of the tools.
    #[schemars(length(min = 1, max = 20))]
    names: Vec<String>,
}

/// Result of `tool_describe`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Tools, in the requested order.
    tools: Vec<Described>,
}

/// A tool.
#[derive(Debug, Serialize, JsonSchema)]
struct Described {
    /// Name of the tool.
    name: String,
    /// Purpose of the tool.
    description: String,
    /// safe, moderate, destructive or critical.
    level: String,
    /// JSON Schema of the arguments.
    input_schema: Map<String, Value>,
    /// Example of valid arguments.
    example: Map<String, Value>,
}

/// Maximum number of tools per call: a longer answer would be a catalogue.
const MAX_NAMES: usize = 20;

impl Tool for ToolDescribe {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "tool_describe",
        title: "Describe tools",
        description: "Describe tools, with the schemas of their arguments.",
        example: Example {
            files: &[],
            arguments: r#"{"names": ["file_move"]}"#,
            result: r#"{"tools": [{"name": "file_move", "level": "moderate", "example": {"source": "a", "destination": "b"}}]}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(10),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        if args.names.is_empty() || args.names.len() > MAX_NAMES {
            let problem = format!("{} names are not between 1 and {MAX_NAMES}", args.names.len());
            return Err(ToolError::validation("names", problem));
        }
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let entries = context.service::<Catalogue>()?.entries();
        let described = |name: &String| {
            let entry = entries.iter().find(|entry| entry.name == *name);
            entry.map(described).ok_or_else(|| {
                let shown: String = name.chars().take(100).collect();
                ToolError::new(Code::NotFound, format!("there is no tool named `{shown}`"))
                    .hint("tool_search finds tools by what they do")
            })
        };
        Ok(Output { tools: args.names.iter().map(described).collect::<Result<_, _>>()? })
    }
}

fn described(entry: &CatalogueEntry) -> Described {
    Described {
        name: entry.name.clone(),
        description: entry.description.clone(),
        level: entry.level.to_string(),
        input_schema: entry.input_schema.as_object().cloned().unwrap_or_default(),
        // A test of every tool's example fails if an example is not JSON.
        example: serde_json::from_str(&entry.example).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use testkit::{Workspace, run_tool};
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn an_unknown_tool_and_too_many_names_are_refused() {
        let workspace = Workspace::new().with_service(Arc::new(Catalogue::default()));
        let describe = |names: Value| {
            let tool = ErasedTool::tool(ToolDescribe);
            run_tool(tool.as_ref(), &workspace, json!({ "names": names })).unwrap_err()
        };
        let unknown = describe(json!(["nothing"]));
        assert_eq!(unknown.code, Code::NotFound);
        assert!(unknown.message.contains("`nothing`"), "{}", unknown.message);
        for names in [json!([]), json!(vec!["file_move"; MAX_NAMES + 1])] {
            let error = describe(names);
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains("`names`"), "{}", error.message);
        }
    }
}
