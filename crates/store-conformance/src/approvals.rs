//! Promises of the questions to humans.

use std::path::Path;

use store_api::{
    AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, Approvals, EarlierAnswer, StoreError,
};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("one plan has one open question in its workspace", one_question),
    ("the first answer to a question counts", first_answer),
    ("an approval is used once, by its id or by its plan", used_once),
    ("an expired question is neither answered nor used", expired),
    ("an approval of another plan of the same request is void", drifted),
    ("a denial is reported once", denied_once),
    ("all answers to a request are taken once", taken),
    ("withdrawn questions of a request end without an answer", withdrawn),
    ("a question keeps its held changes until they are settled", held),
    ("calls of one shape that were approved one by one are counted", counted),
];

const WORKSPACE: &str = "/w";

pub(crate) fn question(id: &str, plan: &str) -> ApprovalRow {
    let text = |text: &str| text.to_owned();
    ApprovalRow {
        id: text(id),
        call: format!("call-{id}"),
        session: text("s"),
        door: text("mcp"),
        workspace: WORKSPACE.into(),
        tool: text("file_write"),
        level: text("moderate"),
        plan: text(plan),
        request: text("request"),
        shape: text("shape"),
        question: text("{}"),
        asked_at: at(0),
        expires_at: at(60),
        state: ApprovalState::Waiting,
        changes: None,
        scope: None,
        answered_at: None,
        answered_by: None,
        message: None,
    }
}

pub(crate) fn yes(by: &str) -> ApprovalAnswer {
    ApprovalAnswer {
        approved: true,
        scope: Some("once".to_owned()),
        by: by.to_owned(),
        message: None,
        expires_at: at(60),
        lease: None,
    }
}

fn no(by: &str) -> ApprovalAnswer {
    ApprovalAnswer { approved: false, scope: None, message: Some("not this".to_owned()), ..yes(by) }
}

/// Asks the question, and approves it.
fn approve(approvals: &dyn Approvals, id: &str, plan: &str) -> Result<(), Problem> {
    approvals.ask(&question(id, plan))?;
    approvals.answer(id, &yes("one"), at(0))?;
    Ok(())
}

/// Returns the kind of the earlier answer to a call with this plan.
fn earlier(approvals: &dyn Approvals, plan: &str, minutes: i64) -> Result<&'static str, Problem> {
    Ok(match approvals.earlier(Path::new(WORKSPACE), plan, "request", at(minutes))? {
        EarlierAnswer::None => "none",
        EarlierAnswer::Approved(_) => "approved",
        EarlierAnswer::Denied(_) => "denied",
        EarlierAnswer::Drifted(_) => "drifted",
    })
}

fn state(approvals: &dyn Approvals, id: &str, minutes: i64) -> Result<Option<ApprovalState>, Problem> {
    Ok(approvals.find(id, at(minutes))?.map(|row| row.state))
}

fn one_question(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.approvals(), other.approvals());
    equal("a first question", one.ask(&question("a1", "p"))?.id, "a1".to_owned())?;
    equal("the question about the same plan", other.ask(&question("a2", "p"))?.id, "a1".to_owned())?;
    let elsewhere = ApprovalRow { workspace: "/other".into(), ..question("a3", "p") };
    equal("the question of another workspace", other.ask(&elsewhere)?.id, "a3".to_owned())?;
    one.answer("a1", &no("one"), at(0))?;
    equal("the question after an answer", other.ask(&question("a4", "p"))?.id, "a4".to_owned())?;
    let ids = |open_only: bool, limit: u32| -> Result<String, Problem> {
        Ok(one.list(open_only, limit, at(0))?.into_iter().map(|row| row.id).collect())
    };
    equal("the open questions", ids(true, 10)?, "a4a3".to_owned())?;
    equal("all questions", ids(false, 10)?, "a4a3a1".to_owned())?;
    equal("the newest question", ids(false, 1)?, "a4".to_owned())
}

fn first_answer(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    one.approvals().ask(&question("a1", "p"))?;
    let first = other.approvals().answer("a1", &yes("other"), at(1))?;
    holds("the first answer is the one that counts", matches!(first, AnswerOutcome::First(_)))?;
    let AnswerOutcome::Before(row) = one.approvals().answer("a1", &no("one"), at(2))? else {
        return Err(Problem("a second answer counts".to_owned()));
    };
    equal("the person whose answer counts", row.answered_by.as_deref(), Some("other"))?;
    equal("the answer that counts", state(one.approvals(), "a1", 2)?, Some(ApprovalState::Approved))?;
    let unknown = one.approvals().answer("a2", &yes("one"), at(0));
    holds("an unknown question is an error", matches!(unknown, Err(StoreError::ApprovalUnknown { .. })))
}

fn used_once(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.approvals(), other.approvals());
    one.ask(&question("a1", "p1"))?;
    equal("a use before the answer", one.use_up("a1", at(0))?, false)?;
    one.answer("a1", &yes("one"), at(0))?;
    let uses = [other.use_up("a1", at(1))?, one.use_up("a1", at(1))?, other.use_up("a1", at(1))?];
    equal("the uses by the id", uses, [true, false, false])?;
    equal("the state of a used approval", state(one, "a1", 1)?, Some(ApprovalState::Used))?;
    approve(one, "a2", "p2")?;
    equal("the uses by the plan", [earlier(other, "p2", 1)?, earlier(one, "p2", 1)?], ["approved", "none"])?;
    equal("the use by the id after that by the plan", one.use_up("a2", at(1))?, false)
}

