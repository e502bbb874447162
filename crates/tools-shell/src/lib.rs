//! Tools that run commands. Each tool is one file; this file is only the list.

mod background;
mod keys;
mod missing_programs;
mod network;
mod plain;
mod reading;
mod shell_execute;
mod shell_session;
mod wording;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use shell_execute::ShellExecute;
pub use shell_session::ShellSession;

/// Returns the tools of this family, in listing order.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![ErasedTool::tool(ShellExecute), ErasedTool::tool(ShellSession)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        testkit::check_family(&super::tools(), crate::shell_execute::tests::workspace);
    }
}
