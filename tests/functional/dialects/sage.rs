use serde_json::{Value, json};

use super::{call, decision, hold_to_the_contract, refuses};
use crate::harness::Fixture;
use crate::server::Server;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_schema_and_every_answer_is_that_of_the_contract() {
    hold_to_the_contract("sage", include_str!("../../../crates/dialects/contracts/sage.txt"));
    let tools = Fixture::new().run(&["tools", "--dialect", "sage", "--json"]).json();
    assert!(tools.as_array().unwrap().iter().all(|tool| tool["version"] == "1.0.0"), "{tools:#}");
}

#[test]
fn an_answer_is_a_tool_result_and_nothing_else() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let read = call(&fixture, "sage", "Read", &json!({"file": "a.txt"})).json();
    assert_eq!(keys(&read), ["ok", "data", "meta"]);
    assert_eq!(keys(&read["meta"]), ["startedAt", "endedAt", "durationMs"]);
    assert!(read["meta"]["durationMs"].is_u64());
    for time in ["startedAt", "endedAt"] {
        assert!(read["meta"][time].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{read:#}");
    }
    for (tool, arguments, code) in [
        ("Reed", json!({}), "ENOTFOUND"),
        ("Read", json!({"file": 1}), "EVALIDATION"),
        ("Read", json!({"file": "missing"}), "ENOTFOUND"),
        ("Read", json!({"file": ".sage/x"}), "EPERMISSION"),
        ("Bash", json!({"command": "no_such_program", "args": ["x"]}), "ENOTFOUND"),
    ] {
        let failed = call(&fixture, "sage", tool, &arguments).json();
        assert_eq!(keys(&failed), ["ok", "error", "meta"], "{failed:#}");
        assert_eq!(keys(&failed["error"]), ["code", "message"]);
        assert_eq!(failed["error"]["code"], code, "{failed:#}");
    }
    let asked = fixture.run(&["--dialect", "sage", "call", "Write", r#"{"file": "a.txt", "content": ""}"#]);
    assert_eq!((asked.code, asked.json()["error"]["code"].clone()), (4, json!("EAPPROVAL")));
}

#[test]
fn everything_but_reading_asks_unless_the_user_said_that_it_passes() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let patch = json!({"file": "a.txt", "patch": "@@ -1 +1 @@\n-one\n+two\n"});
    let cases = [
        ("Read", json!({"file": "a.txt"}), "pass"),
        ("GraphQuery", json!({"query": "MATCH (n) RETURN n"}), "pass"),
        ("Write", json!({"file": "a.txt", "content": "x"}), "check"),
        ("Edit", patch, "check"),
        ("Bash", json!({"command": "ls"}), "check"),
        ("Bash", json!({"command": "touch a"}), "check"),
    ];
    for (tool, arguments, expected) in cases.clone() {
        assert_eq!(
            decision(&fixture, &["--dialect", "sage"], tool, arguments.clone()),
            expected,
            "{tool} {arguments}"
        );
        let all = ["--dialect", "sage", "--mode", "full_auto"];
        assert_eq!(decision(&fixture, &all, tool, arguments.clone()), "pass", "{tool} {arguments}");
    }
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    allowed_exec_command: [touch]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    assert_eq!(decision(&fixture, &["--dialect", "sage"], "Bash", json!({"command": "touch a"})), "pass");
    assert_eq!(decision(&fixture, &["--dialect", "sage"], "Bash", json!({"command": "ls"})), "check");
}

#[test]
fn the_folder_of_sage_is_denied_to_every_tool() {
    let fixture =
        Fixture::with_files(&[(".sage/key", "secret"), ("sub/.sage/key", "secret"), ("sage/key", "open")]);
    fixture.write("handfast.yaml", "sandbox_config:\n  normal:\n    deny_read_paths: []\n");
    for file in [".sage/key", "sub/.sage/key"] {
        for (tool, arguments) in [
            ("Read", json!({ "file": file })),
            ("Write", json!({"file": file, "content": "x"})),
            ("Edit", json!({"file": file, "patch": "@@ -1 +1 @@\n-secret\n+x\n"})),
        ] {
            let denied = call(&fixture, "sage", tool, &arguments).json();
            assert_eq!(denied["error"]["code"], "EPERMISSION", "{tool} {file}: {denied:#}");
        }
        assert_eq!(fixture.read(file), "secret");
    }
    // A script, because the policy does not read its content.
    fixture.write("show.sh", "cat .sage/key sub/.sage/key sage/key\n");
    let command = json!({"command": "sh show.sh"});
    let shown = call(&fixture, "sage", "Bash", &command).json();
    assert_eq!(shown["data"]["stdout"], "open", "{shown:#}");
    let named = call(&fixture, "sage", "Bash", &json!({"command": "cat .sage/key"})).json();
    assert!(
        named["error"]["message"].as_str().unwrap().contains("it is blocked for every tool"),
        "{named:#}"
    );
    let other = fixture.run(&["call", "file_read", r#"{"path": ".sage/key"}"#]).json();
    assert_eq!(other["data"]["content"], "secret", "no other dialect closes it: {other:#}");
}

#[test]
fn a_path_outside_the_workspace_is_an_error_whatever_anybody_answers() {
    let fixture = Fixture::with_files(&[("inside", "in")]);
    let outside = fixture.outside().join("beside");
    std::fs::write(&outside, "old\n").unwrap();
    std::os::unix::fs::symlink(&outside, fixture.workspace().join("link")).unwrap();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    // Neither a list nor a mode nor an approval opens the path.
    let profile = json!({"mode": "full_auto", "allowed_write_paths": [".", outside], "allowed_read_paths": [".", outside]});
    std::fs::write(folder.join("config.yaml"), json!({"sandbox_config": {"normal": profile}}).to_string())
        .unwrap();
    let yes = |tool: &str, arguments: &Value| {
        fixture.run(&["--dialect", "sage", "call", "--yes", tool, &arguments.to_string()]).json()
    };
    for file in [outside.to_str().unwrap(), "../beside", "inside/../../beside", "link"] {
        for (tool, arguments) in [
            ("Read", json!({ "file": file })),
            ("Write", json!({"file": file, "content": "x"})),
            ("Edit", json!({"file": file, "patch": "@@ -1 +1 @@\n-old\n+x\n"})),
        ] {
            let refused = yes(tool, &arguments);
            assert_eq!(refused["ok"], false, "{tool} {file}: {refused:#}");
            assert_eq!(std::fs::read_to_string(&outside).unwrap(), "old\n", "{tool} {file}");
        }
        let message = yes("Read", &json!({ "file": file }))["error"]["message"].clone();
        assert!(message.as_str().unwrap().contains("is outside workspace"), "{file}: {message}");
    }
    // The controls: a path inside, and another dialect.
    assert_eq!(yes("Read", &json!({"file": "inside"}))["data"]["content"], "in");
    let other = fixture.run(&["call", "--yes", "file_read", &json!({ "path": outside }).to_string()]).json();
    assert_eq!(other["data"]["content"], "old\n", "{other:#}");
}

#[test]
fn edit_applies_a_diff_to_its_file_or_only_checks_it() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    let edit = |patch: &str, strategy: Value| {
        call(&fixture, "sage", "Edit", &json!({"file": "a.txt", "patch": patch, "strategy": strategy})).json()
    };
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let checked = edit(patch, json!("check"))["data"].clone();
    assert_eq!(checked["applied"], false);
    assert_eq!(fixture.read("a.txt"), "one\n");
    let applied = edit(patch, Value::Null)["data"].clone();
    assert_eq!(applied["applied"], true);
    assert!(applied["diff"].as_str().unwrap().ends_with("@@ -1 +1 @@\n-one\n+two\n"), "{applied:#}");
    assert_eq!(applied["diff"], checked["diff"]);
    assert_eq!(fixture.read("a.txt"), "two\n");
    assert_eq!(edit(patch, json!("apply"))["error"]["code"], "ECONFLICT");
    let other = edit("--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n", Value::Null);
    assert_eq!(other["error"]["code"], "EVALIDATION");
    assert!(
        other["error"]["message"].as_str().unwrap().starts_with("`patch`: it changes b.txt"),
        "{other:#}"
    );
    assert_eq!(fixture.read("b.txt"), "one\n");
}

#[test]
fn bash_takes_a_line_or_a_program_with_its_arguments() {
    let fixture = Fixture::new();
    let bash = |arguments: Value| call(&fixture, "sage", "Bash", &arguments).json()["data"].clone();
    assert_eq!(bash(json!({"command": "echo a | tr a b"}))["stdout"], "b\n");
    assert_eq!(bash(json!({"command": "echo a | tr a b", "args": []}))["stdout"], "b\n");
    assert_eq!(bash(json!({"command": "echo", "args": ["a | tr a b"]}))["stdout"], "a | tr a b\n");
    assert_eq!(bash(json!({"command": "exit 7"})), json!({"stdout": "", "stderr": "", "exitCode": 7}));
}

#[test]
fn a_client_gets_a_tool_result_whatever_came_of_the_call() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    for (catalogue, structured) in [("core", false), ("full", true)] {
        let mut server = Server::start(&fixture, &["--dialect", "sage", "--catalogue", catalogue]);
        let text = |result: &Value| -> Value {
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
        };
        let read = server.call("Read", json!({"file": "a.txt"}));
        assert_eq!(read["isError"], false);
        assert_eq!(text(&read)["data"], json!({"content": "one\n"}));
        let failed = server.call("Read", json!({"file": "missing"}));
        assert_eq!(failed["isError"], true);
        assert_eq!(keys(&text(&failed)), ["ok", "error", "meta"]);
        assert_eq!(failed["_meta"]["handfast/error"]["effect"], "none");
        for result in [read, failed] {
            let structure = result.get("structuredContent");
            assert_eq!(structure, structured.then(|| text(&result)).as_ref(), "{catalogue}");
        }
        server.end();
    }
}

#[test]
fn bad_input_is_refused_by_name() {
    refuses(
        "sage",
        &[
            ("Read", json!({"path": "a.txt"}), "\"file\" is a required property"),
            ("Read", json!({"file": "a.txt", "offset": 1}), "'offset' was unexpected"),
            ("Read", json!({"file": null}), "`file`"),
            ("Write", json!({"file": "a.txt", "content": ["x"]}), "`content`"),
            ("Edit", json!({"file": "a.txt", "patch": "nothing"}), "`patch`"),
            ("Edit", json!({"file": "a.txt", "patch": "", "strategy": "force"}), "`strategy`"),
            ("Bash", json!({"command": " "}), "`command`"),
            ("Bash", json!({"command": "ls", "timeout": 5}), "'timeout' was unexpected"),
        ],
    );
}

#[test]
fn a_read_only_registry_has_no_tool_that_changes_anything() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let options = ["--dialect", "sage", "--read-only", "--mode", "full_auto"];
    let tools = fixture.run(&["--dialect", "sage", "--read-only", "tools", "--json"]).json();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Read", "GraphQuery"]);
    let call = |tool: &str, arguments: Value| {
        fixture.run(&[&options[..], &["call", tool, &arguments.to_string()]].concat()).json()
    };
    assert_eq!(call("Read", json!({"file": "a.txt"}))["data"]["content"], "one\n");
    for (tool, arguments) in [
        ("Write", json!({"file": "a.txt", "content": "x"})),
        ("Bash", json!({"command": "echo x > a.txt"})),
        ("tool_call", json!({"name": "Write", "arguments": {"file": "a.txt", "content": "x"}})),
        ("tool_call", json!({"name": "file_write", "arguments": {"path": "a.txt", "content": "x"}})),
    ] {
        assert_eq!(call(tool, arguments.clone())["error"]["code"], "ENOTFOUND", "{tool} {arguments}");
    }
    assert_eq!(fixture.read("a.txt"), "one\n");
}

/// Makes one call under these options of the run.
fn under(fixture: &Fixture, options: &[&str], tool: &str, arguments: &Value) -> Value {
    let call = ["--dialect", "sage", "--mode", "full_auto", "call", tool, &arguments.to_string()];
    fixture.run(&[options, &call].concat()).json()
}

#[test]
fn a_dry_run_of_the_context_changes_nothing_by_any_tool_and_through_any_door() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let patch = "@@ -1 +1 @@\n-one\n+two\n";
    let calls = [
        ("Write", json!({"file": "a.txt", "content": "written\n"}), json!({"bytes": 8})),
        ("Edit", json!({"file": "a.txt", "patch": patch}), json!({"applied": false})),
        ("Bash", json!({"command": "echo x > a.txt; cat a.txt"}), json!({"stdout": "x\n", "exitCode": 0})),
        ("tool_call", json!({"name": "Write", "arguments": {"file": "a.txt", "content": ""}}), json!({})),
    ];
    for (tool, arguments, has) in &calls {
        let tried = under(&fixture, &["--dry-run"], tool, arguments);
        assert_eq!(tried["ok"], true, "{tool}: {tried:#}");
        for (field, value) in has.as_object().unwrap() {
            assert_eq!(&tried["data"][field], value, "{tool}: {tried:#}");
        }
        assert_eq!(fixture.read("a.txt"), "one\n", "{tool}");
    }
    let mut server = Server::start(&fixture, &["--dialect", "sage", "--mode", "full_auto", "--dry-run"]);
    for (tool, arguments, _) in &calls {
        let tried = server.call(tool, arguments.clone());
        assert_eq!(tried["isError"], false, "{tool}: {tried:#}");
        assert_eq!(fixture.read("a.txt"), "one\n", "{tool}");
    }
    server.end();
    let rows = fixture.run(&["audit", "list", "--tool", "file_write", "--json"]).stdout;
    let row: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(row["plan"]["arguments"]["dry_run"], true, "the audit says so: {row:#}");
    // The control: without the option, the same calls change the file.
    for (tool, arguments, _) in &calls {
        fixture.write("a.txt", "one\n");
        assert_eq!(under(&fixture, &[], tool, arguments)["ok"], true, "{tool}");
        assert_ne!(fixture.read("a.txt"), "one\n", "{tool}");
    }
}

