//! Promises of the mail between agents, without those about its order.

use std::path::Path;

use jiff::SignedDuration;
use store_api::{MAIL_BYTES_MAX, MailRow, MailState, MailStore, NewMail, Priority, SendOutcome, StoreError};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("a mail comes back as it was sent, also after a restart", sent),
    ("a mailbox has at most its number of open mails, in all and of one sender", full),
    ("a body that is too long is refused", too_long),
    ("a claim holds a mail until its lease ends, and is then void", claimed),
    ("a mail is acknowledged once", delivered),
    ("a mail is answered once, by its receiver, after it was delivered", answered),
    ("a mail past its deadline is dead, and the next one follows", expired),
    ("the open mails of a receiver that ended are dead", killed),
    ("mails that are not open are deleted when they are old, and no id comes back", purged),
];

pub(crate) const WORKSPACE: &str = "/w";
pub(crate) const LEASE: SignedDuration = SignedDuration::from_mins(5);

pub(crate) fn mail(from: &str, to: &str) -> NewMail {
    NewMail {
        workspace: WORKSPACE.into(),
        from: from.to_owned(),
        to: to.to_owned(),
        priority: Priority::Standard,
        body: format!("from {from} to {to}"),
        in_reply_to: None,
        sent_at: at(0),
        deadline: None,
    }
}

/// Sends a mail to a mailbox that has room, and returns its id.
pub(crate) fn send(store: &dyn MailStore, new: &NewMail) -> Result<i64, Problem> {
    match store.send(new, 100_000, 100_000)? {
        SendOutcome::Sent(id) => Ok(id),
        SendOutcome::Full => Err(Problem("a mailbox with room is full".to_owned())),
    }
}

pub(crate) fn claim(store: &dyn MailStore, to: &str, minutes: i64) -> Result<Vec<MailRow>, Problem> {
    Ok(store.claim(to, Path::new(WORKSPACE), at(minutes), LEASE, 10)?)
}

/// Claims the one mail that can be claimed.
fn claim_one(store: &dyn MailStore, to: &str, minutes: i64) -> Result<MailRow, Problem> {
    let mut found = claim(store, to, minutes)?;
    match (found.pop(), found.len()) {
        (Some(row), 0) => Ok(row),
        (_, others) => Err(Problem(format!("at minute {minutes}, one mail waits, beside {others}"))),
    }
}

/// Claims the one mail that can be claimed, and acknowledges it.
fn receive(store: &dyn MailStore, to: &str, minutes: i64) -> Result<i64, Problem> {
    let row = claim_one(store, to, minutes)?;
    holds("the acknowledgement", store.delivered(row.id, row.epoch)?)?;
    Ok(row.id)
}

fn found(store: &dyn MailStore, id: i64) -> Result<MailRow, Problem> {
    store.find(id)?.ok_or_else(|| Problem(format!("the mail {id} is not found")))
}

fn state(store: &dyn MailStore, id: i64) -> Result<(MailState, Option<String>), Problem> {
    found(store, id).map(|row| (row.state, row.dead_reason))
}

fn dead(reason: &str) -> (MailState, Option<String>) {
    (MailState::Dead, Some(reason.to_owned()))
}

fn sent(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let new = NewMail {
        workspace: "/w\u{fe}".into(),
        priority: Priority::High,
        in_reply_to: Some(77),
        deadline: Some(at(60)),
        ..mail("a", "b")
    };
    let id = send(one.mail(), &new)?;
    let row = MailRow {
        id,
        workspace: new.workspace.clone(),
        from: new.from.clone(),
        to: new.to.clone(),
        priority: Priority::High,
        body: new.body.clone(),
        in_reply_to: Some(77),
        sent_at: at(0),
        deadline: Some(at(60)),
        state: MailState::Waiting,
        claimed_until: None,
        epoch: 0,
        dead_reason: None,
    };
    equal("the mail", other.mail().find(id)?, Some(row.clone()))?;
    equal("its mailbox", other.mail().waiting(&new.workspace, "b")?, 1)?;
    equal("the mailbox of another workspace", other.mail().waiting(Path::new(WORKSPACE), "b")?, 0)?;
    equal("a claim in another workspace", claim(other.mail(), "b", 1)?, Vec::new())?;
    drop((one, other));
    let again = handles.open()?;
    equal("the mail, after a restart", again.mail().find(id)?, Some(row.clone()))?;
    let claimed = again.mail().claim("b", &new.workspace, at(1), LEASE, 10)?;
    let row = MailRow { state: MailState::Claimed, claimed_until: Some(at(6)), epoch: 1, ..row };
    equal("the claim", claimed, vec![row.clone()])?;
    equal("the mail, claimed", again.mail().find(id)?, Some(row))
}

