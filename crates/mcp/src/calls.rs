//! What this door needs of the engine.

use std::future::Future;
use std::sync::Arc;

use engine::{CallRequest, Engine, Filter};
use serde_json::Value;
use tool::{AnyTool, CallResult, Code, SessionId, ToolError};

/// The engine, or what stands in for it in the tests of this crate.
pub(crate) trait Calls: Send + Sync + 'static {
    /// The tools, in the order in which they are listed.
    fn tools(&self) -> &[Arc<dyn AnyTool>];
    /// Whether somebody follows calls, and wants to know where they come from.
    fn is_traced(&self) -> bool;
    /// Makes one call.
    fn call(self: &Arc<Self>, request: CallRequest) -> impl Future<Output = CallResult> + Send;
    /// Answers a call that cannot be made, and records it like any.
    fn refuse(
        self: &Arc<Self>,
        request: CallRequest,
        error: ToolError,
    ) -> impl Future<Output = CallResult> + Send;
    /// What the audit has of a session, the newest call first; of one call of it every row, and none where it has no such call.
    fn recorded(
        self: &Arc<Self>,
        session: &SessionId,
        call: Option<String>,
    ) -> impl Future<Output = Result<Vec<Value>, ToolError>> + Send;
    /// Ends what a session has left running.
    fn end_session(self: &Arc<Self>, session: &SessionId) -> impl Future<Output = ()> + Send;
    /// Stops every call and waits until they have ended.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

impl Calls for Engine {
    fn tools(&self) -> &[Arc<dyn AnyTool>] {
        Engine::tools(self)
    }

    fn is_traced(&self) -> bool {
        Engine::is_traced(self)
    }

    fn call(self: &Arc<Self>, request: CallRequest) -> impl Future<Output = CallResult> + Send {
        Engine::call(self, request)
    }

    fn refuse(
        self: &Arc<Self>,
        request: CallRequest,
        error: ToolError,
    ) -> impl Future<Output = CallResult> + Send {
        Engine::refuse(self, request, error)
    }

    async fn recorded(
        self: &Arc<Self>,
        session: &SessionId,
        call: Option<String>,
    ) -> Result<Vec<Value>, ToolError> {
        let (engine, session) = (self.clone(), session.0.clone());
        let looked = tokio::task::spawn_blocking(move || match call {
            None => {
                let filter = Filter { session: Some(session), ..Filter::default() };
                let calls = engine.recorded_calls(&filter)?;
                let rows: Result<_, serde_json::Error> =
                    calls.iter().map(engine::RecordedCall::as_json).collect();
                rows.map_err(engine::HistoryError::from)
            }
            // Of what another session does not even the names are said.
            Some(call) => engine.recorded_rows(&call).map(|rows| {
                let ours = rows.iter().all(|row| row["session"] == session.as_str());
                if ours { rows } else { Vec::new() }
            }),
        });
        match looked.await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(ToolError::new(Code::Runtime, "the audit cannot be read").because(error)),
            Err(panic) => Err(ToolError::internal("the audit could not be read").because(panic)),
        }
    }

    fn end_session(self: &Arc<Self>, session: &SessionId) -> impl Future<Output = ()> + Send {
        Engine::end_session(self, session)
    }

    fn shutdown(&self) -> impl Future<Output = ()> + Send {
        Engine::shutdown(self)
    }
}
