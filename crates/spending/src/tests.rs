//! Tests on a real store.

use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;

use llm::{Hold, OverBudget, ReserveError, WorstCase};
use store_sqlite::SqliteStore;
use testkit::{FixedClock, MovingClock};

use super::*;

const TIMEOUT: Duration = Duration::from_mins(10);

fn book(folder: &Path, project: &str) -> SpendingBook {
    let store = Arc::new(SqliteStore::open(folder).unwrap());
    SpendingBook::new(store, project.into(), TimeZone::get("Europe/Berlin").ok())
}

fn usd(text: &str) -> Usd {
    Usd::parse(text).unwrap()
}

fn limit(money: Option<&str>, tokens: Option<u64>) -> Limit {
    Limit { money: money.map(usd), tokens }
}

fn worst(money: &str, tokens: u64) -> WorstCase {
    WorstCase { money: Some(usd(money)), tokens: Some(tokens) }
}

fn spent(money: &str, tokens: u64) -> Amount {
    Amount { money: usd(money), tokens }
}

/// Reserves at once, since nothing is waited for.
fn reserve(ledger: &dyn Reserve, worst: WorstCase) -> Result<Box<dyn Hold>, ReserveError> {
    match pin!(ledger.reserve(worst)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("a reservation waits for something"),
    }
}

fn refused(ledger: &dyn Reserve, worst: WorstCase) -> OverBudget {
    match reserve(ledger, worst) {
        Err(ReserveError::Over(over)) => over,
        Err(ReserveError::Failed(reason)) => panic!("{reason}"),
        Ok(_) => panic!("{worst:?} is within the budgets"),
    }
}

fn sums(book: &SpendingBook, clock: &dyn Clock) -> [(Amount, Amount); 2] {
    book.accounts(clock.now()).unwrap().map(|account| (account.spent, account.reserved))
}

#[test]
fn a_request_is_reserved_on_both_accounts_and_settled_at_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let book = book(folder.path(), "/w");
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::default());
    let limits = SharedLimits { day: limit(Some("1"), None), ..SharedLimits::default() };
    let ledger = book.of_call(limits, "call", clock.clone(), TIMEOUT);
    let hold = reserve(&*ledger, worst("0.6", 50)).unwrap();
    assert_eq!(sums(&book, &*clock), [(Amount::default(), spent("0.6", 50)); 2]);
    hold.settle(spent("0.2000000001", 7));
    // A part of a millionth counts as a whole one.
    assert_eq!(sums(&book, &*clock), [(spent("0.200001", 7), Amount::default()); 2]);
    // An attempt that is dropped midway is charged at its worst.
    drop(reserve(&*ledger, worst("0.1", 3)).unwrap());
    assert_eq!(sums(&book, &*clock), [(spent("0.300001", 10), Amount::default()); 2]);
    // A future that is dropped before it ran has reserved nothing.
    drop(ledger.reserve(worst("0.1", 3)));
    assert_eq!(sums(&book, &*clock), [(spent("0.300001", 10), Amount::default()); 2]);
}

#[test]
fn a_refusal_names_the_budget_and_what_is_left_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let book = book(folder.path(), "/w/project");
    // Half past eleven in the evening in UTC is the next day in Berlin.
    let clock: Arc<dyn Clock> = Arc::new(FixedClock("2026-11-27T23:30:00Z".parse().unwrap()));
    let limits = SharedLimits { day: limit(Some("1"), None), project: limit(None, Some(100)) };
    let ledger = book.of_call(limits, "call", clock.clone(), TIMEOUT);
    reserve(&*ledger, worst("0.5", 10)).unwrap().settle(spent("0.5", 10));
    let held = reserve(&*ledger, worst("0.25", 60)).unwrap();
    let told = refused(&*ledger, worst("0.3", 1)).to_string();
    assert_eq!(told, "the call may cost up to $0.30, and the budget of the day 2026-11-28 has $0.25 left");
    let told = refused(&*ledger, worst("0.1", 31)).to_string();
    assert_eq!(
        told,
        "the call may take up to 31 tokens, and the budget of the project /w/project has 30 left"
    );
    held.settle(Amount::default());
    drop(reserve(&*ledger, worst("0.3", 31)).unwrap());
    // A smaller part than the store counts is no room.
    let told = refused(&*ledger, worst("0.2000000001", 1));
    assert!(matches!(told, OverBudget::Money { left, .. } if left == usd("0.2")), "{told}");
}

