//! Long calls as tasks, as in revision 2025-11-25: the client requests a task for a call, and gets
//! its id at once. The next revision has tasks as an extension (`task.rs`).
//!
//! A question of a task waits until the client waits for the result (`asked.rs`).

mod asked;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{CallToolRequestParams, CustomRequest, ErrorData, PaginatedRequestParams, ServerResult};
use rmcp::task_manager::current_timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tool::{AnyTool, Code, Lane, Stop, StopReason};

use crate::active_request::ActiveRequest;
use crate::calls::Calls;
use crate::engine_server::{CallOutcome, EngineServer, RequestedCall};
use crate::page::Pages;
use crate::tasks_2025_11::asked::Question;

/// Key in `_meta` under which a result names its task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Time for which the outcome of a task is available, regardless of the client's wish. No call
/// takes longer than an hour.
const KEPT: Duration = Duration::from_hours(2);

/// Timeout from which on a tool's calls may be tasks.
const LONG: Duration = Duration::from_hours(1);

/// Maximum number of tasks of one connection.
const MOST: usize = 256;

/// Recommended polling interval for clients, in milliseconds.
const ASK_EVERY_MS: u64 = 1_000;

/// Time that a stopped call has to end. The engine gives a tool five seconds.
const GRACE: Duration = Duration::from_secs(10);

/// Status of a task whose call is running.
const WORKING: &str = "working";

/// Marker of a call that the client requested as a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsTask;

/// Returns the server's capability for tasks in that revision.
pub(crate) fn capability() -> Value {
    json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
}

/// Returns true if calls of a tool may be tasks: commands, and tools with a timeout as long as
/// theirs. Other calls are short.
pub(crate) fn may_be_task(tool: &dyn AnyTool) -> bool {
    tool.spec().lane == Lane::Command || tool.spec().timeout.max >= LONG
}

/// The tasks of one connection. Other connections cannot name them.
#[derive(Clone, Default)]
pub(crate) struct PastTasks(Arc<Mutex<Vec<Arc<Task>>>>);

/// A task.
pub(crate) struct Task {
    name: String,
    created: String,
    began: Instant,
    stop: Stop,
    state: watch::Sender<State>,
    /// Lock of the one request through which the client is asked.
    listener: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct State {
    status: &'static str,
    changed: String,
    /// Result of the call.
    outcome: Option<Result<Value, ErrorData>>,
    /// Question that the call waits for.
    question: Option<Arc<Question>>,
}

impl Task {
    /// Returns the task object for responses.
    fn shown(&self) -> Value {
        let state = self.state.borrow();
        let mut shown = json!({
            "taskId": self.name,
            "status": state.status,
            "createdAt": self.created,
            "lastUpdatedAt": state.changed,
            "ttl": u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX),
            "pollInterval": ASK_EVERY_MS,
        });
        if state.question.is_some() {
            shown["statusMessage"] = json!(asked::WAIT_TO_BE_ASKED);
        }
        shown
    }

    fn end(&self, status: &'static str, outcome: Result<Value, ErrorData>) {
        let outcome = Some(outcome);
        self.state.send_replace(State { status, changed: current_timestamp(), outcome, question: None });
    }

    /// Waits for the end of the call and returns its result.
    async fn outcome(&self) -> Result<Value, ErrorData> {
        let mut state = self.state.subscribe();
        // The task owns the sender, so the channel stays open.
        let ended = state.wait_for(|state| state.outcome.is_some()).await.map_err(|_| broken())?;
        ended.outcome.clone().unwrap_or_else(|| Err(broken()))
    }
}