fn expired(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let approvals = store.approvals();
    approvals.ask(&question("a1", "p1"))?;
    equal("a question before it expires", state(approvals, "a1", 59)?, Some(ApprovalState::Waiting))?;
    equal("a question that has expired", state(approvals, "a1", 60)?, Some(ApprovalState::Expired))?;
    let late = approvals.answer("a1", &yes("one"), at(61))?;
    holds("a late answer does not count", matches!(late, AnswerOutcome::Before(_)))?;
    for (id, plan) in [("a2", "p2"), ("a3", "p3"), ("a4", "p4")] {
        approve(approvals, id, plan)?;
    }
    equal("a use before the expiry", approvals.use_up("a4", at(59))?, true)?;
    equal("a use after the expiry", approvals.use_up("a2", at(61))?, false)?;
    equal("a use by the plan after the expiry", earlier(approvals, "p3", 61)?, "none")
}

fn drifted(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    approve(store.approvals(), "a1", "p1")?;
    equal("the answer to another plan", earlier(store.approvals(), "p2", 1)?, "drifted")?;
    equal("the answer to the first plan, afterwards", earlier(store.approvals(), "p1", 1)?, "none")
}

fn denied_once(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let approvals = store.approvals();
    for (id, plan) in [("a1", "p1"), ("a2", "p2")] {
        approvals.ask(&question(id, plan))?;
        approvals.answer(id, &no("one"), at(0))?;
    }
    let EarlierAnswer::Denied(row) = approvals.earlier(Path::new(WORKSPACE), "p1", "request", at(1))? else {
        return Err(Problem("a denial is not reported".to_owned()));
    };
    equal("the message of the denial", row.message.as_deref(), Some("not this"))?;
    equal("a denial that was reported", earlier(approvals, "p1", 1)?, "none")?;
    approvals.set_answer_received("a2")?;
    equal("a denial that its caller has received", earlier(approvals, "p2", 1)?, "none")
}

fn taken(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.approvals(), other.approvals());
    let ids = |approvals: &dyn Approvals, workspace: &str, minutes: i64| -> Result<Vec<String>, Problem> {
        let rows = approvals.take_answers(Path::new(workspace), "request", at(minutes))?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    };
    for (id, plan) in [("a1", "p1"), ("a2", "p2"), ("a3", "p3")] {
        one.ask(&question(id, plan))?;
    }
    equal("the answers to unanswered questions", ids(other, WORKSPACE, 1)?, Vec::new())?;
    one.answer("a1", &yes("one"), at(1))?;
    one.answer("a2", &no("one"), at(2))?;
    equal("the answers of another workspace", ids(other, "/other", 3)?, Vec::new())?;
    equal("the answers to both plans", ids(other, WORKSPACE, 3)?, vec!["a1".to_owned(), "a2".to_owned()])?;
    equal("the answers, taken again", ids(one, WORKSPACE, 3)?, Vec::new())?;
    equal("the state of a taken approval", state(one, "a1", 3)?, Some(ApprovalState::Used))?;
    one.answer("a3", &yes("one"), at(3))?;
    equal("the answers after they expire", ids(one, WORKSPACE, 61)?, Vec::new())
}

fn withdrawn(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    approve(one.approvals(), "a1", "p1")?;
    one.approvals().ask(&question("a2", "p2"))?;
    other.approvals().withdraw(Path::new("/other"), "request")?;
    equal("a question of another workspace", state(one.approvals(), "a2", 1)?, Some(ApprovalState::Waiting))?;
    other.approvals().withdraw(Path::new(WORKSPACE), "request")?;
    equal("a withdrawn question", state(one.approvals(), "a2", 1)?, Some(ApprovalState::Expired))?;
    equal("an answered question", state(one.approvals(), "a1", 1)?, Some(ApprovalState::Approved))
}

fn held(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    one.approvals().ask(&question("a1", "p"))?;
    let row = one.approvals().hold("a1", "changes")?;
    equal("the held changes", row.changes.as_deref(), Some("changes"))?;
    other.approvals().settle_changes("changes", true, "the user", at(1))?;
    equal("the state after they are applied", state(one.approvals(), "a1", 1)?, Some(ApprovalState::Used))
}

fn counted(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let approvals = store.approvals();
    approve(approvals, "a1", "p1")?;
    approve(approvals, "a2", "p2")?;
    approvals.ask(&question("a3", "p3"))?;
    approvals.answer("a3", &no("one"), at(0))?;
    approvals.use_up("a1", at(0))?;
    let count = |workspace: &str, shape: &str, minutes: i64| {
        approvals.allowed_once(Path::new(workspace), shape, at(minutes))
    };
    equal("the approved calls", count(WORKSPACE, "shape", 0)?, 2)?;
    equal("those of another workspace", count("/other", "shape", 0)?, 0)?;
    equal("those of another shape", count(WORKSPACE, "other", 0)?, 0)?;
    equal("those since a later time", count(WORKSPACE, "shape", 1)?, 0)
}
