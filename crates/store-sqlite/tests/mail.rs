//! Tests of mail that several processes receive at once, some of which are killed.
#![expect(clippy::disallowed_methods, reason = "these tests are about other processes")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use store_api::{MailState, NewMail, Priority, SendOutcome, Store as _};
use store_sqlite::SqliteStore;

const SENDERS: i64 = 5;

fn receiver(folder: &Path, minutes: usize) -> Child {
    Command::new(env!("CARGO_BIN_EXE_store-appender"))
        .arg(folder)
        .args(["receive", &minutes.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns a store with this many mails to `x`, whose senders take turns.
fn filled(folder: &Path, mails: i64) -> SqliteStore {
    let store = SqliteStore::open(folder).unwrap();
    let sent_at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    for number in 0..mails {
        let new = NewMail {
            workspace: "/w".into(),
            from: format!("s{}", number % SENDERS),
            to: "x".to_owned(),
            priority: Priority::Standard,
            body: number.to_string(),
            in_reply_to: None,
            sent_at,
            deadline: None,
        };
        assert_eq!(store.mail().send(&new, 9_999, 9_999).unwrap(), SendOutcome::Sent(number + 1));
    }
    store
}

/// Checks that the ids of each sender rise, and returns all ids.
fn in_order(lines: &str) -> Vec<i64> {
    let mut last: HashMap<&str, i64> = HashMap::new();
    let mut ids = Vec::new();
    for line in lines.lines() {
        let (from, id) = line.split_once(' ').unwrap();
        let id: i64 = id.parse().unwrap();
        assert!(last.insert(from, id).is_none_or(|before| before < id), "the order of {from}");
        ids.push(id);
    }
    ids
}

#[test]
fn of_processes_that_receive_at_once_exactly_one_has_each_mail() {
    const MAILS: i64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), MAILS);
    let mut received: Vec<i64> = Vec::new();
    // A process ends when the others hold all lanes, and the next one goes on.
    while store.mail().waiting(Path::new("/w"), "x").unwrap() > 0 {
        let children: Vec<Child> = (0..4).map(|_| receiver(folder.path(), 0)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            received.extend(in_order(&String::from_utf8(output.stdout).unwrap()));
        }
    }
    received.sort_unstable();
    assert_eq!(received, (1..=MAILS).collect::<Vec<_>>());
}

#[test]
fn a_killed_receiver_loses_no_mail_and_none_is_delivered_twice() {
    const MAILS: i64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), MAILS);
    let mut received: Vec<i64> = Vec::new();
    let mut killed = 0;
    for round in 0..8 {
        // The leases of an hour that the last round has left behind have ended.
        let mut child = receiver(folder.path(), round * 60);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        // Each process is killed at another point of its work.
        for _ in 0..=round * 3 {
            output.read_line(&mut lines).unwrap();
        }
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        output.read_to_string(&mut lines).unwrap();
        // The last line may be half written.
        let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
        received.extend(in_order(whole));
    }
    let rest = receiver(folder.path(), 8 * 60).wait_with_output().unwrap();
    assert!(rest.status.success());
    received.extend(in_order(&String::from_utf8(rest.stdout).unwrap()));
    let unique: HashSet<i64> = received.iter().copied().collect();
    assert_eq!(unique.len(), received.len(), "no mail was acknowledged twice");
    // A process that is killed after an acknowledgement does not tell it.
    let untold = usize::try_from(MAILS).unwrap() - unique.len();
    assert!(untold <= killed, "{untold} mails are missing");
    assert!(killed > 0, "a process was killed at work");
    for id in 1..=MAILS {
        assert_eq!(store.mail().find(id).unwrap().unwrap().state, MailState::Delivered);
    }
}
