//! `mcp_servers`: the servers of the configuration, and the tools of one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tool::{
    AnyTool, BoxFuture, Class, Context, Data, DynamicTool, Effect, Example, Lane, Level, Place, Plan,
    RunResult, Spec, Timeout, ToolError, dynamic_tool,
};

use crate::connection::ListAge;
use crate::servers::McpServers;
use crate::settings::ServerSettings;
use crate::{failure, http_transport};

/// Name of the tool.
pub(crate) const NAME: &str = "mcp_servers";

const DESCRIPTION: &str = "Lists the MCP servers of the configuration, with the names of their tools. With `server`, \
     starts that server, and reads its tools again: they can be called afterwards. It then also lists the server's \
     resources and prompts.";

struct ListServers {
    servers: Weak<McpServers>,
    spec: Spec,
    input_schema: Value,
    output_schema: Value,
}

/// Makes the tool.
pub(crate) fn list_servers(servers: Weak<McpServers>) -> Arc<dyn AnyTool> {
    let texts =
        |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    let server = json!({
        "type": "object",
        "properties": {
            "server": text("Key of the server."),
            "state": text("running, stopped, or never listed."),
            "problem": text("Why its last use failed."),
            "tools": texts("Names of its tools here."),
            "changed": texts("Names of those whose definition changed, so that a human is asked."),
            "refused": texts("Tools, resources and prompts that cannot be offered, with the reason."),
            "resources": texts("URIs of its resources, for `mcp_resource_read`."),
            "templates": texts("Templates of such URIs."),
            "prompts": texts("Names of its prompts, for `mcp_prompt_get`."),
        },
        "required": ["server", "state", "tools"],
    });
    dynamic_tool(ListServers {
        servers,
        spec: Spec {
            title: "List MCP servers",
            example: Example { files: &[], arguments: "{}", result: r#"{"servers": []}"# },
            lane: Lane::Service,
            // It starts a server, or reaches one on another machine.
            class: Class { reads_only: false, destructive: false, idempotent: true, open_world: true },
            timeout: Timeout { default: Duration::from_mins(2), max: Duration::from_mins(2) },
            ..Spec::reading(NAME, DESCRIPTION)
        },
        input_schema: json!({
            "type": "object",
            "properties": {"server": text("Key of a server to start, and to read the tools of")},
            "additionalProperties": false,
        }),
        output_schema: json!({
            "type": "object",
            "properties": {"servers": {"type": "array", "items": server, "description": "Servers of the configuration."}},
            "required": ["servers"],
        }),
    })
}

impl ListServers {
    fn servers(&self) -> Result<Arc<McpServers>, ToolError> {
        self.servers.upgrade().ok_or_else(|| failure::unavailable("all", "the runtime ends"))
    }

    async fn list(&self, context: &Context, named: Option<&str>) -> Result<Value, ToolError> {
        let servers = self.servers()?;
        if let Some(named) = named {
            let settings = servers.known(named)?;
            servers.pool.forgive(named);
            servers.connection(settings, context, ListAge::Fresh).await?;
        }
        let shown =
            servers.parts.servers.iter().filter(|server| named.is_none_or(|named| server.key == named));
        let entry = |settings: &ServerSettings| {
            let view = servers.view(settings);
            let state = match (servers.pool.running(&settings.key), view.listed_at) {
                (0, None) => "never listed".to_owned(),
                (0, Some(_)) => "stopped".to_owned(),
                (running, _) => format!("running ({running})"),
            };
            let mut entry = json!({"server": settings.key, "state": state, "tools": view.tools});
            if let Some(problem) = servers.problem(settings) {
                entry["problem"] = problem.into();
            }
            let mut more = vec![("changed", view.changed), ("refused", view.refused)];
            // Resources may be many, so only a server that is asked about shows its own.
            if named.is_some() {
                let content = servers.content_names(&settings.key);
                more.extend([
                    ("resources", content.resources),
                    ("templates", content.templates),
                    ("prompts", content.prompts),
                ]);
            }
            for (field, names) in more {
                if !names.is_empty() {
                    entry[field] = names.into();
                }
            }
            entry
        };
        Ok(json!({"servers": shown.map(entry).collect::<Vec<_>>()}))
    }
}

impl DynamicTool for ListServers {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn description(&self) -> &'static str {
        DESCRIPTION
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    fn plan(&self, arguments: &Value, _place: &Place) -> Result<Plan, ToolError> {
        let Some(named) = arguments.get("server").and_then(Value::as_str) else {
            return Ok(Plan::of(Vec::new()));
        };
        let servers = self.servers()?;
        let settings = servers.known(named)?;
        let effect = Effect::UseTool {
            server: settings.key.clone(),
            tool: "its list of tools".to_owned(),
            definition: settings.identity.chars().take(16).collect(),
        };
        let level = settings.level.max(Level::Safe);
        let plan = Plan { level: Some(level), ..Plan::of(vec![effect]) };
        http_transport::plan_of(&settings.config, level, plan, servers.login(settings).as_ref())
    }

    fn answer_bytes(&self) -> u64 {
        256 * 1024
    }

    fn run<'a>(&'a self, context: &'a Context, arguments: Value) -> BoxFuture<'a, RunResult<Data>> {
        Box::pin(async move {
            let named = arguments.get("server").and_then(Value::as_str);
            let began = std::sync::atomic::AtomicBool::new(false);
            let listed = tool_support::unless_stopped(&context.stop, &began, self.list(context, named));
            listed.await.map(Data::Value).into()
        })
    }
}
