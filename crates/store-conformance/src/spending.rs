//! Promises of the costs of models.

use std::sync::Barrier;
use std::thread;

use jiff::SignedDuration;
use jiff::civil::date;
use jiff::tz::TimeZone;
use store_api::{Amounts, Limits, ReserveOutcome, SpendingKey, SpendingScope, SpendingStore, StoreError};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("amounts are reserved and settled on every account, also after a restart", settled),
    ("a reservation over any limit is refused on all accounts, and says which", over),
    ("a reservation whose lease has ended counts as spent", expired),
    ("of several that reserve at once, no more than the limit is reserved", reserved_at_once),
    ("amounts do not overflow", saturated),
    ("days are deleted after 40 days, and projects are not", forgotten),
];

const LEASE: SignedDuration = SignedDuration::from_mins(5);
const NONE: Amounts = Amounts { micro_usd: 0, tokens: 0 };

fn project(path: &str) -> SpendingKey {
    SpendingKey { scope: SpendingScope::Project(path.into()) }
}

fn day(day: i8) -> SpendingKey {
    SpendingKey { scope: SpendingScope::Day(date(2026, 11, day)) }
}

fn amounts(micro_usd: u64, tokens: u64) -> Amounts {
    Amounts { micro_usd, tokens }
}

fn money(limit: u64) -> Limits {
    Limits { micro_usd: Some(limit), tokens: None }
}

fn reserve(
    spending: &dyn SpendingStore,
    accounts: &[(SpendingKey, Limits)],
    worst: Amounts,
    minutes: i64,
) -> Result<i64, Problem> {
    match spending.reserve(accounts, worst, "one", at(minutes), LEASE)? {
        ReserveOutcome::Reserved(id) => Ok(id),
        over @ ReserveOutcome::Over { .. } => {
            Err(Problem(format!("a reservation within the limits is refused: {over:?}")))
        }
    }
}

fn settled(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let accounts = [(day(1), Limits::default()), (project("/w\u{fe}"), Limits::default())];
    // An account that is named twice is charged once.
    let twice = [accounts.as_slice(), &accounts].concat();
    let id = reserve(one.spending(), &twice, amounts(100, 1000), 0)?;
    for (key, _) in &accounts {
        equal("what is reserved", other.spending().spent(key, at(0))?, (NONE, amounts(100, 1000)))?;
    }
    let second = reserve(other.spending(), &accounts, amounts(1, 2), 0)?;
    holds("the ids differ", id != second)?;
    let settled = [
        other.spending().settle(id, amounts(150, 40))?,
        one.spending().settle(id, amounts(9, 9))?,
        one.spending().settle(second + 9, amounts(9, 9))?,
    ];
    equal("once, twice, and one that does not exist", settled, [true, false, false])?;
    drop((one, other));
    let again = handles.open()?;
    for (key, _) in &accounts {
        let sums = (amounts(150, 40), amounts(1, 2));
        equal("what is spent, after a restart", again.spending().spent(key, at(0))?, sums)?;
    }
    equal("another account", again.spending().spent(&day(2), at(0))?, (NONE, NONE))?;
    holds("the end of the second", again.spending().settle(second, NONE)?)?;
    equal("what is spent then", again.spending().spent(&day(1), at(0))?, (amounts(150, 40), NONE))
}

fn over(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.spending(), other.spending());
    let id = reserve(one, &[(project("/w"), Limits::default())], amounts(30, 3), 0)?;
    one.settle(id, amounts(30, 3))?;
    reserve(one, &[(project("/w"), Limits::default())], amounts(20, 2), 0)?;
    let tokens = |limit| Limits { micro_usd: Some(1_000), tokens: Some(limit) };
    for (limit, worst) in [(money(100), amounts(51, 0)), (tokens(10), amounts(50, 6))] {
        let accounts = [(day(1), money(1_000)), (project("/w"), limit)];
        let over = other.reserve(&accounts, worst, "other", at(1), LEASE)?;
        let expected = ReserveOutcome::Over {
            key: project("/w"),
            limit,
            spent: amounts(30, 3),
            reserved: amounts(20, 2),
        };
        equal("one over a limit", over, expected)?;
        equal("the account before it", one.spent(&day(1), at(1))?, (NONE, NONE))?;
    }
    let accounts = [(day(1), money(1_000)), (project("/w"), tokens(10))];
    reserve(other, &accounts, amounts(50, 5), 1)?;
    equal("one up to the limit", one.spent(&day(1), at(1))?, (NONE, amounts(50, 5)))
}

