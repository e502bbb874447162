//! Budgets in money and tokens: what may be spent is reserved first, and settled when it was.
//!
//! The ledger is pure. It stores nothing and knows no time: a caller opens the account of a new day, and
//! says what earlier runs have spent.

use std::collections::BTreeMap;
use std::fmt;

use crate::money::Usd;

/// Owner of an account. Its id is the caller's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A session.
    Session(String),
    /// An agent, whose reservations name the accounts of its parents too.
    Agent(String),
    /// A day in the caller's zone, such as `2026-11-28`.
    Day(String),
    /// A project.
    Project(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id) = match self {
            Self::Session(id) => ("session", id),
            Self::Agent(id) => ("agent", id),
            Self::Day(id) => ("day", id),
            Self::Project(id) => ("project", id),
        };
        write!(formatter, "{kind} {id}")
    }
}

/// Amount of money and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Money.
    pub money: Usd,
    /// Tokens, of requests and answers together.
    pub tokens: u64,
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self {
            money: self.money.saturating_add(other.money),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            money: self.money.saturating_sub(other.money),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }
}

/// Limit of an account or of a call. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Most money.
    pub money: Option<Usd>,
    /// Most tokens.
    pub tokens: Option<u64>,
}

/// Most that a call can take. A part that is unknown, such as the price of an unknown model, fits within no
/// limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorstCase {
    pub(crate) money: Option<Usd>,
    pub(crate) tokens: Option<u64>,
}

/// Refusal of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// The money that is left may not be enough.
    #[error("the call may cost up to {needed}, and the budget of {} has {left} left", named(.scope.as_ref()))]
    Money {
        /// Owner of the budget; `None` for the budget of the call itself.
        scope: Option<Scope>,
        /// Most that the call can cost.
        needed: Usd,
        /// Money that is neither spent nor reserved.
        left: Usd,
    },
    /// The tokens that are left may not be enough.
    #[error("the call may take up to {needed} tokens, and the budget of {} has {left} left", named(.scope.as_ref()))]
    Tokens {
        /// Owner of the budget; `None` for the budget of the call itself.
        scope: Option<Scope>,
        /// Most tokens that the call can take.
        needed: u64,
        /// Tokens that are neither spent nor reserved.
        left: u64,
    },
    /// The budget limits money, and the price of the model is unknown.
    #[error("the price of the model is unknown, and the budget of {} limits money: configure its price", named(.scope.as_ref()))]
    NoPrice {
        /// Owner of the budget; `None` for the budget of the call itself.
        scope: Option<Scope>,
    },
    /// The budget has a limit, and nothing limits the answer.
    #[error("nothing limits the answer, and the budget of {} does: give `max_tokens`", named(.scope.as_ref()))]
    NoBound {
        /// Owner of the budget; `None` for the budget of the call itself.
        scope: Option<Scope>,
    },
    /// No account of this owner is open.
    #[error("the {0} has no account")]
    NotOpen(Scope),
}

fn named(scope: Option<&Scope>) -> String {
    scope.map_or_else(|| "the call".to_owned(), |scope| format!("the {scope}"))
}

/// Amount that is reserved for a call. It stays reserved until [`Ledger::settle`].
#[derive(Debug)]
#[must_use = "what is reserved stays so until it is settled"]
pub struct Reservation(u64);

/// Outcome of a settled call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settlement {
    /// Owners of accounts that have spent more than their limit, since the call took more than was reserved.
    /// Nothing more can be reserved there.
    pub exceeded: Vec<Scope>,
}

/// Limit and sums of an account.
#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    limit: Limit,
    spent: Amount,
    reserved: Amount,
}

/// Reservation that is not settled.
#[derive(Debug)]
struct OpenReservation {
    scopes: Vec<Scope>,
    amount: Amount,
}

/// Accounts and reservations.
///
/// **Invariant:** money and tokens that an account has spent and reserved are together within its limits, as
/// long as no call takes more than was reserved for it.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: BTreeMap<Scope, Balance>,
    reservations: BTreeMap<u64, OpenReservation>,
    next: u64,
}

impl Ledger {
    /// Opens an account, or changes the limit and the spent amount of an open one. Its reservations stay.
    pub fn open(&mut self, scope: Scope, limit: Limit, spent: Amount) {
        let account = self.accounts.entry(scope).or_default();
        account.limit = limit;
        account.spent = spent;
    }

    /// Returns true if the owner has an account.
    pub fn is_open(&self, scope: &Scope) -> bool {
        self.accounts.contains_key(scope)
    }

