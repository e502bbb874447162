//! Dry runs: each returns the result of the call, shows its difference, and changes nothing.

use serde_json::{Value, json};

use crate::functional::undo::tree;
use crate::harness::Fixture;

fn filled() -> Fixture {
    Fixture::with_files(&[
        ("a", "a\n"),
        ("d/one", "1\n"),
        ("d/e/two", "2\n"),
        ("gone", "g\n"),
        ("x.lock", "l\n"),
    ])
}

/// Makes one call with nobody to ask.
fn call(fixture: &Fixture, tool: &str, arguments: &Value) -> Value {
    fixture.run(&["call", tool, &arguments.to_string()]).json()
}

fn dry(arguments: &Value) -> Value {
    let mut arguments = arguments.clone();
    arguments["dry_run"] = json!(true);
    arguments
}

#[test]
fn every_tool_shows_what_it_would_change_without_a_question_and_changes_nothing() {
    let fixture = filled().asking();
    let changed = fixture.call("file_write", json!({"path": "a", "content": "changed\n"}));
    let id = changed["meta"]["checkpoint"].as_str().unwrap().to_owned();
    let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-changed\n+patched\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
                 diff --git a/d/one b/n/one\nsimilarity index 100%\nrename from d/one\nrename to n/one\n";
    let before = tree(&fixture);
    for (tool, arguments, shown) in [
        ("file_write", json!({"path": "a", "content": "b\n"}), vec!["--- a/a\n+++ b/a\n", "-changed\n+b\n"]),
        (
            "file_write",
            json!({"path": "n/m/new", "content": "n\n"}),
            vec!["--- /dev/null\n+++ b/n/m/new\n", "+n\n"],
        ),
        ("file_write", json!({"path": "a", "content": "", "backup": true}), vec!["-changed\n"]),
        (
            "file_edit",
            json!({"path": "a", "edits": [{"old_text": "changed", "new_text": "b"}]}),
            vec!["-changed\n+b\n"],
        ),
        ("file_patch", json!({ "patch": patch }), vec!["-changed\n+patched\n", "b/n/one", "a/d/one", "-g\n"]),
        (
            "file_delete",
            json!({"path": "d", "recursive": true}),
            vec!["d: a folder -> nothing\n", "--- a/d/e/two\n+++ /dev/null\n", "-1\n"],
        ),
        (
            "file_move",
            json!({"source": "d", "destination": "moved"}),
            vec!["rename from d\nrename to moved\n"],
        ),
        ("checkpoint_restore", json!({ "id": id }), vec!["-changed\n+a\n"]),
    ] {
        let tried = call(&fixture, tool, &dry(&arguments));
        assert_eq!(tried["ok"], true, "{tool}: {tried:#}");
        let diff = tried["data"]["diff"].as_str().unwrap_or_else(|| panic!("{tool}: {tried:#}"));
        for part in shown {
            assert!(diff.contains(part), "{tool}: {part:?} is not in {diff}");
        }
        assert_eq!(tree(&fixture), before, "{tool}");
        let meta = &tried["meta"];
        assert!(meta.get("checkpoint").is_none() && meta.get("changes").is_none(), "{tool}: {meta:#}");
        assert_eq!(meta["decision"], "pass");
        assert!(meta["warnings"][0].as_str().unwrap().contains("needs approval"), "{tool}: {meta:#}");
        let checked = fixture.run(&["check", tool, &dry(&arguments).to_string()]).json();
        assert_eq!((&checked["decision"], &checked["level"]), (&json!("pass"), &json!("safe")), "{tool}");
        // The control: the call itself is asked about, and takes effect after approval.
        assert_eq!(call(&fixture, tool, &arguments)["error"]["code"], "EAPPROVAL", "{tool}");
        let done = fixture.call(tool, arguments);
        assert!(done["ok"] == true && tree(&fixture) != before, "{tool}: {done:#}");
        let made = done["meta"]["checkpoint"].as_str().unwrap();
        assert_eq!(fixture.run(&["undo", made]).code, 0);
        assert_eq!(tree(&fixture), before, "{tool}");
    }
    assert!(
        std::fs::read_dir(fixture.state().join("changes"))
            .unwrap()
            .all(|left| !left.unwrap().path().is_dir())
    );
}

