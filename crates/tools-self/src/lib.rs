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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::sync::Arc;

    use testkit::Workspace;
    use tool::{Catalogue, Code, Outputs, ToolError};

    /// The one output that the example of `output_read` reads.
    struct Example;

    impl Outputs for Example {
        fn open(&self, reference: &str) -> Result<File, ToolError> {
            if reference != "example" {
                return Err(ToolError::new(Code::NotFound, "no such output"));
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"one\nerror: two\n").unwrap();
            file.rewind().unwrap();
            Ok(file)
        }
    }

    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        let workspace = || {
            let outputs: Arc<dyn Outputs> = Arc::new(Example);
            Workspace::new().with_service(Arc::new(outputs)).with_service(Arc::new(Catalogue::default()))
        };
        testkit::check_family(&super::tools(), workspace);
    }
}
