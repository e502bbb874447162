//! Check of the rules that every tool of a family fulfils.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use mcp_client::cache::{CachedServer, ListingCache};
use mcp_client::offer::offer_all;
use mcp_client::{Offers, Revision, ServerFacts};
use serde_json::json;
use testkit::{Workspace, check_family};
use tool::{AnyTool, BoxFuture, Timer};
use tools_mcp::{ServersParts, ServersSettings, Shelf, ToolGroups};

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
struct Registered(Mutex<BTreeMap<String, Vec<Arc<dyn AnyTool>>>>);

impl Registered {
    fn tools(&self) -> Vec<Arc<dyn AnyTool>> {
        self.0.lock().values().flatten().cloned().collect()
    }
}

impl ToolGroups for Registered {
    fn replace(&self, group: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), String> {
        self.0.lock().insert(group.to_owned(), tools);
        Ok(())
    }
}

fn parts() -> ServersParts {
    ServersParts {
        servers: Vec::new(),
        folder: "/nowhere".into(),
        shelf: Arc::new(NoShelf),
        timer: Arc::new(NoTime),
        web: Arc::default(),
        vault: None,
        version: "1".to_owned(),
        reserved: BTreeSet::new(),
    }
}

#[test]
fn every_tool_has_a_good_name_schema_and_example() {
    let servers = tools_mcp::servers(parts()).unwrap();
    let registered = Arc::new(Registered::default());
    servers.publish_to(registered.clone()).unwrap();
    let tools = registered.tools();
    assert_eq!(tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["mcp_servers"]);
    check_family(&tools, Workspace::new);
}

#[test]
fn the_tools_for_resources_and_prompts_are_there_once_a_server_offers_them() {
    let entries = json!({"a": {"command": "x"}});
    let settings = ServersSettings::read(entries.as_object().unwrap()).servers;
    for (resources, prompts) in [(true, false), (false, true), (true, true)] {
        let mut lists = ListingCache::default();
        let mut server = cached(&settings[0].identity);
        server.facts.offers = Offers { resources, prompts, ..Offers::default() };
        lists.insert("a", server);
        let shelf = Arc::new(Lists(lists.text()));
        let servers =
            tools_mcp::servers(ServersParts { servers: settings.clone(), shelf, ..parts() }).unwrap();
        let registered = Arc::new(Registered::default());
        servers.publish_to(registered.clone()).unwrap();
        let tools = registered.tools();
        for tool in &tools {
            for schema in [tool.input_schema(), tool.output_schema()] {
                assert_eq!(tool::subset_violations(schema), Vec::<String>::new(), "{}", tool.name());
            }
        }
        let has = |name: &str| tools.iter().any(|tool| tool.name() == name);
        assert_eq!((has("mcp_resource_read"), has("mcp_prompt_get")), (resources, prompts));
    }
}

/// Returns the stored lists of a server that has nothing.
fn cached(identity: &str) -> CachedServer {
    CachedServer {
        config: identity.to_owned(),
        listed_at: 0,
        facts: ServerFacts {
            revision: Revision::V20251125,
            name: "x".to_owned(),
            version: "1".to_owned(),
            offers: Offers::default(),
            instructions: None,
        },
        tools: Vec::new(),
        refused: Vec::new(),
        prompts: Vec::new(),
        resources: Vec::new(),
        templates: Vec::new(),
        content_faults: Vec::new(),
    }
}

/// A shelf with stored lists.
struct Lists(String);

impl Shelf for Lists {
    fn load(&self, name: &str) -> Option<String> {
        (name == "lists.json").then(|| self.0.clone())
    }

    fn save(&self, _name: &str, _text: &str) -> Result<(), String> {
        Err("nothing is stored here".to_owned())
    }
}

/// Groups of tools beside one that has the name `a__one`.
#[derive(Default)]
struct OneIsTaken(Mutex<BTreeMap<String, Vec<String>>>);

impl ToolGroups for OneIsTaken {
    fn replace(&self, group: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), String> {
        let names: Vec<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
        if names.iter().any(|name| name == "a__one") {
            return Err("a__one is another tool".to_owned());
        }
        self.0.lock().insert(group.to_owned(), names);
        Ok(())
    }
}

#[test]
fn a_tool_that_cannot_be_registered_takes_no_other_one_along() {
    let entries = json!({"a": {"command": "x"}, "b": {"command": "x"}});
    let settings = ServersSettings::read(entries.as_object().unwrap()).servers;
    let definition = |name| json!({"name": name, "inputSchema": {"type": "object", "properties": {}}});
    let definitions = json!([definition("one"), definition("two")]).to_string();
    let (tools, _) = offer_all(&serde_json::from_str::<Vec<_>>(&definitions).unwrap());
    let mut lists = ListingCache::default();
    for server in &settings {
        let cached = CachedServer { tools: tools.clone(), ..cached(&server.identity) };
        lists.insert(&server.key, cached);
    }
    let parts = ServersParts { servers: settings, shelf: Arc::new(Lists(lists.text())), ..parts() };
    let servers = tools_mcp::servers(parts).unwrap();
    let groups = Arc::new(OneIsTaken::default());
    servers.publish_to(groups.clone()).unwrap();
    let registered = groups.0.lock().clone();
    assert_eq!(registered["mcp a"], ["a__two"]);
    assert_eq!(registered["mcp b"], ["b__one", "b__two"]);
}
