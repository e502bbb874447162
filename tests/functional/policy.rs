//! `handfast policy` and `handfast check`: the origin of rules, their examples, and the changes
//! that would make a call pass.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, program, unread};

const RULES: &str = "\
mode: smart_auto
sandbox_config:
  normal:
    deny_exec_command:
      - {rule: git push, match: [git push origin], not_match: [git pull]}
    deny_write_paths:
      - \"*.lock\"
    allowed_write_paths: [./src]
    limits:
      cpus: 2
  tight:
    inherit: normal
    deny_tools: [file_delete]
";

fn user_configuration(fixture: &Fixture, content: &str) {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), content).unwrap();
}

fn entries(shown: &Value, key: &str) -> Vec<Value> {
    let rules = shown["rules"].as_array().unwrap();
    rules.iter().filter(|rule| rule["key"] == key).cloned().collect()
}

#[test]
fn show_names_the_origin_of_every_entry() {
    let fixture = Fixture::with_files(&[(
        "handfast.yaml",
        "sandbox_config:\n  normal:\n    deny_read_paths: [notes]\n    allowed_hosts: [a.org, b.org]\n",
    )]);
    user_configuration(&fixture, RULES);
    let user = fixture.home().join(".config/handfast/config.yaml");
    let shown = fixture.run(&["policy", "show", "--json"]).json();
    assert_eq!(shown["mode"], "smart_auto");
    let lock = &entries(&shown, "deny_write_paths")[0];
    assert_eq!(lock["origin"], json!({"layer": "user", "file": user, "line": 7}), "{lock}");
    assert_eq!(entries(&shown, "mode")[0]["origin"]["line"], 1);
    assert_eq!(entries(&shown, "cpus")[0]["entry"], "2");
    assert_eq!(entries(&shown, "cpus")[0]["origin"]["line"], 10);
    let reads = entries(&shown, "deny_read_paths");
    assert_eq!(reads.len(), 7, "six are built in: {reads:#?}");
    assert_eq!(reads[6]["origin"]["layer"], "workspace");
    for narrowing in entries(&shown, "allowed_hosts") {
        assert_eq!(narrowing["note"], "can only narrow: the file is not trusted", "{narrowing}");
    }
    assert_eq!(entries(&shown, "allowed_hosts").len(), 2);

    let text = fixture.run(&["--profile", "tight", "policy"]).stdout;
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(
        line("deny_tools").contains("file_delete") && line("deny_tools").contains("config.yaml:13"),
        "{text}"
    );
    assert!(line("allowed_write_paths").ends_with("inherited"), "{text}");
    assert!(line("inherit").contains("config.yaml:12"), "{text}");
    assert_eq!(line("deny_exec_command"), "", "deny lists are not inherited: {text}");
}

