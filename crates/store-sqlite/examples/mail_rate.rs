//! Prints how long a claim of mail takes beside 10,000 open mails, and how long the other operations of an
//! agent take.
//!
//! ```text
//! cargo run --release -p store-sqlite --example mail_rate
//! ```
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and ends where it fails")]

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use store_api::{Amounts, Limits, NewMail, Priority, ReserveOutcome, SpendingKey, SpendingScope, Store as _};
use store_sqlite::SqliteStore;

const MAILS: usize = 10_000;
const LEASE: SignedDuration = SignedDuration::from_mins(5);

fn main() {
    for (shape, senders) in [("one sender", 1), ("100 senders", 100), ("10,000 senders", MAILS)] {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let mailbox = store.mail();
        let send = times(MAILS, |number| {
            let new = mail(&format!("s{}", number % senders), number % 10 == 0);
            mailbox.send(&new, u32::MAX, u32::MAX).unwrap();
        });
        println!("send to a mailbox, {shape}: {send}");
        let mut claimed = Vec::new();
        let claims = times(100, |_| {
            let rows = mailbox.claim("x", Path::new("/w"), now(), LEASE, 10).unwrap();
            claimed.extend(rows.iter().map(|row| (row.id, row.epoch)));
        });
        println!("claim up to 10 of {MAILS}, {shape}: {claims}");
        let mut claimed = claimed.into_iter();
        let delivered = times(claimed.len(), |_| {
            let (id, epoch) = claimed.next().unwrap();
            mailbox.delivered(id, epoch).unwrap();
        });
        println!("acknowledge, {shape}: {delivered}");
        while !mailbox.claim("x", Path::new("/w"), now(), LEASE, 10_000).unwrap().is_empty() {}
        let held = times(100, |_| {
            mailbox.claim("x", Path::new("/w"), now(), LEASE, 10).unwrap();
        });
        println!("claim while all is held, {shape}: {held}");
        let ended = times(100, |_| {
            mailbox.claim("x", Path::new("/w"), now() + LEASE, LEASE, 10).unwrap();
        });
        println!("claim after leases have ended, {shape}: {ended}");
        let killed = times(1, |_| {
            mailbox.kill_of(Path::new("/w"), "x", "ended").unwrap();
        });
        println!("bury a mailbox, {shape}: {killed}");
    }
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let account = (SpendingKey { scope: SpendingScope::Project("/w".into()) }, Limits::default());
    let worst = Amounts { micro_usd: 1, tokens: 1 };
    let spending = times(1_000, |_| {
        let accounts = std::slice::from_ref(&account);
        if let ReserveOutcome::Reserved(id) =
            store.spending().reserve(accounts, worst, "one", now(), LEASE).unwrap()
        {
            store.spending().settle(id, worst).unwrap();
        }
    });
    println!("reserve and settle: {spending}");
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000)
}

fn mail(from: &str, is_high: bool) -> NewMail {
    NewMail {
        workspace: "/w".into(),
        from: from.to_owned(),
        to: "x".to_owned(),
        priority: if is_high { Priority::High } else { Priority::Standard },
        body: "x".repeat(500),
        in_reply_to: None,
        sent_at: now(),
        deadline: None,
    }
}

/// Runs an action many times, and returns the median and the longest time.
fn times(many: usize, mut action: impl FnMut(usize)) -> String {
    let mut times: Vec<Duration> = (0..many)
        .map(|number| {
            let begin = Instant::now();
            action(number);
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let longest = times.last().copied().unwrap_or_default();
    format!("median {:?}, longest {longest:?}", times.get(times.len() / 2).copied().unwrap_or_default())
}
