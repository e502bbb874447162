//! `self_create_plugin`: plugins that a scripted model or the caller writes, from the request to the first runs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use testkit::web::{Reply, Request, Server};

use crate::functional::models::{configure, saying};
use crate::functional::self_development::{assert_nothing_left, assert_untouched, example, git};
use crate::harness::{Fixture, eventually};

const PROGRAM: &str = "import json, sys\n\
    request = json.loads(sys.stdin.readline())\n\
    print(json.dumps({'ok': True, 'data': {'words': len(request['arguments']['text'].split())}}))\n";

fn manifest(name: &str, words: u32) -> String {
    format!(
        "name: {name}\ndescription: Counts the words of a text.\ncommand: [python3, main.py]\n\
         input_schema: {{type: object, properties: {{text: {{type: string, description: Text.}}}}, required: [text]}}\n\
         output_schema: {{type: object, properties: {{words: {{type: integer}}}}}}\n\
         example: {{arguments: {{text: one two}}, result: {{words: {words}}}}}\n\
         tests:\n  - {{name: an empty text, arguments: {{text: \"\"}}, result: {{words: 0}}}}\n"
    )
}

/// Returns the files of a plugin as a model answers with them.
fn files(name: &str, words: u32) -> String {
    let files = json!({"files": {"plugin.yaml": manifest(name, words), "main.py": PROGRAM}});
    format!("Here it is:\n```json\n{files}\n```")
}

fn asks_for_files(request: &Request) -> bool {
    String::from_utf8_lossy(&request.body).contains("You write a plugin")
}

/// Answers as a model that writes a plugin and looks at one.
pub(crate) fn author(request: &Request) -> Reply {
    if asks_for_files(request) { saying(&files("word_count", 2)) } else { saying("OK\nIt counts words.") }
}

fn wanted(name: &str) -> Value {
    json!({"name": name, "description": "Counts the words of a text.", "goal": "count words"})
}

fn given(name: &str, files: &[(&str, &str)]) -> Value {
    let files: Vec<Value> =
        files.iter().map(|(path, content)| json!({"path": path, "content": content})).collect();
    let mut arguments = wanted(name);
    arguments["files"] = json!(files);
    arguments
}

fn capability(fixture: &Fixture, name: &str) -> Value {
    let all = fixture.data("self_list_capabilities", json!({"filter": "plugins"}));
    let found = all["capabilities"].as_array().unwrap().iter().find(|one| one["name"] == name);
    found.cloned().unwrap_or_default()
}

#[test]
fn a_model_writes_a_plugin_mends_it_and_it_is_a_tool_until_it_is_taken_back() {
    let turns = AtomicU32::new(0);
    let server = Server::http(move |request| match turns.fetch_add(1, Ordering::Relaxed) {
        // The first version fails its own test.
        0 => saying(&files("word_count", 3)),
        _ => author(request),
    });
    let fixture = example();
    configure(&fixture, &server, "");
    let made = fixture.data("self_create_plugin", wanted("word_count"));
    assert_eq!(made["plugin_path"], "plugins/word_count", "{made:#}");
    assert_eq!((&made["tests_passed"], &made["registered"]), (&json!(true), &json!(true)), "{made:#}");
    assert_eq!(made["test_results"], "tests of the plugin: 2 passed, 0 failed");
    let seen = server.seen();
    assert_eq!(seen.len(), 3, "two versions and a second look");
    let body = |at: usize| String::from_utf8_lossy(&seen[at].body).into_owned();
    assert!(body(1).contains("`words` is 2, and 3 was expected"), "{}", body(1));
    assert!(!asks_for_files(&seen[2]) && !body(2).contains("was expected"), "a fresh context: {}", body(2));

    let readme = fixture.read(made["documentation"].as_str().unwrap());
    assert!(readme.starts_with("# word_count\n\nCounts the words of a text."), "{readme}");
    let message = git(&fixture, &["log", "-1", "--format=%B"]);
    assert!(message.starts_with("[self-create-plugin] word_count: Counts the words of a text.\n\ncount words\n\nHandfast-Path: plugins/word_count\nHandfast-Tests: tests of the plugin: 2 passed"), "{message}");
    assert_eq!(git(&fixture, &["status", "--porcelain"]), "");
    assert_nothing_left(&fixture);
    assert_eq!(fixture.data("word_count", json!({"text": "a b c"}))["words"], 3);
    let listed = capability(&fixture, "word_count");
    assert_eq!((&listed["type"], &listed["status"]), (&json!("plugin"), &json!("ready")), "{listed:#}");
    assert!(!listed["created_at"].as_str().unwrap().starts_with("2026-11-21T00:00:00"), "{listed:#}");

    // Each step is a call with its own row, and the question belongs to the last one.
    let rows = fixture.recorded();
    for (tool, count) in [("llm_call", 3), ("plugin_trial", 2), ("self_trial", 1), ("self_apply", 1)] {
        let of_tool = rows.iter().filter(|row| row["tool"] == tool && row["door"] == "tool");
        let calls: BTreeSet<String> = of_tool.map(|row| row["call"].to_string()).collect();
        assert_eq!(calls.len(), count, "{tool}");
    }
    let approved = rows.iter().filter(|row| !row["approved_by"].is_null());
    assert!(approved.clone().count() > 0 && approved.clone().all(|row| row["tool"] == "self_apply"));

    // No name is ever taken twice, and protected files stay protected.
    let again = fixture.error("self_create_plugin", wanted("word_count"));
    assert_eq!(again["code"], "ECONFLICT", "{again:#}");
    let modified = fixture.error(
        "self_modify_source",
        json!({"path": "src/gate/x.js", "change_description": "x", "new_content": "y", "reason": "z"}),
    );
    assert_eq!(modified["code"], "EPERMISSION", "{modified:#}");

    let commit = made["rollback_commit"].as_str().unwrap();
    let back = fixture.data("self_rollback", json!({"action": "revert", "commit_hash": commit}));
    assert_eq!(back["reverted_commit"], commit, "{back:#}");
    assert!(!fixture.workspace().join("plugins/word_count").exists());
    assert_eq!(fixture.error("word_count", json!({"text": "a"}))["code"], "ENOTFOUND");
    assert_eq!(capability(&fixture, "word_count"), Value::Null);
}

