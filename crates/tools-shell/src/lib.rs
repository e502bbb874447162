//! The tools that run commands. One file each; this is only the list.

mod shell_execute;

use std::sync::Arc;

use tool::{AnyTool, Erased};

pub use shell_execute::ShellExecute;

/// The family, in the order in which it is listed.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![Erased::tool(ShellExecute)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        testkit::check_family(&super::tools(), crate::shell_execute::tests::workspace);
    }
}
