//! Tests of questions and answers, asked and given by several processes at once.
#![expect(clippy::disallowed_methods, reason = "some of these tests are about other processes")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use jiff::{Timestamp, ToSpan};
use store_api::{ApprovalAnswer, ApprovalRow, ApprovalState, Presence as _, Store as _};
use store_sqlite::SqliteStore;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn store() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    (folder, store)
}

fn question(id: &str, plan: &str) -> ApprovalRow {
    ApprovalRow {
        id: id.to_owned(),
        call: format!("call-{id}"),
        session: "s".to_owned(),
        door: "mcp".to_owned(),
        workspace: "/w".into(),
        tool: "file_write".to_owned(),
        level: "moderate".to_owned(),
        plan: plan.to_owned(),
        request: "request".to_owned(),
        shape: "file_write src".to_owned(),
        question: "{}".to_owned(),
        asked_at: now(),
        expires_at: now() + 1.hour(),
        state: ApprovalState::Waiting,
        changes: None,
        scope: None,
        answered_at: None,
        answered_by: None,
        message: None,
    }
}

fn yes(by: &str) -> ApprovalAnswer {
    ApprovalAnswer {
        approved: true,
        scope: Some("once".to_owned()),
        by: by.to_owned(),
        message: None,
        expires_at: now() + 1.hour(),
        lease: None,
    }
}

fn child(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_store-appender"))
        .arg(folder)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn of_answers_from_several_processes_exactly_one_counts() {
    let (folder, store) = store();
    for round in 0..5 {
        let id = format!("a{round}");
        store.approvals().ask(&question(&id, &id)).unwrap();
        let names = ["one", "two", "three", "four"];
        let children: Vec<Child> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                child(folder.path(), &["answer", &id, name, if at % 2 == 0 { "yes" } else { "no" }])
            })
            .collect();
        let said: Vec<String> = children.into_iter().map(output).collect();
        assert_eq!(said.iter().filter(|said| said.starts_with("first")).count(), 1, "{said:?}");
        let winner = store.approvals().find(&id, now()).unwrap().unwrap().answered_by.unwrap();
        assert!(said.iter().all(|said| said.trim_end().ends_with(&winner)), "all know who: {said:?}");
    }
}

#[test]
fn of_processes_that_use_one_approval_exactly_one_may() {
    let (folder, store) = store();
    for round in 0..5 {
        let id = format!("a{round}");
        store.approvals().ask(&question(&id, &id)).unwrap();
        store.approvals().answer(&id, &yes("u"), now()).unwrap();
        let children: Vec<Child> = (0..4)
            .map(|at| {
                // Test both ways to use an approval: by its id, and by the plan.
                let way = if at % 2 == 0 { "use" } else { "earlier" };
                child(folder.path(), &[way, &id])
            })
            .collect();
        let used = children.into_iter().map(output).filter(|said| said == "used\n").count();
        assert_eq!(used, 1);
        assert_eq!(store.approvals().find(&id, now()).unwrap().unwrap().state, ApprovalState::Used);
    }
}

#[test]
fn who_watches_is_told_of_what_others_write() {
    let (folder, store) = store();
    let mut watch = store.watch().unwrap();
    assert!(!watch.has_changed().unwrap());
    let other = SqliteStore::open(folder.path()).unwrap();
    other.approvals().ask(&question("a1", "p")).unwrap();
    assert!(watch.has_changed().unwrap());
    assert!(!watch.has_changed().unwrap());
    output(child(folder.path(), &["answer", "a1", "another process", "yes"]));
    assert!(watch.has_changed().unwrap());
}

#[test]
fn questions_without_end_push_the_oldest_out_and_never_the_one_that_is_asked() {
    let (_folder, store) = store();
    for number in 0..205 {
        let id = format!("a{number}");
        assert_eq!(store.approvals().ask(&question(&id, &id)).unwrap().id, id);
    }
    let open = store.approvals().list(true, 1_000, now()).unwrap();
    assert_eq!(open.len(), 200);
    let state = |id: &str| store.approvals().find(id, now()).unwrap().unwrap().state;
    assert_eq!((state("a4"), state("a5")), (ApprovalState::Expired, ApprovalState::Waiting));
}
