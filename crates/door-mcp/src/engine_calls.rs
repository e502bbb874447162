//! Calls of the engine on behalf of one connection: questions in the way of the client's revision,
//! progress, and results in its shape.

use std::sync::Arc;

use dialects::{Dialect, content_tools};
use engine::{Asker, CallRequest, Door, Origin, Principal};
use rmcp::model::{
    CallToolResult, ContentBlock, ElicitRequest, ElicitResult, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, Resource,
};
use serde_json::{Value, json};
use tool::{CallResult, Code, KeptOutput, Meta, NoProgress, NoteTools, Progress, Stop, ToolError};

use crate::active_request::ActiveRequest;
use crate::address::{self, CHECKPOINTS};
use crate::agent_log::AgentLog;
use crate::asker::{CurrentTask, ElicitByRequest, ElicitByRetry, UserAnswer};
use crate::by_retry::RequestKind;
use crate::calls::Calls;
use crate::client_info::ClientInfo;
use crate::decode::UnusableCall;
use crate::log::Severity;
use crate::notice::Notice;
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::present::{self, View};
use crate::progress::{HEARTBEAT, Reporter};
use crate::sampling::OfferedByClient;
use crate::server_backend::Reply;
use crate::signed_state::{NotOurs, Sealer};
use crate::suspended::{RunningCall, RunningParts, Step, SuspendedCalls};
use crate::{list, origin, question};

/// Key of the single question that a call can raise.
const QUESTION: &str = "approval";

/// The engine's calls, as seen by one connection.
pub(crate) struct EngineCalls<C> {
    pub(crate) calls: Arc<C>,
    pub(crate) options: Arc<Options>,
    sealer: Sealer,
    suspended: SuspendedCalls,
    notices: Arc<Notices>,
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

impl<C: Calls> EngineCalls<C> {
    /// Creates the calls of a new connection.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new(calls: Arc<C>, options: Arc<Options>, notices: Arc<Notices>) -> Result<Self, McpError> {
        let sealer = Sealer::new(options.session.clone()).map_err(McpError::Random)?;
        Ok(Self { calls, options, sealer, suspended: SuspendedCalls::default(), notices })
    }

