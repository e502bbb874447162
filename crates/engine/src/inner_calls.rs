//! Calls that a tool makes within its own call, on behalf of its caller.

use std::sync::Arc;

use serde_json::Value;
use tool::{AnyTool, BoxFuture, CallId, CallResult, Code, InnerCalls, Lane, Stop, ToolError};

use crate::call::Call;
use crate::request::Internal;
use crate::{CallRequest, Door, Engine};

/// Calls within one call. Each has the principal of that call, and that call as its parent.
pub(crate) struct CallsWithin {
    engine: Arc<Engine>,
    call: CallId,
    door: Door,
    stop: Stop,
}

impl CallsWithin {
    pub(crate) fn of(engine: &Arc<Engine>, call: &Call, lane: Lane) -> Arc<dyn InnerCalls> {
        let internal = if lane == Lane::Script { Internal::Script } else { Internal::Tool };
        let (engine, door) = (engine.clone(), Door::Internal(internal));
        Arc::new(Self { engine, call: call.id.clone(), door, stop: call.stop.clone() })
    }
}

impl InnerCalls for CallsWithin {
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        let principal = self.engine.principal_of(&self.call);
        let Some(allowed) = principal.and_then(|principal| principal.ceiling().tools.clone()) else {
            return self.engine.tools();
        };
        self.engine.tools().iter().filter(|tool| allowed.contains(tool.spec().name)).cloned().collect()
    }

    fn call(&self, tool: String, arguments: Value) -> BoxFuture<'_, Result<CallResult, ToolError>> {
        Box::pin(async move {
            let principal = self.engine.principal_of(&self.call);
            let mut principal =
                principal.ok_or_else(|| ToolError::new(Code::Cancelled, "the call has ended already"))?;
            principal.door = self.door;
            principal.parent = Some(self.call.clone());
            let request = CallRequest::new(principal, tool, arguments);
            // The deadline of an inner call does not end the outer one.
            let stop = request.stop.clone();
            self.stop.on_request(move |reason| stop.request(reason));
            Ok(self.engine.call(request).await)
        })
    }
}
