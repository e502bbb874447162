//! Tests of repositories and folders as people do not mean them to be.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::Workspace;
use tool::Code;

use crate::tests::World;

/// Runs git in a folder, without any configuration of the machine.
#[expect(clippy::disallowed_methods, reason = "the test makes repositories with git itself")]
fn git(folder: &Path, arguments: &[&str]) -> bool {
    let run = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    run.status.success()
}

fn paths(world: &World, commit: Option<&str>) -> Vec<Value> {
    let query = "MATCH (f:File) RETURN f.path AS p ORDER BY p";
    let arguments = match commit {
        Some(commit) => json!({"query": query, "commit": commit}),
        None => json!({"query": query}),
    };
    let found = world.run("graph_query", arguments).unwrap();
    found["rows"].as_array().unwrap().iter().map(|row| row["p"].clone()).collect()
}

#[test]
fn a_rename_that_changes_the_case_alone_is_another_file() {
    let world = World::new(Workspace::new().with_files(&[
        ("Store.py", "def load():\n    pass\n"),
        ("app.py", "from store import load\nload()\n"),
    ]));
    let callers = |world: &World| {
        let found = world.ask("MATCH (f:Function {name: 'load'})<-[:CALLS]-(g) RETURN f.file AS f").unwrap();
        found["rows"].clone()
    };
    assert_eq!(paths(&world, None), [json!("Store.py"), json!("app.py")]);
    assert_eq!(callers(&world), json!([]));
    std::fs::rename(world.workspace.at("Store.py"), world.workspace.at("store.py")).unwrap();
    assert_eq!(paths(&world, None), [json!("app.py"), json!("store.py")]);
    assert_eq!(callers(&world), json!([{"f": "store.py"}]));
}

#[test]
fn a_submodule_is_left_out_of_a_commit_and_its_checkout_is_in_the_workspace() {
    let world = World::new(
        Workspace::new()
            .with_files(&[("a.py", "def f():\n    pass\n"), ("../outside/b.py", "def g():\n    pass\n")]),
    );
    let (top, other) = (world.workspace.path(), world.workspace.at("../outside"));
    for folder in [top, &other] {
        assert!(git(folder, &["init", "-q"]) && git(folder, &["add", "-A"]));
        assert!(git(folder, &["commit", "-qm", "one"]));
    }
    assert!(git(top, &["submodule", "add", "-q", other.to_str().unwrap(), "vendored"]));
    assert!(git(top, &["commit", "-qm", "two"]));
    assert_eq!(paths(&world, Some("HEAD")), [json!("a.py")]);
    assert_eq!(paths(&world, None), [json!("a.py"), json!("vendored/b.py")]);
}

#[test]
fn refuses_a_repository_with_other_hashes_and_says_what_to_do() {
    let world = World::new(Workspace::new().with_files(&[("a.py", "def f():\n    pass\n")]));
    let top = world.workspace.path();
    if !git(top, &["init", "-q", "-b", "main", "--object-format=sha256"]) {
        // This git makes no such repository.
        return;
    }
    assert!(git(top, &["add", "-A"]) && git(top, &["commit", "-qm", "one"]));
    // References may be packed, and ids short.
    for packs in [false, true] {
        assert!(!packs || git(top, &["gc", "-q"]) && git(top, &["pack-refs", "--all"]));
        for commit in ["HEAD", "main", "0123456", &"0".repeat(64)] {
            let arguments = json!({"query": "RETURN 1", "commit": commit});
            let error = world.run("graph_query", arguments).unwrap_err();
            assert_eq!(error.code, Code::Unavailable, "{commit}: {}", error.message);
            assert!(error.message.contains("SHA-256"), "{commit}: {}", error.message);
        }
    }
    assert_eq!(paths(&world, None), [json!("a.py")]);
}

#[test]
fn many_files_and_many_functions_are_answered_about() {
    let workspace = Workspace::new();
    for number in 0..2_000 {
        workspace
            .write(&format!("made/d{}/m{number}.py", number % 50), format!("def f{number}():\n    pass\n"));
    }
    let many: String =
        (0..20_000).map(|number| format!("fn g{number}() {{ g{}() }}\n", number / 2)).collect();
    workspace.write("many.rs", many);
    let world = World::new(workspace);
    let count = |query: &str| world.ask(query).unwrap()["rows"][0]["n"].clone();
    assert_eq!(count("MATCH (f:File) RETURN count(f) AS n"), 2_001);
    assert_eq!(count("MATCH (f:Function {file: 'many.rs'})-[c:CALLS]->() RETURN count(c) AS n"), 20_000);
}
