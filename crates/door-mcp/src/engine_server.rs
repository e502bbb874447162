//! MCP features of the engine: its tools, resources, prompts and completions.

use std::sync::Arc;

use dialects::Dialect;
use engine::{Asker, CallRequest, Door, Origin, Principal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompletionInfo, ContentBlock,
    ElicitRequest, ElicitResult, ErrorData, GetPromptRequestParams, GetPromptResponse, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, JsonObject, Prompt, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use serde_json::{Value, json};
use tool::{CallResult, Code, KeptOutput, Meta, NoteTools, Outcome, Progress, ToolError};

use crate::active_request::ActiveRequest;
use crate::address::{self, CHECKPOINTS};
use crate::asker::{ElicitByRequest, ElicitByRetry, QuestionChannel, UserAnswer};
use crate::calls::Calls;
use crate::client_info::ClientInfo;
use crate::decode::UnusableCall;
use crate::log::Severity;
use crate::notices::{Notice, Notices};
use crate::present::{PresentedResult, View};
use crate::progress::{HEARTBEAT, Reporter};
use crate::server_backend::{FutureResult, ServerBackend};
use crate::signed_state::Sealer;
use crate::tasks_2025_11::{PastTasks, may_be_task};
use crate::tasks_2026_07::{TaskOutcome, Tasks};
use crate::{Options, list, origin, present, question, resources};

/// Tool that undoes a checkpoint.
const RESTORER: &str = "checkpoint_restore";

/// Tool that reads the full text of a truncated output.
const READER: &str = "output_read";

/// Key of the single question that a call can raise.
const QUESTION: &str = "approval";

/// The engine, as seen by one connection.
pub(crate) struct EngineServer<C> {
    pub(crate) calls: Arc<C>,
    pub(crate) options: Arc<Options>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) tasks: Tasks,
    pub(crate) past: PastTasks,
}

/// A call to make.
pub(crate) struct RequestedCall {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Data that the client sends along with a repeated call.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
}

/// Outcome of a call.
pub(crate) enum CallOutcome {
    Done(Box<CallResult>),
    /// The user must be asked first; the client repeats the request with the answer.
    Asks(InputRequiredResult),
}

impl<C: Calls> ServerBackend for EngineServer<C> {
    fn shown(&self, text: &str) -> String {
        self.calls.shown(text)
    }

    fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        // Clients of the other dialects do not expect these features, and their tools have other names.
        if self.options.dialect == Dialect::default() {
            capabilities = ServerCapabilities::builder()
                .enable_completions()
                .enable_prompts()
                .enable_resources()
                .enable_resources_subscribe()
                .enable_tools()
                .enable_tasks()
                .build();
        }
        capabilities.logging = Some(JsonObject::new());
        capabilities
    }

    fn tools(&self, peer: &ClientInfo) -> Vec<Tool> {
        list::list(self.calls.tools(), self.options.dialect, self.options.catalogue, peer.structured)
    }

    fn call<'a>(
        &'a self,
        request: CallToolRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, CallToolResponse> {
        Box::pin(async move {
            // A message that was not read in full reports that problem first.
            let known = self.calls.tools().iter().any(|tool| tool.name() == request.name)
                || turn.extensions.get::<UnusableCall>().is_some();
            let wanted = RequestedCall {
                tool: request.name.into_owned(),
                arguments: Value::Object(request.arguments.unwrap_or_default()),
                state: request.request_state,
                responses: request.input_responses,
            };
            let made = if turn.peer.takes_tasks() {
                match self.make_soon(wanted, turn).await? {
                    TaskOutcome::Later(task) => return Ok(task.into()),
                    TaskOutcome::Made(made) => made,
                }
            } else {
                self.make(wanted, turn).await?
            };
            match made {
                CallOutcome::Asks(question) => Ok(question.into()),
                // The engine has recorded the attempt and suggests the nearest name.
                CallOutcome::Done(result) if !known => Err(unknown_tool(&result)),
                CallOutcome::Done(result) => {
                    let presented = self.presented(*result, &turn.peer);
                    turn.line.connection.hold(turn.number, presented.held, presented.structured);
                    Ok(presented.result.into())
                }
            }
        })
    }

    fn resources(&self) -> Vec<Resource> {
        address::resources()
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        address::templates()
    }

    fn read<'a>(
        &'a self,
        request: ReadResourceRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, ReadResourceResponse> {
        Box::pin(self.content(request, turn))
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn past_tasks(&self) -> Option<&PastTasks> {
        Some(&self.past)
    }

    fn may_be_task(&self, tool: &str) -> Option<bool> {
        let tool = self.calls.tools().iter().find(|known| known.name() == tool)?;
        Some(may_be_task(tool.as_ref()))
    }

    fn begin(&self, request: CallToolRequestParams, turn: &ActiveRequest) -> Result<Value, ErrorData> {
        self.begin_task(request, turn)
    }

    fn watches(&self, uri: &str) -> bool {
        uri == CHECKPOINTS
    }

    fn prompts(&self) -> Vec<Prompt> {
        resources::prompts()
    }

    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, GetPromptResponse> {
        Box::pin(self.filled_in(request, turn))
    }

    fn complete<'a>(
        &'a self,
        request: CompleteRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, CompletionInfo> {
        Box::pin(self.completed(request, turn))
    }
}

