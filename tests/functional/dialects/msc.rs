use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{call, decision, hold_to_the_contract, refuses};
use crate::harness::Fixture;
use crate::server::Server;

#[test]
fn every_schema_and_every_answer_is_that_of_the_contract() {
    hold_to_the_contract("msc", include_str!("../../../crates/dialects/contracts/msc.txt"));
}

#[test]
fn a_write_keeps_a_backup() {
    let fixture = Fixture::with_files(&[("a.txt", "old")]);
    let written = call(&fixture, "msc", "write_file", &json!({"path": "a.txt", "content": "new"})).json();
    assert_eq!(written["data"], json!({"path": "a.txt", "size_bytes": 3, "backed_up": true}));
    assert_eq!((fixture.read("a.txt"), fixture.read("a.txt.bak")), ("new".to_owned(), "old".to_owned()));
}

#[test]
fn a_diff_changes_the_file_that_the_call_names_and_no_other() {
    let fixture = Fixture::with_files(&[("src/a.txt", "one\n"), ("b.txt", "one\n")]);
    let apply =
        |diff: &str| call(&fixture, "msc", "apply_diff", &json!({"path": "src/a.txt", "diff": diff})).json();
    assert_eq!(apply("--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-one\n+two\n")["data"]["applied"], true);
    assert_eq!(apply("@@ -1 +1 @@\n-two\n+three\n")["data"]["applied"], true);
    for diff in [
        "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n",
        "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-three\n+four\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n",
        "diff --git a/src/a.txt b/c.txt\nsimilarity index 100%\nrename from src/a.txt\nrename to c.txt\n",
    ] {
        let refused = apply(diff);
        assert_eq!(refused["error"]["code"], "EVALIDATION", "{refused:#}");
        assert!(
            refused["error"]["message"].as_str().unwrap().starts_with("`diff`: it changes"),
            "{refused:#}"
        );
    }
    let stale = apply("@@ -1 +1 @@\n-one\n+two\n");
    assert_eq!(stale["error"]["code"], "ECONFLICT", "{stale:#}");
    assert_eq!(
        (fixture.read("src/a.txt"), fixture.read("b.txt")),
        ("three\n".to_owned(), "one\n".to_owned())
    );
}

#[test]
fn paths_decide_between_pass_check_and_deny() {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    allowed_write_paths: [\"./src\"]\n    deny_write_paths: [\"pyproject.toml\"]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    for (path, expected) in [("src/a", "pass"), ("doc/a", "check"), ("pyproject.toml", "deny")] {
        let arguments = json!({"path": path, "content": "x"});
        assert_eq!(decision(&fixture, &["--dialect", "msc"], "write_file", arguments), expected, "{path}");
    }
}

#[test]
fn execute_names_the_programs_that_commands_find() {
    let fixture = Fixture::new();
    let tools = fixture.run(&["tools", "--dialect", "msc", "--json"]).json();
    let execute = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "execute").unwrap();
    let (_, programs) = execute["description"].as_str().unwrap().split_once("that it finds: ").unwrap();
    let programs: Vec<&str> = programs.trim_end_matches('.').split(", ").collect();
    assert!(programs.contains(&"grep") && programs.contains(&"sed"), "{programs:?}");
    let command = format!("for p in {}; do command -v $p >/dev/null || echo $p; done", programs.join(" "));
    let missing = call(&fixture, "msc", "execute", &json!({ "command": command })).json();
    assert_eq!(missing["data"]["stdout"], "", "named, and not there: {missing:#}");
}

/// Returns the programs that commands find, according to the server.
fn programs(server: &mut Server) -> Vec<String> {
    let tools = server.tools();
    let execute = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "execute").unwrap();
    let first = execute["description"].as_str().unwrap().lines().next().unwrap();
    let (_, programs) = first.split_once("that it finds: ").unwrap();
    programs.trim_end_matches('.').split(", ").map(str::to_owned).collect()
}

#[test]
fn a_program_that_comes_or_goes_while_the_server_runs_is_in_the_next_list() {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".local/bin");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = fixture.command();
    let search_path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.env("PATH", search_path).args(["--dialect", "msc", "--mode", "full_auto"]);
    let mut server = Server::of(command);
    let runs = |server: &mut Server| server.data("execute", json!({"command": "ast-grep"}))["stdout"].clone();
    let described = |server: &mut Server| {
        let described = server.data("tool_describe", json!({"names": ["execute"]}));
        described["tools"][0]["description"].as_str().unwrap().to_owned()
    };
    let there = |programs: &[String]| programs.iter().any(|program| program == "ast-grep");
    let before = programs(&mut server);
    assert!(!there(&before) && before.iter().any(|program| program == "grep"), "{before:?}");
    let program = folder.join("ast-grep");
    std::fs::write(&program, "#!/bin/sh\necho found\n").unwrap();
    assert!(!there(&programs(&mut server)), "it cannot be run");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(there(&programs(&mut server)));
    assert!(described(&mut server).contains("ast-grep"), "whatever describes it");
    assert_eq!(runs(&mut server), "found\n");
    std::fs::remove_file(&program).unwrap();
    assert_eq!(programs(&mut server), before);
    assert!(!described(&mut server).contains("ast-grep"));
    assert_eq!(runs(&mut server), "");
    server.end();
}

