//! Tests of questions and answers, asked and given by several processes at once.
#![expect(clippy::disallowed_methods, reason = "some of these tests are about other processes")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use jiff::{Timestamp, ToSpan};
use store_api::{AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, EarlierAnswer, Lease, LeaseKind};
use store_sqlite::Store;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
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

fn no(by: &str) -> ApprovalAnswer {
    ApprovalAnswer { approved: false, scope: None, message: Some("not this".to_owned()), ..yes(by) }
}

fn lease(id: &str, session: Option<&str>, workspace: Option<&str>) -> Lease {
    Lease {
        id: id.to_owned(),
        approval: None,
        scope: "project".to_owned(),
        session: session.map(str::to_owned),
        workspace: workspace.map(Into::into),
        kind: LeaseKind::Command,
        tool: "shell_execute".to_owned(),
        pattern: "protoc --check".to_owned(),
        covers: "commands that begin with `protoc --check`".to_owned(),
        granted_by: "a test".to_owned(),
        granted_at: now(),
        expires_at: now() + 1.hour(),
        revoked_at: None,
        uses: 0,
        used_at: None,
    }
}

fn grant(store: &Store, lease: Lease) {
    let id = format!("a-{}", lease.id);
    store.approvals().ask(&question(&id, &id)).unwrap();
    store.approvals().answer(&id, &ApprovalAnswer { lease: Some(lease), ..yes("a test") }, now()).unwrap();
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
fn one_plan_has_one_open_question() {
    let (_folder, store) = store();
    assert_eq!(store.approvals().ask(&question("a1", "p")).unwrap().id, "a1");
    assert_eq!(store.approvals().ask(&question("a2", "p")).unwrap().id, "a1");
    let elsewhere = ApprovalRow { workspace: "/other".into(), ..question("a3", "p") };
    assert_eq!(store.approvals().ask(&elsewhere).unwrap().id, "a3");
    store.approvals().answer("a1", &no("u"), now()).unwrap();
    assert_eq!(store.approvals().ask(&question("a4", "p")).unwrap().id, "a4");
    let open: Vec<String> =
        store.approvals().list(true, 10, now()).unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(open, ["a4", "a3"]);
    assert_eq!(store.approvals().list(false, 10, now()).unwrap().len(), 3);
}

#[test]
fn what_has_expired_is_neither_answered_nor_used() {
    let (_folder, store) = store();
    let late = now() + 61.minutes();
    store.approvals().ask(&question("a1", "p1")).unwrap();
    let AnswerOutcome::Before(row) = store.approvals().answer("a1", &yes("u"), late).unwrap() else {
        unreachable!("an expired question took an answer")
    };
    assert_eq!(row.state, ApprovalState::Expired);

    for id in ["a2", "a3"] {
        store.approvals().ask(&question(id, id)).unwrap();
        store.approvals().answer(id, &yes("u"), now()).unwrap();
    }
    assert!(!store.approvals().use_up("a2", late).unwrap());
    assert_eq!(
        store.approvals().earlier(Path::new("/w"), "a3", "request", late).unwrap(),
        EarlierAnswer::None
    );
    // Control: an approval is usable before its expiry.
    store.approvals().ask(&question("a4", "a4")).unwrap();
    store.approvals().answer("a4", &yes("u"), now()).unwrap();
    assert!(store.approvals().use_up("a4", now() + 59.minutes()).unwrap());
}

#[test]
fn a_yes_to_another_plan_of_the_same_request_is_void_and_a_no_is_told_once() {
    let (_folder, store) = store();
    let earlier = |plan: &str| store.approvals().earlier(Path::new("/w"), plan, "request", now()).unwrap();
    store.approvals().ask(&question("a1", "p1")).unwrap();
    store.approvals().answer("a1", &yes("u"), now()).unwrap();
    assert!(matches!(earlier("p2"), EarlierAnswer::Drifted(row) if row.id == "a1"));
    assert_eq!(earlier("p1"), EarlierAnswer::None, "it was void from then on");

    store.approvals().ask(&question("a2", "p1")).unwrap();
    store.approvals().answer("a2", &no("u"), now()).unwrap();
    assert!(
        matches!(earlier("p1"), EarlierAnswer::Denied(row) if row.message.as_deref() == Some("not this"))
    );
    assert_eq!(earlier("p1"), EarlierAnswer::None);
}

#[test]
fn a_lease_is_for_its_session_and_workspace_until_it_ends() {
    let (folder, store) = store();
    grant(&store, lease("l1", Some("s1"), Some("/w")));
    grant(&store, lease("l2", None, Some("/w")));
    grant(&store, lease("l3", None, None));
    let other = Store::open(folder.path()).unwrap();
    let ids = |session: &str, workspace: &str, at: Timestamp| -> String {
        let leases = other.leases().in_force(session, Path::new(workspace), at).unwrap();
        leases.into_iter().map(|lease| lease.id).collect()
    };
    assert_eq!(ids("s1", "/w", now()), "l1l2l3");
    assert_eq!(ids("s2", "/w", now()), "l2l3");
    assert_eq!(ids("s1", "/x", now()), "l3");
    assert_eq!(ids("s1", "/w", now() + 1.hour()), "");
    assert!(store.leases().note_use("l2", now()).unwrap());
    assert!(store.leases().revoke("l2", now()).unwrap());
    assert!(!store.leases().revoke("l2", now()).unwrap());
    assert!(!store.leases().note_use("l2", now()).unwrap());
    assert_eq!(ids("s2", "/w", now()), "l3");
    assert_eq!(store.leases().list(true, now()).unwrap().len(), 2);
    let all = store.leases().list(false, now()).unwrap();
    assert_eq!(all.iter().map(|lease| lease.uses).sum::<u32>(), 1);
}

#[test]
fn a_lease_comes_with_the_answer_that_counts_and_with_no_other() {
    let (_folder, store) = store();
    store.approvals().ask(&question("a1", "p")).unwrap();
    store.approvals().answer("a1", &no("u"), now()).unwrap();
    let late = ApprovalAnswer { lease: Some(lease("l1", None, None)), ..yes("v") };
    assert!(matches!(store.approvals().answer("a1", &late, now()).unwrap(), AnswerOutcome::Before(_)));
    assert!(store.leases().list(false, now()).unwrap().is_empty());
}

#[test]
fn who_watches_is_told_of_what_others_write() {
    let (folder, store) = store();
    let mut watch = store.watch().unwrap();
    assert!(!watch.has_changed().unwrap());
    let other = Store::open(folder.path()).unwrap();
    other.approvals().ask(&question("a1", "p")).unwrap();
    assert!(watch.has_changed().unwrap());
    assert!(!watch.has_changed().unwrap());
    output(child(folder.path(), &["answer", "a1", "another process", "yes"]));
    assert!(watch.has_changed().unwrap());
}

#[test]
fn calls_of_one_shape_that_were_allowed_one_by_one_are_counted() {
    let (_folder, store) = store();
    let count =
        || store.approvals().allowed_once(Path::new("/w"), "file_write src", now() - 1.hour()).unwrap();
    for (id, answer) in [("a1", yes("u")), ("a2", yes("u")), ("a3", no("u"))] {
        store.approvals().ask(&question(id, id)).unwrap();
        store.approvals().answer(id, &answer, now()).unwrap();
    }
    store.approvals().use_up("a1", now()).unwrap();
    assert_eq!(count(), 2);
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
