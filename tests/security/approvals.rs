//! The agent that asks never answers.

use serde_json::json;

use crate::harness::{Fixture, copy_program, unread};

#[test]
fn no_call_can_answer_a_question() {
    let fixture = Fixture::new().asking();
    copy_program(&fixture.workspace().join("handfast"));
    let write = json!({"path": "a.txt", "content": "x"}).to_string();
    let asked = fixture.run(&["call", "file_write", &write]).json();
    let id = asked["error"]["approval_id"].as_str().unwrap().to_owned();
    let state = fixture.state().canonicalize().unwrap();
    let (state, home) = (state.display(), fixture.home().display().to_string());
    let database = format!("{state}/handfast.db");

    // The command has a copy of the program, and the exact command line with which its user answers
    // outside the cell.
    let answer = format!("HOME={home} ./handfast --workspace . --state {state} approvals approve {id}");
    let tampered = format!("cp {database} copy; echo x >> {database}; ls {state}; cat {database}-wal");
    for command in [answer.clone(), format!("sh -c '{answer}'"), tampered] {
        let result = fixture.call("shell_execute", json!({"command": unread(&command)}));
        assert_ne!(result["data"]["exit_code"], 0, "{command}: {result:#}");
    }
    // File tools do not reach the state either, and a human's approval of the path does not change
    // this.
    for (tool, arguments) in [
        ("file_write", json!({"path": database, "content": "x"})),
        ("file_write", json!({"path": format!("{state}/attention.0"), "content": "x"})),
        ("file_delete", json!({"path": database})),
        ("file_move", json!({"source": database, "destination": "b"})),
    ] {
        let error = fixture.error(tool, arguments.clone());
        assert_eq!(error["code"], "EPERMISSION", "{tool} {arguments}: {error:#}");
    }
    let shown = fixture.run(&["approvals", "show", &id, "--json"]).json();
    assert_eq!(shown["state"], "waiting");
    assert!(!fixture.workspace().join("a.txt").exists());

    // The control: outside a cell, the same line answers the question.
    let outside = std::process::Command::new("sh")
        .args(["-c", &answer])
        .current_dir(fixture.workspace())
        .output()
        .unwrap();
    assert!(outside.status.success(), "{}", String::from_utf8_lossy(&outside.stderr));
    assert_eq!(fixture.run(&["approvals", "show", &id, "--json"]).json()["state"], "approved");
}
