//! The tools that run commands. One file each; this is only the list.

mod shell_execute;

use std::sync::Arc;

use tool::{AnyTool, Erased};

pub use shell_execute::ShellExecute;

/// The family, in the order in which it is listed.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![Erased::tool(ShellExecute)]
}