#[test]
fn permissions_of_the_context_are_all_that_calls_may_do() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let read = json!({"file": "a.txt"});
    let write = json!({"file": "b.txt", "content": "x"});
    let bash = json!({"command": "echo x > c.txt"});
    let code = |permissions: &[&str], tool: &str, arguments: &Value| {
        let options: Vec<&str> = permissions.iter().flat_map(|kind| ["--permission", kind]).collect();
        under(&fixture, &options, tool, arguments)["error"]["code"].clone()
    };
    for (permissions, codes) in [
        (&["read"][..], [Value::Null, json!("EPERMISSION"), json!("EPERMISSION")]),
        (&["write"], [json!("EPERMISSION"), Value::Null, json!("EPERMISSION")]),
        (&["read", "write", "delete", "run"], [Value::Null, Value::Null, Value::Null]),
        (&[], [Value::Null, Value::Null, Value::Null]),
    ] {
        let said = [
            code(permissions, "Read", &read),
            code(permissions, "Write", &write),
            code(permissions, "Bash", &bash),
        ];
        assert_eq!(said, codes, "{permissions:?}");
    }
    let quiet = json!({"command": "cat a.txt; echo y > a.txt"});
    let ran = under(&fixture, &["--permission", "read", "--permission", "run"], "Bash", &quiet);
    assert_eq!(fixture.read("a.txt"), "one\n", "a command writes no more than a tool: {ran:#}");
    // Permissions do not lift denials of the policy.
    let denied = code(&["read"], "Read", &json!({"file": ".sage/key"}));
    assert_eq!(denied, "EPERMISSION");
    let wrong = fixture.run(&["--permission", "everything", "tools"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("change_handfast"), "{}", wrong.stderr);
}

