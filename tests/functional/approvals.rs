//! Approvals that outlive the call: asked in one process, answered in another, used in a third.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Fixture, Run, unread};

fn call(fixture: &Fixture, tool: &str, arguments: &Value) -> Value {
    fixture.run(&["call", tool, &arguments.to_string()]).json()
}

/// Makes a call that waits for an approval, and returns the id of the approval.
#[track_caller]
fn asked(fixture: &Fixture, tool: &str, arguments: &Value) -> String {
    let result = call(fixture, tool, arguments);
    assert_eq!(result["error"]["code"], "EAPPROVAL", "{result:#}");
    result["error"]["approval_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn works(run: &Run) {
    assert_eq!(run.code, 0, "{}", run.stderr);
}

fn state(fixture: &Fixture, id: &str) -> String {
    fixture.run(&["approvals", "show", id, "--json"]).json()["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_that_nobody_could_approve_passes_once_when_it_is_approved_later() {
    let fixture = Fixture::new().asking();
    let write = json!({"path": "a.txt", "content": "one\n"});
    let id = asked(&fixture, "file_write", &write);
    assert_eq!(asked(&fixture, "file_write", &write), id, "one plan is asked about once");
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&json!(id), &json!("waiting")));
    assert!(fixture.run(&["approvals"]).stdout.contains(&id[id.len() - 8..]), "in a pipe it lists");

    works(&fixture.run(&["approvals", "approve", &id]));
    let other = json!({"path": "a.txt", "content": "two\n"});
    assert_ne!(asked(&fixture, "file_write", &other), id, "other arguments are another question");
    let result = call(&fixture, "file_write", &write);
    assert_eq!(result["ok"], true, "{result:#}");
    assert_eq!(result["meta"]["approved_by"], "the user, with handfast approvals");
    assert_eq!(fixture.read("a.txt"), "one\n");
    assert_eq!(state(&fixture, &id), "used");
    assert_ne!(asked(&fixture, "file_write", &write), id, "once was once");

    let again = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("used already"), "{}", again.stderr);
    assert_eq!(fixture.run(&["approvals", "approve", "nothing"]).code, 2);
    for what in ["approval_ask", "approval_answer", "approval_use"] {
        let audit = fixture.run(&["audit", "list", "--tool", what, "--json"]).stdout;
        assert!(audit.contains(&id), "{what}: {audit}");
    }
    works(&fixture.run(&["audit", "verify"]));
}

#[test]
fn a_no_reaches_the_agent_with_its_message_and_once() {
    let fixture = Fixture::new().asking();
    let write = json!({"path": "a.txt", "content": "one\n"});
    let id = asked(&fixture, "file_write", &write);
    works(&fixture.run(&["approvals", "deny", &id[..14], "--message", "use b.txt"]));
    let result = call(&fixture, "file_write", &write);
    assert_eq!(result["error"]["code"], "EPERMISSION", "{result:#}");
    assert!(result["error"]["message"].as_str().unwrap().contains("use b.txt"), "{result:#}");
    asked(&fixture, "file_write", &write);
}

#[test]
fn what_is_allowed_for_the_project_passes_until_it_is_taken_back_or_its_script_changes() {
    let fixture = Fixture::with_files(&[("build.sh", "echo built\n")]).asking();
    let build = json!({"command": "sh ./build.sh"});
    let id = asked(&fixture, "shell_execute", &build);
    let preview = fixture.run(&["approvals", "approve", &id, "--scope", "project", "--preview"]);
    assert!(
        preview.stdout.contains("30 days") && preview.stdout.contains("sh ./build.sh"),
        "{}",
        preview.stdout
    );
    assert_eq!(state(&fixture, &id), "waiting", "a preview answers nothing");
    works(&fixture.run(&["approvals", "approve", &id, "--scope", "project"]));
    for _ in 0..2 {
        let result = call(&fixture, "shell_execute", &build);
        assert_eq!(result["data"]["stdout"], "built\n", "{result:#}");
    }
    asked(&fixture, "shell_execute", &json!({"command": "sh ./build.sh --all"}));
    fixture.write("build.sh", "echo something else\n");
    asked(&fixture, "shell_execute", &build);
    fixture.write("build.sh", "echo built\n");
    assert_eq!(call(&fixture, "shell_execute", &build)["ok"], true);
    let leases = fixture.run(&["approvals", "leases", "--json"]).json();
    let lease = leases[0]["id"].as_str().unwrap();
    works(&fixture.run(&["approvals", "revoke", lease]));
    asked(&fixture, "shell_execute", &build);
    assert_eq!(fixture.run(&["approvals", "revoke", lease]).code, 2);
}

