//! The files of the agent's database are SQLite's alone: no file tool reaches them, and no cell
//! shows them.

use serde_json::json;

use crate::harness::{Fixture, unread};
use crate::server::Server;

const FOLDER: &str = ".handfast";

fn filled() -> Fixture {
    let fixture = Fixture::with_files(&[("plain", "plain\n")]);
    fixture.data("db_write", json!({"sql": "CREATE TABLE n (v)"}));
    fixture.data("db_write", json!({"sql": "INSERT INTO n VALUES ('kept')"}));
    fixture
}

#[track_caller]
fn is_whole(fixture: &Fixture, after: &str) {
    let rows = fixture.data("db_query", json!({"sql": "SELECT v FROM n"}));
    assert_eq!(rows["rows"], json!([{"v": "kept"}]), "after {after}");
    let check = fixture.data("db_query", json!({"sql": "PRAGMA integrity_check"}));
    assert_eq!(check["rows"], json!([{"integrity_check": "ok"}]), "after {after}");
}

#[test]
fn no_file_tool_reads_writes_moves_or_removes_a_database() {
    let fixture = filled();
    std::os::unix::fs::symlink(format!("{FOLDER}/data.db"), fixture.workspace().join("link")).unwrap();
    for path in [".handfast/data.db", ".handfast/data.db-wal", "./.handfast/../.handfast/data.db", "link"] {
        for (tool, arguments) in [
            ("file_read", json!({ "path": path })),
            ("file_write", json!({"path": path, "content": "x"})),
            ("file_move", json!({"source": "plain", "destination": path})),
        ] {
            let error = fixture.error(tool, arguments.clone());
            assert_eq!(error["code"], "EPERMISSION", "{tool} {arguments}: {error:#}");
            is_whole(&fixture, &format!("{tool} {arguments}"));
        }
    }
    for (tool, arguments) in [
        ("file_delete", json!({"path": FOLDER, "recursive": true})),
        ("file_move", json!({"source": FOLDER, "destination": "stolen"})),
        ("file_delete", json!({"path": ".handfast/data.db"})),
    ] {
        assert_eq!(fixture.error(tool, arguments.clone())["code"], "EPERMISSION", "{tool} {arguments}");
        is_whole(&fixture, &format!("{tool} {arguments}"));
    }
    // The control, and a check that a search does not find the database's content either.
    assert_eq!(fixture.data("file_read", json!({"path": "plain"}))["content"], "plain\n");
    let found = fixture.data("file_search", json!({"pattern": "kept", "include_hidden": true}));
    assert_eq!(
        found["total"].as_u64().or(found["matches"].as_array().map(|all| all.len() as u64)),
        Some(0),
        "{found:#}"
    );
}

#[test]
fn a_database_is_absent_in_cells_and_no_command_puts_another_file_in_its_place() {
    let fixture = filled();
    for command in [
        "cat .handfast/data.db",
        "strings .handfast/* 2>/dev/null | grep kept || grep -r kept .handfast",
        "rm -rf .handfast",
        "mv .handfast away && mkdir .handfast && echo evil > .handfast/data.db",
        "echo evil > .handfast/data.db",
        "echo evil > .handfast/data.db-journal",
        "ln -s plain .handfast/data.db",
        "cp -a .handfast away",
    ] {
        let result = fixture
            .call("shell_execute", json!({"command": unread(&format!("{command}; echo done > control"))}));
        let shown = result["data"]["stdout"].as_str().unwrap_or_default();
        assert!(!shown.contains("kept"), "{command}: {result:#}");
        is_whole(&fixture, command);
    }
    // In a workspace without a database, a command cannot plant one.
    let fixture = Fixture::new();
    let made = fixture.call(
        "shell_execute",
        json!({"command": unread("mkdir .handfast; echo evil > .handfast/data.db; echo done > control")}),
    );
    assert_eq!(made["ok"], false, "{made:#}");
    assert!(!fixture.workspace().join(FOLDER).exists());
    let control = fixture.call("shell_execute", json!({"command": unread("echo done > control")}));
    assert_eq!((control["ok"].clone(), fixture.read("control")), (json!(true), "done\n".to_owned()));
}

#[test]
fn a_hard_link_of_a_database_made_while_a_server_runs_is_read_by_no_tool_and_no_command() {
    let fixture = filled();
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    // The server has already looked for denied files, and knows the database.
    server.data("shell_execute", json!({"command": "true"}));
    server.data("file_read", json!({"path": "plain"}));
    for (round, name) in ["copy", "folder/copy.txt", "again"].into_iter().enumerate() {
        let link = fixture.workspace().join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::fs::hard_link(fixture.workspace().join(FOLDER).join("data.db"), &link).unwrap();
        let read = server.call("file_read", json!({"path": name}));
        assert_eq!(read["isError"], true, "{round}: {read:#}");
        assert!(read.to_string().contains("hard link"), "{round}: {read:#}");
        let line = unread(&format!("cat {name} | tr -d '\\0'; cat plain"));
        let found = server.data("shell_execute", json!({ "command": line }));
        let shown = found["stdout"].as_str().unwrap_or_default();
        assert!(shown.ends_with("plain\n") && !shown.contains("SQLite"), "{round}: {found:#}");
        std::fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_hostile_database_of_a_stranger_runs_nothing() {
    // The schema calls a function that would load a library: from a view, a trigger, a default.
    let fixture = filled();
    for (made, used) in [
        ("CREATE VIEW seen AS SELECT load_extension('x') AS a", "INSERT INTO n SELECT a FROM seen"),
        (
            "CREATE TRIGGER told AFTER INSERT ON n BEGIN SELECT load_extension('x'); END",
            "INSERT INTO n VALUES ('x')",
        ),
        ("CREATE TABLE filled (a, b DEFAULT (load_extension('x')))", "INSERT INTO filled(a) VALUES (1)"),
    ] {
        let made = fixture.call("db_write", json!({ "sql": made }));
        let used = fixture.call("db_write", json!({ "sql": used }));
        // SQLite refuses the call when the object is made, or else when it is used.
        let refused = [&made, &used].map(|result| {
            let message = result["error"]["message"].as_str().unwrap_or_default();
            result["ok"] == false && message.contains("load_extension")
        });
        assert!(refused.contains(&true), "{made:#} {used:#}");
    }
    assert_eq!(fixture.data("db_query", json!({"sql": "SELECT 1 AS one"}))["rows"], json!([{"one": 1}]));
}
