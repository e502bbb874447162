//! Promises of the audit log.

use std::path::Path;

use store_api::{
    AgentRow, AgentState, AuditLog, AuditRow, Durability, Filter, Hash, Kind, NewMail, ScheduleRow,
    StoreError,
};

use crate::agents::agent;
use crate::mail::{claim, mail, send};
use crate::schedules::hourly;
use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("rows of all processes form one chain, in the order of their receipts", one_chain),
    ("an intent is recorded before its outcome", intent_before_outcome),
    ("a page has the newest rows that match its filter", pages),
    ("rows are found by their workspace, with those of no workspace", by_workspace),
    ("calls are found by the start or the end of their id", by_part_of_id),
    ("an export has every row, oldest first, one line each", export),
    ("a closed store has its rows and refuses later ones", closed),
    ("secrets in later rows are covered", covered),
    ("a row that could not be exported is refused", refused),
];

fn row(kind: Kind, call: &str) -> AuditRow {
    let mut row = AuditRow::new(kind, at(0), call, "cli", "handfast", "file_read");
    row.session = Some("s".to_owned());
    row
}

fn add(log: &dyn AuditLog, kind: Kind, call: &str) -> Result<(), Problem> {
    Ok(log.append(row(kind, call), Durability::Committed).wait()?)
}

fn one_chain(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for (number, log) in [one.audit(), other.audit(), other.audit(), one.audit()].into_iter().enumerate() {
        add(log, Kind::Call, &format!("c{number}"))?;
    }
    let mut rows = other.audit().list(&Filter::default())?;
    rows.reverse();
    let mut previous = Hash::GENESIS;
    for (number, recorded) in (0_i64..).zip(&rows) {
        equal("the calls in order", recorded.row.call.clone(), format!("c{number}"))?;
        equal("the numbers of the rows", recorded.sequence, number + 1)?;
        equal("the hash of the row before", recorded.previous, previous)?;
        holds("each row has a hash of its own", recorded.hash != previous)?;
        previous = recorded.hash;
    }
    equal("the number of rows", rows.len(), 4)?;
    let verified = one.audit().verify(rows.get(1).map(|row| row.hash))?;
    equal("the fault of a whole chain", verified.fault, None)?;
    equal("the verified rows and their head", (verified.rows, verified.head), (4, previous))?;
    equal("the place of an expected hash", verified.expected_at, Some(2))?;
    let unknown = one.audit().verify(Some(Hash::of(b"unknown")))?;
    holds("a hash of no row is a fault", unknown.fault.is_some())
}

fn intent_before_outcome(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    one.audit().append(row(Kind::Intent, "c1"), Durability::Flushed).wait()?;
    let seen = other.audit().show("c1")?;
    equal("the rows of a call that runs", seen.len(), 1)?;
    add(other.audit(), Kind::Call, "c2")?;
    add(one.audit(), Kind::Outcome, "c1")?;
    let kinds: Vec<Kind> = other.audit().show("c1")?.into_iter().map(|recorded| recorded.row.kind).collect();
    equal("the rows of a call that has ended", kinds, vec![Kind::Intent, Kind::Outcome])?;
    equal("the rows of an unknown call", other.audit().show("c3")?.len(), 0)
}

fn pages(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    for number in 0..5 {
        let mut row = row(Kind::Call, &format!("c{number}"));
        row.time = at(number);
        if number % 2 == 1 {
            (row.session, row.tool) = (Some("t".to_owned()), "file_write".to_owned());
        }
        store.audit().append(row, Durability::Committed).wait()?;
    }
    let calls = |filter: Filter| -> Result<String, Problem> {
        Ok(store.audit().list(&filter)?.into_iter().map(|recorded| recorded.row.call).collect())
    };
    let all = Filter::default;
    equal("all rows", calls(all())?, "c4c3c2c1c0".to_owned())?;
    equal("a page", calls(Filter { limit: 2, before: Some(4), ..all() })?, "c2c1".to_owned())?;
    equal("rows of a session", calls(Filter { session: Some("t".into()), ..all() })?, "c3c1".to_owned())?;
    equal("rows of a tool", calls(Filter { tool: Some("file_read".into()), ..all() })?, "c4c2c0".to_owned())?;
    equal("rows since a time", calls(Filter { since: Some(at(3)), ..all() })?, "c4c3".to_owned())?;
    equal("rows before a time", calls(Filter { until: Some(at(2)), ..all() })?, "c1c0".to_owned())?;
    let containing = |texts: &[&str]| Filter {
        containing: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..all()
    };
    equal("rows with a word", calls(containing(&["WRITE"]))?, "c3c1".to_owned())?;
    equal("rows with two words", calls(containing(&["file", "read"]))?, "c4c2c0".to_owned())?;
    equal("rows with a text that is no pattern", calls(containing(&["f%e"]))?, String::new())
}