#[test]
fn an_approval_is_void_when_the_script_is_another_by_then() {
    let fixture = Fixture::with_files(&[("build.sh", "echo built\n")]).asking();
    let build = json!({"command": "sh ./build.sh"});
    let id = asked(&fixture, "shell_execute", &build);
    works(&fixture.run(&["approvals", "approve", &id]));
    fixture.write("build.sh", "rm -rf .\n");
    let result = call(&fixture, "shell_execute", &build);
    assert_eq!(result["error"]["code"], "EPERMISSION", "{result:#}");
    assert!(result["error"]["message"].as_str().unwrap().contains("build.sh"), "{result:#}");
    assert_eq!(state(&fixture, &id), "expired");
    fixture.write("build.sh", "echo built\n");
    asked(&fixture, "shell_execute", &build);
}

#[test]
fn an_approval_is_bound_to_code_however_the_line_names_it() {
    for (line, file) in [
        ("sh < build.sh", "build.sh"),
        ("cat build.sh | sh", "build.sh"),
        ("cd deep && sh build.sh", "deep/build.sh"),
        ("python3 -m tasks", "tasks.py"),
        ("python3 package/", "package/__main__.py"),
        ("node package/", "package/index.js"),
        ("sed -f edit.sed build.sh", "edit.sed"),
        ("make -C deep", "deep/Makefile"),
    ] {
        let fixture = Fixture::with_files(&[("build.sh", ""), ("deep/x", ""), ("package/x", "")]).asking();
        fixture.write(file, "# as approved\n");
        let run = json!({ "command": line });
        let id = asked(&fixture, "shell_execute", &run);
        works(&fixture.run(&["approvals", "approve", &id]));
        fixture.write(file, "# another\n");
        let result = call(&fixture, "shell_execute", &run);
        assert_eq!(result["error"]["code"], "EPERMISSION", "{line}: {result:#}");
        assert!(result["error"]["message"].as_str().unwrap().contains(file), "{line}: {result:#}");
        assert_eq!(state(&fixture, &id), "expired", "{line}");
    }
}

#[test]
fn a_leased_folder_outside_is_read_by_file_tools_and_commands_and_by_nothing_else() {
    let fixture = Fixture::new().asking();
    let outside = fixture.outside().join("data");
    std::fs::create_dir(&outside).unwrap();
    for (name, content) in [("x.txt", "found\n"), (".env", "SECRET=1\n")] {
        std::fs::write(outside.join(name), content).unwrap();
    }
    let path = |name: &str| outside.join(name).display().to_string();
    let read = json!({"path": path("x.txt")});
    let cat = json!({"command": format!("cat {}", path("x.txt"))});
    let id = asked(&fixture, "file_read", &read);
    asked(&fixture, "shell_execute", &cat);
    let preview = fixture.run(&["approvals", "approve", &id, "--scope", "project", "--preview"]);
    assert!(
        preview.stdout.contains(&format!("reading everything in {}", outside.display())),
        "{}",
        preview.stdout
    );
    works(&fixture.run(&["approvals", "approve", &id, "--scope", "project", "--ttl", "1h"]));
    assert_eq!(call(&fixture, "file_read", &read)["data"]["content"], "found\n");
    let result = call(&fixture, "shell_execute", &cat);
    assert_eq!(result["data"]["stdout"], "found\n", "the cell shows it too: {result:#}");
    assert!(result["meta"]["rule"].is_string());

    assert_eq!(call(&fixture, "file_read", &json!({"path": path(".env")}))["error"]["code"], "EPERMISSION");
    let writes = unread(&format!("echo x > {}; cat {}", path("new"), path(".env")));
    let result = fixture.call("shell_execute", json!({"command": writes}));
    assert_eq!(result["data"]["stdout"], "", "{result:#}");
    assert!(!outside.join("new").exists());
    asked(&fixture, "file_write", &json!({"path": path("new"), "content": ""}));
    // The approval does not hold for another workspace.
    let other = Fixture::new().asking();
    let run = std::process::Command::new(crate::harness::program())
        .args(["--workspace".as_ref(), other.workspace().as_os_str()])
        .args(["--state".as_ref(), fixture.state().as_os_str()])
        .args(["--no-input", "call", "file_read", &read.to_string()])
        .env_clear()
        .env("HOME", other.home())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(4), "{}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn a_script_that_nobody_understands_is_allowed_once_and_in_no_other_way() {
    let fixture = Fixture::new().asking();
    // The policy does not read loops of this kind, so it cannot name the commands in them.
    let run = json!({"command": "for ((i = 0; i < 2; i++)); do echo $i; done"});
    let id = asked(&fixture, "shell_execute", &run);
    for more in
        [&["--scope", "session"][..], &["--scope", "project"], &["--scope", "always", "--pattern", "echo"]]
    {
        let wider = fixture.run(&[&["approvals", "approve", id.as_str()][..], more].concat());
        assert_eq!(wider.code, 2, "{more:?}: {}", wider.stderr);
        assert!(wider.stderr.contains("The programs that run cannot be determined"), "{}", wider.stderr);
    }
    works(&fixture.run(&["approvals", "approve", &id]));
    assert_eq!(call(&fixture, "shell_execute", &run)["data"]["stdout"], "0\n1\n");
    asked(&fixture, "shell_execute", &run);
}

