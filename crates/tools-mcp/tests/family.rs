//! Check of the rules that every tool of a family fulfils.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use testkit::{Workspace, check_family};
use tool::{AnyTool, BoxFuture, Timer};
use tools_mcp::{ServersParts, Shelf, ToolGroups};

struct NoShelf;

impl Shelf for NoShelf {
    fn load(&self, _name: &str) -> Option<String> {
        None
    }

    fn save(&self, _name: &str, _text: &str) -> Result<(), String> {
        Err("nothing is stored here".to_owned())
    }
}

struct NoTime;

impl Timer for NoTime {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[derive(Default)]
struct Registered(Mutex<Vec<Arc<dyn AnyTool>>>);

impl ToolGroups for Registered {
    fn replace(&self, _group: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), String> {
        self.0.lock().extend(tools);
        Ok(())
    }
}

#[test]
fn every_tool_has_a_good_name_schema_and_example() {
    let parts = ServersParts {
        servers: Vec::new(),
        folder: "/nowhere".into(),
        shelf: Arc::new(NoShelf),
        timer: Arc::new(NoTime),
        web: Arc::default(),
        version: "1".to_owned(),
        reserved: BTreeSet::new(),
    };
    let servers = tools_mcp::servers(parts).unwrap();
    let registered = Arc::new(Registered::default());
    servers.publish_to(registered.clone()).unwrap();
    let tools = registered.0.lock().clone();
    assert_eq!(tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["mcp_servers"]);
    check_family(&tools, Workspace::new);
}
