//! What an agent remembers is there in later sessions, with who, when and which call, and nothing of it is lost silently.

use serde_json::{Value, json};

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
