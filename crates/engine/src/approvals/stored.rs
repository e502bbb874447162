//! Access to the store from async code.

use std::sync::Arc;

use store_api::{Store, StoreError};
use tool::{Code, ToolError};

/// Runs `work`, which blocks on the store, on a thread that may block.
///
/// # Errors
/// `ERUNTIME` if the store cannot be used.
pub(crate) async fn stored<T: Send + 'static>(
    store: &Arc<dyn Store>,
    work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ToolError> {
    let store = store.clone();
    tokio::task::spawn_blocking(move || work(store.as_ref()))
        .await
        .map_err(|panic| ToolError::internal("the approvals could not be read").because(panic))?
        .map_err(unreadable)
}

/// Converts an error of the store.
pub(super) fn unreadable(error: StoreError) -> ToolError {
    let message = format!("the approvals cannot be used, so nothing was done: {error}");
    ToolError::new(Code::Runtime, message).because(error)
}
