//! Model and forms of the program that makes a call.

use std::sync::Arc;

use serde_json::Value;

use crate::BoxFuture;

/// Model that the program of a caller offers, such as an MCP client with the capability `sampling`. The
/// program chooses the model and pays for it.
pub trait CallerModel: Send + Sync {
    /// Returns true if the model calls tools.
    fn calls_tools(&self) -> bool;

    /// Asks the model. The parameters and the result are those of `sampling/createMessage` in revision
    /// 2025-11-25 of the Model Context Protocol. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// [`SampleError`].
    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>>;
}

/// Forms that the program of a caller shows to its user, such as an MCP client with the capability `elicitation`.
pub trait CallerForms: Send + Sync {
    /// Shows a form. The parameters and the result are those of `elicitation/create` in revision 2025-11-25 of the
    /// Model Context Protocol. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// [`SampleError`].
    fn show(&self, form: Value) -> BoxFuture<'_, Result<Value, SampleError>>;
}

/// Reason why the program of a caller gives no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleError {
    /// The program or its user refuses the request.
    Refused(String),
    /// No answer came.
    Failed(String),
}

/// Service of a call: the model that its caller offers.
pub struct OfferedModel(pub Arc<dyn CallerModel>);

/// Service of a call: the forms that its caller shows.
pub struct OfferedForms(pub Arc<dyn CallerForms>);