    /// Closes an account, and returns what it has spent. Reservations that name it settle without it.
    pub fn close(&mut self, scope: &Scope) -> Option<Amount> {
        self.accounts.remove(scope).map(|account| account.spent)
    }

    /// Returns what an account has spent.
    pub fn spent(&self, scope: &Scope) -> Option<Amount> {
        self.accounts.get(scope).map(|account| account.spent)
    }

    /// Returns what is reserved of an account.
    pub fn reserved(&self, scope: &Scope) -> Option<Amount> {
        self.accounts.get(scope).map(|account| account.reserved)
    }

    /// Reserves an amount on all the accounts, or on none. `call` is the limit of this call alone.
    ///
    /// # Errors
    /// [`OverBudget`], for the first limit that does not allow it.
    pub fn reserve(
        &mut self,
        scopes: &[Scope],
        call: Limit,
        amount: Amount,
    ) -> Result<Reservation, OverBudget> {
        let worst = WorstCase { money: Some(amount.money), tokens: Some(amount.tokens) };
        self.reserve_worst(scopes, call, worst)
    }

    /// Reserves the worst case of a call, parts of which may be unknown.
    pub(crate) fn reserve_worst(
        &mut self,
        scopes: &[Scope],
        call: Limit,
        worst: WorstCase,
    ) -> Result<Reservation, OverBudget> {
        let mut scopes = scopes.to_vec();
        scopes.sort_unstable();
        scopes.dedup();
        check(None, call, Amount::default(), worst)?;
        for scope in &scopes {
            let Some(account) = self.accounts.get(scope) else {
                return Err(OverBudget::NotOpen(scope.clone()));
            };
            check(Some(scope), account.limit, account.spent.plus(account.reserved), worst)?;
        }
        let amount =
            Amount { money: worst.money.unwrap_or_default(), tokens: worst.tokens.unwrap_or_default() };
        for scope in &scopes {
            if let Some(account) = self.accounts.get_mut(scope) {
                account.reserved = account.reserved.plus(amount);
            }
        }
        self.next = self.next.wrapping_add(1);
        self.reservations.insert(self.next, OpenReservation { scopes, amount });
        Ok(Reservation(self.next))
    }

    /// Replaces what was reserved by what was spent, which is recorded in full even if it is more.
    #[expect(clippy::needless_pass_by_value, reason = "a reservation is settled once")]
    pub fn settle(&mut self, reservation: Reservation, real: Amount) -> Settlement {
        let mut settlement = Settlement::default();
        let Reservation(id) = reservation;
        let Some(OpenReservation { scopes, amount }) = self.reservations.remove(&id) else {
            return settlement;
        };
        for scope in scopes {
            let Some(account) = self.accounts.get_mut(&scope) else { continue };
            account.reserved = account.reserved.minus(amount);
            account.spent = account.spent.plus(real);
            let over_money = account.limit.money.is_some_and(|limit| account.spent.money > limit);
            if over_money || account.limit.tokens.is_some_and(|limit| account.spent.tokens > limit) {
                settlement.exceeded.push(scope);
            }
        }
        settlement
    }
}

/// Checks a worst case against one limit, of which `taken` is spent or reserved.
fn check(scope: Option<&Scope>, limit: Limit, taken: Amount, worst: WorstCase) -> Result<(), OverBudget> {
    let scope = || scope.cloned();
    if let Some(most) = limit.tokens {
        let needed = worst.tokens.ok_or_else(|| OverBudget::NoBound { scope: scope() })?;
        let left = most.saturating_sub(taken.tokens);
        if needed > left {
            return Err(OverBudget::Tokens { scope: scope(), needed, left });
        }
    }
    if let Some(most) = limit.money {
        let needed = match (worst.money, worst.tokens) {
            (Some(needed), _) => needed,
            (None, None) => return Err(OverBudget::NoBound { scope: scope() }),
            (None, Some(_)) => return Err(OverBudget::NoPrice { scope: scope() }),
        };
        let left = most.saturating_sub(taken.money);
        if needed > left {
            return Err(OverBudget::Money { scope: scope(), needed, left });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        // Nothing of a refused reservation stays on any account.
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
        let refused =
            ledger.reserve(&[session()], Limit::default(), amount("0.000000000001", 1)).unwrap_err();
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
        // Without a limit there is nothing to keep.
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
        /// Whatever is reserved and settled in whatever order, no account has spent and reserved more than
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
}
