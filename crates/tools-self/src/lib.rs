//! The tools through which an agent sees Handfast itself. One file each; this is only the list.

mod output_read;
mod self_list_capabilities;

use std::sync::Arc;

use tool::{AnyTool, Erased};

pub use output_read::OutputRead;
pub use self_list_capabilities::SelfListCapabilities;

/// The family, in the order in which it is listed.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![Erased::tool(OutputRead), Erased::tool(SelfListCapabilities)]
}