/// Builds links to the full text of truncated outputs.
fn links(meta: &Meta) -> Vec<ContentBlock> {
    let link = |kept: &KeptOutput| {
        let name = format!("the full `{}` of {}", kept.field, meta.call_id);
        let resource = Resource::new(address::output(&kept.output_ref), name)
            .with_description("`?offset=BYTE&limit=BYTES` reads a part, `?regex=PATTERN` the matching lines.")
            .with_mime_type("text/plain")
            .with_size(kept.kept_bytes);
        ContentBlock::resource_link(resource)
    };
    meta.outputs.iter().map(link).collect()
}

impl<C: Calls> EngineServer<C> {
    /// Converts a result for the client, with links to truncated outputs if the client supports links.
    pub(crate) fn presented(&self, result: CallResult, peer: &ClientInfo) -> PresentedResult {
        let linked = peer.follows_links() && self.options.dialect == Dialect::default();
        let links = if linked { links(&result.meta) } else { Vec::new() };
        let view = View {
            dialect: self.options.dialect,
            structured: peer.structured && list::promises_structure(self.options.catalogue),
            tools: NoteTools { restore: self.name_of(RESTORER), read: self.name_of(READER) },
        };
        let mut presented = present::result(result, view);
        presented.result.content.extend(links);
        presented
    }

    /// Returns the client's name for a canonical tool; `None` if the client has no such tool.
    fn name_of(&self, canonical: &str) -> Option<&str> {
        self.calls.tools().iter().find(|tool| tool.spec().name == canonical).map(|tool| tool.name())
    }

