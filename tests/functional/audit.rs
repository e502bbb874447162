//! `handfast audit`: it contains every call, and the hash chain proves this.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::Up;

fn listed(fixture: &Fixture) -> Vec<Value> {
    let run = fixture.run(&["audit", "list", "--json"]);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_call_is_listed_with_its_decision_and_outcome_the_newest_first() {
    let fixture = Fixture::with_files(&[("a.txt", "a"), (".env", "x")]).asking();
    fixture.data("file_read", json!({"path": "a.txt"}));
    fixture.data("file_write", json!({"path": "b.txt", "content": "b"}));
    fixture.error("file_read", json!({"path": ".env"}));
    fixture.run(&["call", "no_such_tool"]);
    fixture.run(&["call", "file_write", r#"{"path": "c.txt", "content": ""}"#]);
    let calls = listed(&fixture);
    let seen: Vec<_> = calls
        .iter()
        .map(|call| {
            let text = |field: &str| call[field].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {}", text("tool"), text("decision"), text("outcome"), text("effect"))
        })
        .collect();
    assert_eq!(
        seen,
        [
            "file_write check EAPPROVAL none",
            "no_such_tool - ENOTFOUND none",
            "file_read deny EPERMISSION none",
            "file_write check ok done",
            "file_read pass ok none",
        ]
    );
}

#[test]
fn a_write_has_its_intent_before_its_outcome_and_show_has_both() {
    let fixture = Fixture::new().asking();
    let result = fixture.call("file_write", json!({"path": "b.txt", "content": "b"}));
    let id = result["meta"]["call_id"].as_str().unwrap();
    let rows = fixture.run(&["audit", "show", id, "--json"]).json();
    let kinds: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["intent", "outcome"], "{rows:#}");
    assert_eq!(rows[0]["plan"]["arguments"]["content"], "b");
    assert_eq!(rows[1]["approved_by"], "--yes on the command line");
    // The start of an id is enough.
    assert_eq!(fixture.run(&["audit", "show", &id[..20], "--json"]).json(), rows);
    assert_eq!(fixture.run(&["audit", "show", "zzz"]).code, 2);
}

#[test]
fn verify_is_clean_and_holds_against_a_hash_kept_elsewhere() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    fixture.data("file_read", json!({"path": "a.txt"}));
    let first = fixture.run(&["audit", "verify", "--json"]).json();
    assert_eq!((first["ok"].as_bool(), first["rows"].as_i64()), (Some(true), Some(1)));
    let head = first["head"].as_str().unwrap();
    fixture.data("file_read", json!({"path": "a.txt"}));
    assert_eq!(fixture.run(&["audit", "verify", "--expect", head]).code, 0);
    let other = "0123456789abcdef".repeat(4);
    let run = fixture.run(&["audit", "verify", "--expect", &other]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert_eq!(fixture.run(&["audit", "verify", "--expect", "nonsense"]).code, 2);
}

#[test]
fn export_gives_every_row_as_json_lines() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    fixture.data("file_read", json!({"path": "a.txt"}));
    fixture.data("file_write", json!({"path": "b.txt", "content": "b"}));
    let rows: Vec<Value> = fixture
        .run(&["audit", "export"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1]["previous"], rows[0]["hash"]);
    assert_eq!((&rows[3]["tool"], &rows[3]["door"]), (&json!("audit_read"), &json!("cli")));
}

#[test]
fn a_reader_of_an_export_may_leave_early() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    fixture.data("file_read", json!({"path": "a.txt"}));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = fixture.command().args(["audit", "export"]).stdout(writer).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
}

#[test]
fn who_reads_the_audit_is_in_it_once_a_minute_and_who_verifies_it_is_not() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let call = fixture.call("file_read", json!({"path": "a.txt"}));
    let id = call["meta"]["call_id"].as_str().unwrap();
    let readings = || {
        let run = fixture.run(&["audit", "list", "--tool", "audit_read", "--json"]);
        let mut rows: Vec<Value> =
            run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        rows.reverse();
        rows
    };
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
    assert_eq!(readings().len(), 0, "verifying tells nothing, and a reading is recorded when it has read");
    for _ in 0..3 {
        fixture.run(&["audit"]);
        fixture.run(&["audit", "list", "--limit", "1"]);
        fixture.run(&["audit", "show", &id[..20]]);
        fixture.run(&["audit", "list", "--session", "s", "--since", "2020-01-01T00:00:00Z", "--json"]);
    }
    let read: Vec<Value> = readings().iter().map(|row| row["plan"]["arguments"].clone()).collect();
    let since = json!({"session": "s", "since": "2020-01-01T00:00:00Z"});
    assert_eq!(read, [json!({"tool": "audit_read"}), json!({}), json!({ "call": id }), since]);
    assert_eq!(listed(&fixture).len(), 1, "a reading is no call");

    let up = Up::start(&fixture, &[]);
    for path in ["/v1/audit?limit=1", "/v1/audit?limit=1&before=99", "/v1/audit/none", "/v1/audit?tool=t"] {
        for _ in 0..3 {
            up.get(&up.user, path);
        }
    }
    assert_eq!(up.get(&up.user, "/v1/audit").json()["calls"].as_array().unwrap().len(), 1);
    let over_http: Vec<Value> = readings().into_iter().filter(|row| row["door"] == "http").collect();
    let read: Vec<Value> =
        over_http.iter().map(|row| json!([row["plan"]["arguments"], row["outcome"]])).collect();
    assert_eq!(
        read,
        [json!([{}, "ok"]), json!([{"call": "none"}, "ENOTFOUND"]), json!([{"tool": "t"}, "ok"])]
    );
    assert!(over_http.iter().all(|row| row["plan"]["by"] == "the user, over HTTP"), "{over_http:#?}");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn a_log_on_a_read_only_file_system_is_verified_and_read_and_says_that_this_is_not_recorded() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    fixture.data("file_read", json!({"path": "a.txt"}));
    let verified = fixture.run(&["audit", "verify"]).stdout;
    let read_only = |arguments: &[&str]| {
        let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && shift && exec \"$@\"";
        let command = fixture.command();
        let output = std::process::Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(fixture.state())
            .arg(command.get_program())
            .args(command.get_args())
            .args(["audit"])
            .args(arguments)
            .env("HOME", fixture.home())
            .current_dir(fixture.workspace())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    assert_eq!(read_only(&["verify"]), (Some(0), verified.clone(), String::new()));
    for arguments in [&["list", "--json"][..], &["export"]] {
        let (code, read, said) = read_only(arguments);
        assert!(code == Some(0) && read.contains("file_read"), "{arguments:?}: {said}");
        assert!(said.contains("this access is not recorded"), "{arguments:?}: {said}");
    }
    assert_eq!(fixture.run(&["audit", "verify"]).stdout, verified);
}
