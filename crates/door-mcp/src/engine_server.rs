//! MCP features of the engine: its tools, resources, prompts and completions.

use std::sync::Arc;

use dialects::Dialect;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompletionInfo,
    ErrorData, GetPromptRequestParams, GetPromptResponse, JsonObject, Prompt, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use rmcp::task_manager::{TaskExit, TaskManager};
use serde_json::Value;
use tool::{BoxFuture, CallResult, Code, ForeignContent, Outcome};

use crate::active_request::ActiveRequest;
use crate::address::{self, CHECKPOINTS};
use crate::calls::Calls;
use crate::client_info::ClientInfo;
use crate::engine_calls::{CallOutcome, EngineCalls, RequestedCall};
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::server_backend::{FutureResult, Reply, ServerBackend};
use crate::tasks::{TaskOutcome, Tasks};
use crate::{foreign, list, resources};

/// The engine, as seen by one connection.
pub(crate) struct EngineServer<C> {
    own: Arc<EngineCalls<C>>,
    tasks: Tasks,
}

impl<C: Calls> EngineServer<C> {
    /// Creates the content of a new connection.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new(calls: Arc<C>, options: Arc<Options>, notices: Arc<Notices>) -> Result<Self, McpError> {
        let own = Arc::new(EngineCalls::new(calls, options, notices)?);
        Ok(Self { own, tasks: Tasks::default() })
    }

    fn lists_own(&self) -> bool {
        self.own.options.catalogue.lists_own_content()
    }

    /// Returns the resources and prompts of other servers, if the catalogue lists them.
    fn foreign(&self) -> Option<Arc<dyn ForeignContent>> {
        let is_listed = self.own.options.catalogue.lists_foreign_content();
        self.own.calls.foreign_content().filter(|_| is_listed)
    }

    /// Makes a call, as a task if it takes long.
    ///
    /// # Errors
    /// The errors of [`EngineCalls::make`].
    async fn make_soon(
        &self,
        wanted: RequestedCall,
        turn: &ActiveRequest,
    ) -> Result<TaskOutcome<CallOutcome>, ErrorData> {
        let (of_task, silent) = (self.own.clone(), turn.silent());
        let running = tokio::spawn(async move { of_task.make(wanted, &silent).await });
        let (own, peer) = (self.own.clone(), turn.peer.clone());
        self.tasks.run(running, turn, move |made| result_of_task(&own, made, &peer)).await
    }
}

/// Converts the complete result of a call that was a task.
fn result_of_task<C: Calls>(
    own: &EngineCalls<C>,
    made: CallOutcome,
    peer: &ClientInfo,
) -> Result<CallToolResult, TaskExit> {
    let CallOutcome::Done(result) = made else {
        let problem = "the call asks a question, which a task cannot do; repeat the call";
        return Err(TaskExit::Error(ErrorData::invalid_request(problem, None)));
    };
    if result.error().is_some_and(|error| error.code == Code::Cancelled) {
        return Err(TaskExit::Cancelled);
    }
    let Reply { mut result, structured, .. } = own.presented(*result, peer);
    if let Some(written) = structured {
        result.structured_content = written.parse().ok();
    }
    Ok(result)
}

impl<C: Calls> ServerBackend for EngineServer<C> {
    fn shown(&self, text: &str) -> String {
        self.own.calls.shown(text)
    }

    fn capabilities(&self) -> ServerCapabilities {
        capabilities(&self.own.options)
    }

    fn tools(&self, peer: &ClientInfo) -> Vec<Tool> {
        let Options { dialect, catalogue, .. } = *self.own.options;
        list::list(&self.own.calls.tools(), dialect, catalogue, peer)
    }

    fn call<'a>(
        &'a self,
        request: CallToolRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, Reply<CallToolResponse>> {
        Box::pin(async move {
            // A message that was not read in full reports that problem first.
            let known = self.own.calls.tools().iter().any(|tool| tool.name() == request.name)
                || turn.unusable.is_some();
            let wanted = RequestedCall {
                tool: request.name.into_owned(),
                arguments: Value::Object(request.arguments.unwrap_or_default()),
                state: request.request_state,
                responses: request.input_responses,
            };
            let made = if turn.peer.takes_tasks() {
                match self.make_soon(wanted, turn).await? {
                    TaskOutcome::Begun(task) => return Ok(CallToolResponse::from(*task).into()),
                    TaskOutcome::Ended(made) => made,
                }
            } else {
                self.own.make(wanted, turn).await?
            };
            match made {
                CallOutcome::Asks(question) => Ok(CallToolResponse::from(question).into()),
                // The engine has recorded the attempt and suggests the nearest name.
                CallOutcome::Done(result) if !known => Err(unknown_tool(&result)),
                CallOutcome::Done(result) => {
                    Ok(self.own.presented(*result, &turn.peer).map(CallToolResponse::from))
                }
            }
        })
    }

    fn tasks(&self) -> &TaskManager {
        self.tasks.protocol()
    }

    fn resources(&self) -> Vec<Resource> {
        let own = if self.lists_own() { address::resources() } else { Vec::new() };
        let others = self.foreign().map(|content| content.resources()).unwrap_or_default();
        own.into_iter().chain(others.into_iter().map(foreign::resource)).collect()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let own = if self.lists_own() { address::templates() } else { Vec::new() };
        let others = self.foreign().map(|content| content.templates()).unwrap_or_default();
        own.into_iter().chain(others.into_iter().map(foreign::template)).collect()
    }

    fn read<'a>(
        &'a self,
        request: ReadResourceRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, Reply<ReadResourceResponse>> {
        Box::pin(resources::content(&self.own, request, turn))
    }

    fn watches(&self, uri: &str) -> bool {
        uri == CHECKPOINTS
    }

    fn prompts(&self) -> Vec<Prompt> {
        let own = if self.lists_own() { resources::prompts() } else { Vec::new() };
        let others = self.foreign().map(|content| content.prompts()).unwrap_or_default();
        own.into_iter().chain(others.into_iter().map(foreign::prompt)).collect()
    }

    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, GetPromptResponse> {
        Box::pin(resources::prompt(&self.own, request, turn))
    }

    fn complete<'a>(
        &'a self,
        request: CompleteRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, CompletionInfo> {
        Box::pin(resources::completion(&self.own, request, turn))
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        self.own.end_suspended();
        Box::pin(self.own.calls.end_session(&self.own.options.session))
    }
}

fn unknown_tool(result: &CallResult) -> ErrorData {
    let message = match &result.outcome {
        Outcome::Err(error) => match &error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message.clone(),
        },
        Outcome::Ok(_) => "unknown tool".to_owned(),
    };
    ErrorData::invalid_params(message, None)
}

/// Returns the features that the engine offers clients of the dialect.
pub(crate) fn capabilities(options: &Options) -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
    // Clients of the other dialects do not expect these features, and their tools have other names.
    if options.dialect == Dialect::default() {
        capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
    }
    capabilities.logging = Some(JsonObject::new());
    capabilities
}