#[test]
fn examples_are_tried_at_every_start_and_by_policy_test() {
    let fixture = Fixture::new();
    user_configuration(&fixture, RULES);
    let tested = fixture.run(&["policy", "test"]);
    assert_eq!(tested.code, 0, "{}", tested.stderr);
    assert!(tested.stderr.contains("all 2 examples hold"), "{}", tested.stderr);
    assert_eq!(tested.stdout.lines().count(), 3, "{}", tested.stdout);

    user_configuration(&fixture, &RULES.replace("not_match: [git pull]", "not_match: [git push -f]"));
    let tested = fixture.run(&["policy", "test", "--json"]);
    assert_eq!(tested.code, 1);
    assert_eq!(tested.json()["examples"][1]["holds"], false, "{}", tested.stdout);
    let refused = fixture.run(&["call", "file_list", "{}"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    for part in ["config.yaml:5", "\"git push -f\"", "not_match"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[test]
fn a_rule_that_can_never_decide_is_warned_of_and_an_unknown_tool_is_refused() {
    let fixture = Fixture::new();
    user_configuration(
        &fixture,
        "sandbox_config:\n  normal:\n    allowed_exec_command:\n      - git push origin\n    deny_exec_command: [git push]\n",
    );
    let run = fixture.run(&["check", "file_list", r#"{"path": "."}"#]);
    assert_eq!(run.code, 0);
    assert!(
        run.stderr.contains("config.yaml:4") && run.stderr.contains("can never decide"),
        "{}",
        run.stderr
    );
    assert!(fixture.run(&["policy", "test", "--json"]).json()["never_decide"][0]["problem"].is_string());

    user_configuration(&fixture, "sandbox_config:\n  normal:\n    deny_tools: [file_reed]\n");
    let run = fixture.run(&["check", "file_list", r#"{"path": "."}"#]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("config.yaml:3") && run.stderr.contains("unknown tool"), "{}", run.stderr);
}

#[test]
fn what_check_says_would_make_a_call_pass_does() {
    for (tool, arguments) in [
        ("shell_execute", json!({"command": "ls && pathchk -p a | head"})),
        ("shell_execute", json!({"command": "echo x > out.txt"})),
        ("shell_execute", json!({"command": "cat /srv/data/x"})),
        ("shell_execute", json!({"command": "git commit -m x"})),
        ("file_write", json!({"path": "a b[1]$.txt", "content": ""})),
        ("file_read", json!({"path": "/srv/data/x"})),
    ] {
        let fixture = Fixture::new().asking();
        let check = || fixture.run(&["check", tool, &arguments.to_string()]).json();
        let before = check();
        assert_eq!(before["decision"], "check", "{before:#}");
        let mut lists = serde_json::Map::new();
        for entry in before["passes_with"].as_array().unwrap_or_else(|| panic!("{before:#}")) {
            let list = lists.entry(entry["key"].as_str().unwrap()).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(entry["entry"].clone());
        }
        user_configuration(&fixture, &json!({"sandbox_config": {"normal": lists}}).to_string());
        let after = check();
        assert_eq!(after["decision"], "pass", "{before:#}\n{after:#}");
        assert!(after["passes_with"].is_null());
    }
}

#[test]
fn check_names_the_command_of_the_line_that_is_asked_about() {
    let fixture = Fixture::new().asking();
    let arguments = json!({"command": "ls | head; touch x && git status"}).to_string();
    let checked = fixture.run(&["check", "shell_execute", &arguments]).json();
    assert_eq!(checked["part"], "touch x", "{checked:#}");
}

#[test]
fn ten_thousand_calls_are_checked_one_a_line_whatever_some_of_them_are() {
    let fixture = Fixture::new();
    let mut input = Vec::new();
    for number in 0..10_000 {
        match number {
            500 => input.extend_from_slice(b"{\"command\": \"ls \xff\"}\n"),
            600 => input.extend_from_slice(b"{\"command\": \n"),
            700 => input.extend_from_slice(b"no json\n"),
            800 => input.extend_from_slice(b"{\"comand\": \"ls\"}\n"),
            _ => input.extend_from_slice(format!("{{\"command\": \"ls a{number}\"}}\n").as_bytes()),
        }
    }
    let run = fixture.run_with_input(&["check", "shell_execute", "-"], &input);
    let answers: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The incomplete line may swallow at most one whole line.
    assert!((9_999..=10_000).contains(&answers.len()), "{}", answers.len());
    assert_eq!(run.code, 2);
    let passed = answers.iter().filter(|answer| answer["decision"] == "pass").count();
    let refused = answers.iter().filter(|answer| answer["error"]["code"] == "EVALIDATION").count();
    assert_eq!((passed + refused, refused), (answers.len(), 4), "{:?}", answers.get(500));
}

/// Runs the program with this content, owner and mode of `/etc/handfast/config.yaml`, in its own
/// mount namespace.
fn managed(fixture: &Fixture, content: &str, mode: &str, arguments: &[&str]) -> (i32, String, String) {
    let script = r#"
        set -e
        mount -t tmpfs none /etc
        mkdir /etc/handfast
        printf '%s' "$CONTENT" > /etc/handfast/config.yaml
        chmod "$MODE" /etc/handfast/config.yaml
        unset CONTENT MODE
        exec "$@""#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(program())
        .args(["--no-input", "--workspace"])
        .arg(fixture.workspace())
        .arg("--state")
        .arg(fixture.state())
        .args(arguments)
        .env("CONTENT", content)
        .env("MODE", mode)
        .env("HOME", fixture.home())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_administrators_configuration_beats_all_others() {
    let fixture = Fixture::new();
    user_configuration(
        &fixture,
        "mode: full_auto\nprofile: mine\nsandbox_config:\n  mine:\n    deny_read_paths: []\n    dangerous: ask\n",
    );
    let rules =
        "mode: smart_auto\nsandbox_config:\n  normal:\n    deny_read_paths: [private]\n    dangerous: deny\n";
    let ask = |tool: &str, arguments: Value, options: &[&str]| {
        let arguments = arguments.to_string();
        let all = [options, &["check", tool, &arguments]].concat();
        let (code, stdout, stderr) = managed(&fixture, rules, "644", &all);
        assert_eq!(code, 0, "{stdout}{stderr}");
        serde_json::from_str::<Value>(&stdout).unwrap()
    };
    let read = ask("file_read", json!({"path": "private/a"}), &[]);
    assert_eq!(read["decision"], "deny");
    assert!(read["rule"].as_str().unwrap().contains("/etc/handfast/config.yaml:4"), "{read:#}");
    let write = json!({"path": "a", "content": ""});
    assert_eq!(ask("file_write", write.clone(), &["--mode", "full_auto"])["decision"], "check");
    assert_eq!(ask("file_write", write.clone(), &["--mode", "ask_always"])["mode"], "ask_always");
    assert_eq!(ask("shell_execute", json!({"command": "rm -rf /"}), &[])["decision"], "deny");
    // The control: without that file, all of this passes or is asked about.
    let alone = |tool: &str, arguments: Value| fixture.run(&["check", tool, &arguments.to_string()]).json();
    assert_eq!(alone("file_read", json!({"path": "private/a"}))["decision"], "pass");
    assert_eq!(alone("file_write", write)["decision"], "pass");
    assert_eq!(alone("shell_execute", json!({"command": "rm -rf /"}))["decision"], "check");
}

#[test]
fn an_administrators_configuration_that_others_can_write_stops_the_program() {
    let fixture = Fixture::new();
    for mode in ["664", "646"] {
        let (code, stdout, stderr) =
            managed(&fixture, "mode: full_auto\n", mode, &["check", "file_list", r#"{"path": "."}"#]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{mode}");
        assert!(stderr.contains("must belong to root"), "{stderr}");
    }
    assert!(!Path::new("/etc/handfast/config.yaml").exists(), "these tests need a machine without one");
}

#[test]
fn what_the_tests_hide_from_the_policy_is_not_read_by_it() {
    let fixture = Fixture::new().asking();
    let decision = |line: &str| {
        let arguments = json!({"command": line}).to_string();
        fixture.run(&["check", "shell_execute", &arguments]).json()
    };
    // The control: the plain line passes as one that only reads.
    assert_eq!(decision("ls")["decision"], "pass");
    let hidden = decision(&unread("ls"));
    assert_eq!(hidden["decision"], "check", "tests that say `unread` prove nothing any more: {hidden:#}");
}

#[test]
fn a_line_at_which_a_parser_would_panic_is_asked_about_without_a_word_on_standard_error() {
    let fixture = Fixture::new();
    user_configuration(&fixture, "sandbox_config:\n  normal:\n    undoable: table\n");
    // The parser has no type for a descriptor of this number.
    let arguments = json!({"command": "ls 2147483648>x"}).to_string();
    let run = fixture.run(&["check", "shell_execute", &arguments]);
    assert_eq!(run.json()["decision"], "check", "{}", run.stdout);
    assert!(run.stdout.contains("it holds a number that no descriptor has"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
}
