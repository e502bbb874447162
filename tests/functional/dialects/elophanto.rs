use serde_json::json;

use super::{call, decision, hold_to_the_contract, refuses};
use crate::harness::Fixture;
use crate::server::Server;

#[test]
fn every_schema_and_every_answer_is_that_of_the_contract() {
    hold_to_the_contract("elophanto", include_str!("../../../crates/dialects/contracts/elophanto.txt"));
}

#[test]
fn a_write_keeps_a_backup_unless_told_otherwise() {
    let fixture = Fixture::with_files(&[("a.txt", "old")]);
    let write = |arguments| call(&fixture, "elophanto", "file_write", &arguments).json()["data"].clone();
    let written = write(json!({"path": "a.txt", "content": "new", "backup": null}));
    assert_eq!(written, json!({"path": "a.txt", "size_bytes": 3, "backed_up": true}));
    assert_eq!((fixture.read("a.txt"), fixture.read("a.txt.bak")), ("new".to_owned(), "old".to_owned()));
    let written = write(json!({"path": "a.txt", "content": "newest", "backup": false}));
    assert_eq!(written["backed_up"], false);
    assert_eq!(fixture.read("a.txt.bak"), "old");
}

#[test]
fn dangerous_commands_ask_in_every_mode_and_read_only_ones_pass() {
    let fixture = Fixture::new();
    for mode in ["ask_always", "smart_auto", "full_auto"] {
        for command in
            ["rm -rf /", "mkfs /dev/sda", "dd if=/dev/zero of=x", ":(){ :|:& };:", "chmod -R 777 /"]
        {
            let options = ["--dialect", "elophanto", "--mode", mode];
            assert_eq!(
                decision(&fixture, &options, "shell_execute", json!({"command": command})),
                "check",
                "{mode} {command}"
            );
            let options = ["--mode", mode];
            assert_eq!(
                decision(&fixture, &options, "shell_execute", json!({"command": command})),
                "deny",
                "{mode} {command}"
            );
        }
    }
    for command in [
        "ls", "cat a", "pwd", "which ls", "echo a", "grep a b", "find .", "wc a", "head a", "tail a", "df",
        "du", "ps", "uname",
    ] {
        assert_eq!(
            decision(&fixture, &["--dialect", "elophanto"], "shell_execute", json!({"command": command})),
            "pass",
            "{command}"
        );
    }
    // Commands that can be undone are asked about in this dialect, because its source does so.
    assert_eq!(
        decision(&fixture, &["--dialect", "elophanto"], "shell_execute", json!({"command": "touch a"})),
        "check"
    );
}

