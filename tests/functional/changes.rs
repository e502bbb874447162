//! Changes of a command: they reach the workspace when the command has ended, all of them or none.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::harness::{Fixture, Run, eventually, unread};

/// Runs a command that no rule asks about, with nobody to approve its changes.
fn execute(fixture: &Fixture, arguments: Value) -> Value {
    run(fixture, &arguments).json()
}

fn run(fixture: &Fixture, arguments: &Value) -> Run {
    fixture.run(&["--mode", "full_auto", "call", "shell_execute", &arguments.to_string()])
}

#[track_caller]
fn committed(fixture: &Fixture, command: &str) -> Value {
    let result = execute(fixture, json!({ "command": command }));
    assert_eq!(result["ok"], true, "{result:#}");
    assert_eq!(result["data"]["exit_code"], 0, "{result:#}");
    result
}

fn kept_ids(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.run(&["changes", "list", "--json"]).json();
    listed.as_array().unwrap().iter().map(|kept| kept["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn everything_that_a_command_changes_arrives_as_it_left_it() {
    let fixture =
        Fixture::with_files(&[("a", "a\n"), ("gone", ""), ("d/one", "1"), ("d/two", "2"), ("e/x", "x")]);
    let workspace = fixture.workspace();
    symlink("a", workspace.join("link")).unwrap();
    let result = committed(
        &fixture,
        "echo more >> a; rm gone; mkdir -p new/deep; echo 1 > new/deep/f; chmod 640 new/deep/f; ln new/deep/f new/twin; \
         ln -sfn e link; rm -r d; mkdir d; echo 3 > d/three; mv e moved; mkfifo pipe; touch -d @1000 old; chmod 700 moved",
    );
    assert_eq!(result["meta"]["changes"]["state"], "committed");
    assert!(
        result["meta"]["sandbox"].as_array().unwrap().contains(&json!("workspace:overlay")),
        "{result:#}"
    );
    assert_eq!(fixture.read("a"), "a\nmore\n");
    assert!(!workspace.join("gone").exists() && !workspace.join("e").exists());
    let file = fs::metadata(workspace.join("new/deep/f")).unwrap();
    assert_eq!((file.permissions().mode() & 0o7777, file.nlink()), (0o640, 2));
    assert_eq!(file.ino(), fs::metadata(workspace.join("new/twin")).unwrap().ino());
    assert_eq!(fs::read_link(workspace.join("link")).unwrap().to_str(), Some("e"));
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(workspace.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names("d"), ["three"]);
    assert_eq!(fixture.read("moved/x"), "x");
    assert_eq!(fs::metadata(workspace.join("moved")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(workspace.join("old")).unwrap().mtime(), 1000);
    let owner = fs::metadata(&workspace).unwrap().uid();
    assert!(
        ["a", "new", "new/deep/f", "pipe"]
            .iter()
            .all(|name| { fs::symlink_metadata(workspace.join(name)).unwrap().uid() == owner })
    );
    // The call left nothing outside the workspace.
    let left = fs::read_dir(fixture.state().join("changes")).unwrap();
    assert_eq!(left.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count(), 0);
    let untouched = committed(&fixture, "cat a");
    assert!(untouched["meta"].get("changes").is_none(), "{untouched:#}");
}

#[test]
fn a_folder_that_only_a_move_in_one_step_would_rename_is_explained() {
    let fixture = Fixture::with_files(&[("d/x", "x")]);
    let result = execute(&fixture, json!({"command": "python3 -c 'import os; os.rename(\"d\", \"e\")'"}));
    let warnings = result["meta"]["warnings"].to_string();
    assert!(warnings.contains("`mv` copies it") && warnings.contains("file_move"), "{result:#}");
    committed(&fixture, "mv d e");
    assert_eq!(fixture.read("e/x"), "x");
}

#[test]
fn a_change_made_right_before_a_command_is_no_conflict_with_it() {
    let fixture = Fixture::new();
    for turn in 0..10 {
        fixture.write("a", &format!("{turn}\n"));
        committed(&fixture, "echo mine >> a");
        assert_eq!(fixture.read("a"), format!("{turn}\nmine\n"));
    }
}

#[test]
fn what_others_change_meanwhile_keeps_all_of_a_commands_changes_out_until_somebody_decides() {
    let fixture = Fixture::with_files(&[("a", "a\n"), ("signs/begun", "")]);
    let (workspace, changes) = (fixture.workspace(), fixture.state().join("changes"));
    let other = std::thread::spawn(move || {
        // The command signals by its first change that it has begun, and then waits for `signs/go`.
        // A cell shows the current content of a folder that the command does not change.
        let begun = || {
            let calls = fs::read_dir(&changes).into_iter().flatten().flatten();
            calls.map(|call| call.path()).any(|call| call.join("upper/seen").exists())
        };
        eventually("the command", begun);
        fs::write(workspace.join("a"), "theirs\n").unwrap();
        fs::write(workspace.join("signs/go"), "").unwrap();
    });
    let command = "echo mine > a; cat a > seen; until ls signs | grep -q go; do sleep 0.05; done; echo done";
    let result = execute(&fixture, json!({ "command": command }));
    other.join().unwrap();
    assert_eq!(result["error"]["code"], "ECONFLICT", "{result:#}");
    assert_eq!((&result["error"]["effect"], &result["data"]["stdout"]), (&json!("none"), &json!("done\n")));
    assert!(result["error"]["message"].as_str().unwrap().contains("a was changed meanwhile"), "{result:#}");
    assert_eq!(fixture.read("a"), "theirs\n");
    assert!(!fixture.workspace().join("seen").exists());

    let changes = &result["meta"]["changes"];
    assert_eq!((&changes["state"], &changes["paths"]), (&json!("kept"), &json!(2)), "{result:#}");
    let id = changes["id"].as_str().unwrap();
    assert_eq!(kept_ids(&fixture), [id]);
    let shown = fixture.run(&["changes", "show", &id[..8]]);
    assert!(
        shown.stdout.contains("replace a\n") && shown.stdout.contains("create seen\n"),
        "{}",
        shown.stdout
    );
    let refused = fixture.run(&["changes", "apply", id]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(fixture.read("a"), "theirs\n");
    assert_eq!(fixture.run(&["changes", "apply", id, "--force"]).code, 0);
    assert_eq!((fixture.read("a"), fixture.read("seen")), ("mine\n".to_owned(), "mine\n".to_owned()));
    assert!(kept_ids(&fixture).is_empty());
    assert_eq!(fixture.run(&["changes", "apply", id]).code, 2, "they are gone");
    let verified = fixture.run(&["audit", "verify"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    assert!(fixture.run(&["audit", "list"]).stdout.contains("changes_apply"));
}

#[test]
fn a_command_that_is_killed_keeps_or_discards_its_changes_as_its_caller_says() {
    for (on_timeout, state, effect) in [("keep", "committed", "done"), ("discard", "discarded", "none")] {
        let fixture = Fixture::with_files(&[("a", "a")]);
        let result = execute(
            &fixture,
            json!({"command": "echo part > a; echo shown; sleep 60", "timeout": 2, "on_timeout": on_timeout}),
        );
        assert_eq!(result["error"]["code"], "ETIMEOUT", "{result:#}");
        assert_eq!(result["data"]["stdout"], "shown\n");
        assert_eq!(result["error"]["effect"], effect, "{result:#}");
        assert_eq!(result["meta"]["changes"]["state"], state, "{result:#}");
        assert_eq!(fixture.read("a"), if on_timeout == "keep" { "part\n" } else { "a" });
    }
    let fixture = Fixture::new();
    let wrong = execute(&fixture, json!({"command": "true", "on_timeout": "maybe"}));
    assert_eq!(wrong["error"]["code"], "EVALIDATION");
}

#[test]
fn what_a_later_program_would_run_waits_for_an_approval_of_its_own_and_git_works_all_the_same() {
    let fixture = Fixture::with_files(&[("a", "a\n")]);
    committed(
        &fixture,
        "git init -q -b main . && git config user.name Ann && git config user.email ann@example.org && git add . && \
         git commit -qm one && git remote add origin https://example.org/x.git && git branch side && git checkout -q side \
         && git worktree add -q tree main && git log --oneline",
    );
    assert!(fixture.read(".git/config").contains("https://example.org/x.git"));
    for (command, planted) in [
        ("echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("mkdir h && echo x > h/pre-commit && rm -r .git/hooks && mv h .git/hooks", ".git/hooks/pre-commit"),
        ("git config core.fsmonitor ./x", "x"),
        ("git config alias.st '!x'", "x"),
        ("mkdir -p sub/.vscode && echo {} > sub/.vscode/tasks.json", "sub"),
        ("echo x > .envrc", ".envrc"),
        ("ln -s a .bashrc", ".bashrc"),
        ("echo {} > .mcp.json", ".mcp.json"),
        ("git init -q --bare other && echo x > other/hooks/update", "other"),
        ("mkdir w && echo 'gitdir: ../evil' > w/.git", "w"),
        ("rm -rf .git && echo 'gitdir: evil' > .git && mkdir x", "x"),
        ("mkdir y && echo x > y/.ENVRC", "y"),
    ] {
        let result = execute(&fixture, json!({ "command": unread(command) }));
        assert_eq!(result["error"]["code"], "EAPPROVAL", "{command}: {result:#}");
        assert!(result["error"]["approval_id"].is_string(), "{command}");
        assert!(!fixture.workspace().join(planted).exists(), "{command}");
        assert!(fixture.workspace().join(".git/HEAD").exists(), "{command}");
    }
    assert!(!fixture.read(".git/config").contains("fsmonitor"));
    // A human approves the call in advance, or the changes that were set aside.
    let yes = fixture.call("shell_execute", json!({"command": "echo x > .envrc"}));
    assert_eq!(yes["ok"], true, "{yes:#}");
    assert_eq!(fixture.read(".envrc"), "x\n");
    let kept = kept_ids(&fixture);
    assert_eq!(kept.len(), 12);
    let newest = &kept[0];
    assert_eq!(fixture.run(&["changes", "apply", newest]).code, 0);
    assert_eq!(fixture.read("y/.ENVRC"), "x\n");
    assert_eq!(fixture.run(&["changes", "discard", &kept[1]]).code, 0);
    assert_eq!(kept_ids(&fixture).len(), 10);
}

#[test]
fn what_no_rule_lets_a_command_change_stays_out_and_so_does_all_else_that_it_changed() {
    let fixture = Fixture::with_files(&[("a", "a"), ("locked/x", "x")]);
    fs::create_dir_all(fixture.home().join(".config/handfast")).unwrap();
    fs::write(
        fixture.home().join(".config/handfast/config.yaml"),
        "sandbox_config:\n  normal:\n    mode: full_auto\n    deny_write_paths: [\"*.lock\"]\n",
    )
    .unwrap();
    for (command, absent) in [
        ("echo 'mode: full_auto' > handfast.yaml; echo b > a", "handfast.yaml"),
        ("echo b > a; echo > new.lock", "new.lock"),
    ] {
        let result = execute(&fixture, json!({ "command": unread(command) }));
        assert_eq!(result["error"]["code"], "EPERMISSION", "{command}: {result:#}");
        assert_eq!(result["error"]["effect"], "none");
        assert!(!fixture.workspace().join(absent).exists());
        assert_eq!(fixture.read("a"), "a");
        // No later approval can apply denied changes either.
        let id = &kept_ids(&fixture)[0];
        let applied = fixture.run(&["changes", "apply", id]);
        assert_eq!(applied.code, 1, "{}", applied.stderr);
        assert!(applied.stderr.contains("denied"), "{}", applied.stderr);
        assert_eq!(fixture.read("a"), "a");
    }
}

#[test]
fn a_file_that_is_written_again_with_equal_content_is_not_held() {
    let fixture = Fixture::with_files(&[(".mcp.json", "{}\n"), ("LICENSE", "text\n")]);
    let git = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.example commit -qm first";
    committed(&fixture, git);
    fixture.write("LICENSE", "lost\n");
    // The entry of `.mcp.json` in the index is out of date, so git writes the file again.
    let mcp = fixture.workspace().join(".mcp.json");
    fs::File::open(&mcp).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    committed(&fixture, "git reset -q --hard");
    assert_eq!(fixture.read("LICENSE"), "text\n");
    committed(&fixture, &unread("cp .mcp.json t; rm .mcp.json; mv t .mcp.json"));
    // The control: changed content, and a new execute permission, wait for approval.
    for change in ["echo '{\"a\": 1}' > .mcp.json", "chmod +x .mcp.json"] {
        let result = execute(&fixture, json!({"command": unread(change)}));
        assert_eq!(result["error"]["code"], "EAPPROVAL", "{change}: {result:#}");
    }
}

#[test]
fn held_changes_name_their_command_their_paths_as_they_are_and_the_difference() {
    let fixture = Fixture::with_files(&[("LICENSE", "text\n"), ("Docs/Read.md", "old\n")]);
    let line = unread("echo x > .envrc; echo more >> LICENSE; rm Docs/Read.md");
    let result = execute(&fixture, json!({ "command": line }));
    let asked = result["error"]["approval_id"].as_str().unwrap();
    let id = result["meta"]["changes"]["id"].as_str().unwrap();
    let question = fixture.run(&["approvals", "show", asked]).stdout;
    assert!(question.contains("echo more >> LICENSE"), "{question}");
    let list = fixture.run(&["changes", "list"]).stdout;
    assert!(list.contains("echo x > .envrc"), "{list}");
    let shown = fixture.run(&["changes", "show", id]).stdout;
    for line in ["replace LICENSE\n", "remove Docs/Read.md\n", "create .envrc\n", "+more\n", "-old\n"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("rm Docs/Read.md"), "{shown}");
    let json = fixture.run(&["changes", "show", id, "--json"]).json();
    assert!(json["diff"].as_str().unwrap().contains("+more"), "{json:#}");
}
