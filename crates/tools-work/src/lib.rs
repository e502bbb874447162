//! The tools for other people's trackers. One file each; this is only the list.

mod linear;
mod linear_action;

use std::sync::Arc;

use tool::{AnyTool, Erased};

pub use linear::api::{EndpointError, Linear};
pub use linear::queries;
pub use linear_action::LinearAction;

/// The family, in the order in which it is listed.
pub fn tools(linear: Linear) -> Vec<Arc<dyn AnyTool>> {
    vec![Erased::tool(LinearAction { linear })]
}
