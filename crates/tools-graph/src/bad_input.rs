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

/// A repository with two commits outside of the workspace, which clones may filter. Returns its address.
fn origin(world: &World) -> String {
    let origin = world.workspace.at("../origin");
    std::fs::create_dir_all(&origin).unwrap();
    assert!(git(&origin, &["init", "-q", "-b", "main"]));
    for (name, text) in [("a.py", "def f():\n    pass\n"), ("b.py", "def g():\n    pass\n")] {
        std::fs::write(origin.join(name), text).unwrap();
        assert!(git(&origin, &["add", "-A"]) && git(&origin, &["commit", "-qm", name]));
    }
    assert!(git(&origin, &["config", "uploadpack.allowFilter", "true"]));
    format!("file://{}", origin.display())
}

/// Checks that a commit needs an object that is not there. Returns what the error says to do.
fn hint_for(world: &World, commit: &str) -> String {
    let arguments = json!({"query": "RETURN 1", "commit": commit});
    let error = world.run("graph_query", arguments).unwrap_err();
    assert_eq!(error.code, Code::NotFound, "{}", error.message);
    assert!(error.message.contains("object"), "{}", error.message);
    error.hint.unwrap_or_default()
}

#[test]
fn a_partial_clone_says_which_command_fetches_the_objects_of_a_commit() {
    let world = World::new(Workspace::new());
    let (top, address) = (world.workspace.path(), origin(&world));
    assert!(git(top, &["clone", "-q", "--filter=blob:none", "--no-checkout", &address, "."]));
    let hint = hint_for(&world, "HEAD");
    assert!(hint.contains("`git archive --output=/dev/null COMMIT`"), "{hint}");
    assert!(git(top, &["archive", "--output=/dev/null", "HEAD"]));
    assert_eq!(paths(&world, Some("HEAD")), [json!("a.py"), json!("b.py")]);
}

#[test]
fn a_shallow_clone_has_its_own_commits_and_says_how_to_get_the_others() {
    let world = World::new(Workspace::new());
    let (top, address) = (world.workspace.path(), origin(&world));
    assert!(git(top, &["clone", "-q", "--depth=1", &address, "."]));
    assert_eq!(paths(&world, Some("HEAD")), [json!("a.py"), json!("b.py")]);
    let hint = hint_for(&world, "HEAD~1");
    assert!(hint.contains("`git fetch --unshallow`"), "{hint}");
    assert!(git(top, &["fetch", "-q", "--unshallow"]));
    assert_eq!(paths(&world, Some("HEAD~1")), [json!("a.py")]);
}

#[test]
fn a_worktree_has_its_own_head_and_the_objects_of_its_repository() {
    let world = World::new(Workspace::new());
    origin(&world);
    let owner = world.workspace.at("../origin").canonicalize().unwrap();
    let place = world.workspace.path().to_str().unwrap().to_owned();
    assert!(git(&owner, &["worktree", "add", "-q", "-b", "side", &place, "HEAD~1"]));
    let arguments = json!({"query": "RETURN 1", "commit": "HEAD"});
    let error = world.run("graph_query", arguments).unwrap_err();
    assert_ne!(error.code, Code::Internal, "the repository is outside: {}", error.message);
    let World { workspace, graphs } = world;
    let world = World { workspace: workspace.listing(owner, roots::Right::Read), graphs };
    assert_eq!(paths(&world, Some("HEAD")), [json!("a.py")]);
    assert_eq!(paths(&world, Some("main")), [json!("a.py"), json!("b.py")]);
}

