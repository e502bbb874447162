//! A database change that is killed at any point has either happened, with its checkpoint, or not
//! happened, without one.

use serde_json::{Value, json};

use crate::durability::killed::{Ended, kill_at};
use crate::harness::Fixture;

fn values(fixture: &Fixture) -> Value {
    fixture.data("db_query", json!({"sql": "SELECT v FROM n"}))["rows"].take()
}

/// Counts the calls of `db_write` that can be undone.
fn checkpoints(fixture: &Fixture) -> usize {
    let listed = fixture.data("checkpoint_list", json!({"limit": 1000}));
    listed["checkpoints"].as_array().unwrap().iter().filter(|found| found["tool"] == "db_write").count()
}

#[test]
fn a_write_killed_at_any_point_leaves_a_sound_database_and_an_honest_checkpoint() {
    for sql in ["UPDATE n SET v = 'after'", "ALTER TABLE n ADD COLUMN w"] {
        let (mut happened, mut did_not) = (0, 0);
        let mut point = 1;
        loop {
            let fixture = Fixture::new();
            fixture.data("db_write", json!({"sql": "CREATE TABLE n (v)"}));
            fixture.data("db_write", json!({"sql": "INSERT INTO n VALUES ('before')"}));
            let (before, many) = (values(&fixture), checkpoints(&fixture));
            let mut command = fixture.command();
            command.args(["call", "--yes", "db_write", &json!({ "sql": sql }).to_string()]);
            let ended = kill_at(&command, point);
            let columns =
                fixture.data("db_schema", json!({}))["tables"][0]["columns"].as_array().unwrap().len();
            let is_changed = values(&fixture) != before || columns != 1;
            assert_eq!(checkpoints(&fixture) - many, usize::from(is_changed), "{sql} at {point}: {ended:?}");
            let check = fixture.data("db_query", json!({"sql": "PRAGMA integrity_check"}));
            assert_eq!(check["rows"], json!([{"integrity_check": "ok"}]), "{sql} at {point}: {ended:?}");
            if is_changed {
                let id = fixture.data("checkpoint_list", json!({"limit": 1}))["checkpoints"][0]["id"].take();
                let undone = fixture.call("checkpoint_restore", json!({ "id": id }));
                assert_eq!(undone["ok"], true, "{sql} at {point}: {undone:#}");
                assert_eq!(values(&fixture), before, "{sql} at {point}: {ended:?}");
                happened += 1;
            } else {
                did_not += 1;
            }
            let Ended::Killed(_) = ended else { break };
            point += 13;
        }
        // The controls: kills before and after the change both occurred.
        assert!(happened > 0 && did_not > 0, "{sql}: {happened} {did_not} of {point}");
    }
}
