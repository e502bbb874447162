//! One tool of another server, as a tool of this runtime.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_client::config::ServerConfig;
use mcp_client::definition::DefinitionHash;
use mcp_client::level::level_of;
use mcp_client::offer::OfferedTool;
use mcp_client::{ProgressReport, ProgressSink, ToolCall};
use serde_json::{Map, Value};
use tool::{
    AnyTool, BoxFuture, Class, Code, Context, Data, DynamicTool, Effect, Example, InnerCalls, Lane, Level,
    OfferedForms, OfferedModel, Place, Plan, Presentation, Progress, RunResult, Spec, TextCap, Timeout,
    ToolError, dynamic_tool, static_name,
};

use crate::connection::ListAge;
use crate::own_calls::CallRequests;
use crate::running_call::RunningCall;
use crate::servers::McpServers;
use crate::settings::ServerSettings;
use crate::{answer, failure, http_transport};

/// Bytes by which a call is admitted. Most results are far smaller, and the largest message is four times this.
const ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// Number of characters of a hash in effects.
const SHOWN_HASH: usize = 16;

/// Default and maximum time of a call.
const TIMEOUT: Timeout = Timeout { default: Duration::from_mins(5), max: Duration::from_mins(5) };

struct ForeignTool {
    servers: Weak<McpServers>,
    server: String,
    tool: String,
    config: ServerConfig,
    spec: Spec,
    description: String,
    input_schema: Value,
    output_schema: Value,
    hash: DefinitionHash,
    /// True if the definition differs from the pinned one, so that a human must allow it first.
    has_changed: bool,
}

/// Makes the tool. `None` if the process has no room for more names, or if the stored schema is damaged.
pub(crate) fn foreign_tool(
    servers: Weak<McpServers>,
    settings: &ServerSettings,
    offered: OfferedTool,
    name: &str,
    has_changed: bool,
) -> Option<Arc<dyn AnyTool>> {
    let level = level_of(settings.level, offered.annotations, settings.trust);
    let class = Class {
        // The intent of each call is recorded, whatever the server says.
        reads_only: false,
        destructive: level >= Level::Destructive,
        idempotent: false,
        open_world: true,
    };
    let spec = Spec {
        name: static_name(name)?,
        title: static_name(&offered.title)?,
        description: "",
        example: Example { files: &[], arguments: "", result: "" },
        level,
        class,
        timeout: TIMEOUT,
        lane: Lane::Service,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };
    Some(dynamic_tool(ForeignTool {
        servers,
        server: settings.key.clone(),
        tool: offered.tool,
        config: settings.config.clone(),
        spec,
        description: format!("[MCP server {}; a stranger's words] {}", settings.key, offered.description),
        input_schema: serde_json::from_str(offered.input_schema.get()).ok()?,
        output_schema: answer::schema(),
        hash: offered.hash,
        has_changed,
    }))
}

impl ForeignTool {
    async fn call(&self, context: &Context, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        let servers =
            self.servers.upgrade().ok_or_else(|| failure::unavailable(&self.server, "it has ended"))?;
        let settings = servers
            .settings(&self.server)
            .ok_or_else(|| failure::unavailable(&self.server, "the configuration has it no longer"))?;
        let connection = servers.connection(settings, context, ListAge::Any).await?;
        let Some((hash, definition)) = connection.definition(&self.tool) else {
            let problem = format!("the MCP server {} has no tool {} any longer", self.server, self.tool);
            return Err(ToolError::new(Code::NotFound, problem).hint("`mcp_servers` lists its tools"));
        };
        if hash != self.hash {
            let problem = format!(
                "the MCP server {} has changed the definition of {} since it was listed; nothing was called",
                self.server, self.tool
            );
            return Err(ToolError::new(Code::Conflict, problem)
                .hint("list the tools, and call again: a human is shown the difference"));
        }
        if self.has_changed {
            // The question about this call showed the difference.
            servers.accept(&self.server, &definition).await?;
        }
        let inner = context.service::<Arc<dyn InnerCalls>>().ok().map(|inner| (*inner).clone());
        let offers_model = context.service::<OfferedModel>().is_ok();
        let forms = context.service::<OfferedForms>().ok().map(|offered| offered.0.clone());
        let running = RunningCall::new(inner, offers_model, forms);
        let input_schema = definition.input_schema_value();
        let answered = {
            let _entered = connection.calls.enter(running.clone());
            let call = ToolCall {
                tool: &self.tool,
                arguments,
                input_schema: Some(&input_schema),
                timeout: Some(context.timeout),
                progress: Some(Arc::new(Reports(context.progress.clone()))),
                requests: Some(Arc::new(CallRequests {
                    calls: connection.calls.clone(),
                    call: running.clone(),
                })),
            };
            connection.client.call_tool(call).await
        };
        for warning in running.warnings() {
            context.warn(format!("the MCP server {} {warning}", self.server));
        }
        match answered {
            Ok(answer) => answer::converted((&self.server, &self.tool), answer, context.shows_pictures),
            Err(error) => {
                let mut failed = failure::of_client(&self.server, error, true);
                let words = connection.final_words().await;
                if !words.is_empty() {
                    failed.message = format!("{}; it printed: {words}", failed.message);
                }
                Err(failed)
            }
        }
    }
}

impl DynamicTool for ForeignTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    fn plan(&self, _arguments: &Value, _place: &Place) -> Result<Plan, ToolError> {
        let definition = self.hash.as_str().chars().take(SHOWN_HASH).collect();
        let used = Effect::UseTool { server: self.server.clone(), tool: self.tool.clone(), definition };
        let mut plan = Plan::of(vec![used]);
        if self.has_changed {
            let what = format!("the pinned definition of {}, which its server changed", self.spec.name);
            plan.effects.push(Effect::ChangeHandfast { what });
        }
        let servers = self.servers.upgrade();
        let login = servers.and_then(|servers| servers.login(servers.settings(&self.server)?));
        http_transport::plan_of(&self.config, self.spec.level, plan, login.as_ref())
    }

    fn preview(&self, arguments: &Value) -> Option<String> {
        let mut shown = serde_json::to_string_pretty(arguments).unwrap_or_default();
        if self.has_changed {
            let difference =
                self.servers.upgrade().and_then(|servers| servers.difference(&self.server, &self.tool));
            let difference = difference.unwrap_or_else(|| {
                "The difference is not known yet; `mcp_servers` with the server's name reads it.\n".to_owned()
            });
            shown = format!("The server changed this tool since it was allowed:\n{difference}\n{shown}");
        }
        Some(shown)
    }

    fn answer_bytes(&self) -> u64 {
        ANSWER_BYTES
    }

    fn run<'a>(&'a self, context: &'a Context, arguments: Value) -> BoxFuture<'a, RunResult<Data>> {
        Box::pin(async move {
            let arguments = match arguments {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            let began = std::sync::atomic::AtomicBool::new(true);
            let called = tool_support::unless_stopped(&context.stop, &began, self.call(context, arguments));
            called.await.map(Data::Value).into()
        })
    }
}

/// Receiver of a server's progress, for the caller.
struct Reports(Arc<dyn Progress>);

impl ProgressSink for Reports {
    fn progress(&self, report: ProgressReport) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast ends at the bounds"
        )]
        let whole = |number: f64| number as u64;
        self.0.report(
            whole(report.progress),
            report.total.map(whole),
            report.message.as_deref().unwrap_or_default(),
        );
    }
}
