use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;

fn usd(text: &str) -> Usd {
    Usd::parse(text).unwrap()
}

fn amount(money: &str, tokens: u64) -> Amount {
    Amount { money: usd(money), tokens }
}

fn limit(money: &str, tokens: u64) -> Limit {
    Limit { money: Some(usd(money)), tokens: Some(tokens) }
}

fn day() -> Scope {
    Scope::Day("2026-11-28".into())
}

fn session() -> Scope {
    Scope::Session("s1".into())
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.open(session(), limit("1", 1_000), Amount::default());
    ledger.open(day(), limit("3", 10_000), amount("2.5", 0));
    ledger
}

#[test]
fn the_tightest_budget_refuses_and_says_what_is_left() {
    let mut ledger = ledger();
    let scopes = [session(), day()];
    let refused = ledger.reserve(&scopes, Limit::default(), amount("0.6", 10)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the call may cost up to $0.60, and the budget of the day 2026-11-28 has $0.50 left"
    );
    let refused = ledger.reserve(&scopes, limit("0.1", 1_000), amount("0.2", 10)).unwrap_err();
    assert_eq!(refused, OverBudget::Money { scope: None, needed: usd("0.2"), left: usd("0.1") });
    let refused = ledger.reserve(&scopes, Limit::default(), amount("0.1", 1_001)).unwrap_err();
    assert_eq!(refused, OverBudget::Tokens { scope: Some(session()), needed: 1_001, left: 1_000 });
    // A refused reservation leaves no account changed.
    assert_eq!(ledger.reserved(&session()), Some(Amount::default()));
    assert_eq!(ledger.reserved(&day()), Some(Amount::default()));
}

#[test]
fn what_is_reserved_counts_until_it_is_settled() {
    let mut ledger = ledger();
    let first = ledger.reserve(&[session()], Limit::default(), amount("0.7", 100)).unwrap();
    assert!(ledger.reserve(&[session()], Limit::default(), amount("0.4", 100)).is_err());
    assert_eq!(ledger.settle(first, amount("0.2", 50)), Settlement::default());
    let second = ledger.reserve(&[session()], Limit::default(), amount("0.8", 950)).unwrap();
    assert_eq!(ledger.settle(second, Amount::default()), Settlement::default());
    assert_eq!(ledger.spent(&session()), Some(amount("0.2", 50)));
}

#[test]
fn a_call_that_took_more_than_was_reserved_is_recorded_in_full_and_closes_the_account() {
    let mut ledger = ledger();
    let scopes = [session(), day(), session()];
    let reservation = ledger.reserve(&scopes, Limit::default(), amount("0.1", 10)).unwrap();
    assert_eq!(ledger.settle(reservation, amount("1.2", 20)).exceeded, [session(), day()]);
    assert_eq!(ledger.spent(&session()), Some(amount("1.2", 20)));
    let refused = ledger.reserve(&[session()], Limit::default(), amount("0.000000000001", 1)).unwrap_err();
    assert!(matches!(refused, OverBudget::Money { left: Usd::ZERO, .. }), "{refused:?}");
}

#[test]
fn what_is_unknown_fits_within_no_limit() {
    let mut ledger = ledger();
    let unpriced = WorstCase { money: None, tokens: Some(10) };
    let refused = ledger.reserve_worst(&[day()], Limit::default(), unpriced).unwrap_err();
    assert_eq!(refused, OverBudget::NoPrice { scope: Some(day()) });
    let refused = ledger.reserve_worst(&[day()], Limit::default(), WorstCase::default()).unwrap_err();
    assert_eq!(refused, OverBudget::NoBound { scope: Some(day()) });
    let scope = Scope::Project("p".into());
    let refused = ledger.reserve(std::slice::from_ref(&scope), Limit::default(), Amount::default());
    assert_eq!(refused.unwrap_err(), OverBudget::NotOpen(scope.clone()));
    // An account without a limit refuses no call.
    ledger.open(scope.clone(), Limit::default(), Amount::default());
    let reservation = ledger.reserve_worst(&[scope], Limit::default(), WorstCase::default()).unwrap();
    assert_eq!(ledger.settle(reservation, amount("9", 9)), Settlement::default());
}

#[test]
fn a_clock_that_jumps_back_finds_the_day_as_it_was_left() {
    let mut ledger = ledger();
    let before_midnight = ledger.reserve(&[day()], Limit::default(), amount("0.5", 1)).unwrap();
    let next = Scope::Day("2026-11-29".into());
    ledger.open(next.clone(), limit("3", 10_000), Amount::default());
    let after = ledger.reserve(std::slice::from_ref(&next), Limit::default(), amount("3", 1)).unwrap();
    assert_eq!(ledger.settle(before_midnight, amount("0.5", 1)), Settlement::default());
    assert_eq!(ledger.settle(after, amount("1", 1)), Settlement::default());
    // The clock jumps back: the old day has nothing left, and the new one kept its own sum.
    assert!(ledger.reserve(&[day()], Limit::default(), amount("0.01", 1)).is_err());
    assert_eq!(ledger.spent(&next), Some(amount("1", 1)));
}

