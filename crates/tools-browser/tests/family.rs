//! Check of the rules that every tool of a family fulfils, with a real Chromium in a cell.

use std::path::PathBuf;
use std::sync::Arc;

use browser::{BrowserProgram, Browsers};
use jiff::Timestamp;
use sandbox::{CellHost, CellSource, CellSpec};
use testkit::{Workspace, check_family};
use tool::{DecidedEffects, Owner, ResourcePool, SessionId};

#[test]
fn every_tool_has_a_good_name_schema_and_example() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    let program = BrowserProgram { path: PathBuf::from("/usr/bin/chromium-headless-shell"), shown: None };
    let browsers = Browsers::new(Ok(program), folder.path().join("b"));
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
    // The examples of other tools use tab 1.
    let owner = (Owner::Session(SessionId("test".to_owned())), Timestamp::UNIX_EPOCH);
    let (running, _) = runtime.block_on(browsers.start(&source, owner)).unwrap();
    runtime.block_on(running.session().create("about:blank", std::time::Duration::from_secs(30))).unwrap();
    let mut tools = tools_browser::tools();
    // A download and a login need a server in the browser's network; the tests of the whole program have
    // one.
    tools.retain(|tool| !["browser_download", "browser_state"].contains(&tool.name()));
    assert_eq!(tools.len(), 10);
    check_family(&tools, || {
        let decided = Arc::new(DecidedEffects(Vec::new()));
        Workspace::new().with_service(browsers.clone()).with_service(source.clone()).with_service(decided)
    });
    drop(running);
    browsers.join(&Owner::Runtime);
    assert!(browsers.list(Timestamp::UNIX_EPOCH).is_empty());
    assert_eq!(std::fs::read_dir(folder.path().join("b")).unwrap().count(), 0, "its folder is removed");
}