#[test]
fn single_commands_are_set_to_moderate_by_configuration() {
    let fixture = Fixture::new();
    let checked = |command: &str, field: &str| {
        let arguments = json!({ "command": command }).to_string();
        let run = fixture.run(&["--dialect", "elophanto", "check", "shell_execute", &arguments]);
        run.json()[field].as_str().unwrap().to_owned()
    };
    assert_eq!(checked("touch a", "level"), "destructive");
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    moderate_exec_command: [touch]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    for (command, level) in
        [("touch a", "moderate"), ("rm a", "destructive"), ("touch a; rm a", "destructive")]
    {
        assert_eq!(checked(command, "level"), level, "{command}");
        // In mode smart_auto both levels ask.
        assert_eq!(checked(command, "decision"), "check", "{command}");
    }
    // The question names the level, too.
    let asked =
        fixture.run(&["--dialect", "elophanto", "call", "shell_execute", r#"{"command": "touch a"}"#]);
    assert_eq!(asked.code, 4, "{}", asked.stdout);
    let waiting = fixture.run(&["approvals", "list", "--json"]);
    assert!(waiting.stdout.contains(r#""level":"moderate""#), "{}", waiting.stdout);
}

#[test]
fn every_command_is_logged_before_it_runs() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &["--dialect", "elophanto", "--mode", "full_auto"]);
    for command in
        ["ls > /dev/null; until [ -e go ]; do sleep 0.05; done", "until [ -e go ]; do ls; sleep 0.05; done"]
    {
        let _running = server.begin("shell_execute", json!({"command": command, "timeout": 120}));
    }
    // Neither command can end, and both are in the audit.
    while fixture.recorded().len() < 2 {}
    for row in fixture.recorded() {
        assert_eq!((&row["kind"], &row["dialect"]), (&json!("intent"), &json!("elophanto")), "{row:#}");
        assert!(row["plan"]["arguments"]["command"].as_str().unwrap().contains("until [ -e go ]"), "{row:#}");
    }
    server.end();
}

#[test]
fn a_command_that_is_killed_says_so_in_its_fields() {
    let fixture = Fixture::new();
    let run = call(
        &fixture,
        "elophanto",
        "shell_execute",
        &json!({"command": "echo begun; sleep 60", "timeout": 1}),
    );
    let answer = run.json();
    assert_eq!((run.code, answer["error"]["code"].clone()), (1, json!("ETIMEOUT")));
    assert_eq!(
        answer["data"],
        json!({"stdout": "begun\n", "stderr": "", "exit_code": 137, "timed_out": true})
    );
}

#[test]
fn a_binary_file_and_a_long_one_come_whole() {
    let fixture = Fixture::with_files(&[("long.txt", &"line\n".repeat(100_000))]);
    std::fs::write(fixture.workspace().join("b.bin"), [0, 159, 146, 150]).unwrap();
    let read = |path: &str| {
        call(&fixture, "elophanto", "file_read", &json!({ "path": path })).json()["data"].clone()
    };
    let binary = read("b.bin");
    assert_eq!(
        binary,
        json!({"content": "AJ+Slg==", "size_bytes": 4, "mime_type": "application/octet-stream", "line_count": 0})
    );
    let long = read("long.txt");
    assert_eq!(
        (long["content"].as_str().unwrap().len(), long["line_count"].clone()),
        (500_000, json!(100_000))
    );
}

#[test]
fn bad_input_is_refused_by_name() {
    refuses(
        "elophanto",
        &[
            ("shell_execute", json!({"command": "ls", "background": true}), "'background' was unexpected"),
            ("shell_execute", json!({"command": 1}), "`command`"),
            ("shell_execute", json!({"command": null}), "`command`"),
            ("shell_execute", json!({"command": "ls", "timeout": 3601}), "`timeout`"),
            ("shell_execute", json!({"command": "ls", "timeout": 1.5}), "`timeout`"),
            ("file_read", json!({"path": "a.txt", "lines": {"from": 1}}), "`lines`"),
            ("file_read", json!({"path": "a.txt", "lines": {"start": 3, "end": 2}}), "`lines.end`"),
            ("file_read", json!({"path": "a.txt", "max_bytes": 5}), "'max_bytes' was unexpected"),
            ("file_write", json!({"path": "a.txt"}), "\"content\" is a required property"),
            ("file_write", json!({"path": "a.txt", "content": "x", "backup": "yes"}), "`backup`"),
            ("self_list_capabilities", json!({"filter": "some"}), "`filter`"),
        ],
    );
}

#[test]
fn statements_of_a_file_and_block_devices_are_dangerous_in_every_mode() {
    let fixture = Fixture::with_files(&[
        ("drop.sql", "CREATE TABLE a (b int);\nDROP DATABASE x;\n"),
        ("fine.sql", "SELECT 1;\n"),
    ]);
    for (command, expected) in [
        ("psql -f drop.sql", "check"),
        ("mysql x < drop.sql", "check"),
        ("cat drop.sql | psql x", "check"),
        ("psql -f absent.sql", "check"),
        ("psql -f fine.sql", "pass"),
        ("cat fine.sql | psql x", "pass"),
        ("mongosh --eval 'db.dropDatabase()'", "check"),
        ("cp a /dev/sda", "check"),
        ("cp a b", "pass"),
    ] {
        let options = ["--dialect", "elophanto", "--mode", "full_auto"];
        assert_eq!(
            decision(&fixture, &options, "shell_execute", json!({"command": command})),
            expected,
            "{command}"
        );
    }
}

#[test]
fn a_query_is_a_select_a_search_without_a_model_and_text_that_is_not_utf_8_say_so() {
    let fixture = Fixture::with_files(&[("knowledge/a.md", "# A\n\napples\n")]);
    std::fs::write(fixture.workspace().join("bad.txt"), b"caf\xe9\n").unwrap();
    let answer =
        |tool: &str, arguments: serde_json::Value| call(&fixture, "elophanto", tool, &arguments).json();
    for sql in ["EXPLAIN SELECT 1", "VALUES (1)", "PRAGMA table_list"] {
        let refused = answer("db_query", json!({"sql": sql}));
        assert_eq!(refused["error"]["code"], "EVALIDATION", "{sql}: {refused:#}");
    }
    assert_eq!(
        answer("db_query", json!({"sql": "WITH a AS (SELECT 1 AS b) SELECT b FROM a"}))["data"]["row_count"],
        1
    );
    let searched = answer("knowledge_search", json!({"query": "apples"}));
    assert!(searched["meta"]["warnings"].to_string().contains("by words alone"), "{searched:#}");
    let read = answer("file_read", json!({"path": "bad.txt"}));
    assert!(read["meta"]["warnings"].to_string().contains("latin-1"), "{read:#}");
    assert_eq!(
        answer("file_read", json!({"path": "bad.txt", "encoding": "latin-1"}))["data"]["content"],
        "café\n"
    );
}

#[test]
fn a_secret_that_is_bound_to_no_host_says_so_and_a_short_one_is_refused_with_the_reason() {
    let fixture = Fixture::new().with_vault();
    let set = |value: &str| {
        call(&fixture, "elophanto", "vault_set", &json!({"key": "github.com", "value": value})).json()
    };
    let stored = set("ghp_0123456789");
    assert_eq!(stored["data"], json!({"key": "github.com", "stored": true}), "{stored:#}");
    let warned = stored["meta"]["warnings"].to_string();
    assert!(warned.contains("no host yet") && warned.contains(" vault set github.com --host"), "{warned}");
    let short = set("1234");
    assert_eq!(short["error"]["code"], "EVALIDATION", "{short:#}");
    assert!(
        short["error"]["message"].as_str().unwrap().contains("`value`: a value needs at least 12"),
        "{short:#}"
    );
    assert!(short["error"]["hint"].as_str().unwrap().contains("nothing was stored"), "{short:#}");
}

#[test]
fn the_list_of_capabilities_is_that_of_the_dialect_and_says_what_does_not_work() {
    let listed = |fixture: &Fixture| {
        let answer = call(fixture, "elophanto", "self_list_capabilities", &json!({})).json();
        answer["data"]["capabilities"].as_array().unwrap().clone()
    };
    let status = |all: &[serde_json::Value], name: &str| {
        let found = all.iter().find(|one| one["name"] == name);
        found.map(|one| one["status"].as_str().unwrap().to_owned())
    };
    let without = listed(&Fixture::new());
    assert_eq!(status(&without, "tool_search"), None);
    assert_eq!(status(&without, "file_read").as_deref(), Some("ready"));
    assert!(status(&without, "gmail_search").unwrap().starts_with("not logged in: "));
    assert!(status(&without, "vault_set").unwrap().starts_with("unavailable: "));
    let locked = Fixture::new().with_vault();
    locked.store("name", "a value of some length");
    assert_eq!(status(&listed(&locked), "vault_set").as_deref(), Some("ready"));
    std::fs::remove_file(locked.key_file()).unwrap();
    for tool in ["vault_set", "gmail_search"] {
        let told = status(&listed(&locked), tool).unwrap();
        assert!(told.starts_with("locked: "), "{tool}: {told}");
    }
    let with = listed(&Fixture::new().with_vault());
    assert!(status(&with, "gmail_search").unwrap().contains("handfast login gmail"));
}