    /// Clones the handles, for a call that outlives its request.
    pub(crate) fn again(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            options: self.options.clone(),
            sealer: self.sealer.clone(),
            notices: self.notices.clone(),
            tasks: self.tasks.clone(),
            past: self.past.clone(),
        }
    }

    /// Makes a call in the way of the client's revision, with progress reports.
    ///
    /// # Errors
    /// `-32602` if the client sends an answer to no open question of this connection.
    pub(crate) async fn make(
        &self,
        wanted: RequestedCall,
        turn: &ActiveRequest,
    ) -> Result<CallOutcome, ErrorData> {
        let allowed = self.options.elicitation;
        if !turn.peer.modern {
            let way = match &turn.task {
                Some(task) => QuestionChannel::Task(task.clone(), turn.line.patience),
                None => QuestionChannel::Line(turn.line.clone()),
            };
            let asker = ElicitByRequest {
                way,
                shows_forms: turn.peer.shows_forms(),
                allowed,
                by: turn.peer.by.clone(),
            };
            let result = self.accompanied(wanted.tool, wanted.arguments, Arc::new(asker), turn).await;
            return Ok(CallOutcome::Done(Box::new(result)));
        }
        let said = self.answer_in(&wanted, &turn.peer)?;
        let asker = Arc::new(ElicitByRetry::new(turn, allowed, said));
        let result = self.accompanied(wanted.tool, wanted.arguments, asker.clone(), turn).await;
        if let Some(question) = asker.open_question()
            && result.error().is_some_and(|error| error.code == Code::Approval)
            && let Ok(form) = question::form(&question, allowed)
        {
            let form = InputRequest::Elicitation(ElicitRequest::new(form));
            let requests = InputRequests::from([(QUESTION.to_owned(), form)]);
            let state = self.sealer.seal(&question, question::offered(&question, allowed));
            return Ok(CallOutcome::Asks(InputRequiredResult::new(Some(requests), Some(state))));
        }
        Ok(CallOutcome::Done(Box::new(result)))
    }

    /// Makes a call and reports its progress. No report is sent after this returns.
    pub(crate) async fn accompanied(
        &self,
        tool: String,
        arguments: Value,
        asker: Arc<dyn Asker>,
        turn: &ActiveRequest,
    ) -> CallResult {
        let token = turn.progress.clone();
        let reporter = token.map(|token| Arc::new(Reporter::new(token, turn.line.outbox.clone())));
        let progress: Arc<dyn Progress> = match &reporter {
            Some(reporter) => reporter.clone(),
            None => Arc::new(NoProgress),
        };
        let named = tool.clone();
        let session = self.options.session.clone();
        let mut principal = Principal::new(Door::Mcp, session, self.options.dialect.as_str(), asker);
        principal.holder.clone_from(&self.options.holder);
        let request = CallRequest {
            stop: turn.stop.clone(),
            progress,
            origin: if self.calls.is_traced() { origin::of(turn) } else { Origin::default() },
            ..CallRequest::new(principal, tool, arguments)
        };
        let result =
            if let Some(UnusableCall { problem, hint }) = turn.extensions.get::<UnusableCall>().cloned() {
                let mut error = ToolError::new(Code::Validation, problem);
                error.hint = hint.map(str::to_owned);
                self.calls.refuse(request, error).await
            } else {
                let call = self.calls.call(request);
                match reporter {
                    Some(reporter) => reported(call, &reporter).await,
                    None => call.await,
                }
            };
        say(&named, &result, turn);
        if result.meta.checkpoint.is_some() {
            self.notices.tell(Notice::Resource(CHECKPOINTS));
        }
        result
    }

    /// Returns the user's answer, if the request carries one.
    ///
    /// # Errors
    /// `-32602` if the answer belongs to no open question of this connection.
    fn answer_in(&self, wanted: &RequestedCall, peer: &ClientInfo) -> Result<Option<UserAnswer>, ErrorData> {
        let (state, responses) = match (&wanted.state, &wanted.responses) {
            (None, None) => return Ok(None),
            (Some(state), Some(responses)) => (state, responses),
            _ => {
                let problem = "`requestState` and `inputResponses` must be sent together";
                return Err(ErrorData::invalid_params(problem, None));
            }
        };
        let response = responses
            .get(QUESTION)
            .and_then(|response| serde_json::from_value::<ElicitResult>(response.clone()).ok())
            .ok_or_else(|| {
                let problem = format!("`inputResponses.{QUESTION}` must be the answer to the form");
                ErrorData::invalid_params(problem, None)
            })?;
        let (question, after) = self
            .sealer
            .open(state, &wanted.tool)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let choice = question::choice(&response, &question.offered, after);
        Ok(Some(UserAnswer { digest: question.digest, choice, by: peer.by.clone() }))
    }
}

/// Waits for the call and reports its progress. No report is sent after this returns.
async fn reported(call: impl Future<Output = CallResult>, reporter: &Reporter) -> CallResult {
    tokio::pin!(call);
    let mut heartbeat = tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut call => break result,
            _ = heartbeat.tick() => reporter.beat(),
        }
    };
    reporter.close();
    result
}

/// Logs the outcome of a call and its warnings to a client that asks for log messages.
fn say(tool: &str, result: &CallResult, turn: &ActiveRequest) {
    let meta = &result.meta;
    let mut data = json!({"call_id": meta.call_id, "tool": tool, "duration_ms": meta.duration_ms});
    let level = match result.error() {
        None => Severity::Info,
        Some(error) => {
            data["code"] = json!(error.code);
            match error.code {
                Code::Internal => Severity::Error,
                Code::Permission | Code::Approval => Severity::Warning,
                _ => Severity::Notice,
            }
        }
    };
    turn.log(level, "call", &data);
    for warning in &meta.warnings {
        turn.log(Severity::Warning, "call", &json!({"call_id": meta.call_id, "warning": warning}));
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

/// Discards progress reports, for clients that did not ask for them.
struct NoProgress;

impl Progress for NoProgress {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}
}
