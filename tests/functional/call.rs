//! `handfast call` and `handfast check`: results, exit codes, and the output on each stream.

use serde_json::json;

use crate::harness::Fixture;

#[test]
fn a_call_prints_its_result_alone_on_standard_output() {
    let fixture = Fixture::with_files(&[("src/lib.rs", "fn main() {}\n")]);
    let run = fixture.run(&["call", "file_read", r#"{"path": "src/lib.rs"}"#]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let result = run.json();
    assert_eq!(result["ok"], true);
    assert_eq!(result["data"]["content"], "fn main() {}\n");
    for field in ["call_id", "started_at", "ended_at", "duration_ms", "decision"] {
        assert!(!result["meta"][field].is_null(), "{field}: {result:#}");
    }
    assert_eq!(result["meta"]["decision"], "pass");
}

#[test]
fn exit_codes_tell_the_kinds_of_failure_apart() {
    let fixture = Fixture::with_files(&[(".env", "SECRET=1\n"), ("a.txt", "a")]).asking();
    let code = |arguments: &[&str]| fixture.run(arguments).code;
    assert_eq!(code(&["call", "file_read", r#"{"path": "a.txt"}"#]), 0);
    assert_eq!(code(&["call", "file_read", r#"{"path": "missing"}"#]), 1);
    assert_eq!(code(&["call", "file_read", r#"{"paht": "a.txt"}"#]), 2);
    assert_eq!(code(&["call", "file_read", "{"]), 2);
    assert_eq!(code(&["call", "no_such_tool"]), 2);
    assert_eq!(code(&["call"]), 2);
    assert_eq!(code(&["--mode", "sometimes", "tools"]), 2);
    assert_eq!(code(&["call", "file_read", r#"{"path": ".env"}"#]), 3);
    assert_eq!(code(&["call", "file_write", r#"{"path": "b.txt", "content": ""}"#]), 4);
    assert_eq!(code(&["--help"]), 0);
}

#[test]
fn a_call_that_needs_an_approval_nobody_can_give_does_nothing_and_says_what_to_do() {
    let fixture = Fixture::new().asking();
    let run = fixture.run(&["call", "file_write", r#"{"path": "b.txt", "content": "x"}"#]);
    let error = &run.json()["error"];
    assert_eq!((error["code"].as_str(), error["effect"].as_str()), (Some("EAPPROVAL"), Some("none")));
    assert!(error["approval_id"].is_string(), "{error:#}");
    assert!(error["hint"].as_str().unwrap().contains("--yes"), "{error:#}");
    assert!(!fixture.workspace().join("b.txt").exists());
}

#[test]
fn yes_answers_questions_and_never_a_denial() {
    let fixture = Fixture::with_files(&[(".env", "SECRET=1\n")]).asking();
    assert_eq!(fixture.data("file_write", json!({"path": "b.txt", "content": "x"}))["size_bytes"], 1);
    let result = fixture.call("file_write", json!({"path": "b.txt", "content": "xy"}));
    assert_eq!(result["meta"]["approved_by"], "--yes on the command line");
    assert_eq!(fixture.error("file_read", json!({"path": ".env"}))["code"], "EPERMISSION");
    let dangerous = fixture.error("shell_execute", json!({"command": "rm -rf /"}));
    assert_eq!(dangerous["code"], "EPERMISSION", "{dangerous:#}");
}

#[test]
fn a_command_that_fails_is_a_result_with_its_exit_code() {
    let fixture = Fixture::new();
    let result = fixture.call("shell_execute", json!({"command": "echo out; echo err >&2; exit 3"}));
    assert_eq!(result["ok"], true, "{result:#}");
    assert_eq!(
        result["data"],
        json!({"stdout": "out\n", "stderr": "err\n", "exit_code": 3, "timed_out": false})
    );
    assert!(result["meta"]["sandbox"].as_array().unwrap().len() > 3, "{result:#}");
}

#[test]
fn a_timeout_keeps_the_partial_output_and_says_that_nothing_changed() {
    let fixture = Fixture::new();
    let result = fixture.call("shell_execute", json!({"command": "echo begun; sleep 100", "timeout": 1}));
    assert_eq!(result["error"]["code"], "ETIMEOUT", "{result:#}");
    assert_eq!(result["error"]["effect"], "none");
    assert_eq!(result["data"]["stdout"], "begun\n");
    assert_eq!(result["data"]["timed_out"], true);
}

#[test]
fn long_output_is_bounded_and_stays_readable_by_reference() {
    let fixture = Fixture::new();
    let result = fixture.call("shell_execute", json!({"command": "seq 1 200000"}));
    let stdout = result["data"]["stdout"].as_str().unwrap();
    assert!(stdout.chars().count() <= 25_000, "{}", stdout.len());
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("199999\n200000\n"));
    assert_eq!(result["meta"]["truncated"], true);
    let reference = result["meta"]["output_ref"].as_str().unwrap();
    let found = fixture.data("output_read", json!({"output_ref": reference, "regex": "^12345$"}));
    assert_eq!(found["content"], "12345: 12345\n");
    let all = fixture.data("output_read", json!({"output_ref": reference, "offset": 1_288_000}));
    assert!(all["content"].as_str().unwrap().ends_with("200000\n"), "{all:#}");
}

#[test]
fn check_explains_and_runs_nothing() {
    let fixture = Fixture::new().asking();
    let run = fixture.run(&["check", "shell_execute", r#"{"command": "touch made"}"#]);
    let checked = run.json();
    assert_eq!(run.code, 0);
    assert_eq!(checked["decision"], "check", "{checked:#}");
    assert_eq!(
        (checked["level"].as_str(), checked["mode"].as_str()),
        (Some("destructive"), Some("smart_auto"))
    );
    for field in ["profile", "rule", "reason", "hint"] {
        assert!(checked[field].is_string(), "{field}: {checked:#}");
    }
    assert_eq!(checked["effects"][0]["effect"], "run");
    assert!(!fixture.workspace().join("made").exists());
}

#[test]
fn check_answers_a_history_of_calls_line_by_line() {
    let fixture = Fixture::new().asking();
    let history = b"{\"command\": \"ls -l\"}\n{\"command\": \"touch x\"}\n{\"command\": 1}\n{\"command\": \"rm -rf /\"}\n";
    let run = fixture.run_with_input(&["check", "shell_execute", "-"], history);
    let lines: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decisions: Vec<_> = lines.iter().map(|line| line["decision"].as_str()).collect();
    assert_eq!(decisions, [Some("pass"), Some("check"), None, Some("deny")], "{}", run.stdout);
    assert_eq!(lines[2]["error"]["code"], "EVALIDATION");
}

#[test]
fn read_only_commands_pass_without_a_question() {
    let fixture = Fixture::with_files(&[("a.txt", "needle\n")]);
    let run = fixture.run(&["call", "shell_execute", r#"{"command": "grep -n needle a.txt | head -n 5"}"#]);
    assert_eq!(run.json()["data"]["stdout"], "1:needle\n", "{}", run.stdout);
}

#[test]
fn arguments_come_from_standard_input_too() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let run = fixture.run_with_input(&["call", "file_read", "-"], br#"{"path": "a.txt"}"#);
    assert_eq!(run.json()["data"]["content"], "a");
    let marked = "\u{feff}{\"path\": \"a.txt\"}";
    let run = fixture.run_with_input(&["call", "file_read", "-"], marked.as_bytes());
    assert_eq!(run.json()["data"]["content"], "a");
    assert_eq!(fixture.run(&["call", "file_read", marked]).json()["data"]["content"], "a");
}

#[test]
fn what_the_state_is_kept_in_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    std::fs::remove_dir(fixture.state()).unwrap();
    fixture.data("file_read", serde_json::json!({"path": "a.txt"}));
    for folder in ["", "spool"] {
        let mode = std::fs::metadata(fixture.state().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder:?}");
    }
}

#[test]
fn tools_lists_every_tool_with_its_schemas() {
    let fixture = Fixture::new();
    let tools = fixture.run(&["tools", "--json"]).json();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "file_read",
            "file_write",
            "file_edit",
            "file_patch",
            "file_list",
            "file_search",
            "file_delete",
            "file_move",
            "shell_execute",
            "shell_session",
            "run_code",
            "fetch_url",
            "browser_connect",
            "browser_navigate",
            "browser_read_page",
            "browser_interact",
            "browser_tabs",
            "browser_cookies",
            "browser_download",
            "browser_screenshot",
            "browser_pdf",
            "browser_events",
            "browser_state",
            "browser_trace",
            "db_query",
            "db_write",
            "db_schema",
            "memory",
            "skill_list",
            "skill_read",
            "knowledge_search",
            "knowledge_write",
            "knowledge_index",
            "graph_query",
            "graph_schema",
            "code_map",
            "code_impact",
            "llm_call",
            "schedule_task",
            "schedule_list",
            "schedule_update",
            "schedule_history",
            "create_agent",
            "ask_agent",
            "agent_list",
            "model_switch",
            "linear_action",
            "gmail_search",
            "gmail_read",
            "gmail_send",
            "checkpoint_list",
            "checkpoint_diff",
            "checkpoint_restore",
            "output_read",
            "self_list_capabilities",
            "self_read_source",
            "self_run_tests",
            "self_modify_source",
            "self_create_plugin",
            "self_rollback",
            "vault_set",
            "vault_list",
            "vault_delete",
            "tool_search",
            "tool_describe",
            "tool_call",
        ]
    );
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["input_schema"]["type"], "object", "{tool:#}");
        assert_eq!(tool["output_schema"]["type"], "object", "{tool:#}");
        assert!(tool["description"].as_str().unwrap().len() > 20);
    }
    let one = fixture.run(&["tools", "file_read"]).stdout;
    for part in ["file_read (safe): ", "ARGUMENT", "path", "required", "handfast call file_read '{"] {
        assert!(one.contains(part), "{part}: {one}");
    }
    assert_eq!(fixture.run(&["tools", "file_read", "--json"]).json()["name"], "file_read");
    let unknown = fixture.run(&["tools", "file_raed"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `file_read`?"), "{}", unknown.stderr);
    let text = fixture.run(&["tools"]).stdout;
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn a_secret_of_the_environment_is_covered_in_answers_and_in_the_audit() {
    for name in ["GITHUB_TOKEN", "GITHUB_PAT"] {
        let fixture = Fixture::with_files(&[("notes.txt", "the token is ghp_0123456789abcdef, keep it\n")]);
        let output = fixture
            .command()
            .env(name, "ghp_0123456789abcdef")
            .args([
                "call",
                "--yes",
                "shell_execute",
                r#"{"command": "cat notes.txt; echo ghp_0123456789abcdef; env"}"#,
            ])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("the token is [SECRET:{name}], keep it")), "{text}");
        assert!(!text.contains("ghp_0123456789abcdef"), "{text}");
        assert!(!text.contains(&format!("{name}=")), "the variable reached the cell: {text}");
        let exported = fixture.run(&["audit", "export"]).stdout;
        assert!(exported.contains(&format!("[SECRET:{name}]")), "{exported}");
        assert!(!exported.contains("ghp_0123456789abcdef"), "{exported}");
    }
}

#[test]
fn cargo_and_npm_in_the_cell_do_not_wait_for_a_network() {
    let fixture = Fixture::new().without_hosts();
    let output = fixture.data(
        "shell_execute",
        json!({"command": "echo $CARGO_NET_OFFLINE $npm_config_fetch_retries; npm config get fetch-retries"}),
    );
    let said = output["stdout"].as_str().unwrap();
    let expected = if output["exit_code"] == 127 { "true 0\n" } else { "true 0\n0\n" };
    assert_eq!(said, expected, "{output:#}");
}

#[test]
fn a_command_that_fails_for_want_of_a_network_is_told_that_there_is_none() {
    let fixture = Fixture::new().without_hosts();
    let warnings = |command: &str| {
        let result = fixture.call("shell_execute", json!({"command": command}));
        assert_ne!(result["data"]["exit_code"], 0, "{result:#}");
        result["meta"]["warnings"].to_string()
    };
    for command in [
        "git ls-remote https://example.com/x.git",
        "python3 -c 'import socket; socket.create_connection((\"example.com\", 80))'",
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'",
    ] {
        let told = warnings(command);
        assert!(told.contains("no network"), "{command}: {told}");
    }
    // The controls: another failure, and a server of the session that is not running.
    for command in ["ls missing", "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'"]
    {
        assert!(!warnings(command).contains("no network"), "{command}");
    }
}
