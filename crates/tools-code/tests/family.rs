//! Check of the rules that every tool of a family fulfils, with a real script in a cell.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{CellHost, CellSource, CellSpec};
use serde_json::{Value, json};
use testkit::{Workspace, check_family, run_tool};
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

/// Returns a maker of workspaces whose scripts run in real cells, with these programs before those of the system.
fn place(folder: &Path, programs: Option<&Path>) -> impl Fn() -> Workspace + use<> {
    let scripts = Arc::new(Scripts::new(folder.join("s"), None));
    let (spool, programs) = (folder.to_owned(), programs.map(Path::to_owned));
    let source = Arc::new(CellSource::new("test".to_owned(), move |request| {
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let spec = CellSpec {
            workspace: request.folder,
            spool_directory: spool.clone(),
            output_limit: 1 << 20,
            read_only: programs.clone().into_iter().collect(),
            search_path: programs.clone().into_iter().chain(system).collect(),
            ..CellSpec::default()
        };
        Ok((spec, CellHost::default()))
    }));
    let calls: Arc<dyn InnerCalls> = Arc::new(NoCalls);
    move || {
        Workspace::new()
            .with_service(scripts.clone())
            .with_service(source.clone())
            .with_service(Arc::new(calls.clone()))
            .with_service(Arc::new(DecidedEffects(Vec::new())))
    }
}

#[test]
fn every_tool_has_a_good_name_schema_and_example() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    check_family(&tools_code::tools(), place(folder.path(), None));
    assert_eq!(std::fs::read_dir(folder.path().join("s")).unwrap().count(), 0, "its folder is removed");
}

#[test]
fn a_wrapper_of_the_interpreter_is_run_once_and_a_script_cannot_name_another_program() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let wrapper = programs.path().join("python3");
    std::fs::write(&wrapper, "#!/bin/sh\nWRAPPED=yes exec /usr/bin/python3 \"$@\"\n").unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let place = place(folder.path(), Some(programs.path()));
    let tools = tools_code::tools();
    let run = |more: &str| {
        let code = format!("import os\n{more}\nprint(os.environ.get('WRAPPED'))");
        let ran = run_tool(tools[0].as_ref(), &place(), json!({ "code": code })).unwrap();
        ran["output"].as_str().unwrap().trim().to_owned()
    };
    assert_eq!(run(""), "yes", "the control: the first script is started by the wrapper");
    assert_eq!(run("os.write(4, b'{\"program\": \"/bin/false\"}\\n')"), "None");
    assert_eq!(run(""), "None");
}
