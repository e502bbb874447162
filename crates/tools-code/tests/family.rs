//! Check of the rules that every tool of a family fulfils, with a real script in a cell.

use std::sync::Arc;

use sandbox::{CellHost, CellSource, CellSpec};
use serde_json::Value;
use testkit::{Workspace, check_family};
use tool::{AnyTool, BoxFuture, CallResult, DecidedEffects, InnerCalls, ToolError};
use tools_code::Scripts;

/// Calls of a script that makes none.
struct NoCalls;

impl InnerCalls for NoCalls {
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        Arc::from(Vec::new())
    }

    #[expect(clippy::panic, reason = "a call would be a defect of the test")]
    fn call(&self, tool: String, _arguments: Value) -> BoxFuture<'_, Result<CallResult, ToolError>> {
        panic!("the example calls {tool}")
    }
}

#[test]
fn every_tool_has_a_good_name_schema_and_example() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    let scripts = Arc::new(Scripts::new(folder.path().join("s")));
    let spool = folder.path().to_owned();
    let source = Arc::new(CellSource::new("test".to_owned(), move |request| {
        let spec = CellSpec {
            workspace: request.folder,
            spool_directory: spool.clone(),
            output_limit: 1 << 20,
            ..CellSpec::default()
        };
        Ok((spec, CellHost::default()))
    }));
    let calls: Arc<dyn InnerCalls> = Arc::new(NoCalls);
    check_family(&tools_code::tools(), || {
        Workspace::new()
            .with_service(scripts.clone())
            .with_service(source.clone())
            .with_service(Arc::new(calls.clone()))
            .with_service(Arc::new(DecidedEffects(Vec::new())))
    });
    assert_eq!(std::fs::read_dir(folder.path().join("s")).unwrap().count(), 0, "its folder is removed");
}
