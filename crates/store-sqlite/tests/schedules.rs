//! Tests of schedules, claimed by several threads, stores and processes at once.
#![expect(clippy::disallowed_methods, reason = "one of these tests is about other processes")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;

use jiff::{SignedDuration, Timestamp};
use store_api::{
    AddOutcome, AfterAttempt, AttemptEnd, Claimer, Due, Firing, OpenFirings, ScheduleFilter, ScheduleRow,
    ScheduleState, ScheduleTimes, Store as _,
};
use store_sqlite::SqliteStore;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn start() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn after(minutes: i64) -> Timestamp {
    start() + SignedDuration::from_mins(minutes)
}

fn minutely(id: &str) -> ScheduleRow {
    let text = |text: &str| text.to_owned();
    ScheduleRow {
        id: text(id),
        name: text(id),
        description: text(""),
        workspace: "/w".into(),
        text: text("every minute"),
        canonical: text("every minute"),
        zone: text("UTC"),
        times: ScheduleTimes::Recurring(text("* * * * *")),
        action: text("{}"),
        ceiling: text("{}"),
        rules: text("{}"),
        state: ScheduleState::Active,
        created_at: start(),
        created_by: "c1".to_owned(),
        next_at: Some(start()),
        last_at: None,
        last_status: None,
        failures: 0,
        disabled: None,
    }
}

fn claimer(owner: &str, most: usize) -> Claimer {
    Claimer { owner: owner.to_owned(), workspace: "/w".into(), lease: MINUTE * 5, most }
}

fn fire(schedule: &ScheduleRow, _open: OpenFirings) -> Due {
    Due {
        fire: schedule.next_at.into_iter().collect(),
        queue: Vec::new(),
        next_at: schedule.next_at.map(|next| next + MINUTE),
    }
}

fn end(succeeded: bool) -> AttemptEnd {
    AttemptEnd { succeeded, outcome: "it ran".to_owned(), output: None }
}