#[test]
fn bad_input_is_refused_by_name() {
    refuses(
        "msc",
        &[
            ("write_file", json!({"path": "a.txt", "content": null}), "`content`"),
            (
                "write_file",
                json!({"path": "a.txt", "content": "x", "backup": false}),
                "'backup' was unexpected",
            ),
            ("apply_diff", json!({"path": "a.txt", "diff": "nothing"}), "`diff`"),
            ("apply_diff", json!({"path": "a.txt"}), "\"diff\" is a required property"),
            ("list_files", json!({"path": ".", "recursive": "yes"}), "`recursive`"),
            ("execute", json!({"command": "ls", "timeout": 5}), "'timeout' was unexpected"),
            ("execute", json!({"command": "ls", "cwd": "missing"}), "`cwd`"),
        ],
    );
}

#[test]
fn allowed_paths_are_those_that_pass_for_reading_and_writing() {
    let fixture = Fixture::with_files(&[("src/a", ""), ("doc/a", "")]);
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), "sandbox_config:\n  allowed_paths: [\"./src\"]\n").unwrap();
    for (path, expected) in [("src", "pass"), ("doc", "check")] {
        let read = decision(&fixture, &["--dialect", "msc"], "list_files", json!({ "path": path }));
        let arguments = json!({"path": format!("{path}/a"), "content": "x"});
        let write = decision(&fixture, &["--dialect", "msc"], "write_file", arguments);
        assert_eq!((read.as_str(), write.as_str()), (expected, expected), "{path}");
    }
}

#[test]
fn a_profile_that_is_bound_to_a_label_decides_where_the_provider_has_it_and_nowhere_else() {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let settings = "labels:\n  green-tea: green_tea\nsandbox_config:\n  green_tea:\n    inherit: normal\n    allowed_exec_command: [curl]\n";
    std::fs::write(folder.join("config.yaml"), settings).unwrap();
    let curl = json!({"command": "curl x.org"});
    assert_eq!(decision(&fixture, &["--dialect", "msc"], "execute", curl.clone()), "check");
    assert_eq!(
        decision(&fixture, &["--dialect", "msc", "--label", "green-tea"], "execute", curl.clone()),
        "pass"
    );
    for (options, named) in [
        (["--profile", "green_tea"], "bound to the label `green-tea`"),
        (["--label", "black-tea"], "no profile is bound to the label `black-tea`"),
    ] {
        let run = fixture.run(&[&options[..], &["check", "file_list", "{}"]].concat());
        assert!(run.code == 2 && run.stderr.contains(named), "{}", run.stderr);
    }
    // An untrusted workspace binds no label, neither to its own profile nor against the user.
    let untrusted = Fixture::with_files(&[("handfast.yaml", "labels:\n  x: normal\n")]);
    assert_eq!(decision(&untrusted, &[], "file_list", json!({"path": "."})), "pass");
}

/// Builds a fixture whose user has the source's own profile, with a read list.
fn with_a_read_list(files: &[(&str, &str)], more: &str) -> Fixture {
    let fixture = Fixture::with_files(files);
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = format!(
        "sandbox_config:\n  normal:\n    allowed_read_paths: [\"./src\", \"./tests\"]\n    allowed_write_paths: [\"./src\"]\n{more}"
    );
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    fixture
}

