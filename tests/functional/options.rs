//! Command-line options, times and ids: each is obeyed or refused, for every command.

use serde_json::json;

use crate::harness::Fixture;

#[test]
fn a_dry_run_of_what_cannot_be_tried_is_refused_and_changes_nothing() {
    let fixture = Fixture::new();
    for option in ["--dry-run", "--read-only"] {
        for place in [&[option, "init"][..], &["init", option]] {
            let refused = fixture.run(place);
            assert_eq!(refused.code, 2, "{place:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("`handfast init` does not accept"), "{}", refused.stderr);
        }
    }
    assert!(!fixture.workspace().join("handfast.yaml").exists());
    fixture.write("handfast.yaml", "mode: full_auto\n");
    assert_eq!(fixture.run(&["trust", "--dry-run"]).code, 2);
    let warned = fixture.run(&["policy", "show"]);
    assert!(warned.stderr.contains("is not trusted"), "{}", warned.stderr);
    // The control: without the option, both changes are made.
    assert_eq!(fixture.run(&["trust"]).code, 0);
    std::fs::remove_file(fixture.workspace().join("handfast.yaml")).unwrap();
    assert_eq!(fixture.run(&["init"]).code, 0);
}

#[test]
fn an_undo_that_is_only_tried_shows_what_it_would_do_with_conflicts_and_undoes_nothing() {
    let fixture = Fixture::with_files(&[("a", "before\n")]);
    let changed = fixture.call("file_write", json!({"path": "a", "content": "after\n"}));
    let id = changed["meta"]["checkpoint"].as_str().unwrap().to_owned();
    for arguments in [&["undo", id.as_str(), "--dry-run"][..], &["--dry-run", "undo", "--since", "30m"]] {
        let tried = fixture.run(arguments);
        assert_eq!(tried.code, 0, "{}", tried.stderr);
        assert!(tried.stdout.contains("-after\n+before\n"), "{}", tried.stdout);
        assert!(tried.stderr.contains("1 path would be restored; nothing was changed"), "{}", tried.stderr);
        assert_eq!(fixture.read("a"), "after\n");
    }
    fixture.write("a", "somebody else\n");
    let tried = fixture.run(&["undo", &id, "--dry-run", "--json"]);
    assert_eq!(tried.code, 1);
    assert!(
        tried.json()["conflict"].as_str().unwrap().contains("changed since, so nothing was undone"),
        "{}",
        tried.stdout
    );
    let forced = fixture.run(&["undo", &id, "--dry-run", "--force"]);
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert_eq!(fixture.read("a"), "somebody else\n");
    assert_eq!(fixture.run(&["checkpoints", "list", "--json"]).json().as_array().unwrap().len(), 1);
    // The control: without the option, the change is undone.
    assert_eq!(fixture.run(&["undo", &id, "--force"]).code, 0);
    assert_eq!(fixture.read("a"), "before\n");
}

#[test]
fn an_empty_id_and_what_is_no_time_are_usage_errors_that_say_what_they_look_like() {
    let fixture = Fixture::with_files(&[("a", "before\n")]);
    fixture.data("file_write", json!({"path": "a", "content": "after\n"}));
    for arguments in [
        &["undo", ""][..],
        &["checkpoints", "show", ""],
        &["checkpoints", "diff", ""],
        &["approvals", "show", ""],
        &["approvals", "approve", ""],
        &["approvals", "deny", ""],
        &["approvals", "revoke", ""],
        &["changes", "show", ""],
        &["changes", "apply", ""],
        &["changes", "discard", ""],
        &["audit", "show", ""],
    ] {
        let refused = fixture.run(arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains("is not an id: an id consists of digits"), "{}", refused.stderr);
    }
    for since in ["tomorrow", "10", "", "2026-13-01T00:00:00Z"] {
        for command in [&["undo", "--since", since][..], &["audit", "list", "--since", since]] {
            let refused = fixture.run(command);
            assert_eq!(refused.code, 2, "{command:?}: {}{}", refused.stdout, refused.stderr);
            assert!(refused.stderr.contains("`yesterday 14:00`"), "{command:?}: {}", refused.stderr);
        }
    }
    assert_eq!(fixture.read("a"), "after\n");
    // The agent's tool does not accept an empty id either.
    let error = fixture.error("checkpoint_restore", json!({"id": ""}));
    assert_eq!(error["code"], "EVALIDATION", "{error:#}");
    assert_eq!(fixture.read("a"), "after\n");
    // The controls.
    let listed = fixture.run(&["audit", "list", "--since", "1h"]);
    assert!(listed.stdout.contains("file_write"), "{}{}", listed.stdout, listed.stderr);
    assert_eq!(fixture.run(&["undo", "--since", "1h"]).code, 0);
    assert_eq!(fixture.read("a"), "before\n");
}
