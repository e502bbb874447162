//! `self_list_capabilities`: the capabilities of this runtime.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Catalogue, CatalogueEntry, Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec,
    TextCap, Timeout, Tool, ToolError,
};

/// The `self_list_capabilities` tool.
pub struct SelfListCapabilities;

/// Arguments of `self_list_capabilities`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Kind of capabilities to list; default all.
    #[serde(default)]
    filter: Filter,
}

/// A kind of capabilities to list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Filter {
    #[default]
    All,
    BuiltIn,
    Plugins,
    Failed,
}

/// Result of `self_list_capabilities`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// One entry per tool, also for those that failed.
    capabilities: Vec<Capability>,
}

/// A tool.
#[derive(Debug, Serialize, JsonSchema)]
struct Capability {
    /// Name of the tool.
    name: String,
    /// `built_in`, `plugin`, or `mcp_server` for a server that cannot be used.
    r#type: String,
    /// Purpose of the tool.
    description: String,
    /// safe, moderate, destructive or critical.
    permission_level: String,
    /// `ready`, or the reason why the tool cannot be used.
    status: String,
    /// Time of creation, or of a server's failure, RFC 3339.
    created_at: String,
}

/// Status of a tool that works.
const READY: &str = "ready";

impl Tool for SelfListCapabilities {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "self_list_capabilities",
        title: "List capabilities",
        description: "List every tool, its level, and whether it works.",
        example: Example {
            files: &[],
            arguments: r#"{"filter": "plugins"}"#,
            result: r#"{"capabilities": []}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(10),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let catalogue = context.service::<Catalogue>()?;
        let entries = [catalogue.entries(), catalogue.failed()].concat();
        let capabilities = entries.iter().filter(|entry| shown(entry, args.filter)).map(capability).collect();
        Ok(Output { capabilities })
    }
}

fn shown(entry: &CatalogueEntry, filter: Filter) -> bool {
    match filter {
        Filter::All => true,
        Filter::BuiltIn => entry.kind == "built_in",
        Filter::Plugins => entry.kind == "plugin",
        Filter::Failed => entry.status != READY,
    }
}

fn capability(entry: &CatalogueEntry) -> Capability {
    Capability {
        name: entry.name.clone(),
        r#type: entry.kind.to_owned(),
        description: entry.description.clone(),
        permission_level: entry.level.to_string(),
        status: entry.status.clone(),
        created_at: Timestamp::to_string(&entry.created_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: &'static str, status: &str) -> CatalogueEntry {
        CatalogueEntry {
            name: name.to_owned(),
            title: String::new(),
            kind,
            description: String::new(),
            level: Level::Safe,
            status: status.to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            input_schema: serde_json::Value::Null,
            example: String::new(),
        }
    }

    #[test]
    fn a_filter_that_does_not_exist_is_refused() {
        let place = Place::at("/".into());
        let error = tool::ErasedTool::tool(SelfListCapabilities)
            .prepare(serde_json::json!({"filter": "everything"}), &place)
            .err()
            .unwrap();
        assert_eq!(error.code, tool::Code::Validation);
        assert!(error.message.contains("`filter`"), "{}", error.message);
    }

    #[test]
    fn each_filter_shows_its_own_entries() {
        let entries = [
            entry("a", "built_in", READY),
            entry("b", "plugin", READY),
            entry("c", "plugin", "no such program"),
        ];
        let names = |filter| {
            entries
                .iter()
                .filter(|entry| shown(entry, filter))
                .map(|entry| entry.name.as_str())
                .collect::<String>()
        };
        assert_eq!(names(Filter::All), "abc");
        assert_eq!(names(Filter::BuiltIn), "a");
        assert_eq!(names(Filter::Plugins), "bc");
        assert_eq!(names(Filter::Failed), "c");
    }
}
