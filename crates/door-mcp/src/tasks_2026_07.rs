//! Long calls as tasks (the extension `io.modelcontextprotocol/tasks` of revision 2026-07-28).
//!
//! A client that supports tasks still gets a direct response if the call ends soon. Otherwise it
//! gets the id of a task, with which it polls the outcome, answers questions, or cancels the call.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, CreateTaskResult, ErrorData, GetTaskResult};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use tokio::task::JoinHandle;
use tool::{Code, Stop, StopReason};

use crate::active_request::ActiveRequest;
use crate::calls::Calls;
use crate::client_info::ClientInfo;
use crate::engine_server::{CallOutcome, EngineServer, RequestedCall};

/// Duration after which a call becomes a task.
const SOON: Duration = Duration::from_secs(4);

/// Time for which the outcome of a task is available. No call takes longer than an hour.
const KEPT: Duration = Duration::from_hours(2);

/// Maximum number of tasks of one connection; beyond it, a call is answered when it has ended.
const MOST: usize = 256;

/// The tasks of one connection. Other connections cannot name them.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    inside: TaskManager,
    /// Ids of the tasks that are still available.
    named: Arc<Mutex<Vec<String>>>,
}

impl Tasks {
    pub(crate) fn inside(&self) -> &TaskManager {
        &self.inside
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    /// `-32602` if unknown task.
    pub(crate) fn state(&self, task: &str) -> Result<GetTaskResult, ErrorData> {
        self.inside.get_task(task).map(GetTaskResult::new).map_err(|_| unknown())
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// The errors of [`Tasks::state`].
    pub(crate) fn cancel(&self, task: &str) -> Result<(), ErrorData> {
        self.inside.cancel_task(task).map_err(|_| unknown())
    }

    fn has_room(&self) -> bool {
        let mut named = self.named.lock();
        named.retain(|task| self.inside.get_task(task).is_ok());
        named.len() < MOST
    }

    fn name(&self, task: &str) {
        self.named.lock().push(task.to_owned());
    }
}

/// Builds the error for an unknown task. The text is the same for all tasks, so that guesses reveal
/// nothing.
pub(crate) fn unknown() -> ErrorData {
    ErrorData::invalid_params("unknown task", None)
}

/// Outcome of a call whose client supports tasks.
pub(crate) enum TaskOutcome {
    Made(CallOutcome),
    Later(CreateTaskResult),
}

impl<C: Calls> EngineServer<C> {
    /// Makes a call, as a task if it takes long.
    ///
    /// # Errors
    /// The errors of [`EngineServer::make`].
    pub(crate) async fn make_soon(
        &self,
        wanted: RequestedCall,
        turn: &ActiveRequest,
    ) -> Result<TaskOutcome, ErrorData> {
        let (of_task, silent) = (self.again(), turn.silent());
        let mut running = tokio::spawn(async move { of_task.make(wanted, &silent).await });
        if let Ok(made) = tokio::time::timeout(SOON, &mut running).await {
            return made.map_err(|_| broken())?.map(TaskOutcome::Made);
        }
        if !self.tasks.has_room() {
            return running.await.map_err(|_| broken())?.map(TaskOutcome::Made);
        }
        turn.line.connection.outlive(&turn.stop);
        let peer = turn.peer.clone();
        let options = TaskOptions::new().with_ttl_ms(u64::try_from(KEPT.as_millis()).ok());
        let (stop, offered, later) = (turn.stop.clone(), self.again(), turn.later.clone());
        let task = self.tasks.inside.spawn(options, move |context| {
            // A call becomes one task at most, so the cell was empty.
            let _ = later.set(context.clone());
            Box::pin(async move {
                let made = tokio::select! {
                    made = &mut running => made,
                    () = context.cancelled() => given_up(&stop, &mut running).await,
                };
                offered.result_of(made.map_err(|_| TaskExit::Error(broken()))??, &peer)
            })
        });
        self.tasks.name(&task.task_id);
        Ok(TaskOutcome::Later(CreateTaskResult::new(task)))
    }

    fn result_of(&self, made: CallOutcome, peer: &ClientInfo) -> Result<CallToolResult, TaskExit> {
        if let CallOutcome::Done(result) = &made
            && result.error().is_some_and(|error| error.code == Code::Cancelled)
        {
            return Err(TaskExit::Cancelled);
        }
        self.shown(made, peer).map_err(TaskExit::Error)
    }

    /// Converts the complete result of a call that was a task.
    ///
    /// # Errors
    /// `-32600` if the call asks a question.
    pub(crate) fn shown(&self, made: CallOutcome, peer: &ClientInfo) -> Result<CallToolResult, ErrorData> {
        let CallOutcome::Done(result) = made else {
            let problem = "the call asks a question, which a task cannot do; repeat the call";
            return Err(ErrorData::invalid_request(problem, None));
        };
        let presented = self.presented(*result, peer);
        let mut shown = presented.result;
        if let Some(written) = presented.structured {
            shown.structured_content = written.parse().ok();
        }
        Ok(shown)
    }
}

async fn given_up(
    stop: &Stop,
    running: &mut JoinHandle<Result<CallOutcome, ErrorData>>,
) -> Result<Result<CallOutcome, ErrorData>, tokio::task::JoinError> {
    stop.request(StopReason::Cancelled);
    running.await
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call failed", None)
}
