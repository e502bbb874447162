//! Calls that a script makes within the call that runs it.

use std::sync::Arc;

use serde_json::Value;

use crate::{AnyTool, BoxFuture, CallResult};

/// Service of a call that runs a script: the calls of the script. Each passes every layer on behalf of the script's
/// caller, with a decision and an audit row of its own.
pub trait InnerCalls: Send + Sync {
    /// Returns the tools that the caller can call, by the names of the caller's dialect.
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]>;

    /// Makes one call. A stop of the script's call stops it too.
    fn call(&self, tool: String, arguments: Value) -> BoxFuture<'_, CallResult>;
}
