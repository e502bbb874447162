//! Tools with which an agent finds, writes and indexes its knowledge: markdown below `knowledge/`
//! of the workspace.
//!
//! `lib.rs` is only the list of tools; each tool is one file.

mod base;
mod knowledge_index;
mod knowledge_search;
mod knowledge_write;
mod shelf;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use base::KnowledgeBase;
pub use knowledge_index::KnowledgeIndex;
pub use knowledge_search::KnowledgeSearch;
pub use knowledge_write::KnowledgeWrite;

/// Returns the tools of this family, in listing order.
pub fn tools(base: &Arc<KnowledgeBase>) -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(KnowledgeSearch(base.clone())),
        ErasedTool::tool(KnowledgeWrite(base.clone())),
        ErasedTool::tool(KnowledgeIndex(base.clone())),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use knowledge::Index;
    use retrieval::embedder::{Embedder, Failure, Model};
    use serde_json::Value;
    use testkit::Workspace;
    use tool::{AnyTool, ToolError};

    use crate::KnowledgeBase;

    /// A workspace, with the index of its knowledge outside it.
    pub(crate) struct World {
        pub(crate) workspace: Workspace,
        pub(crate) base: Arc<KnowledgeBase>,
    }

    /// A model whose vectors depend on whether a text mentions water.
    struct Wet(Model);

    impl Embedder for Wet {
        fn model(&self) -> &Model {
            &self.0
        }

        fn embed(&self, texts: &[&str], _stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
            let of = |text: &&str| {
                let wet = ["rain", "water", "sea"].iter().any(|word| text.contains(word));
                if wet { vec![1.0, 0.0] } else { vec![0.0, 1.0] }
            };
            Ok(texts.iter().map(of).collect())
        }
    }

    impl World {
        pub(crate) fn new(workspace: Workspace) -> Self {
            Self::of(workspace, false)
        }

        pub(crate) fn with_model(workspace: Workspace) -> Self {
            Self::of(workspace, true)
        }

        fn of(workspace: Workspace, has_model: bool) -> Self {
            let model = Model { name: "wet".to_owned(), hash: [1; 32], dimensions: 2 };
            let opens: knowledge::OpenModel =
                Arc::new(move || Ok(Arc::new(Wet(model.clone())) as Arc<dyn Embedder>));
            let index = Index::new(workspace.at("../index.db"), has_model.then_some(opens));
            Self { base: Arc::new(KnowledgeBase::new(index)), workspace }
        }

        pub(crate) fn tool(&self, name: &str) -> Arc<dyn AnyTool> {
            super::tools(&self.base).into_iter().find(|tool| tool.name() == name).unwrap()
        }

        pub(crate) fn run(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
            testkit::run_tool(self.tool(tool).as_ref(), &self.workspace, arguments)
        }

        pub(crate) fn plan(&self, tool: &str, arguments: Value) -> Result<tool::Plan, ToolError> {
            self.tool(tool).prepare(arguments, &self.workspace.place()).map(|prepared| prepared.plan)
        }
    }

    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        // Each example uses its own index, because it would find the files of another.
        let folder = tempfile::tempdir().unwrap();
        let index = |name: &str| Arc::new(KnowledgeBase::new(Index::new(folder.path().join(name), None)));
        let each = |(place, name): (usize, &str)| super::tools(&index(name)).swap_remove(place);
        let tools: Vec<_> = ["a", "b", "c"].into_iter().enumerate().map(each).collect();
        testkit::check_family(&tools, Workspace::new);
    }
}