/// Each attempt has a control: the same line under the same lists, with a profile that shows
/// commands the workspace.
#[test]
fn commands_do_not_read_what_the_read_list_does_not_name() {
    let files = [
        ("src/a.py", "import sys; print(sum(ord(c) for c in open(sys.argv[1]).read()))"),
        ("src/all.sh", "cat docs/d.md README.md; cat docs/*/*; grep -r secret . ; cat src/link; true"),
        ("docs/d.md", "secret-1"),
        ("docs/deep/e.md", "secret-2"),
        ("README.md", "secret-3"),
        ("tests/t", "open-1"),
        ("Makefile", "all:\n\tsh src/all.sh\n"),
    ];
    for (more, hides) in [("", true), ("    commands_see: workspace\n", false)] {
        let fixture = with_a_read_list(&files, more);
        std::os::unix::fs::symlink("../docs/d.md", fixture.workspace().join("src/link")).unwrap();
        for command in ["sh src/all.sh", "make", "cat tests/t; : $((0)); sh src/all.sh"] {
            let answer = call(&fixture, "msc", "execute", &json!({"command": command})).json();
            let text = answer["data"].to_string();
            assert_eq!(text.contains("secret-"), !hides, "{command}: {answer:#}");
            assert!(!command.contains("tests") || text.contains("open-1"), "{answer:#}");
        }
        // A command sees an approved file under its name, and no other hidden file.
        let answer = call(&fixture, "msc", "execute", &json!({"command": "cat docs/d.md"})).json();
        assert_eq!(answer["data"]["stdout"], "secret-1", "{answer:#}");
        // The hidden files are unchanged.
        let written = call(&fixture, "msc", "execute", &json!({"command": "echo x > src/new; ls"})).json();
        assert_eq!(written["data"]["exit_code"], 0, "{written:#}");
        assert_eq!((fixture.read("docs/d.md"), fixture.read("src/new")), ("secret-1".into(), "x\n".into()));
    }
}

#[test]
fn git_sees_the_work_tree_where_it_is_listed() {
    let more = "    allowed_exec_command: [\"git\"]\n";
    let fixture = with_a_read_list(&[("docs/d.md", "d"), ("src/a", "a")], more);
    let git = |line: &str| call(&fixture, "msc", "execute", &json!({"command": line})).json();
    git("git init -q");
    git("git add -A");
    let commit = git("git -c user.name=a -c user.email=a@b.c commit -q -m all");
    assert_eq!(commit["data"]["exit_code"], 0, "{commit:#}");
    let status = git("git status --porcelain");
    assert_eq!(
        (&status["data"]["exit_code"], &status["data"]["stdout"]),
        (&json!(0), &json!("")),
        "{status:#}"
    );
}

/// The `sandbox_config` of the source, copied verbatim.
const VERBATIM: &str = r#"sandbox_config:
  # 标准策略：适用于大多数 subagent
  normal:
    allowed_read_paths:
      - "./src"
      - "./tests"
    allowed_write_paths:
      - "./src"
    deny_read_paths:
      - ".env"
      - "**/*.key"
    deny_write_paths:
      - "pyproject.toml"
    allowed_exec_command:
      - "pnpm"
      - "pytest"
      - "ruff"
      - "mypy"
      - "uv sync"
    deny_exec_command:
      - "git rm"
      - "rm -rf *"

  # 绿茶策略：仅适用于具备 green-tea 标签的受信任 Provider
  # 可以额外补充但自动继承 normal 的 allowed 配置，但拥有独立的 deny 配置
  green_tea:
    inherit: "normal"
    allowed_read_paths:
      - "$HOME/.msc"  # 自动授权访问全局配置
    deny_read_paths: [] # 绿茶模式下允许读取敏感配置进行管理
    allowed_exec_command:
      - "git"
      - "curl"
"#;

#[test]
fn the_file_of_the_source_works_as_it_stands() {
    for trusted_workspace in [false, true] {
        let fixture = Fixture::with_files(&[("src/a", "a")]);
        if trusted_workspace {
            fixture.write("handfast.yaml", VERBATIM);
            assert_eq!(fixture.run(&["trust"]).code, 0);
        } else {
            let folder = fixture.home().join(".config/handfast");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("config.yaml"), VERBATIM).unwrap();
        }
        let msc = ["--dialect", "msc"];
        let labelled = ["--dialect", "msc", "--label", "green-tea"];
        for (options, command, expected) in [
            (&labelled[..], "git status", "pass"),
            (&labelled[..], "git rm x", "pass"),
            (&labelled[..], "cat src/a", "pass"),
            (&msc[..], "git status", "check"),
            (&msc[..], "git rm x", "deny"),
        ] {
            let decided = decision(&fixture, options, "execute", json!({"command": command}));
            assert_eq!(decided, expected, "{options:?} {command}");
        }
        // The profile is for providers with the label, and closed to all others.
        let run = fixture.run(&["--profile", "green_tea", "check", "execute", r#"{"command": "ls"}"#]);
        assert!(run.code == 2 && run.stderr.contains("bound to the label `green-tea`"), "{}", run.stderr);
        let run = fixture.run(&["--label", "black-tea", "check", "file_list", "{}"]);
        assert!(run.code == 2 && run.stderr.contains("no profile is bound"), "{}", run.stderr);
    }
}
