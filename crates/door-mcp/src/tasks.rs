//! Long calls as tasks (the extension `io.modelcontextprotocol/tasks` of revision 2026-07-28).
//!
//! A client that supports tasks still gets a direct response if the call ends soon. Otherwise it
//! gets the id of a task, with which it polls the outcome, answers questions, or cancels the call.

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, CreateTaskResult, ErrorData, GetTaskResult};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use tokio::task::JoinHandle;
use tool::StopReason;

use crate::active_request::ActiveRequest;

/// Duration after which a call becomes a task.
const SOON: Duration = Duration::from_secs(4);

/// Time for which the outcome of a task is available. No call takes longer than an hour.
const KEPT: Duration = Duration::from_hours(2);

/// Maximum number of tasks of one connection; beyond it, a call is answered when it has ended.
const MOST: usize = 256;

/// The tasks of one connection. Other connections cannot name them.
#[derive(Default)]
pub(crate) struct Tasks {
    protocol: TaskManager,
    /// Ids of the tasks that are still available.
    named: Mutex<Vec<String>>,
}

/// Outcome of a call whose client supports tasks.
pub(crate) enum TaskOutcome<T> {
    /// The call has ended.
    Ended(T),
    /// The call runs on as a task.
    Begun(Box<CreateTaskResult>),
}

impl Tasks {
    pub(crate) fn protocol(&self) -> &TaskManager {
        &self.protocol
    }

    fn has_room(&self) -> bool {
        let mut named = self.named.lock();
        named.retain(|task| self.protocol.get_task(task).is_ok());
        named.len() < MOST
    }

    /// Waits for a call, which becomes a task if it takes long. `convert` makes the result of the
    /// task.
    ///
    /// # Errors
    /// The error of the call.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        mut running: JoinHandle<Result<T, ErrorData>>,
        turn: &ActiveRequest,
        convert: impl FnOnce(T) -> Result<CallToolResult, TaskExit> + Send + 'static,
    ) -> Result<TaskOutcome<T>, ErrorData> {
        if let Ok(made) = tokio::time::timeout(SOON, &mut running).await {
            return made.map_err(|_| broken())?.map(TaskOutcome::Ended);
        }
        if !self.has_room() {
            return running.await.map_err(|_| broken())?.map(TaskOutcome::Ended);
        }
        turn.line.connection.outlive(&turn.pending.stop);
        let options = TaskOptions::new().with_ttl_ms(u64::try_from(KEPT.as_millis()).ok());
        let (stop, slot) = (turn.pending.stop.clone(), turn.task.clone());
        let task = self.protocol.spawn(options, move |context| {
            // A call becomes one task at most, so the cell was empty.
            let _ = slot.set(context.clone());
            Box::pin(async move {
                let made = tokio::select! {
                    made = &mut running => made,
                    () = context.cancelled() => {
                        stop.request(StopReason::Cancelled);
                        running.await
                    }
                };
                convert(made.map_err(|_| TaskExit::Error(broken()))??)
            })
        });
        self.named.lock().push(task.task_id.clone());
        Ok(TaskOutcome::Begun(Box::new(CreateTaskResult::new(task))))
    }
}

/// Returns the state of a task.
///
/// # Errors
/// `-32602` for an unknown task.
pub(crate) fn state(protocol: &TaskManager, task: &str) -> Result<GetTaskResult, ErrorData> {
    protocol.get_task(task).map(GetTaskResult::new).map_err(|_| unknown())
}

/// Builds the error for an unknown task. The text is the same for all tasks, so that guesses reveal
/// nothing.
pub(crate) fn unknown() -> ErrorData {
    ErrorData::invalid_params("unknown task", None)
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call failed", None)
}