#[test]
fn a_dry_run_fails_as_the_call_would() {
    let fixture = filled();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("config.yaml"),
        "sandbox_config:\n  normal:\n    deny_write_paths: [\"*.lock\"]\n",
    )
    .unwrap();
    let command = fixture.call("shell_execute", json!({"command": "echo more >>gone"}));
    let late = command["meta"]["checkpoint"].as_str().unwrap().to_owned();
    fixture.write("gone", "somebody else's\n");
    let before = tree(&fixture);
    let update = |path: &str, old: &str| json!({"patch": format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+new\n")});
    let edit = |path: &str, old: &str| json!({"path": path, "edits": [{"old_text": old, "new_text": "new"}]});
    for (tool, arguments, code) in [
        ("file_write", json!({"path": "d", "content": ""}), "EVALIDATION"),
        ("file_write", json!({"path": "a/b", "content": ""}), "EVALIDATION"),
        ("file_write", json!({"path": "a", "content": "!", "encoding": "base64"}), "EVALIDATION"),
        ("file_write", json!({"path": "n/new", "content": "", "create_directories": false}), "ENOTFOUND"),
        ("file_write", json!({"path": "x.lock", "content": ""}), "EPERMISSION"),
        ("file_write", json!({"path": "n/m/y.lock", "content": ""}), "EPERMISSION"),
        ("file_edit", edit("a", "absent"), "ECONFLICT"),
        ("file_edit", edit("nothing", "a"), "ENOTFOUND"),
        ("file_edit", edit("x.lock", "l"), "EPERMISSION"),
        ("file_patch", update("a", "absent"), "ECONFLICT"),
        ("file_patch", update("nothing", "a"), "ENOTFOUND"),
        ("file_patch", update("x.lock", "l"), "EPERMISSION"),
        ("file_delete", json!({"path": "d"}), "ECONFLICT"),
        ("file_delete", json!({"path": "nothing"}), "ENOTFOUND"),
        ("file_delete", json!({"path": "x.lock"}), "EPERMISSION"),
        ("file_delete", json!({"path": "."}), "EPERMISSION"),
        ("file_move", json!({"source": "a", "destination": "gone"}), "ECONFLICT"),
        ("file_move", json!({"source": "nothing", "destination": "n/a"}), "ENOTFOUND"),
        ("file_move", json!({"source": "a", "destination": "n/y.lock"}), "EPERMISSION"),
        ("file_move", json!({"source": "d", "destination": "d/e/d"}), "EVALIDATION"),
        ("file_move", json!({"source": "a", "destination": "y.lock"}), "EPERMISSION"),
        ("checkpoint_restore", json!({"id": "nothing"}), "ENOTFOUND"),
        ("checkpoint_restore", json!({ "id": late }), "ECONFLICT"),
    ] {
        let error = |arguments: &Value| fixture.call(tool, arguments.clone())["error"].take();
        let (tried, done) = (error(&dry(&arguments)), error(&arguments));
        assert_eq!(tried["code"], code, "{tool} {arguments}: {tried:#}");
        assert_eq!(
            (&tried["message"], &tried["code"]),
            (&done["message"], &done["code"]),
            "{tool} {arguments}"
        );
        assert_eq!((&tried["hint"], &tried["effect"]), (&done["hint"], &json!("none")), "{tool} {arguments}");
        assert_eq!(tree(&fixture), before, "{tool} {arguments}");
    }
}

#[test]
fn a_dry_run_shows_nothing_that_may_not_be_read_and_tells_what_would_be_asked() {
    let fixture = filled();
    fixture.write(".env", "KEY=secret\n");
    for (tool, arguments) in [
        ("file_write", json!({"path": ".env", "content": "KEY=\n"})),
        ("file_delete", json!({"path": ".env"})),
        ("file_move", json!({"source": ".env", "destination": "open"})),
        ("file_patch", json!({"patch": "--- a/.env\n+++ /dev/null\n@@ -1 +0,0 @@\n-KEY=\n"})),
    ] {
        let tried = fixture.run(&["call", "--yes", tool, &dry(&arguments).to_string()]);
        assert_eq!((tried.code, &tried.json()["error"]["code"]), (3, &json!("EPERMISSION")), "{tool}");
        assert!(!tried.stdout.contains("secret"), "{tool}: {}", tried.stdout);
    }
    // A file that a later program would run needs approval, although it can be undone. A dry run
    // reports this.
    let planted = json!({"path": ".git/hooks/pre-commit", "content": "x\n"});
    let tried = call(&fixture, "file_write", &dry(&planted));
    assert_eq!(tried["ok"], true, "{tried:#}");
    assert!(tried["meta"]["warnings"][0].as_str().unwrap().contains("needs approval"), "{tried:#}");
    assert_eq!(call(&fixture, "file_write", &planted)["error"]["code"], "EAPPROVAL");
    assert!(!fixture.workspace().join(".git").exists());
}

#[test]
fn a_dry_run_of_data_and_memory_shows_the_change_asks_nobody_and_changes_nothing() {
    let fixture = filled().asking();
    fixture.call("db_write", json!({"sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, v)"}));
    fixture.call("db_write", json!({"sql": "INSERT INTO t(v) VALUES ('a')"}));
    fixture.call("memory", json!({"action": "create", "key": "k", "message": "first"}));
    let state = || {
        let rows = fixture.data("db_query", json!({"sql": "SELECT * FROM t"}));
        let memories = fixture.data("memory", json!({"action": "audit"}));
        let checkpoints = fixture.run(&["checkpoints", "list", "--json"]).stdout;
        (rows, memories, checkpoints)
    };
    let before = state();
    for (tool, arguments, diff) in [
        ("db_write", json!({"sql": "UPDATE t SET v = ?", "params": ["b"]}), "-t(1, \"a\")\n+t(1, \"b\")\n"),
        ("db_write", json!({"sql": "DROP TABLE t"}), "-CREATE TABLE t (id INTEGER PRIMARY KEY, v)\n"),
        ("memory", json!({"action": "create", "key": "n", "message": "x\ny"}), "+x\n+y\n"),
        ("memory", json!({"action": "update", "key": "k", "message": "second"}), "-first\n+second\n"),
        ("memory", json!({"action": "delete", "key": "k"}), "-first\n"),
    ] {
        for tried in [
            call(&fixture, tool, &dry(&arguments)),
            fixture.run(&["--dry-run", "call", tool, &arguments.to_string()]).json(),
        ] {
            assert_eq!((&tried["ok"], &tried["data"]["diff"]), (&json!(true), &json!(diff)), "{tried:#}");
            let meta = &tried["meta"];
            assert!(meta["decision"] == "pass" && meta.get("checkpoint").is_none(), "{meta:#}");
            assert!(meta["warnings"][0].as_str().unwrap().contains("needs approval"), "{meta:#}");
        }
        assert_eq!(state(), before, "{tool} {arguments}");
        assert_eq!(call(&fixture, tool, &arguments)["error"]["code"], "EAPPROVAL", "{tool}");
    }
    // Calls that are refused, with and without a dry run.
    for (tool, arguments, code) in [
        ("db_write", json!({"sql": "INSERT INTO t VALUES (1, 'twice')"}), "ECONFLICT"),
        ("db_write", json!({"sql": "TRUNCATE t"}), "EPERMISSION"),
        ("memory", json!({"action": "create", "key": "k", "message": "x"}), "ECONFLICT"),
        ("memory", json!({"action": "update", "key": "k", "message": "x", "version": 7}), "ECONFLICT"),
        ("memory", json!({"action": "delete", "key": "none"}), "ENOTFOUND"),
    ] {
        let tried = call(&fixture, tool, &dry(&arguments));
        assert_eq!(tried["error"]["code"], code, "{tool} {arguments}: {tried:#}");
    }
    // Reading works as usual.
    let read = fixture.run(&["--dry-run", "call", "memory", r#"{"action": "read", "key": "k"}"#]).json();
    assert_eq!(read["data"]["entries"][0]["content"], "first", "{read:#}");
}