    /// Converts a result for the client, with links to truncated outputs if the client supports links.
    pub(crate) fn presented(&self, result: CallResult, peer: &ClientInfo) -> Reply<CallToolResult> {
        let linked = peer.follows_links() && self.options.dialect == Dialect::default();
        let links = if linked { links(&result.meta) } else { Vec::new() };
        let tools = self.calls.tools();
        let name_of =
            |canonical: &str| tools.iter().find(|tool| tool.spec().name == canonical).map(|tool| tool.name());
        let view = View {
            dialect: self.options.dialect,
            structured: peer.structured && list::promises_structure(self.options.catalogue),
            tools: NoteTools {
                restore: name_of(content_tools::CHECKPOINT_RESTORE),
                read: name_of(content_tools::OUTPUT.name),
            },
        };
        let mut presented = present::result(result, view);
        presented.result.content.extend(links);
        presented
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
            let asker = ElicitByRequest {
                line: turn.line.clone(),
                shows_forms: turn.peer.shows_forms(),
                allowed,
                by: turn.peer.by.clone(),
            };
            let result = self.accompanied(wanted.tool, wanted.arguments, Arc::new(asker), turn).await;
            return Ok(CallOutcome::Done(Box::new(result)));
        }
        if let Some(call) = self.resumed(&wanted)? {
            return self.go_on(call, turn, Reporter::of(turn)).await;
        }
        let said = self.answer_in(&wanted, &turn.peer)?;
        let task = CurrentTask::of(turn);
        let asker = Arc::new(ElicitByRetry::new(turn, task.clone(), allowed, said));
        let offered = self.suspended.offer(&turn.peer, self.may_show_forms(), &task);
        let Some((offered, requests)) = offered else {
            let result = self.accompanied(wanted.tool, wanted.arguments, asker.clone(), turn).await;
            return Ok(self.outcome(result, &asker));
        };
        let reporter = Reporter::of(turn);
        let stop = Stop::default();
        let RequestedCall { tool, arguments, .. } = wanted;
        let (of_tool, given) = (tool.clone(), arguments.clone());
        let request = CallRequest {
            stop: stop.clone(),
            ..self.request(of_tool, given, asker.clone(), offered, turn, reporter.as_ref())
        };
        let call = tokio::spawn(run(self.calls.clone(), request, turn.unusable.clone()));
        let call = RunningCall::new(RunningParts { tool, arguments, call, requests, asker, task, stop });
        self.go_on(call, turn, reporter).await
    }

    /// Waits for a call that may ask its client: for its end, or for its next request to the client.
    async fn go_on(
        &self,
        mut call: RunningCall,
        turn: &ActiveRequest,
        reporter: Option<Arc<Reporter>>,
    ) -> Result<CallOutcome, ErrorData> {
        call.attach(turn);
        match reported(self.suspended.next_step(&mut call, turn), reporter.as_deref()).await {
            Step::Ended(result) => {
                let result = *result.ok_or_else(broken)?;
                self.tell(&call.tool, &result, turn);
                Ok(self.outcome(result, &call.asker))
            }
            Step::Asks(asked) => {
                let requests = InputRequests::from([(asked.kind.key().to_owned(), asked.request)]);
                let number = self.suspended.suspend(call, asked.kind, asked.answer);
                let state = self.sealer.seal_call(number);
                Ok(CallOutcome::Asks(InputRequiredResult::new(Some(requests), Some(state))))
            }
        }
    }

    /// Returns the suspended call that a request continues, with the client's answer handed on.
    ///
    /// # Errors
    /// `-32602` if the answer belongs to no suspended call of this connection.
    fn resumed(&self, wanted: &RequestedCall) -> Result<Option<RunningCall>, ErrorData> {
        let (Some(state), Some(responses)) = (&wanted.state, &wanted.responses) else { return Ok(None) };
        if !RequestKind::ALL.iter().any(|kind| responses.contains_key(kind.key())) {
            return Ok(None);
        }
        let resumed = self.sealer.open_call(state).and_then(|number| {
            self.suspended.resume(number, &wanted.tool, &wanted.arguments, responses).ok_or(NotOurs)
        });
        resumed.map(Some).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
    }

    /// Returns the outcome of a call that has ended: its result, or the question that it needs answered.
    fn outcome(&self, result: CallResult, asker: &ElicitByRetry) -> CallOutcome {
        let allowed = self.options.elicitation;
        if let Some(question) = asker.open_question()
            && result.error().is_some_and(|error| error.code == Code::Approval)
            && let Ok(form) = question::form(&question, allowed)
        {
            let form = InputRequest::Elicitation(ElicitRequest::new(form));
            let requests = InputRequests::from([(QUESTION.to_owned(), form)]);
            let state = self.sealer.seal(&question, question::offered(&question, allowed));
            return CallOutcome::Asks(InputRequiredResult::new(Some(requests), Some(state)));
        }
        CallOutcome::Done(Box::new(result))
    }

    /// Makes a call and reports its progress. No report is sent after this returns.
    pub(crate) async fn accompanied(
        &self,
        tool: String,
        arguments: Value,
        asker: Arc<dyn Asker>,
        turn: &ActiveRequest,
    ) -> CallResult {
        let reporter = Reporter::of(turn);
        let offered = OfferedByClient::by_request(&turn.line, &turn.peer, self.may_show_forms());
        let request = self.request(tool.clone(), arguments, asker, offered, turn, reporter.as_ref());
        let result =
            reported(run(self.calls.clone(), request, turn.unusable.clone()), reporter.as_deref()).await;
        self.tell(&tool, &result, turn);
        result
    }

    /// Returns true if servers behind this one may show forms.
    fn may_show_forms(&self) -> bool {
        self.options.elicitation != question::Elicitation::Off
    }

    fn request(
        &self,
        tool: String,
        arguments: Value,
        asker: Arc<dyn Asker>,
        offered: OfferedByClient,
        turn: &ActiveRequest,
        reporter: Option<&Arc<Reporter>>,
    ) -> CallRequest {
        let progress: Arc<dyn Progress> = match reporter {
            Some(reporter) => reporter.clone(),
            None => Arc::new(NoProgress),
        };
        let session = self.options.session.clone();
        let mut principal = Principal::new(Door::Mcp, session, self.options.dialect.as_str(), asker);
        principal.holder.clone_from(&self.options.holder);
        principal.listener = Some(AgentLog::of(&turn.line.connection));
        (principal.model, principal.forms) = (offered.model, offered.forms);
        CallRequest {
            stop: turn.pending.stop.clone(),
            progress,
            origin: if self.calls.is_traced() { origin::of(turn) } else { Origin::default() },
            ..CallRequest::new(principal, tool, arguments)
        }
    }

    /// Tells the client of the outcome of a call.
    fn tell(&self, tool: &str, result: &CallResult, turn: &ActiveRequest) {
        say(tool, result, turn);
        if result.meta.checkpoint.is_some() {
            self.notices.tell(Notice::Resource(CHECKPOINTS));
        }
    }

    /// Ends the calls that wait for an answer of the client.
    pub(crate) fn end_suspended(&self) {
        self.suspended.end();
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

/// Makes a call, or records that it cannot be made. Holds no connection, so a connection can end first.
async fn run<C: Calls>(calls: Arc<C>, request: CallRequest, unusable: Option<UnusableCall>) -> CallResult {
    let Some(UnusableCall { problem, hint }) = unusable else { return calls.call(request).await };
    let mut error = ToolError::new(Code::Validation, problem);
    error.hint = hint.map(str::to_owned);
    calls.refuse(request, error).await
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call failed", None)
}

/// Waits for the future and reports progress meanwhile. No report is sent after this returns.
async fn reported<T>(call: impl Future<Output = T>, reporter: Option<&Reporter>) -> T {
    let Some(reporter) = reporter else { return call.await };
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
