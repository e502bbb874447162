//! Tools that answer questions about the code of the workspace from its graph.
//!
//! `lib.rs` is only the list of tools; each tool is one file.

mod answer;
mod ask;
#[cfg(test)]
mod bad_input;
mod callers;
mod code_impact;
mod code_map;
mod commit;
mod git;
mod graph_query;
mod graph_schema;
mod graphs;
mod imports;
mod keeper;
mod listing;
mod symbols;
mod values;
mod view;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use codegraph::{
    ExtractLimits, Extraction, Gap, Greeting, LARGEST_MESSAGE, Language, MoreLanguages, Request,
    facts_of_the_file_alone,
};

pub use code_impact::CodeImpact;
pub use code_map::CodeMap;
pub use graph_query::GraphQuery;
pub use graph_schema::GraphSchema;
pub use graphs::CodeGraphs;

/// Returns the tools of this family, in listing order.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(GraphQuery),
        ErasedTool::tool(GraphSchema),
        ErasedTool::tool(CodeMap),
        ErasedTool::tool(CodeImpact),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use testkit::Workspace;
    use tool::ToolError;

    use crate::CodeGraphs;

    /// A workspace, with the facts of its graph outside it.
    pub(crate) struct World {
        pub(crate) workspace: Workspace,
        pub(crate) graphs: Arc<CodeGraphs>,
    }

    impl World {
        pub(crate) fn new(workspace: Workspace) -> Self {
            let graphs = Arc::new(CodeGraphs::new(workspace.at("../facts")));
            Self { workspace: workspace.with_service(graphs.clone()), graphs }
        }

        pub(crate) fn run(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
            let tool = super::tools().into_iter().find(|known| known.name() == tool).unwrap();
            testkit::run_tool(tool.as_ref(), &self.workspace, arguments)
        }

        pub(crate) fn ask(&self, query: &str) -> Result<Value, ToolError> {
            self.run("graph_query", json!({ "query": query }))
        }
    }

    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        testkit::check_family(&super::tools(), || World::new(Workspace::new()).workspace);
    }
}
