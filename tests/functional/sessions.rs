//! Background commands and terminals through the real MCP door.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::server::Server;
use crate::shown::data_of;

const FREE: [&str; 2] = ["--mode", "full_auto"];

#[test]
fn a_server_in_the_background_is_listed_read_and_closed() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let started =
        server.call("shell_execute", json!({"command": "echo up; exec sleep 1000", "background": true}));
    let id = data_of("shell_execute", &started)["session_id"].as_str().unwrap().to_owned();
    let call = started["_meta"]["handfast/meta"]["call_id"].as_str().unwrap();
    let recorded = fixture.run(&["audit", "show", call]).stdout;
    assert!(recorded.contains("workspace:direct"), "{recorded}");
    server.expect(&id, 0, "^up$");
    let listed = server.data("shell_session", json!({"action": "list"}));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sessions"][0]["state"], "running");
    let closed = server.data("shell_session", json!({"action": "close", "session_id": id}));
    assert_eq!(closed["sessions"][0]["ended_by"], "closed");
    let reference = closed["sessions"][0]["output_ref"].as_str().unwrap().to_owned();
    let kept = server.call("output_read", json!({"output_ref": reference}));
    assert!(data_of("output_read", &kept)["content"].as_str().unwrap().starts_with("up\n"), "{kept:#}");
    server.end();
}

#[test]
fn an_interpreter_on_a_terminal_is_driven_with_keys() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background("exec python3 -q -i", true);
    let at = server.expect(&id, 0, "^>>> ");
    server.press(&id, "print('sum', 40 + 2)", &["enter"]);
    let at = server.expect(&id, at, "^sum 42$");
    let at = server.expect(&id, at, "^>>> ");
    server.press(&id, "", &["up", "enter"]);
    let at = server.expect(&id, at, "^sum 42$");
    server.press(&id, "import time; print('asleep'); time.sleep(1000)", &["enter"]);
    let at = server.expect(&id, at, "^asleep$");
    server.press(&id, "", &["ctrl-c"]);
    let at = server.expect(&id, at, "^KeyboardInterrupt");
    let at = server.expect(&id, at, "^>>> ");
    let resized = json!({"action": "resize", "session_id": id, "size": "132x43"});
    server.data("shell_session", resized);
    server.press(&id, "import os; print(os.get_terminal_size())", &["enter"]);
    server.expect(&id, at, r"columns=132, lines=43");
    server.press(&id, "exit(3)", &["enter"]);
    server.data(
        "shell_session",
        json!({"action": "read", "session_id": id, "offset": 1_u64 << 40, "wait": 60}),
    );
    let listed = server.data("shell_session", json!({"action": "list"}));
    assert_eq!(
        (&listed["sessions"][0]["exit_code"], &listed["sessions"][0]["ended_by"]),
        (&json!(3), &json!("finished")),
        "{listed:#}"
    );
    server.end();
}

#[test]
fn output_is_read_at_the_same_offsets_by_the_next_process() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background("seq 1 50000; exec sleep 1000", false);
    server.expect(&id, 0, "^50000$");
    let part = json!({"action": "read", "session_id": id, "offset": 200_000, "limit": 30});
    let live = server.data("shell_session", part.clone());
    // The session ends with its connection, and its output remains readable.
    server.end();
    let later = fixture.data("shell_session", part);
    assert_eq!((&later["content"], &later["next_offset"]), (&live["content"], &live["next_offset"]));
    let content = later["content"].as_str().unwrap();
    assert!((25..=30).contains(&content.len()) && content.ends_with('\n'), "whole lines: {content}");
    let found =
        fixture.data("shell_session", json!({"action": "read", "session_id": id, "regex": "^4999[89]$"}));
    assert_eq!(found["content"], "49998\n49999\n");
}