#[test]
fn what_may_only_be_allowed_once_is_and_no_pattern_is_for_an_interpreter() {
    let fixture = Fixture::new().asking();
    let hook = asked(&fixture, "file_write", &json!({"path": ".envrc", "content": "x"}));
    for scope in ["session", "project", "always"] {
        let run = fixture.run(&["approvals", "approve", &hook, "--scope", scope]);
        assert_eq!(run.code, 2, "{scope}");
        assert!(run.stderr.contains("only be allowed once"), "{}", run.stderr);
    }
    let push = asked(&fixture, "shell_execute", &json!({"command": "git push"}));
    for pattern in ["git push", "git", "bash", "python3", "npm run", "/bin/sh", "env", "x; y"] {
        let run = fixture.run(&["approvals", "approve", &push, "--scope", "always", "--pattern", pattern]);
        assert_eq!(run.code, 2, "{pattern}");
        assert!(run.stderr.contains("cannot be allowed"), "{}", run.stderr);
    }
    assert_eq!(fixture.run(&["approvals", "approve", &push, "--scope", "always"]).code, 2);
    let wrong =
        [["--ttl", "0s"], ["--ttl", "91d"], ["--ttl", "soon"], ["--scope", "ever"], ["--pattern", "hugo"]];
    for wrong in wrong {
        assert_eq!(
            fixture.run(&[&["approvals", "approve", push.as_str()][..], &wrong].concat()).code,
            2,
            "{wrong:?}"
        );
    }
    assert_eq!(state(&fixture, &push), "waiting");
}

#[test]
fn changes_that_are_held_go_in_by_approving_the_question_about_them() {
    let fixture = Fixture::new().asking();
    let run = |command: &str| {
        let arguments = json!({"command": unread(command)}).to_string();
        fixture.run(&["--mode", "full_auto", "call", "shell_execute", &arguments]).json()
    };
    let result = run("echo x > .envrc; echo y > other");
    let id = result["error"]["approval_id"].as_str().unwrap().to_owned();
    assert!(result["error"]["hint"].as_str().unwrap().contains("approvals approve"), "{result:#}");
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains(".envrc") && shown.contains(" changes show "), "{shown}");
    works(&fixture.run(&["approvals", "approve", &id]));
    assert_eq!((fixture.read(".envrc"), fixture.read("other")), ("x\n".to_owned(), "y\n".to_owned()));
    assert_eq!(state(&fixture, &id), "used");
    assert_eq!(fixture.run(&["changes", "list", "--json"]).json(), json!([]));

    // In the reverse order, applying the changes answers the question.
    let result = run("echo z > .envrc");
    let id = result["error"]["approval_id"].as_str().unwrap().to_owned();
    works(&fixture.run(&["changes", "apply", result["meta"]["changes"]["id"].as_str().unwrap()]));
    assert_eq!(state(&fixture, &id), "used");
    // A denial leaves the changes aside.
    let result = run("echo no > .envrc");
    let id = result["error"]["approval_id"].as_str().unwrap().to_owned();
    let denied = fixture.run(&["approvals", "deny", &id]);
    assert!(denied.stderr.contains(" changes discard "), "{}", denied.stderr);
    assert_eq!(fixture.read(".envrc"), "z\n");
}

/// Returns the result of calling the command in this mode.
fn run(fixture: &Fixture, mode: &str, command: &str) -> Value {
    let arguments = json!({ "command": command }).to_string();
    fixture.run(&["--mode", mode, "call", "shell_execute", &arguments]).json()
}

