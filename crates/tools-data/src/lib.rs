//! Tools for an agent's data: its SQLite database, its memory, and skills.
//!
//! `lib.rs` is only the list of tools; each tool is one file.

mod db_query;
mod db_schema;
mod db_write;
mod failure;
mod memory;
mod skill_list;
mod skill_read;
mod skills;
mod values;

use std::sync::Arc;

use database::Databases;
use tool::{AnyTool, ErasedTool};

pub use db_query::DbQuery;
pub use db_schema::DbSchema;
pub use db_write::DbWrite;
pub use memory::Memory;
pub use skill_list::SkillList;
pub use skill_read::SkillRead;
pub use skills::{PackageFolders, SkillFolders};

/// Returns the tools of this family, in listing order.
///
/// They get the databases at construction, because a plan has to state the effects of a statement
/// and only the database knows these.
pub fn tools(databases: &Arc<Databases>, skills: &SkillFolders) -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(DbQuery(databases.clone())),
        ErasedTool::tool(DbWrite(databases.clone())),
        ErasedTool::tool(DbSchema(databases.clone())),
        ErasedTool::tool(Memory),
        ErasedTool::tool(SkillList(skills.clone())),
        ErasedTool::tool(SkillRead(skills.clone())),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;

    use database::{Change, Databases, Keep, KeepError};
    use memory::{AgentMemory, Memories, MemoryCaller};
    use parking_lot::Mutex;
    use serde_json::Value;
    use store_sqlite::SqliteStore;
    use testkit::Workspace;
    use tool::{AnyTool, ToolError};

    /// An in-memory record of the changes that can be undone.
    #[derive(Default)]
    pub(crate) struct RecordedChanges(pub(crate) Mutex<Vec<Change>>);

    impl Keep for RecordedChanges {
        fn keep(&self, _database: &Path, change: &Change) -> Result<(), KeepError> {
            self.0.lock().push(change.clone());
            Ok(())
        }
        fn happened(&self) {}
        fn forget(&self) {}
    }

    /// Returns an empty memory of an agent, and the folder of its store.
    fn memory() -> (AgentMemory, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path()).unwrap());
        let text = |text: &str| text.to_owned();
        let (agent, session, call) = (text("main"), text("s1"), text("c1"));
        let now = jiff::Timestamp::UNIX_EPOCH;
        let who = MemoryCaller { workspace: "/w".into(), agent, session, call, now, only_tries: false };
        (Memories::new(store, None).of(who, None), folder)
    }

    /// A workspace, its databases, and the recorded changes.
    pub(crate) struct World {
        pub(crate) workspace: Workspace,
        pub(crate) databases: Arc<Databases>,
        pub(crate) kept: Arc<RecordedChanges>,
        _spool: tempfile::TempDir,
    }

    impl World {
        pub(crate) fn new() -> Self {
            let kept = Arc::new(RecordedChanges::default());
            let keep: Arc<dyn Keep> = kept.clone();
            let workspace = Workspace::new().with_service(Arc::new(keep));
            let spool = tempfile::tempdir().unwrap();
            let databases = Arc::new(Databases::new(workspace.path(), &BTreeMap::new(), spool.path()));
            Self { workspace, databases, kept, _spool: spool }
        }

        fn tool(&self, name: &str) -> Arc<dyn AnyTool> {
            super::tools(&self.databases, &super::SkillFolders::default())
                .into_iter()
                .find(|tool| tool.name() == name)
                .unwrap()
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
        // Each example runs on its own database, because it would find the changes of another.
        let worlds = [(); 6].map(|()| World::new());
        let skills = super::SkillFolders::default();
        let each =
            |(index, world): (usize, &World)| super::tools(&world.databases, &skills).swap_remove(index);
        let tools: Vec<_> = worlds.iter().enumerate().map(each).collect();
        let workspace = || {
            let keep: Arc<dyn Keep> = Arc::new(RecordedChanges::default());
            let (memory, folder) = memory();
            // The store lives as long as the workspace that has its folder as another service.
            Workspace::new()
                .with_service(Arc::new(keep))
                .with_service(Arc::new(memory))
                .with_service(Arc::new(folder))
        };
        testkit::check_family(&tools, workspace);
    }
}