#[test]
fn nothing_outlives_one_call_and_what_is_typed_is_asked_about() {
    let fixture = Fixture::new();
    let refused = fixture.error("shell_execute", json!({"command": "sleep 1000", "background": true}));
    assert_eq!(refused["code"], "EUNAVAILABLE", "{refused:#}");
    // `ls` as a command passes. Typed into a running program it does not, because a program may
    // treat it as anything.
    let run = |tool: &str, arguments: Value| {
        fixture.run(&["check", tool, &arguments.to_string()]).json()["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!(run("shell_execute", json!({"command": "ls"})), "pass");
    let write = json!({"action": "write", "session_id": "x", "text": "ls\n"});
    assert_eq!(run("shell_session", write), "check");
    for free in ["read", "close"] {
        assert_eq!(run("shell_session", json!({"action": free, "session_id": "x"})), "pass", "{free}");
    }
    fixture.write("handfast.yaml", "sandbox_config:\n  normal:\n    deny_exec_command: [git push]\n");
    let write = json!({"action": "write", "session_id": "x", "text": "cd a && git push\n"});
    assert_eq!(run("shell_session", write), "deny");
}

#[test]
fn the_ninth_session_is_refused_until_one_is_closed() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let ids: Vec<String> = (0..8).map(|_| server.background("exec sleep 1000", false)).collect();
    let ninth = json!({"command": "exec sleep 1000", "background": true});
    let refused = server.call("shell_execute", ninth.clone());
    assert!(refused["content"][0]["text"].as_str().unwrap().starts_with("EQUOTA"), "{refused:#}");
    server.data("shell_session", json!({"action": "close", "session_id": ids[3]}));
    server.data("shell_execute", ninth);
    server.end();
}

#[test]
fn the_limits_of_a_profile_bound_sessions_and_a_workspace_can_only_lower_them() {
    let lines = "sandbox_config:\n  normal:\n    limits:\n      sessions: 2\n      session_seconds: 1\n";
    let fixture = Fixture::with_files(&[("handfast.yaml", lines)]);
    let mut server = Server::start(&fixture, &FREE);
    let ids: Vec<String> = (0..2).map(|_| server.background("exec sleep 1000", false)).collect();
    let third = json!({"command": "exec sleep 1000", "background": true});
    let refused = server.call("shell_execute", third);
    let text = refused["content"][0]["text"].as_str().unwrap();
    // After a slow start, the first command may have reached its limit of one second and made room.
    let ended = |server: &mut Server| {
        let listed = server.data("shell_session", json!({"action": "list"}));
        listed["sessions"][0]["ended_by"] == "timeout"
    };
    assert!(
        text.contains("the limit is 2") && text.contains("limits.sessions") || ended(&mut server),
        "{text}"
    );
    while !ended(&mut server) {
        let read = json!({"action": "read", "session_id": ids[0], "offset": 1_u64 << 40, "wait": 60});
        server.data("shell_session", read);
    }
    server.end();

    // An untrusted file raises no limit.
    fixture.write("handfast.yaml", "sandbox_config:\n  normal:\n    limits:\n      sessions: 100\n");
    let policy = fixture.run(&["policy", "show", "--json"]);
    assert_eq!(policy.code, 0, "{}", policy.stderr);
    let mut server = Server::start(&fixture, &FREE);
    let ids: Vec<String> = (0..8).map(|_| server.background("exec sleep 1000", false)).collect();
    let ninth = server.call("shell_execute", json!({"command": "exec sleep 1000", "background": true}));
    assert!(ninth["content"][0]["text"].as_str().unwrap().contains("the limit is 8"), "{ids:?}: {ninth:#}");
    server.end();
}

#[test]
fn nothing_outlives_a_connection_that_the_program_ends_with() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let kept = json!({"command": "exec sleep 1000", "background": true, "keep": true});
    let refused = server.call("shell_execute", kept.clone());
    assert_eq!(refused["_meta"]["handfast/error"]["code"], "EUNAVAILABLE", "{refused:#}");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no program can outlive this session") && text.contains("handfast up"), "{text}");
    let listed = server.data("shell_session", json!({"action": "list"}));
    assert_eq!(listed["sessions"], json!([]));
    server.end();
    assert_eq!(fixture.error("shell_execute", kept)["code"], "EUNAVAILABLE");
    let waited_for = fixture.error("shell_execute", json!({"command": "true", "keep": true}));
    assert_eq!(waited_for["code"], "EVALIDATION");
}
