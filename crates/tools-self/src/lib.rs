//! Tools that describe Handfast to an agent. Each tool is one file; this file is only the list.

mod checkpoint_diff;
mod checkpoint_list;
mod checkpoint_restore;
mod output_read;
mod own_plugins;
mod own_project;
mod plugin_author;
mod protected_paths;
mod self_apply;
mod self_commit;
mod self_create_plugin;
mod self_list_capabilities;
mod self_modify_source;
mod self_projects;
mod self_read_source;
mod self_rollback;
mod self_run_tests;
mod self_trial;
mod test_command;
mod test_report;
mod tool_describe;
mod tool_search;
mod trial;
mod trial_cell;
mod trial_script;
mod vault_delete;
mod vault_failure;
mod vault_list;
mod vault_set;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use checkpoint_diff::CheckpointDiff;
pub use checkpoint_list::CheckpointList;
pub use checkpoint_restore::CheckpointRestore;
pub use output_read::OutputRead;
pub use own_plugins::OwnPlugins;
pub use own_project::{Project, Scope};
pub use self_apply::SelfApply;
pub use self_create_plugin::SelfCreatePlugin;
pub use self_list_capabilities::SelfListCapabilities;
pub use self_modify_source::SelfModifySource;
pub use self_projects::SelfDevelopment;
pub use self_read_source::SelfReadSource;
pub use self_rollback::SelfRollback;
pub use self_run_tests::SelfRunTests;
pub use self_trial::SelfTrial;
pub use test_command::Runner;
pub use tool_describe::ToolDescribe;
pub use tool_search::ToolSearch;
pub use vault_delete::VaultDelete;
pub use vault_failure::code_of_vault;
pub use vault_list::VaultList;
pub use vault_set::VaultSet;

/// Returns the tools of this family, in listing order. `own` has the projects for self-development.
pub fn tools(own: &Arc<SelfDevelopment>) -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(CheckpointList),
        ErasedTool::tool(CheckpointDiff),
        ErasedTool::tool(CheckpointRestore),
        ErasedTool::tool(OutputRead),
        ErasedTool::tool(SelfListCapabilities),
        ErasedTool::tool(SelfReadSource(own.clone())),
        ErasedTool::tool(SelfRunTests(own.clone())),
        ErasedTool::tool(SelfModifySource(own.clone())),
        ErasedTool::tool(SelfCreatePlugin(own.clone())),
        ErasedTool::tool(SelfRollback(own.clone())),
        ErasedTool::tool(SelfTrial(own.clone())),
        ErasedTool::tool(SelfApply(own.clone())),
        ErasedTool::tool(VaultSet),
        ErasedTool::tool(VaultList),
        ErasedTool::tool(VaultDelete),
        ErasedTool::tool(ToolSearch),
        ErasedTool::tool(ToolDescribe),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::path::PathBuf;
    use std::sync::Arc;

    use testkit::Workspace;
    use tool::{
        Catalogue, CatalogueEntry, CheckpointSummary, Checkpoints, Code, Level, Outputs, ToolError,
        UndoReport, UndoRequest,
    };

    /// The output that the example of `output_read` reads.
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

    /// The checkpoint of the examples.
    struct OneCheckpoint;

    impl Checkpoints for OneCheckpoint {
        fn list(&self, _limit: u32) -> Result<Vec<CheckpointSummary>, ToolError> {
            Ok(vec![CheckpointSummary {
                id: "c1".to_owned(),
                tool: "file_write".to_owned(),
                made_at: jiff::Timestamp::UNIX_EPOCH,
                paths: 1,
                bytes: 6,
                undoes: None,
            }])
        }

        fn diff(&self, _checkpoint: &str, _paths: &[PathBuf]) -> Result<String, ToolError> {
            Ok("--- a/f\n+++ b/f\n".to_owned())
        }

        fn preview(&self, request: &UndoRequest) -> Result<String, ToolError> {
            self.diff(&request.checkpoint, &request.paths)
        }

        fn undo(&self, request: &UndoRequest) -> Result<UndoReport, ToolError> {
            assert_eq!(request.checkpoint, "c1");
            Ok(UndoReport { paths: 1, notes: Vec::new(), taken_at: std::time::SystemTime::UNIX_EPOCH })
        }
    }

    /// Returns a catalogue with the tool that the examples find.
    fn one_tool() -> Catalogue {
        let entry = CatalogueEntry {
            name: "file_move".to_owned(),
            title: String::new(),
            kind: "built_in",
            description: "Move or rename a file or folder. Overwrites nothing.".to_owned(),
            level: Level::Moderate,
            status: "ready".to_owned(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            input_schema: serde_json::json!({"type": "object"}),
            example: r#"{"source": "a", "destination": "b"}"#.to_owned(),
        };
        Catalogue::new(move || vec![entry.clone()])
    }

    /// Creates a vault with the secret of the examples.
    pub(crate) fn vault(folder: &std::path::Path) -> Arc<vault::Vault> {
        let key_file = folder.join("key");
        vault::make_key_file(&key_file).unwrap();
        let keys = vault::Keys { key_file: Some(key_file), ..vault::Keys::default() };
        let made = vault::Vault::new(folder.join("vault"), keys);
        let hosts = vault::HostRule::parse_all(["api.github.com"]).unwrap();
        let change = vault::Change { hosts: Some(hosts), ..vault::Change::named("github.com").unwrap() };
        made.set(&change, b"ghp_0123456789", jiff::Timestamp::UNIX_EPOCH).unwrap();
        Arc::new(made)
    }

    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        let folders: std::cell::RefCell<Vec<tempfile::TempDir>> = std::cell::RefCell::default();
        let workspace = || {
            let folder = tempfile::tempdir().unwrap();
            let vault = vault(folder.path());
            folders.borrow_mut().push(folder);
            let outputs: Arc<dyn Outputs> = Arc::new(Example);
            let checkpoints: Arc<dyn Checkpoints> = Arc::new(OneCheckpoint);
            Workspace::new()
                .with_service(Arc::new(outputs))
                .with_service(Arc::new(checkpoints))
                .with_service(Arc::new(one_tool()))
                .with_service(vault)
        };
        // Tools that run commands are checked with real cells, in tests/functional/self_development.rs.
        let with_cells = [
            "self_run_tests",
            "self_modify_source",
            "self_create_plugin",
            "self_rollback",
            "self_trial",
            "self_apply",
        ];
        let own = Arc::new(super::SelfDevelopment::new(vec![crate::own_project::tests::project(&[])]));
        let (cells, others): (Vec<_>, Vec<_>) =
            super::tools(&own).into_iter().partition(|tool| with_cells.contains(&tool.spec().name));
        testkit::check_family(&others, workspace);
        for tool in cells {
            let found = [tool.input_schema(), tool.output_schema()].map(tool::subset_violations);
            assert_eq!(found, [Vec::<String>::new(), Vec::new()], "{}", tool.spec().name);
        }
    }
}
