//! Promises about the order of mails, and about several that claim them at once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use store_api::{MailRow, MailState, MailStore, NewMail, Priority, SendOutcome, StoreError};

use crate::mail::{LEASE, WORKSPACE, claim, mail, send};
use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("mails of high priority come first, and otherwise the oldest", priority),
    ("a mail waits until the earlier ones of its sender and its priority are acknowledged", in_order),
    ("of threads that claim at once, each mail is delivered to one, in the order of its sender", threads),
    ("no interleaving of claims, crashes and deadlines changes the order of a sender", interleavings),
];

fn ids(rows: &[MailRow]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

fn high(from: &str, to: &str) -> NewMail {
    NewMail { priority: Priority::High, ..mail(from, to) }
}

fn priority(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let [a, b] = [send(one, &mail("a", "x"))?, send(other, &mail("b", "x"))?];
    let [c, d] = [send(one, &high("a", "x"))?, send(other, &high("c", "x"))?];
    let first = other.claim("x", Path::new(WORKSPACE), at(1), LEASE, 3)?;
    equal("the first three", ids(&first), vec![c, d, a])?;
    equal("the rest", ids(&claim(one, "x", 1)?), vec![b])?;
    // A claim whose lease has ended keeps its place.
    equal("all of them again", ids(&claim(one, "x", 6)?), vec![c, d, a, b])
}

fn in_order(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.mail(), other.mail());
    let first = send(one, &mail("a", "x"))?;
    let second = send(one, &mail("a", "x"))?;
    let third = send(one, &mail("a", "x"))?;
    let elsewhere = send(one, &mail("a", "y"))?;
    let claimed = claim(one, "x", 1)?;
    equal("the first of a sender", ids(&claimed), vec![first])?;
    equal("the next before the acknowledgement", ids(&claim(other, "x", 2)?), Vec::new())?;
    let urgent = send(one, &high("a", "x"))?;
    equal("one of another priority", ids(&claim(other, "x", 2)?), vec![urgent])?;
    equal("one to another receiver", ids(&claim(other, "y", 2)?), vec![elsewhere])?;
    // The lease of the first has ended, that of the urgent one has not.
    let again = claim(other, "x", 6)?;
    equal("the first again", ids(&again), vec![first])?;
    for row in claimed.iter().chain(&again) {
        equal("an acknowledgement", one.delivered(row.id, row.epoch)?, row.epoch == 2)?;
    }
    equal("the second", ids(&claim(one, "x", 6)?), vec![second])?;
    holds("the acknowledgement of the second", one.delivered(second, 1)?)?;
    drop(handles.open()?);
    equal("the third", ids(&claim(other, "x", 6)?), vec![third])
}

