//! Tool catalogues: the tools that a client is shown, and the way to all others.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::server::Server;

fn names(tools: &Value) -> Vec<String> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Counts tokens as the benchmark does: characters divided by four.
fn tokens(tools: &Value) -> usize {
    tools.to_string().chars().count() / 4
}

#[test]
fn every_tool_can_be_reached_in_each_catalogue() {
    let fixture = Fixture::new();
    let all = fixture.run(&["tools", "--json"]).json();
    for (catalogue, count) in [("core", 12), ("full", all.as_array().unwrap().len() - 3), ("compact", 3)] {
        let mut server = Server::start(&fixture, &["--catalogue", catalogue]);
        let tools = server.tools();
        let listed = names(&tools);
        assert_eq!(listed.len(), count, "{catalogue}: {listed:?}");
        let finds = listed.iter().any(|name| name == "tool_search");
        assert_eq!(finds, catalogue != "full");
        for tool in all.as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            // The response shows that the tool itself read its arguments. The call has no effect.
            let refused = |result: &Value| {
                assert!(
                    text(result).starts_with(&format!("EVALIDATION: the arguments of {name} are wrong")),
                    "{result:#}"
                );
            };
            refused(&server.call(name, json!({"no_such_field": 1})));
            if finds && !listed.iter().any(|known| known == name) {
                let found = server.data("tool_search", json!({ "query": name.replace('_', " ") }));
                assert_eq!(found["tools"][0]["name"], name, "{found:#}");
                let described = server.data("tool_describe", json!({"names": [name]}));
                assert_eq!(described["tools"][0]["input_schema"], tool["input_schema"]);
                refused(&server.call("tool_call", json!({"name": name, "arguments": {"no_such_field": 1}})));
            }
        }
        assert_eq!(server.tools(), tools, "no call changes the list");
        server.end();
    }
}

#[test]
fn small_catalogues_stay_small_and_the_full_one_leaves_nothing_out() {
    let fixture = Fixture::new();
    let list = |arguments: &[&str]| {
        let mut server = Server::start(&fixture, arguments);
        let tools = server.tools();
        server.end();
        tools
    };
    let core = list(&[]);
    assert_eq!(core, list(&["--catalogue", "core"]), "it is the default");
    assert!(tokens(&core) <= 3_000, "{}", tokens(&core));
    let compact = list(&["--catalogue", "compact"]);
    assert_eq!(names(&compact), ["tool_search", "tool_describe", "tool_call"]);
    assert!(tokens(&compact) <= 500, "{}", tokens(&compact));
    let full = list(&["--catalogue", "full"]);
    for (listed, tool) in
        full.as_array().unwrap().iter().zip(fixture.run(&["tools", "--json"]).json().as_array().unwrap())
    {
        assert_eq!(listed["name"], tool["name"]);
        assert_eq!(listed["title"], tool["title"]);
        assert_eq!(listed["inputSchema"], tool["input_schema"]);
        assert_eq!(listed["inputSchema"]["additionalProperties"], false);
    }
}

