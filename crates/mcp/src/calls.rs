//! What this door needs of the engine.

use std::future::Future;
use std::sync::Arc;

use engine::{CallRequest, Door, Engine};
use serde_json::Value;
use tool::{AnyTool, CallResult, SessionId, ToolError};

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
    /// Reading it is recorded, too.
    fn recorded(
        self: &Arc<Self>,
        session: &SessionId,
        dialect: &'static str,
        call: Option<String>,
    ) -> impl Future<Output = Result<Vec<Value>, ToolError>> + Send;
    /// Cuts what a client sent to as much as an answer repeats, and covers it before that.
    fn shown(&self, text: &str) -> String;
    /// Covers every secret in a message to the client; none where it holds none.
    fn cover_message(&self, message: &[u8]) -> Option<Vec<u8>>;
    /// Ends what a session has left running.
    fn end_session(self: &Arc<Self>, session: &SessionId) -> impl Future<Output = ()> + Send;
    /// Stops every call and waits until they have ended.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

impl Calls for Engine {
    fn tools(&self) -> &[Arc<dyn AnyTool>] {
        Engine::tools(self)
    }

    fn shown(&self, text: &str) -> String {
        Engine::shown(self, text)
    }

    fn cover_message(&self, message: &[u8]) -> Option<Vec<u8>> {
        Engine::cover_message(self, message)
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

    fn recorded(
        self: &Arc<Self>,
        session: &SessionId,
        dialect: &'static str,
        call: Option<String>,
    ) -> impl Future<Output = Result<Vec<Value>, ToolError>> + Send {
        self.read_audit_of(session, Door::Mcp, dialect, call)
    }

    fn end_session(self: &Arc<Self>, session: &SessionId) -> impl Future<Output = ()> + Send {
        Engine::end_session(self, session)
    }

    fn shutdown(&self) -> impl Future<Output = ()> + Send {
        Engine::shutdown(self)
    }
}