fn threads(handles: &Handles<'_>) -> Result<(), Problem> {
    const SENDERS: usize = 3;
    const EACH: usize = 25;
    let [one, other] = handles.two()?;
    let barrier = Barrier::new(SENDERS + 4);
    let histories: Vec<Result<Vec<MailRow>, StoreError>> = thread::scope(|scope| {
        let senders = (0..SENDERS).map(|number| {
            let (store, barrier) = (if number % 2 == 0 { &one } else { &other }, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for count in 0..EACH {
                    let body = count.to_string();
                    let new = NewMail { body, ..mail(&format!("s{number}"), "x") };
                    store.mail().send(&new, 999, 999)?;
                }
                Ok(Vec::new())
            })
        });
        let receivers = (0..4).map(|number| {
            let (store, barrier) = (if number % 2 == 0 { &one } else { &other }, &barrier);
            scope.spawn(move || {
                barrier.wait();
                receive_all(store.mail(), SENDERS * EACH)
            })
        });
        let workers: Vec<_> = senders.chain(receivers).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let histories: Vec<Vec<MailRow>> = histories.into_iter().collect::<Result<_, _>>()?;
    let mut delivered: Vec<i64> = histories.iter().flatten().map(|row| row.id).collect();
    delivered.sort_unstable();
    let many = delivered.len();
    delivered.dedup();
    equal("each mail is delivered once", (many, delivered.len()), (SENDERS * EACH, SENDERS * EACH))?;
    for history in &histories {
        in_order_of_senders(history)?;
    }
    Ok(())
}

/// Receives until all mails of the mailbox are delivered to somebody, and returns those of this call.
fn receive_all(store: &dyn MailStore, all: usize) -> Result<Vec<MailRow>, StoreError> {
    let mut received = Vec::new();
    // Ids start at 1, and a mailbox is empty before the first is sent, so the last id tells the end.
    let last = i64::try_from(all).unwrap_or(i64::MAX);
    // The number of rounds is bounded, because a broken store may never deliver the last mail.
    for _ in 0..100_000 {
        if store.find(last)?.is_some() && store.waiting(Path::new(WORKSPACE), "x")? == 0 {
            break;
        }
        for row in store.claim("x", Path::new(WORKSPACE), at(1), LEASE, 2)? {
            if store.delivered(row.id, row.epoch)? {
                received.push(row);
            }
        }
    }
    Ok(received)
}

/// Checks that the mails of each sender and priority are in the order of their ids.
fn in_order_of_senders(history: &[MailRow]) -> Result<(), Problem> {
    let mut last: HashMap<(&str, Priority), i64> = HashMap::new();
    for row in history {
        let before = last.insert((&row.from, row.priority), row.id);
        holds("the order of a sender", before.is_none_or(|before| before < row.id))?;
    }
    Ok(())
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn interleavings(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for seed in 1..=12 {
        let to = format!("x{seed}");
        interleaving([one.mail(), other.mail()], &to, &mut Dice(seed * 0x9e37_79b9))
            .map_err(|Problem(problem)| Problem(format!("with seed {seed}: {problem}")))?;
    }
    Ok(())
}

/// Plays one history of a mailbox, and compares every claim with the order of the mails that are open.
fn interleaving(stores: [&dyn MailStore; 2], to: &str, dice: &mut Dice) -> Result<(), Problem> {
    let mut model: Vec<MailRow> = Vec::new();
    let mut delivered: Vec<MailRow> = Vec::new();
    let mut claims: Vec<MailRow> = Vec::new();
    let mut minutes = 0;
    for step in 0..160 {
        let store = if dice.roll(2) == 0 { stores[0] } else { stores[1] };
        match dice.roll(if step < 120 { 8 } else { 5 }) + if step < 120 { 0 } else { 3 } {
            0..=2 => {
                let from = ["a", "b", "c"].get(usize::try_from(dice.roll(3)).unwrap_or(0)).unwrap_or(&"a");
                let new = NewMail {
                    priority: if dice.roll(3) == 0 { Priority::High } else { Priority::Standard },
                    deadline: (dice.roll(4) == 0).then(|| at(minutes + 8)),
                    sent_at: at(minutes),
                    ..mail(from, to)
                };
                if let SendOutcome::Sent(id) = store.send(&new, 999, 999)? {
                    model.extend(store.find(id)?);
                }
            }
            3 | 4 => {
                let most = u32::try_from(dice.roll(4)).unwrap_or(0) + 1;
                let rows = store.claim(to, Path::new(WORKSPACE), at(minutes), LEASE, most)?;
                let expected = claim_of_model(&mut model, minutes, most as usize);
                equal("a claim", rows.clone(), expected)?;
                claims.extend(rows);
            }
            // A crash is a claim that nobody acknowledges.
            5 | 6 if !claims.is_empty() => {
                let row = claims.swap_remove(usize::try_from(dice.roll(claims.len() as u64)).unwrap_or(0));
                let now = model.iter_mut().find(|known| known.id == row.id);
                let is_valid = now
                    .as_ref()
                    .is_some_and(|known| known.epoch == row.epoch && known.state == MailState::Claimed);
                equal("an acknowledgement", store.delivered(row.id, row.epoch)?, is_valid)?;
                if let Some(known) = now.filter(|_| is_valid) {
                    known.state = MailState::Delivered;
                    delivered.push(row);
                }
            }
            _ => minutes += 2,
        }
    }
    in_order_of_senders(&delivered)
}

/// Claims from the model: buries what is past its deadline, and claims the first open mail of each lane.
fn claim_of_model(model: &mut [MailRow], minutes: i64, most: usize) -> Vec<MailRow> {
    let is_free = |row: &MailRow| row.claimed_until.is_none_or(|until| until <= at(minutes));
    let is_open = |row: &MailRow| matches!(row.state, MailState::Waiting | MailState::Claimed);
    // The store buries only if there is something to claim, which changes nothing that a caller sees here.
    for row in model.iter_mut().filter(|row| is_open(row) && is_free(row)) {
        if row.deadline.is_some_and(|deadline| deadline <= at(minutes)) {
            row.state = MailState::Dead;
        }
    }
    let mut lanes: HashMap<(String, Priority), i64> = HashMap::new();
    for row in model.iter().filter(|row| is_open(row)) {
        lanes.entry((row.from.clone(), row.priority)).or_insert(row.id);
    }
    let mut firsts: Vec<&mut MailRow> =
        model.iter_mut().filter(|row| lanes.values().any(|id| *id == row.id) && is_free(row)).collect();
    firsts.sort_by_key(|row| (row.priority != Priority::High, row.id));
    firsts.truncate(most);
    firsts
        .into_iter()
        .map(|row| {
            row.state = MailState::Claimed;
            row.claimed_until = Some(at(minutes) + LEASE);
            row.epoch += 1;
            row.clone()
        })
        .collect()
}