#[test]
fn a_write_names_its_backup_and_errors_have_the_texts_of_the_source() {
    let fixture = Fixture::with_files(&[("a.txt", "old"), (".sage/x", "")]);
    let written = call(&fixture, "sage", "Write", &json!({"file": "a.txt", "content": "new"})).json();
    let backup = written["meta"]["backup"].as_str().unwrap_or_else(|| panic!("{written:#}")).to_owned();
    assert_eq!(fixture.run(&["undo", &backup]).code, 0);
    assert_eq!(fixture.read("a.txt"), "old");
    assert!(call(&fixture, "sage", "Read", &json!({"file": "a.txt"})).json()["meta"].get("backup").is_none());
    for (tool, arguments, text) in [
        ("Nope", json!({}), "Tool Nope not found"),
        ("Read", json!({"file": "/etc/passwd"}), "Path /etc/passwd is outside workspace"),
        ("Write", json!({"file": "../x", "content": ""}), " is outside workspace"),
        ("Read", json!({"file": ".sage/x"}), "Access to .sage directory denied"),
        ("Bash", json!({"command": "cat .sage/x"}), "Access to .sage directory denied"),
    ] {
        let answer = call(&fixture, "sage", tool, &arguments).json();
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
        assert!(
            message.starts_with(text) || text.starts_with(' ') && message.contains(text),
            "{tool}: {message}"
        );
    }
}
