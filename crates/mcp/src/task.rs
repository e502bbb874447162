//! Long calls as tasks (the extension `io.modelcontextprotocol/tasks` of the revision of 2026-07-28).
//!
//! A client that can do without an answer gets one all the same where the call ends soon. Otherwise it gets the name of a task, by
//! which it asks what became of the call, answers what it is asked, or gives it up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolResult, CreateTaskResult, ErrorData, GetTaskResult};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use tokio::task::JoinHandle;
use tool::{Code, Stop, StopReason};

use crate::calls::Calls;
use crate::offered::{Made, Offered, Wanted};
use crate::peer::Peer;
use crate::turn::Turn;

/// A call that takes longer is a task.
const SOON: Duration = Duration::from_secs(4);

/// How long what became of a task can be asked. No call takes longer than an hour.
const KEPT: Duration = Duration::from_hours(2);

/// Tasks that one connection may have; beyond, a call is answered when it has ended.
const MOST: usize = 256;

/// The tasks of one connection. Nobody else can name them.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    inside: TaskManager,
    /// Those that may still be asked about.
    named: Arc<Mutex<Vec<String>>>,
}

impl Tasks {
    pub(crate) fn inside(&self) -> &TaskManager {
        &self.inside
    }

    /// # Errors
    /// `-32602` where there is no such task.
    pub(crate) fn state(&self, task: &str) -> Result<GetTaskResult, ErrorData> {
        self.inside.get_task(task).map(GetTaskResult::new).map_err(|_| unknown())
    }

    /// # Errors
    /// As [`Tasks::state`].
    pub(crate) fn cancel(&self, task: &str) -> Result<(), ErrorData> {
        self.inside.cancel_task(task).map_err(|_| unknown())
    }

    fn has_room(&self) -> bool {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|task| self.inside.get_task(task).is_ok());
        named.len() < MOST
    }

    fn name(&self, task: &str) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).push(task.to_owned());
    }
}

/// Whoever guesses names learns nothing from what is said.
pub(crate) fn unknown() -> ErrorData {
    ErrorData::invalid_params("there is no such task", None)
}

/// What became of a call whose client takes tasks.
pub(crate) enum Soon {
    Made(Made),
    Later(CreateTaskResult),
}

impl<C: Calls> Offered<C> {
    /// Makes a call, as a task where it takes long.
    ///
    /// # Errors
    /// As [`Offered::make`].
    pub(crate) async fn make_soon(&self, wanted: Wanted, turn: &Turn) -> Result<Soon, ErrorData> {
        let (of_task, silent) = (self.again(), turn.silent());
        let mut running = tokio::spawn(async move { of_task.make(wanted, &silent).await });
        if let Ok(made) = tokio::time::timeout(SOON, &mut running).await {
            return made.map_err(|_| broken())?.map(Soon::Made);
        }
        if !self.tasks.has_room() {
            return running.await.map_err(|_| broken())?.map(Soon::Made);
        }
        turn.line.connection.outlive(&turn.stop);
        let peer = turn.peer.clone();
        let options = TaskOptions::new().with_ttl_ms(u64::try_from(KEPT.as_millis()).ok());
        let (stop, offered, later) = (turn.stop.clone(), self.again(), turn.later.clone());
        let task = self.tasks.inside.spawn(options, move |context| {
            // There is one task of a call, so nothing else was there.
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
        Ok(Soon::Later(CreateTaskResult::new(task)))
    }

    fn result_of(&self, made: Made, peer: &Peer) -> Result<CallToolResult, TaskExit> {
        if let Made::Done(result) = &made
            && result.error().is_some_and(|error| error.code == Code::Cancelled)
        {
            return Err(TaskExit::Cancelled);
        }
        self.shown(made, peer).map_err(TaskExit::Error)
    }

    /// The whole result of a call that was a task.
    ///
    /// # Errors
    /// `-32600` where the call asks a question.
    pub(crate) fn shown(&self, made: Made, peer: &Peer) -> Result<CallToolResult, ErrorData> {
        let Made::Done(result) = made else {
            let problem = "the call asks a question, which a task cannot; make it again";
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
    running: &mut JoinHandle<Result<Made, ErrorData>>,
) -> Result<Result<Made, ErrorData>, tokio::task::JoinError> {
    stop.request(StopReason::Cancelled);
    running.await
}

fn broken() -> ErrorData {
    ErrorData::internal_error("the call broke off", None)
}