fn by_workspace(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let plans = [
        Some(r#"{"workspace": "/w"}"#),
        Some(r#"{"workspace": "/w2", "arguments": {"workspace": "/w"}}"#),
        Some(r#"{"effects": []}"#),
        None,
        Some(r#"{"workspace": "/w"}"#),
        Some(r#"{"workspace": 7}"#),
    ];
    for (number, plan) in plans.into_iter().enumerate() {
        let mut row = row(Kind::Call, &format!("c{number}"));
        row.plan = plan.map(str::to_owned);
        store.audit().append(row, Durability::Committed).wait()?;
    }
    let calls = |filter: Filter| -> Result<String, Problem> {
        Ok(store.audit().list(&filter)?.into_iter().map(|recorded| recorded.row.call).collect())
    };
    let of = |workspace: &str| Filter { workspace: Some(workspace.to_owned()), ..Filter::default() };
    equal("rows of a workspace and of none", calls(of("/w"))?, "c4c3c2c0".to_owned())?;
    equal("rows of another workspace", calls(of("/w2"))?, "c3c2c1".to_owned())?;
    equal("rows of an unknown workspace", calls(of("/"))?, "c3c2".to_owned())?;
    equal("a page", calls(Filter { limit: 2, before: Some(5), ..of("/w") })?, "c3c2".to_owned())
}

fn by_part_of_id(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for call in ["ab1", "ab2", "b1"] {
        add(one.audit(), Kind::Intent, call)?;
        add(one.audit(), Kind::Outcome, call)?;
    }
    let found = |part: &str| -> Result<String, Problem> {
        let mut found = other.audit().calls_with_part(part, 9)?;
        found.sort();
        Ok(found.join(" "))
    };
    equal("calls that start with it", found("ab")?, "ab1 ab2".to_owned())?;
    equal("calls that end with it", found("2")?, "ab2".to_owned())?;
    equal("calls that start or end with it", found("b1")?, "ab1 b1".to_owned())?;
    equal("calls that only have it in them", found("a_")?, String::new())?;
    equal("the number of calls", other.audit().calls_with_part("ab", 1)?.len(), 1)
}

fn export(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    for call in ["c1", "c2"] {
        add(store.audit(), Kind::Call, call)?;
    }
    let mut lines = Vec::new();
    equal("the number of exported rows", store.audit().export(&mut lines)?, 2)?;
    let lines = String::from_utf8_lossy(&lines).into_owned();
    let calls: Vec<bool> = lines
        .lines()
        .zip([r#""call":"c1""#, r#""call":"c2""#])
        .map(|(line, call)| line.contains(call))
        .collect();
    equal("the exported calls in order", calls, vec![true, true])
}

fn closed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let behind = one.audit().append(row(Kind::Call, "c1"), Durability::Behind);
    one.close()?;
    behind.wait()?;
    equal("the rows of a closed store", other.audit().show("c1")?.len(), 1)?;
    let late = one.audit().append(row(Kind::Call, "c2"), Durability::Committed).wait();
    holds("a later row is refused", matches!(late, Err(StoreError::Closed)))
}

fn covered(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    store.cover_rows(Box::new(|text| text.contains("secret").then(|| text.replace("secret", "***"))));
    let mut row = row(Kind::Call, "c1");
    row.plan = Some(r#"{"path":"secret"}"#.to_owned());
    store.audit().append(row, Durability::Committed).wait()?;
    let plan = store.audit().show("c1")?.into_iter().next().and_then(|recorded| recorded.row.plan);
    equal("a recorded text", plan, Some(r#"{"path":"***"}"#.to_owned()))?;
    let named = ScheduleRow { name: "secret name".to_owned(), ..hourly("s1") };
    store.schedules().add(&named)?;
    let name = store.schedules().find("s1")?.map(|row| row.name);
    equal("the name of a schedule", name, Some("*** name".to_owned()))?;
    let secret = || "a secret".to_owned();
    store.agents().add(&AgentRow { name: secret(), task: secret(), ..agent("a1") }, 9)?;
    store.agents().set_state("a1", 1, AgentState::Done, Some("a secret"), None)?;
    let texts = store.agents().find("a1")?.map(|row| [Some(row.name), Some(row.task), row.outcome]);
    let masked = || Some("a ***".to_owned());
    equal("the texts of an agent", texts, Some([masked(), masked(), masked()]))?;
    let asked = send(store.mail(), &NewMail { body: secret(), ..mail("a", "b") })?;
    let body = |id| store.mail().find(id).map(|row| row.map(|row| row.body));
    equal("a mail", body(asked)?, masked())?;
    for row in claim(store.mail(), "b", 1)? {
        store.mail().delivered(row.id, row.epoch)?;
    }
    let reply = store.mail().answer(asked, "b", "a secret", at(1))?;
    equal("its answer", body(reply.unwrap_or_default())?, masked())?;
    store.mail().kill_of(Path::new("/w"), "a", "a secret")?;
    let reason = store.mail().find(reply.unwrap_or_default())?.and_then(|row| row.dead_reason);
    equal("the reason of a dead mail", reason, masked())
}

fn refused(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let mut row = row(Kind::Call, "c1");
    row.plan = Some("two\nlines".to_owned());
    let refused = store.audit().append(row, Durability::Committed).wait();
    holds("a plan of two lines is refused", matches!(refused, Err(StoreError::RowRefused { .. })))?;
    equal("the rows of the refused call", store.audit().show("c1")?.len(), 0)
}