impl PastTasks {
    /// Creates a task; `None` if there are too many.
    ///
    /// # Errors
    /// `-32603` if the operating system returns no random bytes.
    fn begin(&self, stop: &Stop) -> Result<Option<Arc<Task>>, ErrorData> {
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let name = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let created = current_timestamp();
        let state = State { status: WORKING, changed: created.clone(), outcome: None, question: None };
        let (began, state, listener) =
            (Instant::now(), watch::Sender::new(state), tokio::sync::Mutex::default());
        let task = Arc::new(Task { name, created, began, stop: stop.clone(), state, listener });
        let mut tasks = self.lock();
        if tasks.len() >= MOST {
            return Ok(None);
        }
        tasks.push(task.clone());
        Ok(Some(task))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Task>>> {
        let mut tasks = self.0.lock();
        tasks.retain(|task| task.began.elapsed() < KEPT);
        tasks
    }

    /// Returns the task that the parameters name.
    ///
    /// # Errors
    /// `-32602` if there is no such task.
    fn named(&self, params: &Value) -> Result<Arc<Task>, ErrorData> {
        let name = params["taskId"].as_str();
        let found = self.lock().iter().find(|task| Some(task.name.as_str()) == name).cloned();
        found.ok_or_else(crate::tasks_2026_07::unknown)
    }

    /// Answers a request about tasks; `None` for any other method.
    ///
    /// # Errors
    /// `-32602` for an unknown task or page, and for the cancellation of an ended task.
    /// `tasks/result` returns the error that the call itself would have returned.
    pub(crate) async fn answer(
        &self,
        request: &CustomRequest,
        pages: &Pages,
        turn: &ActiveRequest,
    ) -> Option<Result<Value, ErrorData>> {
        let params = request.params.clone().unwrap_or_default();
        let answer = match request.method.as_str() {
            "tasks/get" => self.named(&params).map(|task| task.shown()),
            "tasks/list" => self.list(params, pages),
            "tasks/result" => self.result(&params, turn).await,
            "tasks/cancel" => self.cancel(&params).await,
            _ => return None,
        };
        Some(answer)
    }

    fn list(&self, params: Value, pages: &Pages) -> Result<Value, ErrorData> {
        let asked: Option<PaginatedRequestParams> = serde_json::from_value(params)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let tasks = self.lock().iter().map(|task| task.shown()).collect();
        let (tasks, next) = pages.of("tasks", tasks, asked.as_ref())?;
        let mut answer = json!({ "tasks": tasks });
        if let Some(next) = next {
            answer["nextCursor"] = json!(next);
        }
        Ok(answer)
    }

    async fn result(&self, params: &Value, turn: &ActiveRequest) -> Result<Value, ErrorData> {
        let task = self.named(params)?;
        let (given_up, gone) = tokio::sync::oneshot::channel();
        turn.stop.on_request(|_| {
            // The receiver may be gone: then the request was answered already.
            let _ = given_up.send(());
        });
        let mut result = tokio::select! {
            outcome = task.outcome() => outcome?,
            // The request was cancelled; the task continues.
            _ = gone => return Err(ErrorData::internal_error("the request was cancelled", None)),
            never = task.show(&turn.line) => match never {},
        };
        result["_meta"][RELATED] = json!({ "taskId": task.name });
        Ok(result)
    }

    async fn cancel(&self, params: &Value) -> Result<Value, ErrorData> {
        let task = self.named(params)?;
        let ended = || ErrorData::invalid_params("the task has ended", None);
        if task.state.borrow().outcome.is_some() {
            return Err(ended());
        }
        task.stop.request(StopReason::Cancelled);
        // A result that precedes the stop remains valid.
        let _ = tokio::time::timeout(GRACE, task.outcome()).await;
        let status = task.state.borrow().status;
        if status == "cancelled" { Ok(task.shown()) } else { Err(ended()) }
    }
}

impl<C: Calls> EngineServer<C> {
    /// Makes a call as a task, and returns the task object.
    ///
    /// # Errors
    /// `-32600` if there are too many tasks.
    pub(crate) fn begin_task(
        &self,
        request: CallToolRequestParams,
        turn: &ActiveRequest,
    ) -> Result<Value, ErrorData> {
        let Some(task) = self.past.begin(&turn.stop)? else {
            let problem = format!("this session already has {MOST} tasks; each is kept for two hours");
            return Err(ErrorData::invalid_request(problem, None));
        };
        turn.line.connection.outlive(&turn.stop);
        let mut silent = turn.silent();
        silent.task = Some(task.clone());
        let (offered, shown) = (self.again(), task.shown());
        let wanted = RequestedCall {
            tool: request.name.into_owned(),
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            state: None,
            responses: None,
        };
        tokio::spawn(async move {
            let making = tokio::spawn(async move {
                let made = offered.make(wanted, &silent).await?;
                let code = made.code();
                Ok((code, value(offered.shown(made, &silent.peer)?)))
            });
            match making.await.unwrap_or_else(|_| Err(broken())) {
                Ok((Some(Code::Cancelled), result)) => task.end("cancelled", Ok(result)),
                Ok((Some(_), result)) => task.end("failed", Ok(result)),
                Ok((None, result)) => task.end("completed", Ok(result)),
                Err(error) => task.end("failed", Err(error)),
            }
        });
        Ok(json!({ "task": shown }))
    }
}

impl CallOutcome {
    /// Returns the error code of a failed call.
    fn code(&self) -> Option<Code> {
        match self {
            Self::Done(result) => result.error().map(|error| error.code),
            Self::Asks(_) => Some(Code::Approval),
        }
    }
}

/// Converts the result of a call to the form of that revision.
fn value(result: rmcp::model::CallToolResult) -> Value {
    let mut result = ServerResult::CallToolResult(result);
    result.strip_result_type_for_legacy_peer();
    serde_json::to_value(result).unwrap_or_default()
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call failed", None)
}