fn expired(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.spending(), other.spending());
    let accounts = [(project("/w"), money(100))];
    let [first, second] =
        [reserve(one, &accounts, amounts(60, 6), 0)?, reserve(one, &accounts, amounts(30, 3), 2)?];
    equal("within the leases", other.spent(&project("/w"), at(4))?, (NONE, amounts(90, 9)))?;
    let ended = (amounts(60, 6), amounts(30, 3));
    equal("at the end of the first", other.spent(&project("/w"), at(5))?, ended)?;
    let over = other.reserve(&accounts, amounts(11, 0), "other", at(5), LEASE)?;
    let (spent, reserved) = ended;
    let expected = ReserveOutcome::Over { key: project("/w"), limit: money(100), spent, reserved };
    equal("what is left of the limit", over, expected)?;
    reserve(other, &accounts, amounts(1, 1), 5)?;
    equal("its end, too late", one.settle(first, amounts(1, 1))?, false)?;
    // A lease that has ended is no obstacle before the next reservation of anybody.
    equal("the end of the second", one.settle(second, amounts(2, 2))?, true)?;
    let sums = (amounts(62, 8), amounts(1, 1));
    equal("what is spent", other.spent(&project("/w"), at(8))?, sums)
}

fn reserved_at_once(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let barrier = Barrier::new(6);
    let counts: Vec<Result<u64, StoreError>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|number| {
                let (store, barrier) = (if number % 2 == 0 { &one } else { &other }, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let mut reserved = 0;
                    for _ in 0..10 {
                        let accounts = [(day(1), Limits::default()), (project("/w"), money(25))];
                        let outcome =
                            store.spending().reserve(&accounts, amounts(1, 1), "one", at(0), LEASE)?;
                        if let ReserveOutcome::Reserved(id) = outcome {
                            reserved += 1;
                            // Some calls cost nothing in the end, which leaves room for others.
                            if reserved == 1 {
                                store.spending().settle(id, NONE)?;
                            }
                        }
                    }
                    Ok(reserved)
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mut reserved = 0;
    let mut returned = 0;
    for count in counts {
        let count = count?;
        reserved += count;
        returned += u64::from(count > 0);
    }
    equal("what is reserved", reserved - returned, 25)?;
    equal("what the store says", one.spending().spent(&day(1), at(0))?, (NONE, amounts(25, 25)))
}

fn saturated(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let spending = store.spending();
    let most = amounts(u64::MAX, u64::MAX);
    let greatest = i64::MAX.unsigned_abs();
    for round in 0..3 {
        let id = reserve(spending, &[(project("/w"), Limits::default())], most, 0)?;
        reserve(spending, &[(project("/v"), Limits::default())], most, 0)?;
        holds("the end", spending.settle(id, most)?)?;
        let (spent, _) = spending.spent(&project("/w"), at(0))?;
        equal("what is spent", spent, amounts(greatest, greatest))?;
        let (_, reserved) = spending.spent(&project("/v"), at(0))?;
        holds("what is reserved", reserved.micro_usd >= greatest && (round < 2 || reserved == most))?;
    }
    let over = spending.reserve(&[(project("/w"), money(greatest))], amounts(1, 1), "one", at(0), LEASE)?;
    holds("one more is over", matches!(over, ReserveOutcome::Over { .. }))?;
    let over =
        spending.reserve(&[(project("/v"), money(u64::MAX - 1))], amounts(1, 1), "one", at(0), LEASE)?;
    holds("one more beside what is reserved is over", matches!(over, ReserveOutcome::Over { .. }))
}

fn forgotten(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.spending(), other.spending());
    let today = at(0).to_zoned(TimeZone::UTC).date();
    let mut keys = vec![project("/w")];
    for days in [41, 40, 0] {
        let of_day = today.checked_sub(SignedDuration::from_hours(24 * days));
        let of_day = of_day.map_err(|error| Problem(error.to_string()))?;
        keys.push(SpendingKey { scope: SpendingScope::Day(of_day) });
    }
    for key in &keys {
        let id = reserve(one, &[(key.clone(), Limits::default())], amounts(5, 5), 0)?;
        one.settle(id, amounts(5, 5))?;
    }
    reserve(other, &[], NONE, 1)?;
    let mut spent = Vec::new();
    for key in &keys {
        spent.push(other.spent(key, at(1))?.0.tokens);
    }
    equal("a project, and days that are 41, 40 and 0 days ago", spent, vec![5, 0, 5, 5])
}