#[test]
fn a_worst_case_that_is_unknown_fits_within_no_limit_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let book = book(folder.path(), "/w");
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::default());
    let no_price = WorstCase { money: None, tokens: Some(10) };
    let no_bound = WorstCase { money: None, tokens: None };
    let day = Some(Scope::Day("2026-01-01".to_owned()));
    let project = Some(Scope::Project("/w".to_owned()));
    let of = |limits| book.of_call(limits, "call", clock.clone(), TIMEOUT);
    let money = of(SharedLimits { day: limit(Some("9"), None), ..SharedLimits::default() });
    let tokens = of(SharedLimits { project: limit(None, Some(99)), ..SharedLimits::default() });
    assert_eq!(refused(&*money, no_price), OverBudget::NoPrice { scope: day.clone() });
    assert_eq!(refused(&*money, no_bound), OverBudget::NoBound { scope: day });
    assert_eq!(refused(&*tokens, no_bound), OverBudget::NoBound { scope: project });
    // A limit of tokens alone needs no price.
    reserve(&*tokens, no_price).unwrap().settle(spent("0", 4));
    assert_eq!(sums(&book, &*clock), [(spent("0", 4), Amount::default()); 2]);
}

#[test]
fn a_day_ends_at_midnight_of_the_user_and_a_project_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (book(folder.path(), "/here"), book(folder.path(), "/there"));
    let at = |time: &str| -> Arc<dyn Clock> { Arc::new(FixedClock(time.parse().unwrap())) };
    let (evening, night) = (at("2026-11-28T22:59:00Z"), at("2026-11-28T23:00:00Z"));
    let limits = SharedLimits { day: limit(None, Some(100)), project: limit(None, Some(150)) };
    let ledger =
        |book: &SpendingBook, clock: &Arc<dyn Clock>| book.of_call(limits, "call", clock.clone(), TIMEOUT);
    reserve(&*ledger(&here, &evening), worst("0", 100)).unwrap().settle(spent("0", 100));
    // The day is one for all projects.
    let over = refused(&*ledger(&there, &evening), worst("0", 1));
    assert_eq!(
        over,
        OverBudget::Tokens { scope: Some(Scope::Day("2026-11-28".to_owned())), needed: 1, left: 0 }
    );
    reserve(&*ledger(&there, &night), worst("0", 1)).unwrap().settle(spent("0", 1));
    let over = refused(&*ledger(&here, &night), worst("0", 51));
    let project = Some(Scope::Project("/here".to_owned()));
    assert_eq!(over, OverBudget::Tokens { scope: project, needed: 51, left: 50 });
}

#[test]
fn what_a_killed_process_reserved_counts_as_spent_when_its_lease_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let book = book(folder.path(), "/w");
    let moving = MovingClock::default();
    let clock: Arc<dyn Clock> = Arc::new(moving.clone());
    let limits = SharedLimits { project: limit(None, Some(100)), ..SharedLimits::default() };
    let ledger = book.of_call(limits, "call", clock.clone(), TIMEOUT);
    // Whoever is killed neither settles nor drops.
    std::mem::forget(reserve(&*ledger, worst("0", 60)).unwrap());
    let late = reserve(&*ledger, worst("0", 30)).unwrap();
    refused(&*ledger, worst("0", 11));
    let reserved = (Amount::default(), spent("0", 90));
    assert_eq!(sums(&book, &*clock)[1], reserved);
    moving.advance(SignedDuration::from_secs(11 * 60 - 1));
    assert_eq!(sums(&book, &*clock)[1], reserved, "a lease is longer than the call");
    moving.advance(SignedDuration::from_secs(1));
    assert_eq!(sums(&book, &*clock)[1], (spent("0", 90), Amount::default()));
    // A lease that has ended is no obstacle before the next reservation of anybody.
    late.settle(spent("0", 5));
    assert_eq!(sums(&book, &*clock)[1], (spent("0", 65), Amount::default()));
    refused(&*ledger, worst("0", 36));
    reserve(&*ledger, worst("0", 35)).unwrap().settle(Amount::default());
}

#[test]
fn of_many_that_reserve_at_once_no_more_than_the_limit_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let books: Vec<SpendingBook> = (0..4).map(|_| book(folder.path(), "/w")).collect();
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::default());
    let limits = SharedLimits { day: limit(None, Some(100)), ..SharedLimits::default() };
    let barrier = Barrier::new(books.len());
    let sent: u64 = thread::scope(|scope| {
        let workers: Vec<_> = books
            .iter()
            .map(|book| {
                let (barrier, clock) = (&barrier, clock.clone());
                scope.spawn(move || {
                    let ledger = book.of_call(limits, "call", clock, TIMEOUT);
                    barrier.wait();
                    let mut sent = 0;
                    for _ in 0..10 {
                        if let Ok(hold) = reserve(&*ledger, worst("0", 9)) {
                            hold.settle(spent("0", 6));
                            sent += 6;
                        }
                    }
                    sent
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let [day, _] = sums(&books[0], &*clock);
    assert_eq!(day, (spent("0", sent), Amount::default()));
    // Whoever is refused found others' worst cases at most: 100 - 6 * 4 - 9 are used in any case.
    assert!(sent <= 100 && sent > 60, "{sent}");
}
