//! Calls that a tool makes within its own call.

use std::sync::Arc;

use serde_json::Value;

use crate::{AnyTool, BoxFuture, CallResult, ToolError};

/// Service of a call: calls that its tool makes on behalf of its caller, such as those of a script. Each passes every
/// layer, with a decision and an audit row of its own.
pub trait InnerCalls: Send + Sync {
    /// Returns the tools that the caller can call, by the names of the caller's dialect.
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]>;

    /// Makes one call. A stop of the outer call stops it too.
    ///
    /// # Errors
    /// `ECANCELLED` if the outer call has ended.
    fn call(&self, tool: String, arguments: Value) -> BoxFuture<'_, Result<CallResult, ToolError>>;
}
