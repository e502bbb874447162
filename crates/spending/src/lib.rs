//! Budgets of a day and of a project, which all processes of a state share.
//!
//! The crate joins the ledger that models ask ([`llm::Reserve`]) and the accounts of the store
//! ([`store_api::SpendingStore`]). It knows no model, no tool and no configuration.
//!
//! The store blocks for some milliseconds, and so does everything here: a request runs on a thread that may
//! block, as the engine gives one to each tool.

mod ledger;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use llm::{Amount, Limit, Reserve, Scope, Usd};
use store_api::{Amounts, SpendingKey, SpendingScope, Store, StoreError};
use tool::Clock;

use crate::ledger::StoredLedger;

/// Trillionths of a dollar, in which models count, in a millionth, in which the store does.
const PER_MILLIONTH: u64 = 1_000_000;

/// Addition to the time of a call for the lease of its reservations, so that no call outlives its lease.
const LEASE_ADDITION: SignedDuration = SignedDuration::from_mins(1);

/// Limits that all processes of a state share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedLimits {
    /// Limit of one day, in the zone of the user.
    pub day: Limit,
    /// Limit of the project, over all time.
    pub project: Limit,
}

impl SharedLimits {
    /// Returns true if there is no limit at all.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The accounts of the day and of one project, a service of the tools.
pub struct SpendingBook {
    store: Arc<dyn Store>,
    project: PathBuf,
    /// Zone of the user; `None` for that of the machine, which may change.
    zone: Option<TimeZone>,
}

/// State of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountState {
    /// Owner of the account.
    pub scope: Scope,
    /// Amount that is spent, with that of reservations whose process died.
    pub spent: Amount,
    /// Amount that requests reserve that are on their way.
    pub reserved: Amount,
}

impl SpendingBook {
    /// Creates the book of a project, which is the path of a workspace. Days are those of `zone`, or else of
    /// the zone of the machine.
    pub fn new(store: Arc<dyn Store>, project: PathBuf, zone: Option<TimeZone>) -> Self {
        Self { store, project, zone }
    }

    /// Returns the ledger for the requests of one call, which lasts at most `timeout`. Both accounts are
    /// charged, whichever of them has a limit. `owner` is stored with the reservations, for people.
    pub fn of_call(
        &self,
        limits: SharedLimits,
        owner: &str,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Arc<dyn Reserve> {
        let lease = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
        Arc::new(StoredLedger {
            store: self.store.clone(),
            limits,
            project: self.project.clone(),
            zone: self.zone(),
            owner: owner.to_owned(),
            clock,
            lease: lease.saturating_add(LEASE_ADDITION),
        })
    }

    /// Returns the state of the accounts, first of the day, then of the project.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn accounts(&self, now: Timestamp) -> Result<[AccountState; 2], StoreError> {
        let [day, project] = keys(day_of(now, self.zone()), self.project.clone());
        Ok([self.account(&day, now)?, self.account(&project, now)?])
    }

    fn account(&self, key: &SpendingKey, now: Timestamp) -> Result<AccountState, StoreError> {
        let (spent, reserved) = self.store.spending().spent(key, now)?;
        Ok(AccountState { scope: scope(key), spent: amount(spent), reserved: amount(reserved) })
    }

    fn zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or_else(TimeZone::system)
    }
}

fn day_of(now: Timestamp, zone: TimeZone) -> Date {
    now.to_zoned(zone).date()
}

/// Returns the accounts of a day and a project.
fn keys(day: Date, project: PathBuf) -> [SpendingKey; 2] {
    [SpendingScope::Day(day), SpendingScope::Project(project)].map(|scope| SpendingKey { scope })
}

/// Returns the owner of an account, as models name it.
fn scope(key: &SpendingKey) -> Scope {
    match &key.scope {
        SpendingScope::Day(day) => Scope::Day(day.to_string()),
        SpendingScope::Project(path) => Scope::Project(tool::path_text(path)),
    }
}

/// Converts to the numbers of the store. A part of a millionth counts as a whole one, so that no sum is too
/// small.
fn amounts(amount: Amount) -> Amounts {
    Amounts { micro_usd: amount.money.trillionths().div_ceil(PER_MILLIONTH), tokens: amount.tokens }
}

/// Converts from the numbers of the store.
fn amount(amounts: Amounts) -> Amount {
    let money = Usd::from_trillionths(amounts.micro_usd.saturating_mul(PER_MILLIONTH));
    Amount { money, tokens: amounts.tokens }
}

#[cfg(test)]
mod tests;