fn full(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let sends = |from: &str, to: &str| -> Result<bool, Problem> {
        Ok(matches!(one.send(&mail(from, to), 4, 2)?, SendOutcome::Sent(_)))
    };
    equal("three of a sender", [sends("a", "x")?, sends("a", "x")?, sends("a", "x")?], [true, true, false])?;
    equal("to another receiver", sends("a", "y")?, true)?;
    equal("of others", [sends("b", "x")?, sends("c", "x")?, sends("d", "x")?], [true, true, false])?;
    equal("the number", other.waiting(Path::new(WORKSPACE), "x")?, 4)?;
    // A claimed mail is still in its mailbox.
    let row = claim(other, "x", 1)?.into_iter().find(|row| row.from == "a");
    let row = row.ok_or_else(|| Problem("the mail is not claimed".to_owned()))?;
    equal("beside a claimed one", sends("d", "x")?, false)?;
    holds("the acknowledgement", other.delivered(row.id, row.epoch)?)?;
    equal("after an acknowledgement", sends("a", "x")?, true)
}

fn too_long(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let sized = |bytes| NewMail { body: "x".repeat(bytes), ..mail("a", "b") };
    send(store.mail(), &sized(MAIL_BYTES_MAX))?;
    let refused = store.mail().send(&sized(MAIL_BYTES_MAX + 1), 9, 9);
    holds("a longer one is refused", matches!(refused, Err(StoreError::TooLong { .. })))?;
    let id = receive(store.mail(), "b", 1)?;
    let refused = store.mail().answer(id, "b", &"x".repeat(MAIL_BYTES_MAX + 1), at(2));
    holds("so is a longer answer", matches!(refused, Err(StoreError::TooLong { .. })))?;
    equal("the mail that is not answered", state(store.mail(), id)?, (MailState::Delivered, None))
}

fn claimed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let id = send(one, &mail("a", "b"))?;
    equal("none at most", one.claim("b", Path::new(WORKSPACE), at(1), LEASE, 0)?, Vec::new())?;
    let first = claim_one(one, "b", 1)?;
    equal("within the lease", claim(other, "b", 5)?, Vec::new())?;
    let second = claim_one(other, "b", 6)?;
    equal("the claims", [(first.id, first.epoch), (second.id, second.epoch)], [(id, 1), (id, 2)])?;
    equal("the first claim", one.delivered(id, first.epoch)?, false)?;
    equal("a claim that was never made", one.delivered(id, 3)?, false)?;
    // A lease that has ended is no obstacle while nobody else has claimed.
    equal("the second claim", other.delivered(id, second.epoch)?, true)?;
    equal("afterwards", claim(one, "b", 99)?, Vec::new())?;
    let row = found(one, id)?;
    equal("the mail", (row.state, row.claimed_until, row.epoch), (MailState::Delivered, None, 2))
}

fn delivered(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let id = send(one.mail(), &mail("a", "b"))?;
    equal("before a claim", one.mail().delivered(id, 0)?, false)?;
    let row = claim_one(one.mail(), "b", 1)?;
    let twice = [one.mail().delivered(id, row.epoch)?, other.mail().delivered(id, row.epoch)?];
    equal("two acknowledgements", twice, [true, false])?;
    equal("one that does not exist", one.mail().delivered(id + 9, 1)?, false)
}

fn answered(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let asked = send(one, &NewMail { priority: Priority::High, deadline: Some(at(9)), ..mail("a", "b") })?;
    equal("before it is delivered", other.answer(asked, "b", "yes", at(1))?, None)?;
    let row = claim_one(other, "b", 1)?;
    equal("while it is claimed", other.answer(asked, "b", "yes", at(1))?, None)?;
    holds("the acknowledgement", other.delivered(asked, row.epoch)?)?;
    equal("by another", other.answer(asked, "c", "yes", at(1))?, None)?;
    equal("no reply yet", one.replies(asked)?, None)?;
    let answer = other.answer(asked, "b", "yes", at(2))?;
    let reply = answer.ok_or_else(|| Problem("the answer is refused".to_owned()))?;
    equal("a second answer", one.answer(asked, "b", "no", at(3))?, None)?;
    equal("the mail", state(one, asked)?, (MailState::Answered, None))?;
    let row = one.replies(asked)?.ok_or_else(|| Problem("there is no reply".to_owned()))?;
    let addresses = (row.id, row.from.as_str(), row.to.as_str(), row.body.as_str());
    equal("the reply", addresses, (reply, "b", "a", "yes"))?;
    let rest = (row.in_reply_to, row.priority, row.sent_at, row.deadline, row.state);
    equal("the rest of it", rest, (Some(asked), Priority::High, at(2), None, MailState::Waiting))?;
    equal("its delivery", receive(one, "a", 3)?, reply)?;
    equal("no other mail of the asker", one.waiting(Path::new(WORKSPACE), "a")?, 0)?;
    equal("one that does not exist", one.answer(asked + 9, "b", "no", at(3))?, None)
}

