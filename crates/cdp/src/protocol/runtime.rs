//! Domain `Runtime`: scripts, and what they say.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{ExecutionContextId, FrameId, ObjectId};
use crate::protocol::is_false;

bare_command!(
    /// Turns on the events of the domain.
    Enable,
    "Runtime.enable"
);
bare_command!(
    /// Lets a new target run that waits for its client.
    RunIfWaitingForDebugger,
    "Runtime.runIfWaitingForDebugger"
);
bare_command!(
    /// Ends the script that runs now.
    TerminateExecution,
    "Runtime.terminateExecution"
);

/// Evaluates an expression.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluate {
    /// The expression.
    pub expression: String,
    /// Context; `None` for the page's own in the main frame of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ExecutionContextId>,
    /// True if the value is copied, instead of named by an id.
    #[serde(skip_serializing_if = "is_false")]
    pub return_by_value: bool,
    /// True if the answer waits for a promise.
    #[serde(skip_serializing_if = "is_false")]
    pub await_promise: bool,
}
command!(Evaluate, "Runtime.evaluate", EvaluateAnswer);

/// Calls a function.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallFunctionOn {
    /// Source of the function.
    pub function_declaration: String,
    /// Object that is `this`; instead of a context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_id: Option<ObjectId>,
    /// Context of the call; instead of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_context_id: Option<ExecutionContextId>,
    /// Arguments.
    pub arguments: Vec<CallArgument>,
    /// True if the value is copied, instead of named by an id.
    #[serde(skip_serializing_if = "is_false")]
    pub return_by_value: bool,
    /// True if the answer waits for a promise.
    #[serde(skip_serializing_if = "is_false")]
    pub await_promise: bool,
    /// True if the call counts as an action of a user.
    #[serde(skip_serializing_if = "is_false")]
    pub user_gesture: bool,
}
command!(CallFunctionOn, "Runtime.callFunctionOn", EvaluateAnswer);

/// An argument of a function: a value, or an object that the browser keeps.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallArgument {
    /// Value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
    /// Id of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_id: Option<ObjectId>,
}

impl From<serde_json::Value> for CallArgument {
    fn from(value: serde_json::Value) -> Self {
        Self { value: Some(value), object_id: None }
    }
}

impl From<ObjectId> for CallArgument {
    fn from(object: ObjectId) -> Self {
        Self { value: None, object_id: Some(object) }
    }
}

/// Outcome of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluateAnswer {
    /// The value, or what was thrown.
    pub result: RemoteObject,
    /// Details, if something was thrown.
    #[serde(default)]
    pub exception_details: Option<ExceptionDetails>,
}

/// A value of JavaScript.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteObject {
    /// Type: `object`, `function`, `undefined`, `string`, `number`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Kind of object: `array`, `null`, `node`, `error`, ...
    #[serde(default)]
    pub subtype: Option<String>,
    /// Value, if it was copied or is simple.
    #[serde(default)]
    pub value: Option<Box<RawValue>>,
    /// Number that JSON cannot hold: `NaN`, `Infinity`, `-0`, or a large integer.
    #[serde(default)]
    pub unserializable_value: Option<String>,
    /// Text that describes the value.
    #[serde(default)]
    pub description: Option<String>,
    /// Id, if the object is kept.
    #[serde(default)]
    pub object_id: Option<ObjectId>,
}

/// Details of something thrown.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionDetails {
    /// Short text, mostly `Uncaught`.
    pub text: String,
    /// Line, from 0.
    pub line_number: i64,
    /// Column, from 0.
    pub column_number: i64,
    /// URL of the script.
    #[serde(default)]
    pub url: Option<String>,
    /// Value that was thrown.
    #[serde(default)]
    pub exception: Option<RemoteObject>,
}

impl ExceptionDetails {
    /// Returns the text that a developer would see: the message and its stack.
    pub fn message(&self) -> String {
        let thrown = self.exception.as_ref();
        let said = thrown.and_then(|thrown| {
            thrown.description.clone().or_else(|| thrown.value.as_ref().map(|value| value.get().to_owned()))
        });
        said.unwrap_or_else(|| self.text.clone())
    }
}

/// Lets go of an object.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseObject {
    /// Id of the object.
    pub object_id: ObjectId,
}
command!(ReleaseObject, "Runtime.releaseObject");

/// A page has written to its console.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleApiCalled {
    /// Function: `log`, `debug`, `info`, `error`, `warning`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Arguments.
    #[serde(default)]
    pub args: Vec<RemoteObject>,
    /// Milliseconds since 1970.
    pub timestamp: f64,
}
event!(ConsoleApiCalled, "Runtime.consoleAPICalled");

/// A page has thrown something that nothing caught.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionThrown {
    /// Milliseconds since 1970.
    pub timestamp: f64,
    /// Details.
    pub exception_details: ExceptionDetails,
}
event!(ExceptionThrown, "Runtime.exceptionThrown");

/// A context for scripts was created.
#[derive(Debug, Clone, Deserialize)]
pub struct ExecutionContextCreated {
    /// The context.
    pub context: ExecutionContextDescription,
}
event!(ExecutionContextCreated, "Runtime.executionContextCreated");

/// A context for scripts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionContextDescription {
    /// Id of the context.
    pub id: ExecutionContextId,
    /// Name of the context, if it is an isolated world.
    #[serde(default)]
    pub name: String,
    /// Owner of the context.
    #[serde(default)]
    pub aux_data: ContextData,
}

/// Owner of a context for scripts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextData {
    /// True if the context is the page's own.
    pub is_default: bool,
    /// Frame of the context.
    pub frame_id: Option<FrameId>,
}

/// A context for scripts is gone.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionContextDestroyed {
    /// Id of the context.
    pub execution_context_id: ExecutionContextId,
}
event!(ExecutionContextDestroyed, "Runtime.executionContextDestroyed");

/// All contexts of the session are gone.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct ExecutionContextsCleared {}
event!(ExecutionContextsCleared, "Runtime.executionContextsCleared");