#[test]
fn no_caller_can_test_a_plugin_and_a_runtime_that_only_reads_makes_none() {
    let fixture = example();
    let error = fixture.error("plugin_trial", json!({"trial": "p0"}));
    assert_eq!(error["code"], "ENOTFOUND", "{error:#}");
    let files = [("plugin.yaml", &*manifest("p", 2)), ("main.py", PROGRAM)];
    let arguments = given("p", &files).to_string();
    for option in ["--read-only", "--dry-run"] {
        let refused = fixture.run(&[option, "call", "--yes", "self_create_plugin", &arguments]).json();
        assert_eq!(refused["error"]["code"], "ENOTFOUND", "{option}: {refused:#}");
    }
    assert!(!fixture.workspace().join("plugins").exists());
}

#[test]
fn without_a_yes_nothing_is_made_and_the_question_shows_files_tests_and_the_second_look() {
    let server = Server::http(author);
    let fixture = example();
    configure(&fixture, &server, "");
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let run = fixture.run(&[
        "--mode",
        "full_auto",
        "call",
        "self_create_plugin",
        &wanted("word_count").to_string(),
    ]);
    let result = run.json();
    assert_eq!((run.code, &result["error"]["code"]), (4, &json!("EAPPROVAL")), "{result:#}");
    assert_eq!(
        (&result["data"]["tests_passed"], &result["data"]["registered"]),
        (&json!(true), &json!(false))
    );
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    let shown = fixture.run(&["approvals", "show", listed[0]["id"].as_str().unwrap()]).stdout;
    for part in [
        "New plugin word_count: Counts the words",
        "does not see the workspace, has no network",
        "2 passed, 0 failed",
        "Second look by a model:",
        "It counts words.",
        "+import json, sys",
        "+name: word_count",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_untouched(&fixture, &head);
    assert!(!fixture.workspace().join("plugins").exists());
    assert_eq!(fixture.error("word_count", json!({"text": "a"}))["code"], "ENOTFOUND");
}

#[test]
fn a_plugin_whose_tests_fail_or_do_not_run_is_not_made() {
    let fixture = example();
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let wrong = manifest("p", 3);
    let no_program = manifest("p", 2).replace("python3", "no-such-program");
    for (manifest, reason) in [
        (wrong.as_str(), "`words` is 2, and 3 was expected"),
        (&no_program, "its program is not installed here"),
        (&manifest("other", 2), "and must be p"),
        ("name: [", "YAML"),
        (&manifest("p", 2).replace("command", "mode: serve\ncommand"), "`mode` must be `once`"),
    ] {
        let arguments = given("p", &[("plugin.yaml", manifest), ("main.py", PROGRAM)]);
        let made = fixture.data("self_create_plugin", arguments);
        assert_eq!((&made["tests_passed"], &made["registered"]), (&json!(false), &json!(false)), "{made:#}");
        let told = made["test_results"].as_str().unwrap();
        assert!(told.starts_with("not made: ") && told.contains(reason), "{reason}: {told}");
    }
    // A model that never mends its plugin is asked a few times, and no more.
    let server = Server::http(|_| saying(&files("p", 3)));
    configure(&fixture, &server, "");
    let made = fixture.data("self_create_plugin", wanted("p"));
    assert_eq!((&made["tests_passed"], server.seen().len()), (&json!(false), 3), "{made:#}");
    let talking = Server::http(|_| saying("I would rather not."));
    let fixture = example();
    configure(&fixture, &talking, "");
    let made = fixture.data("self_create_plugin", wanted("p"));
    assert!(made["test_results"].as_str().unwrap().contains("no JSON object"), "{made:#}");
    assert_eq!((git(&fixture, &["log", "--oneline"]).lines().count(), talking.seen().len()), (1, 3));
    assert_eq!(head.len(), 40);
}

#[test]
fn a_taken_name_and_a_missing_model_are_refused_and_overwrite_nothing() {
    let fixture = example();
    // Tools of other dialects, which no list of this one has.
    let of_others = ["execute", "browser", "run_command"];
    for name in ["file_read", "plugin_trial", "self_apply", "tool_search"].into_iter().chain(of_others) {
        let error = fixture.error("self_create_plugin", wanted(name));
        assert_eq!(error["code"], "ECONFLICT", "{name}: {error:#}");
    }
    let error = fixture.error("self_create_plugin", wanted("p"));
    assert_eq!(error["code"], "EUNAVAILABLE", "{error:#}");
    assert!(error["hint"].as_str().unwrap().contains("docs/MODELS.md"), "{error:#}");
    assert_eq!(fixture.error("self_create_plugin", wanted("../p"))["code"], "EVALIDATION");
    // A folder of the user that is no plugin yet keeps its name too.
    let own = fixture.home().join(".config/handfast/plugins/mine");
    std::fs::create_dir_all(&own).unwrap();
    assert_eq!(fixture.error("self_create_plugin", wanted("mine"))["code"], "ECONFLICT");
    // A link in the place of the folder leads nowhere.
    std::os::unix::fs::symlink(fixture.outside(), fixture.workspace().join("plugins")).unwrap();
    let files = [("plugin.yaml", &*manifest("linked", 2)), ("main.py", PROGRAM)];
    let error = fixture.error("self_create_plugin", given("linked", &files));
    assert_eq!(error["code"], "EPERMISSION", "{error:#}");
    assert!(!fixture.outside().join("linked").exists());
}

/// Makes a plugin that fails when it is told to, with no model.
fn fragile(fixture: &Fixture) -> Value {
    let program = format!("{PROGRAM}if 'boom' in request['arguments']['text']: sys.exit(3)\n");
    let files = [("plugin.yaml", &*manifest("fragile", 2)), ("main.py", &*program)];
    let made = fixture.data("self_create_plugin", given("fragile", &files));
    assert_eq!(made["registered"], true, "{made:#}");
    made
}

#[test]
fn a_server_that_runs_takes_a_new_plugin_up_and_drops_it_when_it_is_taken_back() {
    let fixture = example();
    let mut server = crate::server::Server::start(&fixture, &["--mode", "full_auto"]);
    let program = format!("{PROGRAM}if 'boom' in request['arguments']['text']: sys.exit(3)\n");
    let files = [("plugin.yaml", &*manifest("fragile", 2)), ("main.py", &*program)];
    // A question of this level is answered at a terminal alone, and the same call then passes once.
    let asked = server.call("self_create_plugin", given("fragile", &files));
    let id = asked["_meta"]["handfast/error"]["approval_id"].as_str().unwrap();
    assert_eq!(fixture.run(&["approvals", "approve", id]).code, 0);
    let made = server.call("self_create_plugin", given("fragile", &files)).to_string();
    assert!(made.contains("\\\"registered\\\":true"), "{made}");
    let mut call = |text: &str| {
        let arguments = json!({"name": "fragile", "arguments": {"text": text}});
        server.ask("tools/call", arguments).to_string()
    };
    eventually("the new tool", || call("a b").contains("\\\"words\\\":2"));
    assert!(call("boom").contains("ERUNTIME"));
    eventually("the tool is gone", || !call("a b").contains("EUNAVAILABLE"));
    assert!(!call("a b").contains("\\\"words\\\":2"), "{}", call("a b"));
}

#[test]
fn a_failure_in_the_first_five_runs_takes_a_plugin_back_and_the_list_tells_why() {
    let fixture = example();
    fragile(&fixture);
    let call = |text: &str| fixture.call("fragile", json!({"text": text}));
    for _ in 0..4 {
        assert_eq!(call("a b")["data"]["words"], 2);
    }
    let failed = call("boom");
    assert_eq!(failed["error"]["code"], "ERUNTIME");
    assert!(failed["error"]["hint"].as_str().unwrap().contains("was taken back"), "{failed:#}");
    assert_eq!(call("a b")["error"]["code"], "ENOTFOUND", "the tool is gone");
    let listed = capability(&fixture, "fragile");
    let status = listed["status"].as_str().unwrap();
    assert!(
        status.starts_with("quarantined: taken back, because one of its first 5 runs failed"),
        "{status}"
    );
    assert!(status.contains("exit code 3"), "{status}");
    assert_eq!(listed["description"], "Counts the words of a text.");
    let failed = fixture.data("self_list_capabilities", json!({"filter": "failed"}));
    assert!(failed["capabilities"].as_array().unwrap().contains(&listed), "{failed:#}");
    let plain = fixture.run(&["plugin", "list", "--json"]).json();
    assert_eq!(plain[0]["status"], "quarantined", "{plain:#}");

    // After five runs it is a plugin like all others, which three failures in a row quarantine.
    let fixture = example();
    fragile(&fixture);
    let call = |text: &str| fixture.call("fragile", json!({"text": text}));
    for _ in 0..5 {
        assert_eq!(call("a b")["data"]["words"], 2);
    }
    assert_eq!(call("boom")["error"]["code"], "ERUNTIME");
    assert_eq!(call("a b")["data"]["words"], 2);
}

#[test]
fn the_question_says_that_no_model_has_looked_and_which_tests_prove_nothing() {
    let fixture = example();
    let empty = manifest("p", 2).replace("result: {words: 2}", "result: {}");
    let arguments = given("p", &[("plugin.yaml", &empty), ("main.py", PROGRAM)]).to_string();
    let run = fixture.run(&["call", "self_create_plugin", &arguments]);
    assert_eq!(run.code, 4, "{}", run.stdout);
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("No model has looked at it: "), "{shown}");
    assert!(shown.contains("CAUTION: these tests pass with any data: example"), "{shown}");
    // A yes that comes later counts for these files alone.
    assert_eq!(fixture.run(&["approvals", "approve", &id]).code, 0);
    let run = fixture.run(&["call", "self_create_plugin", &arguments]);
    assert_eq!(run.json()["data"]["registered"], true, "{}", run.stdout);
}

