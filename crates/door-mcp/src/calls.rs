//! Interface of this crate to the engine.

use std::future::Future;
use std::sync::Arc;

use engine::{CallRequest, Door, Engine};
use serde_json::Value;
use tool::{AnyTool, CallResult, ForeignContent, SessionId, ToolError};

/// The engine, or its fake in the tests of this crate.
pub(crate) trait Calls: Send + Sync + 'static {
    /// Returns the tools, in the order of the list.
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]>;
    /// Calls the listener after each change of the tools, until it returns false.
    fn on_tool_change(&self, listener: impl Fn() -> bool + Send + Sync + 'static);
    /// Returns the resources and prompts of other servers, if there are any servers.
    fn foreign_content(&self) -> Option<Arc<dyn ForeignContent>>;
    /// Returns true if calls are traced, so that their origin is needed.
    fn is_traced(&self) -> bool;
    /// Makes one call.
    fn call(self: &Arc<Self>, request: CallRequest) -> impl Future<Output = CallResult> + Send;
    /// Answers a call that cannot be made, and records it like any other.
    fn refuse(
        self: &Arc<Self>,
        request: CallRequest,
        error: ToolError,
    ) -> impl Future<Output = CallResult> + Send;
    /// Reads the audit log of a session, the newest call first. With `call`, returns every row of
    /// that call, or no rows if the session has no such call. The read itself is recorded too.
    fn recorded(
        self: &Arc<Self>,
        session: &SessionId,
        dialect: &'static str,
        call: Option<String>,
    ) -> impl Future<Output = Result<Vec<Value>, ToolError>> + Send;
    /// Redacts text from a client, then truncates it to the length that responses repeat.
    fn shown(&self, text: &str) -> String;
    /// Redacts every secret in a message to the client; `None` if it contains none.
    fn cover_message(&self, message: &[u8]) -> Option<Vec<u8>>;
    /// Ends the remaining work of a session.
    fn end_session(self: &Arc<Self>, session: &SessionId) -> impl Future<Output = ()> + Send;
    /// Stops every call and waits for their end.
    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

impl Calls for Engine {
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        Engine::tools(self)
    }

    fn on_tool_change(&self, listener: impl Fn() -> bool + Send + Sync + 'static) {
        self.registry().on_change(listener);
    }

    fn foreign_content(&self) -> Option<Arc<dyn ForeignContent>> {
        Engine::foreign_content(self)
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
