//! The life of a call, and what it needs: the registry, approvals, lanes.
//!
//! [`Engine::call`] is the one way in, from every door.
//! The engine knows no tool by name, no wire format, and reads no configuration or environment.

mod approve;
mod registry;
mod request;

pub use approve::{Answer, Approval, Asker, NoAsker};
pub use registry::{DuplicateTool, Registry};
pub use request::{CallRequest, Caller, Door};

/// Being built.
pub struct Engine;

impl Engine {
    /// The tools, in order.
    pub fn tools(&self) -> &[std::sync::Arc<dyn tool::AnyTool>] {
        &[]
    }
    /// Makes one call.
    pub async fn call(self: &std::sync::Arc<Self>, request: CallRequest) -> tool::CallResult {
        drop(request);
        std::future::pending().await
    }
    /// Stops every call and waits until they have ended.
    pub async fn shutdown(&self) {}
}
