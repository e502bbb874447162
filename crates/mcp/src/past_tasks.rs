//! Long calls as tasks, as the revision of 2025-11-25 has them: the client says of a call that it shall be one, and gets its name at
//! once. The revision after that has them as an extension (`task.rs`).
//!
//! What its client is to be asked waits until the client waits for the result (`asked.rs`).

mod asked;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CustomRequest, ErrorData, PaginatedRequestParams, ServerResult};
use rmcp::task_manager::current_timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tool::{AnyTool, Code, Lane, Stop, StopReason};

use crate::calls::Calls;
use crate::offered::{Made, Offered, Wanted};
use crate::page::Pages;
use crate::past_tasks::asked::Question;
use crate::turn::Turn;

/// The key under which a result names the task that it came of.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// How long what became of a task can be asked, whatever the client wishes. No call takes longer than an hour.
const KEPT: Duration = Duration::from_hours(2);

/// What may take as long may be a task.
const LONG: Duration = Duration::from_hours(1);

/// Tasks that one connection may have.
const MOST: usize = 256;

/// How often a client should ask, in milliseconds.
const ASK_EVERY_MS: u64 = 1_000;

/// How long a call that was stopped has for its end. The engine gives a tool five seconds.
const GRACE: Duration = Duration::from_secs(10);

/// The status of a task whose call goes on.
const WORKING: &str = "working";

/// Marks a call that its client wants as a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsTask;

/// What a server of that revision says that it can do.
pub(crate) fn capability() -> Value {
    json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
}

/// Whether calls of a tool may be tasks: commands, and what may take as long as one. No other call takes long.
pub(crate) fn may_be_task(tool: &dyn AnyTool) -> bool {
    tool.spec().lane == Lane::Command || tool.spec().timeout.max >= LONG
}

/// The tasks of one connection. Nobody else can name them.
#[derive(Clone, Default)]
pub(crate) struct PastTasks(Arc<Mutex<Vec<Arc<Task>>>>);

/// One of them.
pub(crate) struct Task {
    name: String,
    created: String,
    began: Instant,
    stop: Stop,
    state: watch::Sender<State>,
    /// Held by the one request whose client is asked what there is to ask.
    listener: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct State {
    status: &'static str,
    changed: String,
    /// What the call came to.
    outcome: Option<Result<Value, ErrorData>>,
    /// What it waits for.
    question: Option<Arc<Question>>,
}

impl Task {
    /// The task as every answer shows it.
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

    /// What the call came to, once it has ended.
    async fn outcome(&self) -> Result<Value, ErrorData> {
        let mut state = self.state.subscribe();
        // The sender is in the task.
        let ended = state.wait_for(|state| state.outcome.is_some()).await.map_err(|_| broken())?;
        ended.outcome.clone().unwrap_or_else(|| Err(broken()))
    }
}

impl PastTasks {
    /// A new one; none where there are too many.
    ///
    /// # Errors
    /// `-32603` where the operating system gives no random bytes.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Task>>> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| task.began.elapsed() < KEPT);
        tasks
    }

    /// # Errors
    /// `-32602` where there is no such task.
    fn named(&self, params: &Value) -> Result<Arc<Task>, ErrorData> {
        let name = params["taskId"].as_str();
        let found = self.lock().iter().find(|task| Some(task.name.as_str()) == name).cloned();
        found.ok_or_else(crate::task::unknown)
    }

    /// Answers a request about tasks; none where there is no such method.
    ///
    /// # Errors
    /// `-32602` for a task or a page that is not there, and for one that has ended where it is to be given up; of what a task came to
    /// the error that the call would have got.
    pub(crate) async fn answer(
        &self,
        request: &CustomRequest,
        pages: &Pages,
        turn: &Turn,
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

    async fn result(&self, params: &Value, turn: &Turn) -> Result<Value, ErrorData> {
        let task = self.named(params)?;
        let (given_up, gone) = tokio::sync::oneshot::channel();
        turn.stop.on_request(|_| {
            // Where nobody waits for it any more, it has been answered.
            let _ = given_up.send(());
        });
        let mut result = tokio::select! {
            outcome = task.outcome() => outcome?,
            // Who waited waits no more; the task goes on.
            _ = gone => return Err(ErrorData::internal_error("the request was given up", None)),
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
        // What became of it before it could be stopped stands.
        let _ = tokio::time::timeout(GRACE, task.outcome()).await;
        let status = task.state.borrow().status;
        if status == "cancelled" { Ok(task.shown()) } else { Err(ended()) }
    }
}

impl<C: Calls> Offered<C> {
    /// Makes a call as a task, whose state this is.
    ///
    /// # Errors
    /// `-32600` where there are too many.
    pub(crate) fn begin_task(&self, request: CallToolRequestParams, turn: &Turn) -> Result<Value, ErrorData> {
        let Some(task) = self.past.begin(&turn.stop)? else {
            let problem = format!("this session has {MOST} tasks already; each is kept for two hours");
            return Err(ErrorData::invalid_request(problem, None));
        };
        turn.line.connection.outlive(&turn.stop);
        let mut silent = turn.silent();
        silent.task = Some(task.clone());
        let (offered, shown) = (self.again(), task.shown());
        let wanted = Wanted {
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

impl Made {
    /// The code of a call that failed.
    fn code(&self) -> Option<Code> {
        match self {
            Self::Done(result) => result.error().map(|error| error.code),
            Self::Asks(_) => Some(Code::Approval),
        }
    }
}

/// The result of a call as that revision has it.
fn value(result: rmcp::model::CallToolResult) -> Value {
    let mut result = ServerResult::CallToolResult(result);
    result.strip_result_type_for_legacy_peer();
    serde_json::to_value(result).unwrap_or_default()
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call broke off", None)
}