fn expired(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let until = |minutes, to: &str| NewMail { deadline: Some(at(minutes)), ..mail("a", to) };
    let held = send(one, &until(10, "b"))?;
    let middle = send(one, &until(8, "b"))?;
    let last = send(one, &mail("a", "b"))?;
    let claim_of_first = claim_one(one, "b", 7)?;
    equal("before any deadline", other.expire(at(7))?, 0)?;
    equal("one in the middle of its lane", other.expire(at(8))?, 1)?;
    equal("its state", state(one, middle)?, dead("deadline"))?;
    equal("one that is held", other.expire(at(11))?, 0)?;
    equal("when its lease has ended", other.expire(at(12))?, 1)?;
    equal("its state then", state(one, held)?, dead("deadline"))?;
    equal("its claim", one.delivered(held, claim_of_first.epoch)?, false)?;
    equal("the next one", receive(other, "b", 12)?, last)?;
    // A claim does not hand out what is past its deadline, and goes on behind it.
    let late = send(one, &until(20, "b"))?;
    let after = send(one, &mail("a", "b"))?;
    equal("behind one past its deadline", receive(other, "b", 20)?, after)?;
    equal("that one", state(one, late)?, dead("deadline"))?;
    let ids: Vec<i64> = one.dead(Path::new(WORKSPACE), 2)?.into_iter().map(|row| row.id).collect();
    equal("the newest dead ones", ids, vec![late, middle])?;
    equal("those of another workspace", one.dead(Path::new("/other"), 9)?, Vec::new())
}

fn killed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let before = send(one, &mail("a", "b"))?;
    receive(one, "b", 1)?;
    let held = send(one, &mail("a", "b"))?;
    let row = claim_one(one, "b", 2)?;
    let waiting = send(one, &mail("c", "b"))?;
    let elsewhere = send(one, &NewMail { workspace: "/other".into(), ..mail("c", "b") })?;
    let of_another = send(one, &mail("b", "a"))?;
    equal("the number", other.kill_of(Path::new(WORKSPACE), "b", "the receiver ended")?, 2)?;
    equal("a second time", other.kill_of(Path::new(WORKSPACE), "b", "again")?, 0)?;
    for id in [held, waiting] {
        equal("an open one", state(one, id)?, dead("the receiver ended"))?;
    }
    equal("the claim", one.delivered(held, row.epoch)?, false)?;
    equal("one that was delivered", state(one, before)?, (MailState::Delivered, None))?;
    for id in [elsewhere, of_another] {
        equal("one of another mailbox", state(one, id)?, (MailState::Waiting, None))?;
    }
    // The mailbox is as good as new.
    let next = send(one, &mail("a", "b"))?;
    equal("the next one", receive(other, "b", 3)?, next)
}

fn purged(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let old = send(one, &mail("a", "b"))?;
    receive(one, "b", 1)?;
    let open = send(one, &mail("a", "b"))?;
    let held = send(one, &mail("c", "d"))?;
    claim_one(one, "d", 1)?;
    let dead = send(one, &mail("a", "e"))?;
    one.kill_of(Path::new(WORKSPACE), "e", "it ended")?;
    let young = send(one, &NewMail { sent_at: at(10), ..mail("a", "f") })?;
    receive(one, "f", 11)?;
    equal("none that is old", other.purge(at(0))?, 0)?;
    equal("two that are old", other.purge(at(10))?, 2)?;
    for (id, is_left) in [(old, false), (dead, false), (open, true), (held, true), (young, true)] {
        equal("a mail that is left", other.find(id)?.is_some(), is_left)?;
    }
    other.purge(at(99))?;
    let next = send(one, &mail("a", "b"))?;
    holds("a new id is above all before", next > young)
}