#[test]
fn a_yes_to_a_command_covers_the_file_that_its_question_named() {
    for mode in ["ask_always", "smart_auto", "full_auto"] {
        for (command, path, content) in [
            ("echo x > .envrc", ".envrc", "x\n"),
            ("cat plain | tee .mcp.json", ".mcp.json", "plain\n"),
            ("cp plain .vscode/tasks.json", ".vscode/tasks.json", "plain\n"),
            ("ln -s plain .envrc", ".envrc", "plain\n"),
            ("ln plain .mcp.json", ".mcp.json", "plain\n"),
            ("cd sub && printf x >> .envrc", "sub/.envrc", "oldx"),
            ("mkdir -p .git/hooks && echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit", "x\n"),
            ("sh -c 'echo x > .envrc' && echo y > .mcp.json", ".mcp.json", "y\n"),
        ] {
            let files = [
                ("plain", "plain\n"),
                (".vscode/a", ""),
                ("sub/.envrc", "old"),
                (".git/HEAD", "ref: refs/heads/main\n"),
            ];
            let fixture = Fixture::with_files(&files).asking();
            let first = run(&fixture, mode, command);
            assert_eq!(first["error"]["code"], "EAPPROVAL", "{mode} {command}: {first:#}");
            works(&fixture.run(&["approvals", "approve", first["error"]["approval_id"].as_str().unwrap()]));
            let again = run(&fixture, mode, command);
            assert_eq!(again["ok"], true, "{mode} {command}: {again:#}");
            assert_eq!(fixture.read(path), content, "{mode} {command}");
            let questions = fixture.run(&["approvals", "list", "--all", "--json"]).json();
            assert_eq!(questions.as_array().unwrap().len(), 1, "{mode} {command}: {questions:#}");
            assert_eq!(fixture.run(&["changes", "list", "--json"]).json(), json!([]), "{mode} {command}");
        }
    }
}

#[test]
fn a_yes_covers_no_file_that_was_not_named_and_no_content_that_was_not_bound() {
    let files = [("plain", "plain\n"), ("tree/tasks.json", "{}"), ("gen.sh", "echo x > .mcp.json\n")];
    let approved = |command: &str, between: &dyn Fn(&Fixture)| {
        let fixture = Fixture::with_files(&files).asking();
        let id = run(&fixture, "ask_always", command)["error"]["approval_id"].as_str().unwrap().to_owned();
        works(&fixture.run(&["approvals", "approve", &id]));
        between(&fixture);
        let result = run(&fixture, "ask_always", command);
        (fixture, result)
    };
    // A second file that the line does not name, and a tree whose content no approval binds.
    for (command, path) in [
        ("echo x > .envrc; sh gen.sh", ".mcp.json"),
        ("cp -r tree .vscode", ".vscode/tasks.json"),
        ("ln -s tree .vscode", ".vscode"),
        // A folder that is a link would make the kernel find another file than the one that was bound.
        ("cp tree/../plain .envrc", ".envrc"),
        ("head -n 1 < tree/../plain > .envrc", ".envrc"),
        ("cd tree && cp ../plain ../.envrc", ".envrc"),
        ("mkdir -p .vscode && ln -s ../plain .vscode/tasks.json", ".vscode/tasks.json"),
    ] {
        let (fixture, result) = approved(command, &|_| ());
        assert_eq!(result["error"]["code"], "EAPPROVAL", "{command}: {result:#}");
        assert!(result["error"]["message"].as_str().unwrap().contains("has run"), "{command}: {result:#}");
        assert!(!fixture.workspace().join(path).exists(), "{command}");
    }
    // The file to copy, or to link to, changed after the approval.
    for command in ["cp plain .envrc", "ln -s plain .envrc", "ln plain .envrc"] {
        let (fixture, result) = approved(command, &|fixture| fixture.write("plain", "evil\n"));
        assert_eq!(result["error"]["code"], "EPERMISSION", "{command}: {result:#}");
        assert!(result["error"]["message"].as_str().unwrap().contains("plain has changed"), "{result:#}");
        assert_eq!(result["error"]["retry"], "now", "made again it is asked about as it is now: {result:#}");
        assert!(!fixture.workspace().join(".envrc").exists(), "{command}");
    }
}

