//! Memory of an agent: entries remain in later sessions, with their author, time and call, and none
//! is lost silently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use testkit::web::{Reply, Server};

use crate::functional::knowledge::by_subject;
use crate::harness::Fixture;

fn remember(fixture: &Fixture, arguments: Value) -> Value {
    let result = fixture.call("memory", arguments.clone());
    assert_eq!(result["ok"], true, "{arguments}: {result:#}");
    result
}

#[test]
fn what_is_remembered_is_found_changed_by_its_version_and_kept_in_its_history() {
    let fixture = Fixture::new();
    let made = remember(
        &fixture,
        json!({"action": "create", "key": "port", "message": "The server listens on 8080."}),
    );
    let entry = &made["data"]["entries"][0];
    assert_eq!((&entry["version"], &entry["agent"]), (&json!(1), &json!("main")));
    let id = entry["id"].as_str().unwrap().to_owned();
    remember(&fixture, json!({"action": "create", "message": "Unrelated words."}));
    let found = remember(&fixture, json!({"action": "search", "message": "which server port?"}));
    assert_eq!(found["data"]["entries"][0]["id"], json!(id), "{found:#}");
    assert_eq!(
        (&found["data"]["mode"], found["data"]["entries"].as_array().unwrap().len()),
        (&json!("keyword"), 1)
    );
    let update = |version: u64| json!({"action": "update", "key": "port", "message": "It is 9090.", "version": version});
    let changed = remember(&fixture, update(1));
    assert_eq!(changed["data"]["entries"][0]["version"], 2);
    let stale = fixture.error("memory", update(1));
    assert_eq!(stale["code"], "ECONFLICT", "{stale:#}");
    assert_eq!(
        fixture.error("memory", json!({"action": "create", "key": "port", "message": "x"}))["code"],
        "ECONFLICT"
    );
    remember(&fixture, json!({"action": "delete", "key": "port"}));
    assert_eq!(fixture.error("memory", json!({"action": "read", "key": "port"}))["code"], "ENOTFOUND");
    let history = remember(&fixture, json!({"action": "history", "key": id}))["data"]["versions"].take();
    let told: Vec<(&str, &Value)> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (version["what"].as_str().unwrap(), &version["call"]))
        .collect();
    assert_eq!(
        told[..2],
        [("created", &made["meta"]["call_id"]), ("updated", &changed["meta"]["call_id"])],
        "{history:#}"
    );
    assert_eq!((told.len(), told[2].0), (3, "deleted"));
    let listed = remember(&fixture, json!({"action": "list"}));
    assert_eq!(listed["data"]["entries"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[test]
fn lists_come_page_by_page_and_bounded() {
    let fixture = Fixture::new();
    let long = "word ".repeat(1_000);
    for number in 0..3 {
        remember(&fixture, json!({"action": "create", "key": format!("k{number}"), "message": long}));
    }
    let first = remember(&fixture, json!({"action": "list", "limit": 2}))["data"].take();
    assert_eq!((first["entries"].as_array().unwrap().len(), &first["next_offset"]), (2, &json!(2)));
    assert!(first["entries"][0]["content"].as_str().unwrap().len() < 400);
    let rest = remember(&fixture, json!({"action": "list", "limit": 2, "offset": 2}))["data"].take();
    assert_eq!((&rest["entries"][0]["key"], rest.get("next_offset")), (&json!("k2"), None));
    let whole = remember(&fixture, json!({"action": "read", "key": "k0"}));
    assert_eq!(whole["data"]["entries"][0]["content"], json!(long));
}

#[test]
fn rules_decide_on_what_is_remembered_and_the_audit_has_it() {
    let fixture = Fixture::new();
    let decision = |arguments: Value| {
        fixture.run(&["check", "memory", &arguments.to_string()]).json()["decision"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let create = || json!({"action": "create", "message": "m"});
    assert_eq!(
        (decision(create()), decision(json!({"action": "list"}))),
        ("check".to_owned(), "pass".to_owned())
    );
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    allowed_database_statements: [memory create]\n    deny_database_statements: [memory delete]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    assert_eq!(decision(create()), "pass");
    let made = remember(&fixture, create());
    let key = made["data"]["entries"][0]["id"].clone();
    let denied = fixture.error("memory", json!({"action": "delete", "key": key}));
    assert_eq!(denied["code"], "EPERMISSION", "{denied:#}");
    remember(&fixture, json!({"action": "read", "key": key}));
    let rows = fixture.run(&["audit", "export"]).stdout;
    assert!(
        rows.contains("memory create") && rows.contains(made["meta"]["call_id"].as_str().unwrap()),
        "{rows}"
    );
}

#[test]
fn what_is_remembered_is_found_by_its_meaning_and_by_its_words_where_the_model_cannot_be_used() {
    let fixture = Fixture::new();
    let create = |key: &str, text: &str| {
        remember(&fixture, json!({"action": "create", "key": key, "message": text}));
    };
    let search = || remember(&fixture, json!({"action": "search", "message": "how to tie up a ship"}));
    let keys = |found: &Value| -> Vec<String> {
        let entries = found["data"]["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
    };
    // An entry from before the model exists.
    create("dinner", "Flour, water, salt.");
    create("berth", "Mooring: bow line first.");
    let found = search();
    assert_eq!((keys(&found), &found["data"]["mode"]), (vec![], &json!("keyword")));
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let server =
        Server::http(
            move |request| {
                if failing.load(Ordering::SeqCst) { Reply::status(500) } else { by_subject(request) }
            },
        );
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let place = format!("embeddings:\n  endpoint: {}\n  model: m\n", server.url("/v1/embeddings"));
    std::fs::write(folder.join("config.yaml"), place).unwrap();
    let found = search();
    assert_eq!(keys(&found), ["berth", "dinner"], "{found:#}");
    let data = &found["data"];
    assert_eq!((&data["mode"], &data["waiting"]), (&json!("hybrid"), &json!(0)));
    let score = |entry: usize| data["entries"][entry]["similarity_score"].as_f64().unwrap();
    assert!(score(0) > 0.4 && score(1) < score(0), "{data:#}");
    assert!(data["confidence"].as_f64().unwrap() > 0.5, "{data:#}");
    let sent: String =
        server.seen().iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
    assert!(sent.contains("berth: Mooring: bow line first."), "its name says what it is about");
    // A changed text is found by its new meaning, and a deleted one no longer.
    remember(&fixture, json!({"action": "update", "key": "berth", "message": "Bread."}));
    create("yacht", "A boat of wood.");
    assert_eq!(keys(&search())[0], "yacht");
    remember(&fixture, json!({"action": "delete", "key": "yacht"}));
    assert!(!keys(&search()).contains(&"yacht".to_owned()));
    let listed = remember(&fixture, json!({"action": "list"}));
    assert!(listed["data"]["entries"][0].get("similarity_score").is_none(), "{listed:#}");
    fails.store(true, Ordering::SeqCst);
    let found = remember(&fixture, json!({"action": "search", "message": "bread for a ship"}));
    assert_eq!((keys(&found), &found["data"]["mode"]), (vec!["berth".to_owned()], &json!("keyword")));
    assert!(found["meta"]["warnings"].to_string().contains("by words alone"), "{found:#}");
}
