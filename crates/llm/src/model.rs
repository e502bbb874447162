//! Interface to a model.

use tool::{BoxFuture, Stop};

use crate::error::ModelError;
use crate::info::ModelInfo;
use crate::message::ChatRequest;
use crate::response::{Response, Sink};

/// Model that answers requests.
pub trait Model: Send + Sync {
    /// Returns the facts about the model.
    fn info(&self) -> &ModelInfo;

    /// Returns an upper bound for the input tokens of a request, which holds for a tokenizer that makes no
    /// more tokens than there are bytes; see [`estimate`](crate::estimate).
    fn most_input(&self, request: &ChatRequest) -> u64 {
        crate::estimate::most_input(request, self.info())
    }

    /// Asks the model, and hands on the pieces of the answer as they come. A stop ends the request at once
    /// and closes its connection; so does dropping the future.
    ///
    /// # Errors
    /// [`ModelError`]. The pieces that were handed on before are then all there is.
    fn chat<'a>(
        &'a self,
        request: &'a ChatRequest,
        sink: &'a mut dyn Sink,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<Response, ModelError>>;
}
