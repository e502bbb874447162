//! A process that uses a store, for tests with several processes, a killed one, or one with another
//! view of the file system. The process opens the store in FOLDER and runs one of these:
//!
//! - `store-appender FOLDER append NAME ROWS DURABILITY` prints the call id of each row after its
//!   receipt. Rows are appended in groups of four, so that a kill meets rows in every state.
//! - `store-appender FOLDER put BYTES` prints the hash of a blob of BYTES bytes.
//! - `store-appender FOLDER verify` prints the verification as JSON.
//! - `store-appender FOLDER answer ID NAME yes|no` answers an approval, and prints whether the
//!   answer counts and whose answer does.
//! - `store-appender FOLDER use ID` and `earlier PLAN` use an approval, and print `used` or `not used`.
//! - `store-appender FOLDER fire NAME MINUTES` claims and ends what is due in each of these minutes, and
//!   prints the schedule and the minute of each firing that it claims.
//! - `store-appender FOLDER receive MINUTES` claims the mail of `x` at this minute, under a lease of an
//!   hour, until nothing can be claimed. It prints the sender and the id of each mail that it acknowledges.
//!
//! Errors go to standard error in the `Debug` form, followed by a space and the message.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use store_api::{
    AfterAttempt, AnswerOutcome, ApprovalAnswer, AttemptEnd, AuditRow, Claimer, Due, Durability,
    EarlierAnswer, Kind, ScheduleRow, Store as _, StoreError,
};
use store_sqlite::SqliteStore;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            // Without a reader, the exit code must suffice.
            let _ = writeln!(io::stderr(), "{error:?} {error}");
            ExitCode::FAILURE
        }
        None => ExitCode::from(2),
    }
}

/// Runs a command. Returns `None` on wrong usage.
fn run(arguments: &[&str]) -> Option<Result<(), StoreError>> {
    let result = match arguments {
        [folder, "append", name, rows, durability] => {
            let durability = match *durability {
                "flushed" => Durability::Flushed,
                "committed" => Durability::Committed,
                "behind" => Durability::Behind,
                _ => return None,
            };
            append(Path::new(folder), name, rows.parse().ok()?, durability)
        }
        [folder, "put", bytes] => put(Path::new(folder), bytes.parse().ok()?),
        [folder, "verify"] => verify(Path::new(folder)),
        [folder, "answer", id, name, said] => answer(Path::new(folder), id, name, *said == "yes"),
        [folder, "use", id] => use_up(Path::new(folder), |store| store.approvals().use_up(id, asked_at())),
        [folder, "earlier", plan] => use_up(Path::new(folder), |store| {
            let earlier = store.approvals().earlier(Path::new("/w"), plan, "request", asked_at())?;
            Ok(matches!(earlier, EarlierAnswer::Approved(row) if row.id == *plan))
        }),
        [folder, "fire", name, minutes] => fire(Path::new(folder), name, minutes.parse().ok()?),
        [folder, "receive", minutes] => receive(Path::new(folder), minutes.parse().ok()?),
        _ => return None,
    };
    Some(result)
}

fn append(folder: &Path, name: &str, rows: u32, durability: Durability) -> Result<(), StoreError> {
    let store = SqliteStore::open(folder)?;
    let calls: Vec<String> = (0..rows).map(|number| format!("{name}-{number}")).collect();
    for group in calls.chunks(4) {
        let receipts: Vec<_> = group
            .iter()
            .map(|call| {
                let mut row =
                    AuditRow::new(Kind::Intent, Timestamp::UNIX_EPOCH, call, "cli", "handfast", "file_read");
                row.session = Some(name.to_owned());
                row.plan = Some(format!("{{\"effects\":[\"run {}\"]}}", "x".repeat(400)));
                store.audit().append(row, durability)
            })
            .collect();
        for (call, receipt) in group.iter().zip(receipts) {
            receipt.wait()?;
            print(call);
        }
    }
    store.close()
}

fn put(folder: &Path, bytes: u64) -> Result<(), StoreError> {
    let blob = SqliteStore::open(folder)?.blobs().put(&mut io::repeat(7).take(bytes))?;
    print(&blob.hash.to_string());
    Ok(())
}

fn verify(folder: &Path) -> Result<(), StoreError> {
    let verification = SqliteStore::open(folder)?.audit().verify(None)?;
    print(&serde_json::to_string(&verification).unwrap_or_default());
    Ok(())
}

fn print(line: &str) {
    let mut output = io::stdout().lock();
    // The reader may be gone: then the rows alone count.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Returns the time at which the tests of approvals happen.
fn asked_at() -> Timestamp {
    Timestamp::from_second(1_767_323_045).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn answer(folder: &Path, id: &str, name: &str, approved: bool) -> Result<(), StoreError> {
    let answer = ApprovalAnswer {
        approved,
        scope: None,
        by: name.to_owned(),
        message: None,
        expires_at: asked_at() + SignedDuration::from_mins(10),
        lease: None,
    };
    let (said, row) = match SqliteStore::open(folder)?.approvals().answer(id, &answer, asked_at())? {
        AnswerOutcome::First(row) => ("first", row),
        AnswerOutcome::Before(row) => ("before", row),
    };
    let _ = writeln!(io::stdout(), "{said} {}", row.answered_by.unwrap_or_default());
    Ok(())
}

fn fire(folder: &Path, name: &str, minutes: i64) -> Result<(), StoreError> {
    let store = SqliteStore::open(folder)?;
    let minute = SignedDuration::from_mins(1);
    let claimer = Claimer { owner: name.to_owned(), workspace: "/w".into(), lease: minute * 60, most: 3 };
    let end = AttemptEnd { succeeded: true, outcome: "it ran".to_owned(), output: None };
    let next = |schedule: &ScheduleRow, _| Due {
        fire: schedule.next_at.into_iter().collect(),
        queue: Vec::new(),
        next_at: schedule.next_at.map(|next| next + minute),
    };
    for at in (0..minutes).map(|number| asked_at() + SignedDuration::from_mins(number)) {
        while let firings = store.schedules().claim_due(&claimer, at, &next)?
            && !firings.is_empty()
        {
            for firing in firings {
                let instant = firing.claim.instant.duration_since(asked_at()).as_mins();
                print(&format!("{} {instant}", firing.claim.schedule));
                store.schedules().finish(&firing.claim, &end, at, &|_, _| AfterAttempt::default())?;
            }
        }
    }
    Ok(())
}

fn receive(folder: &Path, minutes: i64) -> Result<(), StoreError> {
    let store = SqliteStore::open(folder)?;
    let now = asked_at() + SignedDuration::from_mins(minutes);
    while let claimed = store.mail().claim("x", Path::new("/w"), now, SignedDuration::from_hours(1), 2)?
        && !claimed.is_empty()
    {
        for row in claimed {
            if store.mail().delivered(row.id, row.epoch)? {
                print(&format!("{} {}", row.from, row.id));
            }
        }
    }
    Ok(())
}

fn use_up(
    folder: &Path,
    used: impl FnOnce(&SqliteStore) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let used = used(&SqliteStore::open(folder)?)?;
    let _ = writeln!(io::stdout(), "{}", if used { "used" } else { "not used" });
    Ok(())
}
