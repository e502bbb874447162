//! The agent's own database: the decision on each statement, the results, and undoing every change.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::server::Server;

fn write(fixture: &Fixture, sql: &str) -> String {
    let result = fixture.call("db_write", json!({ "sql": sql }));
    assert_eq!(result["ok"], true, "{sql}: {result:#}");
    result["meta"]["checkpoint"].as_str().unwrap_or_else(|| panic!("{sql}: {result:#}")).to_owned()
}

fn rows(fixture: &Fixture, sql: &str) -> Value {
    fixture.data("db_query", json!({ "sql": sql }))["rows"].take()
}

fn filled() -> Fixture {
    let fixture = Fixture::new();
    write(&fixture, "CREATE TABLE n (id INTEGER PRIMARY KEY, v TEXT)");
    write(&fixture, "INSERT INTO n(v) VALUES ('a'), ('b')");
    fixture
}

const ALL: &str = "SELECT id, v FROM n ORDER BY id";

#[test]
fn what_a_call_changed_in_a_database_is_listed_shown_undone_and_done_again() {
    let fixture = filled();
    let before = rows(&fixture, ALL);
    let id = write(&fixture, "UPDATE n SET v = upper(v) WHERE id = 2");
    let after = rows(&fixture, ALL);
    assert_eq!(after[1]["v"], "B");
    let listed = fixture.data("checkpoint_list", json!({"limit": 1}));
    assert_eq!(
        (&listed["checkpoints"][0]["id"], &listed["checkpoints"][0]["tool"]),
        (&json!(id), &json!("db_write"))
    );
    let diff = fixture.data("checkpoint_diff", json!({ "id": id }));
    assert_eq!(
        diff["diff"],
        "--- a/.handfast/data.db\n+++ b/.handfast/data.db\n-n(2, \"b\")\n+n(2, \"B\")\n"
    );
    let tried = fixture.data("checkpoint_restore", json!({"id": id, "dry_run": true}));
    assert_eq!((&tried["paths"], &rows(&fixture, ALL)), (&json!(1), &after), "{tried:#}");
    // Undone by the agent, and then by the user.
    let undone = fixture.call("checkpoint_restore", json!({ "id": id }));
    assert_eq!(undone["ok"], true, "{undone:#}");
    assert_eq!(rows(&fixture, ALL), before);
    let again = undone["meta"]["checkpoint"].as_str().unwrap();
    let run = fixture.run(&["undo", "--json", again]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(rows(&fixture, ALL), after);
    let shown =
        fixture.run(&["checkpoints", "show", run.json()["checkpoint"].as_str().unwrap(), "--json"]).json();
    assert_eq!(shown["changes"], json!([{"what": "changed", "path": ".handfast/data.db"}]), "{shown:#}");
}

#[test]
fn files_and_data_since_a_call_are_undone_together() {
    let fixture = filled();
    fixture.write("f", "old");
    let before = rows(&fixture, ALL);
    let first = write(&fixture, "DELETE FROM n WHERE id = 1");
    fixture.data("file_write", json!({"path": "f", "content": "new"}));
    write(&fixture, "CREATE INDEX i ON n(v)");
    fixture.data("file_write", json!({"path": "g", "content": "more"}));
    let undone = fixture.call("checkpoint_restore", json!({"id": first, "and_later": true}));
    assert_eq!(undone["ok"], true, "{undone:#}");
    assert_eq!((rows(&fixture, ALL), fixture.read("f")), (before, "old".to_owned()));
    assert!(!fixture.workspace().join("g").exists());
    // Undoing the undo brings all of it back.
    let run = fixture.run(&["undo", "--json", undone["meta"]["checkpoint"].as_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!((rows(&fixture, ALL).as_array().unwrap().len(), fixture.read("f")), (1, "new".to_owned()));
    assert_eq!(fixture.read("g"), "more");
    let schema = fixture.data("db_schema", json!({"table": "n"}));
    assert_eq!(schema["tables"][0]["indexes"][0]["name"], "i", "{schema:#}");
}

#[test]
fn rows_that_were_changed_since_are_a_conflict_that_undoes_nothing() {
    let fixture = filled();
    fixture.write("f", "old");
    let first = write(&fixture, "UPDATE n SET v = 'mine' WHERE id = 1");
    fixture.data("file_write", json!({"path": "f", "content": "new"}));
    write(&fixture, "UPDATE n SET v = 'theirs' WHERE id = 1");
    for arguments in [json!({"id": first}), json!({"id": first, "paths": [".handfast/data.db"]})] {
        let error = fixture.error("checkpoint_restore", arguments);
        assert_eq!(error["code"], "ECONFLICT", "{error:#}");
        assert!(error["message"].as_str().unwrap().contains("row 1"), "{error:#}");
    }
    assert_eq!((rows(&fixture, ALL)[0]["v"].clone(), fixture.read("f")), (json!("theirs"), "new".to_owned()));
    let run = fixture.run(&["undo", "--json", &first, "--force"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(rows(&fixture, ALL)[0]["v"], "a");
}

#[test]
fn statements_are_decided_by_what_they_do_and_by_the_lists() {
    let fixture = filled();
    let checked = |options: &[&str], sql: &str| {
        let arguments = json!({ "sql": sql }).to_string();
        let checked = fixture.run(&[options, &["check", "db_write", &arguments]].concat()).json();
        let field = |name: &str| checked[name].as_str().unwrap_or_else(|| panic!("{checked:#}")).to_owned();
        (field("decision"), field("level"))
    };
    let said = |decision: &str, level: &str| (decision.to_owned(), level.to_owned());
    for (sql, level) in [
        ("INSERT INTO n(v) VALUES ('x')", "moderate"),
        ("UPDATE n SET v = 'x'", "moderate"),
        ("CREATE TABLE t (a)", "moderate"),
        ("DELETE FROM n", "destructive"),
        ("DROP TABLE n", "destructive"),
    ] {
        assert_eq!(checked(&[], sql), said("check", level), "{sql}");
        assert_eq!(checked(&["--mode", "full_auto"], sql), said("pass", level), "{sql}");
    }
    for sql in ["TRUNCATE n", "DROP DATABASE main", "-- x\ntruncate table n"] {
        assert_eq!(checked(&["--mode", "full_auto"], sql), said("deny", "destructive"), "{sql}");
        let asked = checked(&["--dialect", "elophanto", "--mode", "full_auto"], sql);
        assert_eq!(asked, said("check", "destructive"), "{sql}");
    }
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    allowed_database_statements: [insert]\n    deny_database_statements: [drop, update n]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    assert_eq!(checked(&[], "INSERT INTO n(v) VALUES ('x')").0, "pass");
    assert_eq!(checked(&[], "DELETE FROM n").0, "check");
    for sql in ["DROP TABLE n", "UPDATE n SET v = 1"] {
        assert_eq!(checked(&["--mode", "full_auto"], sql).0, "deny", "{sql}");
        assert_eq!(fixture.error("db_write", json!({ "sql": sql }))["code"], "EPERMISSION", "{sql}");
    }
    assert_eq!(rows(&fixture, "SELECT count(*) AS c FROM n"), json!([{"c": 2}]));
}

#[test]
fn another_database_by_configuration_has_its_own_data() {
    let fixture = filled();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), "databases:\n  shop: shop.sqlite\n").unwrap();
    let on = |sql: &str| json!({"sql": sql, "database": "shop"});
    fixture.data("db_write", on("CREATE TABLE goods (name)"));
    fixture.data("db_write", on("INSERT INTO goods VALUES ('x')"));
    assert_eq!(fixture.data("db_query", on("SELECT name FROM goods"))["rows"], json!([{"name": "x"}]));
    assert!(fixture.workspace().join("shop.sqlite").exists());
    assert_eq!(fixture.error("file_read", json!({"path": "shop.sqlite"}))["code"], "EPERMISSION");
    assert_eq!(fixture.error("db_query", json!({"sql": "SELECT * FROM goods"}))["code"], "EVALIDATION");
    for wrong in ["../out.db", "/tmp/out.db", "a/../b"] {
        std::fs::write(folder.join("config.yaml"), format!("databases:\n  shop: {wrong}\n")).unwrap();
        let run = fixture.run(&["tools"]);
        assert!(run.code == 2 && run.stderr.contains("`databases`"), "{wrong}: {}", run.stderr);
    }
}

#[test]
fn a_statement_that_never_ends_is_timed_out_and_changes_nothing() {
    let fixture = filled();
    let forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
    let error = fixture.error("db_query", json!({"sql": forever, "timeout": 1}));
    assert_eq!(error["code"], "ETIMEOUT", "{error:#}");
    let error =
        fixture.error("db_write", json!({"sql": format!("INSERT INTO n(v) {forever}"), "timeout": 1}));
    assert_eq!((&error["code"], &error["effect"]), (&json!("ETIMEOUT"), &json!("none")), "{error:#}");
    assert_eq!(rows(&fixture, "SELECT count(*) AS c FROM n"), json!([{"c": 2}]));
}

#[test]
fn what_another_process_changed_is_read_also_by_a_server_that_has_it_open() {
    let fixture = filled();
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    let mut count =
        || server.data("db_query", json!({"sql": "SELECT count(*) AS c FROM n"}))["rows"][0]["c"].clone();
    assert_eq!(count(), 2);
    write(&fixture, "INSERT INTO n(v) VALUES ('c')");
    assert_eq!(count(), 3);
    server.end();
}

#[test]
fn a_damaged_file_is_told_apart_from_a_wrong_statement() {
    let fixture = Fixture::with_files(&[(
        ".handfast/data.db",
        "this is not a database, whatever its name says, and it is long enough to be looked at",
    )]);
    for (tool, sql) in [("db_query", "SELECT * FROM n"), ("db_write", "CREATE TABLE n (a)")] {
        let error = fixture.error(tool, json!({ "sql": sql }));
        assert_eq!(error["code"], "ERUNTIME", "{error:#}");
        assert!(error["message"].as_str().unwrap().contains("not a SQLite database"), "{error:#}");
    }
    let error = filled().error("db_query", json!({"sql": "SELECT * FROM nowhere"}));
    assert_eq!(error["code"], "EVALIDATION", "{error:#}");
}

/// Returns the size of the saved contents in bytes.
fn saved(fixture: &Fixture) -> u64 {
    let folders = std::fs::read_dir(fixture.state().join("blobs")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn a_change_of_the_schema_of_a_large_database_is_saved_in_pieces_and_undone_exactly() {
    let fixture = Fixture::new();
    write(&fixture, "CREATE TABLE large (id INTEGER PRIMARY KEY, b BLOB)");
    // Random bytes cannot be compressed.
    for _ in 0..4 {
        write(&fixture, "INSERT INTO large(b) SELECT randomblob(3000000)");
    }
    let all = "SELECT id, hex(substr(b, 1500000, 64)) AS part, length(b) AS long FROM large ORDER BY id";
    let before = rows(&fixture, all);
    let at_first = saved(&fixture);
    let altered = write(&fixture, "ALTER TABLE large ADD COLUMN more TEXT DEFAULT 'm'");
    let first = saved(&fixture) - at_first;
    assert!(first > 12_000_000, "{first}");
    let indexed = write(&fixture, "CREATE INDEX by_more ON large(more)");
    let again = saved(&fixture) - at_first - first;
    assert!(again < first / 4, "only what differs takes room again: {again} of {first}");
    let diff = fixture.data("checkpoint_diff", json!({ "id": indexed }))["diff"].take();
    assert_eq!(
        diff,
        "--- a/.handfast/data.db\n+++ b/.handfast/data.db\n+CREATE INDEX by_more ON large(more)\n"
    );
    let dropped = write(&fixture, "DROP TABLE large");
    let undone = fixture.call("checkpoint_restore", json!({ "id": dropped }));
    assert_eq!(undone["ok"], true, "{undone:#}");
    let run = fixture.run(&["undo", "--json", undone["meta"]["checkpoint"].as_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = fixture.run(&["undo", "--since", &altered, "--json"]);
    assert_eq!(run.code, 0, "{}{}", run.stderr, run.stdout);
    assert_eq!(rows(&fixture, all), before);
    let columns = fixture.data("db_schema", json!({}))["tables"][0]["columns"].as_array().unwrap().len();
    assert_eq!(columns, 2);
    let aside = store_sqlite::spool(&fixture.state());
    assert_eq!(std::fs::read_dir(aside).unwrap().count(), 0, "no copy is left");
    // Damaged pieces on the disk are reported, and nothing changes.
    let folders = std::fs::read_dir(fixture.state().join("blobs")).unwrap();
    for file in folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap()) {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|end| end == "zst") && bytes.len() > 100_000 {
            bytes[90_000] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let run = fixture.run(&["undo", "--json", &altered, "--force"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("a piece of it is damaged"), "{}", run.stderr);
    assert_eq!(rows(&fixture, all), before);
}