#[test]
fn links_that_lead_in_circles_and_half_written_files_are_no_trouble() {
    let world = World::new(Workspace::new().with_files(&[
        ("a/whole.py", "def f():\n    pass\n"),
        ("a/half.rs", "fn g() {}\n\nfn h() { let x = \"not clo"),
        ("a/empty.go", ""),
    ]));
    let top = world.workspace.path();
    std::os::unix::fs::symlink("../a", top.join("a/round")).unwrap();
    std::os::unix::fs::symlink(top, top.join("a/top")).unwrap();
    std::os::unix::fs::symlink("self.py", top.join("self.py")).unwrap();
    std::os::unix::fs::symlink("a/whole.py", top.join("other.py")).unwrap();
    assert_eq!(paths(&world, None), [json!("a/empty.go"), json!("a/half.rs"), json!("a/whole.py")]);
    let found =
        world.ask("MATCH (f:Function) WHERE f.name IN ['f', 'g'] RETURN f.name AS n ORDER BY n").unwrap();
    assert_eq!(found["rows"], json!([{"n": "f"}, {"n": "g"}]));
}

#[test]
fn twenty_thousand_files_are_indexed_opened_and_followed() {
    let workspace = Workspace::new();
    for folder in 0..200 {
        std::fs::create_dir_all(workspace.at(&format!("d{folder}"))).unwrap();
        for number in 0..100 {
            let text = format!("def f{number}():\n    pass\n");
            std::fs::write(workspace.at(&format!("d{folder}/m{number}.py")), text).unwrap();
        }
    }
    let mut world = World::new(workspace);
    for _ in 0..2 {
        let count = |query: &str| world.ask(query).unwrap()["rows"][0]["n"].clone();
        assert_eq!(count("MATCH (f:File) RETURN count(f) AS n"), 20_000);
        assert_eq!(count("MATCH (f:Function {file: 'd7/m9.py'}) RETURN count(f) AS n"), 1);
        world = World::new(world.workspace);
    }
    world.workspace.write("d7/m9.py", "def first():\n    pass\n\ndef second():\n    first()\n");
    let found = world.ask("MATCH (f {file: 'd7/m9.py'})-[:CALLS]->(g) RETURN g.name AS n").unwrap();
    assert_eq!(found["rows"], json!([{"n": "first"}]));
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

#[test]
fn vendored_and_generated_copies_are_there_and_get_no_calls_of_the_original() {
    let library = "def load():\n    pass\n\ndef run():\n    load()\n";
    let world = World::new(Workspace::new().with_files(&[
        ("store/core.py", library),
        ("vendor/store/core.py", library),
        ("app.py", "from store.core import load\n\ndef main():\n    load()\n"),
        ("made_pb2.py", "# Generated by the protocol buffer compiler. DO NOT EDIT!\ndef made():\n    pass\n"),
    ]));
    let calls =
        "MATCH (g:Function)-[:CALLS]->(f:Function {name: 'load'}) RETURN g.file AS g, f.file AS f ORDER BY g";
    let expected = json!([
        {"g": "app.py", "f": "store/core.py"},
        {"g": "store/core.py", "f": "store/core.py"},
        {"g": "vendor/store/core.py", "f": "vendor/store/core.py"},
    ]);
    assert_eq!(world.ask(calls).unwrap()["rows"], expected);
    let ids = world.ask("MATCH (f:Function {name: 'load'}) RETURN count(DISTINCT f.id) AS n").unwrap();
    assert_eq!(ids["rows"], json!([{"n": 2}]));
    let made = world.ask("MATCH (f:Function {name: 'made'}) RETURN f.file AS f").unwrap();
    assert_eq!(made["rows"], json!([{"f": "made_pb2.py"}]));
}

#[test]
fn fifty_megabytes_on_one_line_are_a_file_with_a_gap_and_a_larger_file_is_left_out() {
    let world = World::new(Workspace::new().with_files(&[("a.py", "def f():\n    pass\n")]));
    world.workspace.write("app.min.js", "function f(a){return f(a)};".repeat((50 << 20) / 27));
    world.workspace.sparse("huge.js", (64 << 20) + 1);
    let found = world.ask("MATCH (f:File) RETURN f.path AS p, f.gap AS g ORDER BY p").unwrap();
    assert_eq!(found["rows"], json!([{"p": "a.py", "g": null}, {"p": "app.min.js", "g": "too_large"}]));
    assert_eq!(found["freshness"]["left_out"], 1);
    // The next question does not read it again, and sees the next edit.
    world.workspace.write("app.min.js", "function f(a){return f(a)};");
    let found = world.ask("MATCH (f:Function {file: 'app.min.js'}) RETURN f.name AS n").unwrap();
    assert_eq!(found["rows"], json!([{"n": "f"}]));
}

#[test]
fn a_half_written_file_is_whole_once_it_is_written() {
    let world = World::new(Workspace::new().with_files(&[("app.py", "from store import load\nload()\n")]));
    let whole = "def load():\n    helper(\"\u{e9}\")\n\ndef helper(text):\n    pass\n";
    let calls = |world: &World| {
        let found = world.ask("MATCH (g)-[:CALLS]->(f:Function) RETURN f.name AS f ORDER BY f").unwrap();
        found["rows"].as_array().unwrap().iter().map(|row| row["f"].clone()).collect::<Vec<_>>()
    };
    // Each cut, also within the two bytes of a letter, is what a reader can meet.
    for length in 0..whole.len() {
        world.workspace.write("store.py", &whole.as_bytes()[..length]);
        let found = calls(&world);
        assert!(found.iter().all(|name| name == "load" || name == "helper"), "{length}: {found:?}");
    }
    world.workspace.write("store.py", whole);
    assert_eq!(calls(&world), [json!("helper"), json!("load")]);
}

#[test]
fn names_with_quotes_are_values_in_answers_and_parameters() {
    let odd = "it's \"odd\" `x`\\'}) RETURN 1 \u{2028}.py";
    let world = World::new(Workspace::new().with_files(&[(odd, "def f():\n    pass\n")]));
    let arguments =
        json!({"query": "MATCH (f:Function {file: $p}) RETURN f.file AS p", "params": {"p": odd}});
    assert_eq!(world.run("graph_query", arguments).unwrap()["rows"], json!([{"p": odd}]));
    assert_eq!(paths(&world, None), [json!(odd)]);
    // A name of a property in quotes is a name, and one that is no name is an error.
    let named = world.ask("MATCH (f:Function) RETURN f.`name` AS `a \"b\"`").unwrap();
    assert_eq!(named["rows"], json!([{"a \"b\"": "f"}]));
    for query in
        ["MATCH (f) RETURN f.`na``me`", "MATCH (f) RETURN f.'name'", "MATCH (f {\"name\": 'f'}) RETURN f"]
    {
        assert_eq!(world.ask(query).unwrap_err().code, Code::Validation, "{query}");
    }
}

#[test]
fn parameters_of_wrong_types_are_refused_or_match_nothing() {
    let world = World::new(Workspace::new().with_files(&[("a.py", "def f():\n    pass\n")]));
    for value in [json!(1), json!(null), json!([["f"]]), json!({"name": "f"}), json!(true), json!(-1.5)] {
        let run = |query: &str| world.run("graph_query", json!({"query": query, "params": {"x": value}}));
        let found = run("MATCH (f:Function {name: $x}) RETURN f.name AS n").unwrap();
        assert_eq!(found["rows"], json!([]), "{value}");
        let bound = run("MATCH (f:File) RETURN f.path AS p LIMIT $x");
        let is_count = value == json!(1);
        assert_eq!(bound.err().map(|error| error.code), (!is_count).then_some(Code::Validation), "{value}");
        let starts = run("MATCH (f:Function) WHERE f.name STARTS WITH $x RETURN f.name AS n").unwrap();
        assert_eq!(starts["rows"], json!([]), "{value}");
    }
    for params in [json!([1]), json!("x"), json!(1)] {
        let refused = world.run("graph_query", json!({"query": "RETURN 1", "params": params}));
        assert_eq!(refused.unwrap_err().code, Code::Validation, "{params}");
    }
}