#[test]
fn many_threads_never_spend_more_than_the_limits() {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let project = Scope::Project("p".into());
    ledger.lock().open(project.clone(), limit("1", 5_000), Amount::default());
    let threads: Vec<_> = (0_u64..8)
        .map(|thread| {
            let (ledger, project) = (ledger.clone(), project.clone());
            std::thread::spawn(move || {
                let own = Scope::Session(thread.to_string());
                ledger.lock().open(own.clone(), limit("0.2", 900), Amount::default());
                for step in 0..200 {
                    let worst = amount("0.01", 40 + step % 7);
                    let reserved =
                        ledger.lock().reserve(&[own.clone(), project.clone()], Limit::default(), worst);
                    let Ok(reservation) = reserved else { continue };
                    std::thread::yield_now();
                    let exceeded = ledger.lock().settle(reservation, amount("0.009", 40)).exceeded;
                    assert_eq!(exceeded, []);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let ledger = ledger.lock();
    let spent = ledger.spent(&project).unwrap();
    assert!(spent.money <= usd("1") && spent.tokens <= 5_000, "{spent:?}");
    // The threads together want more than the project has, so what stops them is its limit, less at most
    // what eight of them had reserved when the last one was refused.
    assert!(spent.money > usd("0.9"), "{spent:?}");
    assert_eq!(ledger.reserved(&project), Some(Amount::default()));
}

#[derive(Debug, Clone)]
enum Action {
    Reserve {
        scopes: Vec<usize>,
        money: u64,
        tokens: u64,
    },
    /// Settles one of the open reservations for a share of it, in hundredths.
    Settle {
        which: usize,
        share: u64,
    },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let reserve = (prop::collection::vec(0_usize..4, 0..5), 0_u64..40, 0_u64..40)
        .prop_map(|(scopes, money, tokens)| Action::Reserve { scopes, money, tokens });
    let settle = (any::<usize>(), 0_u64..=100).prop_map(|(which, share)| Action::Settle { which, share });
    prop::collection::vec(prop_oneof![reserve, settle], 1..80)
}

proptest! {
    /// Reservations and settlements may come in any order: no account has spent and reserved more than
    /// its limits, its sums are those of the calls, and a reservation is refused only if it does not fit.
    #[test]
    fn spent_and_reserved_never_exceed_a_limit(
        limits in prop::collection::vec((prop::option::of(0_u64..100), prop::option::of(0_u64..100)), 4),
        actions in actions(),
    ) {
        let scopes = [Scope::Session("s".into()), Scope::Agent("a".into()), day(), Scope::Project("p".into())];
        let mut ledger = Ledger::default();
        for (scope, (money, tokens)) in scopes.iter().zip(&limits) {
            let limit = Limit { money: money.map(Usd::from_trillionths), tokens: *tokens };
            ledger.open(scope.clone(), limit, Amount::default());
        }
        let mut open: Vec<(Reservation, Vec<usize>, Amount)> = Vec::new();
        let mut taken = [Amount::default(); 4];
        for action in actions {
            match action {
                Action::Reserve { scopes: mut chosen, money, tokens } => {
                    let amount = Amount { money: Usd::from_trillionths(money), tokens };
                    let named: Vec<Scope> = chosen.iter().map(|scope| scopes[*scope].clone()).collect();
                    chosen.sort_unstable();
                    chosen.dedup();
                    let fits = chosen.iter().all(|scope| {
                        let sum = taken[*scope].plus(amount);
                        let (money, tokens) = limits[*scope];
                        money.is_none_or(|most| sum.money.trillionths() <= most)
                            && tokens.is_none_or(|most| sum.tokens <= most)
                    });
                    let reserved = ledger.reserve(&named, Limit::default(), amount);
                    prop_assert_eq!(reserved.is_ok(), fits);
                    if let Ok(reservation) = reserved {
                        for scope in &chosen {
                            taken[*scope] = taken[*scope].plus(amount);
                        }
                        open.push((reservation, chosen, amount));
                    }
                }
                Action::Settle { which, share } => {
                    if open.is_empty() {
                        continue;
                    }
                    let (reservation, chosen, amount) = open.swap_remove(which % open.len());
                    let part = |whole: u64| whole * share / 100;
                    let real = Amount {
                        money: Usd::from_trillionths(part(amount.money.trillionths())),
                        tokens: part(amount.tokens),
                    };
                    for scope in chosen {
                        taken[scope] = taken[scope].minus(amount).plus(real);
                    }
                    prop_assert_eq!(ledger.settle(reservation, real), Settlement::default());
                }
            }
            for (scope, taken) in scopes.iter().zip(&taken) {
                let own = ledger.spent(scope).unwrap().plus(ledger.reserved(scope).unwrap());
                prop_assert_eq!(&own, taken);
            }
        }
    }
}
