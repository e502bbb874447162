//! Promises about replies that their receiver takes out of the order of its mailbox.

use std::path::Path;
use std::sync::Barrier;
use std::thread;

use store_api::{MailRow, MailState, MailStore, StoreError};

use crate::mail::{WORKSPACE, claim, mail, send};
use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("a reply is taken by its receiver alone, while it is open", taken),
    ("a reply that is taken leaves the rest of its lane in order", out_of_order),
    ("a reply is taken from whoever claimed it and died, and never handed out again", claimed),
    ("of several that take a reply at once, one has it", taken_at_once),
];

/// Sends a mail from `a` to `b`, which answers it, and returns the ids of the mail and the reply.
fn answered(store: &dyn MailStore) -> Result<(i64, i64), Problem> {
    let asked = send(store, &mail("a", "b"))?;
    let row = claim(store, "b", 1)?.pop().filter(|row| row.id == asked);
    let row = row.ok_or_else(|| Problem("the mail is not claimed".to_owned()))?;
    holds("the acknowledgement", store.delivered(asked, row.epoch)?)?;
    let reply = store.answer(asked, "b", "yes", at(2))?;
    Ok((asked, reply.ok_or_else(|| Problem("the answer is refused".to_owned()))?))
}

fn state(store: &dyn MailStore, id: i64) -> Result<Option<(MailState, u32)>, Problem> {
    Ok(store.find(id)?.map(|row| (row.state, row.epoch)))
}

fn ids(rows: &[MailRow]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

fn taken(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let unanswered = send(one, &mail("a", "c"))?;
    equal("without a reply", one.take_reply(unanswered, "a")?, None)?;
    let (asked, reply) = answered(one)?;
    for stranger in ["b", "c", ""] {
        equal("by another", other.take_reply(asked, stranger)?, None)?;
    }
    equal("the reply before", state(one, reply)?, Some((MailState::Waiting, 0)))?;
    let row = one.find(reply)?.map(|row| MailRow { state: MailState::Delivered, ..row });
    holds("there is a reply", row.is_some())?;
    equal("the reply", other.take_reply(asked, "a")?, row.clone())?;
    equal("the reply afterwards", one.find(reply)?, row)?;
    equal("the mailbox", one.waiting(Path::new(WORKSPACE), "a")?, 0)?;
    equal("a second time", one.take_reply(asked, "a")?, None)?;
    // Killing the taker changes nothing: the transaction was the delivery.
    equal("after a restart", handles.open()?.mail().take_reply(asked, "a")?, None)?;
    let (asked, reply) = answered(one)?;
    one.kill_of(Path::new(WORKSPACE), "a", "it ended")?;
    equal("a dead reply", other.take_reply(asked, "a")?, None)?;
    equal("its state", state(one, reply)?, Some((MailState::Dead, 0)))
}

fn out_of_order(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    // The lane from b to a, whose second, fourth and first mail are replies, in the order of their taking.
    let (first_asked, first) = answered(one)?;
    let (second_asked, second) = answered(one)?;
    let third = send(one, &mail("b", "a"))?;
    let (fourth_asked, fourth) = answered(one)?;
    let fifth = send(one, &mail("b", "a"))?;
    let take = |asked| Ok::<_, Problem>(other.take_reply(asked, "a")?.map(|row| row.id));
    equal("one in the middle", take(second_asked)?, Some(second))?;
    let held = claim(one, "a", 3)?;
    equal("the first is still the first", ids(&held), vec![first])?;
    equal("one behind a claimed one", take(fourth_asked)?, Some(fourth))?;
    equal("nothing is handed out meanwhile", ids(&claim(other, "a", 4)?), Vec::new())?;
    equal("the first, claimed", take(first_asked)?, Some(first))?;
    for expected in [third, fifth] {
        let rows = claim(other, "a", 4)?;
        equal("the rest", ids(&rows), vec![expected])?;
        for row in rows {
            holds("the acknowledgement", one.delivered(row.id, row.epoch)?)?;
        }
    }
    equal("the end", ids(&claim(one, "a", 99)?), Vec::new())
}

fn claimed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (asked, reply) = answered(one.mail())?;
    let rows = claim(one.mail(), "a", 3)?;
    equal("a claim", ids(&rows), vec![reply])?;
    drop(one);
    let row = other.mail().take_reply(asked, "a")?;
    let told = row.map(|row| (row.id, row.state, row.claimed_until));
    equal("the claimed reply", told, Some((reply, MailState::Delivered, None)))?;
    let again = handles.open()?;
    equal("the claim's acknowledgement", again.mail().delivered(reply, 1)?, false)?;
    equal("when the lease has ended", ids(&claim(again.mail(), "a", 99)?), Vec::new())?;
    // It is a delivered mail like any other.
    holds("its answer", again.mail().answer(reply, "a", "thanks", at(9))?.is_some())
}

fn taken_at_once(handles: &Handles<'_>) -> Result<(), Problem> {
    const ROUNDS: usize = 15;
    const TAKERS: usize = 4;
    let [one, other] = handles.two()?;
    let mut replies = Vec::new();
    for _ in 0..ROUNDS {
        replies.push(answered(one.mail())?);
    }
    let barrier = Barrier::new(TAKERS + 1);
    let taken: Vec<Result<Vec<i64>, StoreError>> = thread::scope(|scope| {
        let takers = (0..TAKERS).map(|number| {
            let (store, barrier, replies) = (if number % 2 == 0 { &one } else { &other }, &barrier, &replies);
            scope.spawn(move || {
                barrier.wait();
                let mut taken = Vec::new();
                for (asked, _) in replies {
                    taken.extend(store.mail().take_reply(*asked, "a")?.map(|row| row.id));
                }
                Ok(taken)
            })
        });
        let receiver = {
            let (store, barrier) = (&other, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut received = Vec::new();
                for _ in 0..ROUNDS {
                    let rows = store.mail().claim("a", Path::new(WORKSPACE), at(3), crate::mail::LEASE, 1)?;
                    for row in rows {
                        received.extend(store.mail().delivered(row.id, row.epoch)?.then_some(row.id));
                    }
                }
                Ok(received)
            })
        };
        let workers: Vec<_> = takers.chain([receiver]).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mut taken: Vec<i64> = taken.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    taken.sort_unstable();
    let expected: Vec<i64> = replies.iter().map(|(_, reply)| *reply).collect();
    equal("each reply once", taken, expected)
}
