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
pub struct WorstCase {
    /// Money; `None` if the price is unknown, or nothing limits the answer.
    pub money: Option<Usd>,
    /// Tokens, of the request and the answer; `None` if nothing limits the answer.
    pub tokens: Option<u64>,
}

impl WorstCase {
    /// Returns the known parts, with nothing for an unknown one.
    pub fn amount(self) -> Amount {
        Amount { money: self.money.unwrap_or_default(), tokens: self.tokens.unwrap_or_default() }
    }

    /// Checks that every part that a limit is about is known. `scope` is the owner of the limit, or `None`
    /// for the limit of the call itself.
    ///
    /// # Errors
    /// [`OverBudget::NoBound`] or [`OverBudget::NoPrice`].
    pub fn require_known(self, scope: Option<&Scope>, limit: Limit) -> Result<(), OverBudget> {
        let scope = || scope.cloned();
        match (self.money, self.tokens) {
            (_, None) if limit.tokens.is_some() => Err(OverBudget::NoBound { scope: scope() }),
            (None, None) if limit.money.is_some() => Err(OverBudget::NoBound { scope: scope() }),
            (None, Some(_)) if limit.money.is_some() => Err(OverBudget::NoPrice { scope: scope() }),
            _ => Ok(()),
        }
    }

    /// Checks the worst case against a limit, of which `taken` is spent or reserved. `scope` is the owner of
    /// the limit, or `None` for the limit of the call itself.
    ///
    /// # Errors
    /// [`OverBudget`].
    pub fn require_room(self, scope: Option<&Scope>, limit: Limit, taken: Amount) -> Result<(), OverBudget> {
        self.require_known(scope, limit)?;
        let scope = || scope.cloned();
        let needed = self.amount();
        let left = |limit: u64| limit.saturating_sub(taken.tokens);
        if let Some(left) = limit.tokens.map(left).filter(|left| needed.tokens > *left) {
            return Err(OverBudget::Tokens { scope: scope(), needed: needed.tokens, left });
        }
        let left = |limit: Usd| limit.saturating_sub(taken.money);
        if let Some(left) = limit.money.map(left).filter(|left| needed.money > *left) {
            return Err(OverBudget::Money { scope: scope(), needed: needed.money, left });
        }
        Ok(())
    }
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
        worst.require_room(None, call, Amount::default())?;
        for scope in &scopes {
            let Some(account) = self.accounts.get(scope) else {
                return Err(OverBudget::NotOpen(scope.clone()));
            };
            worst.require_room(Some(scope), account.limit, account.spent.plus(account.reserved))?;
        }
        let amount = worst.amount();
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

#[cfg(test)]
mod tests;