#[test]
fn programs_of_gits_configuration_and_another_work_tree_are_refused() {
    let fixture = example();
    let evidence = fixture.workspace().join("evidence");
    let modify = || {
        fixture.call(
            "self_modify_source",
            json!({"path": "src/limit.js", "change_description": "x", "new_content": "exports.limit = 20;\n", "reason": "y"}),
        )
    };
    let filter = format!("sh -c 'touch {}; cat'", evidence.display());
    std::fs::write(fixture.workspace().join(".git/info/attributes"), "*.js filter=own\n").unwrap();
    git(&fixture, &["config", "filter.own.clean", &filter]);
    let refused = modify();
    assert_eq!(refused["error"]["code"], "EUNAVAILABLE", "{refused:#}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("filter.own.clean"), "{refused:#}");
    git(&fixture, &["config", "--unset", "filter.own.clean"]);
    git(&fixture, &["config", "merge.own.driver", &filter]);
    assert!(modify()["error"]["message"].as_str().unwrap().contains("merge.own.driver"));
    git(&fixture, &["config", "--unset", "merge.own.driver"]);
    assert!(!evidence.exists());
    git(&fixture, &["config", "core.worktree", fixture.outside().to_str().unwrap()]);
    let refused = modify();
    assert_eq!(refused["error"]["code"], "EUNAVAILABLE", "{refused:#}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("core.worktree"), "{refused:#}");
    std::fs::write(fixture.workspace().join(".git/config"), "[core]\n\trepositoryformatversion = 0\n")
        .unwrap();
    assert_eq!(modify()["data"]["applied"], true);
    // A folder that is a link out of the workspace is named with its real place.
    std::os::unix::fs::symlink(fixture.outside(), fixture.workspace().join("link")).unwrap();
    let config = fixture.home().join(".config/handfast/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap().replace("folder: .", "folder: link");
    std::fs::write(&config, text).unwrap();
    let refused = modify();
    assert_eq!(refused["error"]["code"], "EUNAVAILABLE", "{refused:#}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("outside the workspace") && !message.contains("/link"), "{refused:#}");
}