#[test]
fn a_call_through_tool_call_is_a_call_of_the_tool_itself() {
    let fixture = Fixture::with_files(&[("a.txt", "one\ntwo\n"), ("b.txt", "b")]);
    fixture.write("handfast.yaml", "sandbox_config:\n  normal:\n    deny_tools: [file_delete]\n");
    let mut server = Server::start(&fixture, &["--catalogue", "compact"]);
    let mut call = |name: &str, arguments: Value| {
        server.call("tool_call", json!({"name": name, "arguments": arguments}))
    };
    let moved = call("file_move", json!({"source": "a.txt", "destination": "c.txt"}));
    assert_eq!(text(&moved), r#"{"source":"a.txt","destination":"c.txt","moved":true}"#);
    let read = call("file_read", json!({"path": "c.txt", "lines": null}));
    assert!(text(&read).ends_with("}]\none\ntwo\n"), "a text stands as it does without tool_call: {read:#}");
    let denied = call("file_delete", json!({"path": "b.txt"}));
    assert!(text(&denied).starts_with("EPERMISSION: denied: the tool file_delete"), "{denied:#}");
    assert!(fixture.workspace().join("b.txt").exists());
    let unknown = call("file_mvoe", json!({}));
    assert!(text(&unknown).starts_with("ENOTFOUND: there is no tool named `file_mvoe`"), "{unknown:#}");
    assert!(text(&unknown).contains("did you mean `file_move`?"), "{unknown:#}");
    let itself = call("tool_call", json!({"name": "file_read", "arguments": {"path": "c.txt"}}));
    assert!(text(&itself).starts_with("EVALIDATION: `name`: tool_call cannot call a tool"), "{itself:#}");
    let nameless = server.call("tool_call", json!({"arguments": {}}));
    assert!(text(&nameless).contains("\"name\" is a required property"), "{nameless:#}");
    server.end();

    let listed = fixture.run(&["audit", "list", "--json"]).stdout;
    let mut rows: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.reverse();
    let seen: Vec<String> = rows
        .iter()
        .map(|row| {
            let text = |field: &str| row[field].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", text("tool"), text("decision"), text("outcome"))
        })
        .collect();
    assert_eq!(
        seen,
        [
            "file_move pass ok",
            "file_read pass ok",
            "file_delete deny EPERMISSION",
            "file_mvoe - ENOTFOUND",
            "tool_call - EVALIDATION",
            "tool_call - EVALIDATION",
        ]
    );
    assert_eq!(rows[0]["plan"]["arguments"], json!({"source": "a.txt", "destination": "c.txt"}));
}

#[test]
fn check_looks_through_tool_call_too() {
    let fixture = Fixture::new().asking();
    let direct = fixture.run(&["check", "file_delete", r#"{"path": "x"}"#]).json();
    let handed_on = r#"{"name": "file_delete", "arguments": {"path": "x"}}"#;
    assert_eq!(direct["decision"], "check");
    assert_eq!(fixture.run(&["check", "tool_call", handed_on]).json(), direct);
}

#[test]
fn the_configuration_chooses_the_catalogue_and_the_command_line_beats_it() {
    let fixture = Fixture::new();
    let count = |fixture: &Fixture, arguments: &[&str]| {
        let mut server = Server::start(fixture, arguments);
        let listed = names(&server.tools()).len();
        server.end();
        listed
    };
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), "catalogue: compact\n").unwrap();
    assert_eq!(count(&fixture, &[]), 3);
    assert_eq!(count(&fixture, &["--catalogue", "core"]), 12);
    std::fs::write(folder.join("config.yaml"), "catalogue: tiny\n").unwrap();
    let run = fixture.run(&["check", "file_read", "{}"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("config.yaml:1:12") && run.stderr.contains("tiny"), "{}", run.stderr);
    assert_eq!(fixture.run(&["--catalogue", "tiny", "tools"]).code, 2);

    let untrusted = Fixture::with_files(&[("handfast.yaml", "catalogue: compact\n")]);
    assert_eq!(count(&untrusted, &[]), 12);
    let run = untrusted.run(&["check", "file_read", r#"{"path": "a"}"#]);
    assert!(run.stderr.contains("`catalogue` is ignored"), "{}", run.stderr);
}

#[test]
fn a_search_finds_the_tool_that_does_it_and_never_the_search_itself() {
    let fixture = Fixture::new();
    let first = |query: &str| {
        let found = fixture.call("tool_search", json!({ "query": query }));
        found["data"]["tools"][0]["name"].as_str().unwrap_or_default().to_owned()
    };
    for (query, tool) in [
        ("undo", "checkpoint_restore"),
        ("undo what was changed", "checkpoint_restore"),
        ("revert, undo", "checkpoint_restore"),
        ("delete", "file_delete"),
        ("move", "file_move"),
        ("rename a file", "file_move"),
        ("send an email", "gmail_send"),
        ("tool_search", "tool_search"),
    ] {
        assert_eq!(first(query), tool, "{query}");
    }
    for query in ["find", "find tools", "search", "what tools do", "describe tools", "list tools", "call"] {
        assert!(!first(query).starts_with("tool_"), "{query}: {}", first(query));
    }
}