#[test]
fn of_threads_and_stores_that_claim_at_once_exactly_one_has_each_instant() {
    const SCHEDULES: usize = 40;
    const MINUTES: i64 = 8;
    let folder = tempfile::tempdir().unwrap();
    let stores = [SqliteStore::open(folder.path()).unwrap(), SqliteStore::open(folder.path()).unwrap()];
    for number in 0..SCHEDULES {
        assert_eq!(stores[0].schedules().add(&minutely(&format!("s{number}"))).unwrap(), AddOutcome::Added);
    }
    let barrier = Barrier::new(6);
    let claimed: Vec<Firing> = thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|number| {
                let (store, barrier) = (&stores[number % 2], &barrier);
                scope.spawn(move || {
                    let owner = claimer(&format!("o{number}"), 3);
                    let mut mine = Vec::new();
                    for minute in 0..MINUTES {
                        // All begin each minute at once, and claim until nothing is left of it.
                        barrier.wait();
                        loop {
                            let firings = store.schedules().claim_due(&owner, after(minute), &fire).unwrap();
                            if firings.is_empty() {
                                break;
                            }
                            mine.extend(firings);
                        }
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let keys: BTreeSet<(String, Timestamp)> = claimed
        .iter()
        .filter(|firing| firing.claim.epoch == 1)
        .map(|firing| (firing.claim.schedule.clone(), firing.claim.instant))
        .collect();
    assert_eq!(keys.len(), SCHEDULES * usize::try_from(MINUTES).unwrap(), "each instant was claimed");
    let epochs: BTreeSet<(&str, Timestamp, u32)> = claimed
        .iter()
        .map(|firing| (firing.claim.schedule.as_str(), firing.claim.instant, firing.claim.epoch))
        .collect();
    assert_eq!(epochs.len(), claimed.len(), "no claim was given twice");
}

#[test]
fn of_owners_that_hold_one_firing_one_after_another_only_the_last_may_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [SqliteStore::open(folder.path()).unwrap(), SqliteStore::open(folder.path()).unwrap()];
    stores[0].schedules().add(&ScheduleRow { next_at: Some(start()), ..minutely("s") }).unwrap();
    let once =
        |schedule: &ScheduleRow, open: OpenFirings| Due { next_at: Some(after(999)), ..fire(schedule, open) };
    let held: Vec<Firing> = (0..4_i64)
        .flat_map(|turn| {
            let store = &stores[usize::try_from(turn).unwrap() % 2];
            store.schedules().claim_due(&claimer("o", 9), after(turn * 5), &once).unwrap()
        })
        .collect();
    assert_eq!(held.iter().map(|firing| firing.claim.epoch).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // All of them report at once.
    let counted: usize = thread::scope(|scope| {
        let ends: Vec<_> = held
            .iter()
            .zip(stores.iter().cycle())
            .map(|(firing, store)| {
                scope.spawn(move || {
                    let failed = |schedule: &ScheduleRow, _: &Firing| AfterAttempt {
                        failures: schedule.failures + 1,
                        ..AfterAttempt::default()
                    };
                    store.schedules().finish(&firing.claim, &end(false), after(16), &failed).unwrap()
                })
            })
            .collect();
        ends.into_iter().map(|end| usize::from(end.join().unwrap())).sum()
    });
    let schedule = stores[1].schedules().find("s").unwrap().unwrap();
    assert_eq!((counted, schedule.failures), (1, 1));
}

#[test]
fn of_processes_that_claim_at_once_exactly_one_has_each_instant() {
    const MINUTES: usize = 30;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    for id in ["a", "b", "c", "d", "e"] {
        store.schedules().add(&minutely(id)).unwrap();
    }
    let children: Vec<Child> = ["one", "two", "three", "four"]
        .iter()
        .map(|name| {
            Command::new(env!("CARGO_BIN_EXE_store-appender"))
                .arg(folder.path())
                .args(["fire", name, &MINUTES.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut claimed: Vec<String> = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        claimed.extend(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned));
    }
    let unique: BTreeSet<&String> = claimed.iter().collect();
    assert_eq!((claimed.len(), unique.len()), (5 * MINUTES, 5 * MINUTES));
    assert_eq!(store.schedules().firings("a", 99).unwrap().len(), MINUTES);
    assert!(store.schedules().firings("a", 99).unwrap().iter().all(|firing| firing.ended_at.is_some()));
}

#[test]
fn a_schedule_keeps_its_latest_firings() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.schedules().add(&minutely("s")).unwrap();
    for minute in 0..760 {
        let firings = store.schedules().claim_due(&claimer("o", 1), after(minute), &fire).unwrap();
        let done = |_: &ScheduleRow, _: &Firing| AfterAttempt::default();
        assert!(store.schedules().finish(&firings[0].claim, &end(true), after(minute), &done).unwrap());
    }
    let kept = store.schedules().firings("s", 9_999).unwrap();
    assert_eq!((kept.len(), kept[0].claim.instant), (750, after(759)));
    assert_eq!(store.schedules().list(None, ScheduleFilter::Open).unwrap().len(), 1);
}

#[test]
fn a_store_is_full_with_ten_thousand_open_schedules_and_claims_among_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    for number in 0..10_000 {
        let row = ScheduleRow { next_at: Some(after(number)), ..minutely(&format!("s{number}")) };
        assert_eq!(store.schedules().add(&row).unwrap(), AddOutcome::Added);
    }
    assert_eq!(store.schedules().add(&minutely("more")).unwrap(), AddOutcome::Full);
    let firings = store.schedules().claim_due(&claimer("o", 9), start(), &fire).unwrap();
    assert_eq!(firings.iter().map(|firing| firing.claim.schedule.as_str()).collect::<Vec<_>>(), ["s0"]);
    store
        .schedules()
        .finish(&firings[0].claim, &end(true), start(), &|_, _| AfterAttempt::default())
        .unwrap();
    // The earliest of those that are due are claimed.
    let due = store.schedules().claim_due(&claimer("o", 64), after(20_000), &fire).unwrap();
    let instants: Vec<Timestamp> = due.iter().map(|firing| firing.claim.instant).collect();
    assert!(instants.is_sorted() && instants.len() == 64 && instants[63] < after(64), "{instants:?}");
    assert_eq!(store.schedules().list(None, ScheduleFilter::Active).unwrap().len(), 10_000);
    assert!(store.schedules().remove("s1").unwrap());
    assert_eq!(store.schedules().add(&minutely("more")).unwrap(), AddOutcome::Added);
}