#[test]
fn an_open_question_says_when_to_come_again_and_a_held_change_that_there_is_no_need_to() {
    let fixture = Fixture::new().asking();
    let open = call(&fixture, "file_write", &json!({"path": "a", "content": "x"}));
    assert!(open["error"]["retry"]["after_ms"].is_u64(), "{open:#}");
    let state = fixture.state().canonicalize().unwrap();
    let command = format!(
        "`handfast --state {} approvals approve {}`",
        state.display(),
        open["error"]["approval_id"].as_str().unwrap()
    );
    assert!(open["error"]["hint"].as_str().unwrap().contains(&command), "{open:#}");
    let arguments = json!({"command": unread("echo x > .envrc")}).to_string();
    let held = fixture.run(&["--mode", "full_auto", "call", "shell_execute", &arguments]).json();
    assert_eq!(held["error"]["retry"], "never", "{held:#}");
    assert!(held["error"]["hint"].as_str().unwrap().contains("do not repeat the call"), "{held:#}");
    // The next call reports the denial, and must not be retried.
    works(&fixture.run(&["approvals", "deny", open["error"]["approval_id"].as_str().unwrap()]));
    let denied = call(&fixture, "file_write", &json!({"path": "a", "content": "x"}));
    assert_eq!(
        (&denied["error"]["code"], &denied["error"]["retry"]),
        (&json!("EPERMISSION"), &json!("never"))
    );
}

#[test]
fn a_question_whose_caller_is_gone_is_said_to_be_one() {
    let fixture = Fixture::new().asking();
    let id = asked(&fixture, "file_write", &json!({"path": "a", "content": "x"}));
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("call ended") && shown.contains("when it is made again"), "{shown}");
    let listed = fixture.run(&["approvals", "list"]).stdout;
    assert!(listed.contains("call ended"), "{listed}");
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    assert_eq!((&listed[0]["state"], &listed[0]["caller_waits"]), (&json!("waiting"), &json!(false)));
    let approved = fixture.run(&["approvals", "approve", &id]);
    assert!(
        approved.stderr.contains("the same call passes once when it is made again"),
        "{}",
        approved.stderr
    );
}

#[test]
fn a_question_shows_the_difference_that_a_write_makes_and_the_command_as_it_was_read() {
    let fixture = Fixture::with_files(&[("a.txt", "one\ntwo\n")]).asking();
    let id = asked(&fixture, "file_write", &json!({"path": "a.txt", "content": "one\n2\n"}));
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("    -two\n    +2\n"), "{shown}");
    let id = asked(&fixture, "shell_execute", &json!({"command": "cd sub && r''m x"}));
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("parsed, it runs:\n      cd sub\n      rm x\n"), "{shown}");
}

#[test]
fn who_answers_for_the_user_is_said_by_the_user_alone() {
    let fixture = Fixture::with_files(&[("handfast.yaml", "elicitation: trusted\n")]).asking();
    works(&fixture.run(&["trust"]));
    let warned = fixture.run(&["call", "file_list", r#"{"path": "."}"#]);
    assert!(warned.stderr.contains("`elicitation` is ignored"), "{}", warned.stderr);
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    fixture.write("handfast.yaml", "");
    for (said, code) in [("trusted", 0), ("off", 0), ("always", 2)] {
        std::fs::write(folder.join("config.yaml"), format!("elicitation: {said}\n")).unwrap();
        assert_eq!(fixture.run(&["call", "file_list", r#"{"path": "."}"#]).code, code, "{said}");
    }
}

#[test]
fn a_wider_answer_is_suggested_after_three_of_a_kind() {
    let fixture = Fixture::new().asking();
    for turn in 0..4 {
        let write = json!({"path": format!("docs/{turn}.txt"), "content": ""});
        let id = asked(&fixture, "file_write", &write);
        let shown = fixture.run(&["approvals", "show", &id]).stdout;
        assert_eq!(shown.contains("allowed 3 times"), turn == 3, "{turn}: {shown}");
        works(&fixture.run(&["approvals", "approve", &id]));
        assert_eq!(call(&fixture, "file_write", &write)["ok"], true);
    }
    // The suggested pattern covers edits as well as writes, and no other folder.
    let id = asked(&fixture, "file_write", &json!({"path": "docs/a.md", "content": ""}));
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(
        shown.contains(
            "`--scope project --pattern './docs/**'` would cover writing any content to every file"
        ),
        "{shown}"
    );
    fixture.write("docs/0.txt", "x");
    let edit = json!({"path": "docs/0.txt", "edits": [{"old_text": "x", "new_text": "y"}]});
    asked(&fixture, "file_edit", &edit);
    works(&fixture.run(&["approvals", "approve", &id, "--scope", "project", "--pattern", "./docs/**"]));
    assert_eq!(call(&fixture, "file_edit", &edit)["ok"], true);
    let result = call(&fixture, "file_write", &json!({"path": "docs/b.md", "content": "", "backup": false}));
    assert_eq!(result["ok"], true, "{result:#}");
    assert!(result["meta"]["rule"].as_str().unwrap().contains("lease"), "{result:#}");
    asked(&fixture, "file_write", &json!({"path": "src/b.md", "content": ""}));
    assert!(Path::new(&fixture.workspace()).join("docs/b.md").exists());
}
