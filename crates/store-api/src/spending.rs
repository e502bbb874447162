//! Costs of models by day and by project, shared by all processes of a state.

use std::path::PathBuf;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use crate::error::StoreError;

/// Account to which money and tokens are charged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpendingKey {
    /// Scope of the account.
    pub scope: SpendingScope,
}

/// Scope of an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpendingScope {
    /// One day, of the caller's time zone.
    Day(Date),
    /// One project, by its workspace.
    Project(PathBuf),
}

/// Money and tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Amounts {
    /// Money in millionths of a US dollar.
    pub micro_usd: u64,
    /// Number of tokens.
    pub tokens: u64,
}

/// Maximum of an account; `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// Money in millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// Number of tokens.
    pub tokens: Option<u64>,
}

/// Outcome of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// The amounts are reserved on every account, under this id.
    Reserved(i64),
    /// An account has too little left; nothing was changed.
    Over {
        /// First account of the list with too little left.
        key: SpendingKey,
        /// Limit of the account.
        limit: Limits,
        /// Amounts that are spent.
        spent: Amounts,
        /// Amounts that others have reserved.
        reserved: Amounts,
    },
}

impl Amounts {
    /// Adds two amounts. Sums end at [`u64::MAX`].
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

impl Limits {
    /// Returns true if the amounts are within both limits.
    pub fn allow(self, amounts: Amounts) -> bool {
        self.micro_usd.is_none_or(|limit| amounts.micro_usd <= limit)
            && self.tokens.is_none_or(|limit| amounts.tokens <= limit)
    }
}

/// The accounts of a store.
///
/// A call reserves the most that it can cost before it is made, and settles what it has cost. A reservation
/// whose lease has ended counts as spent with all that it reserves: its process has died, and nobody knows
/// how much of it was used. Stored amounts end at [`i64::MAX`], and no sum overflows.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait SpendingStore: Send + Sync {
    /// Reserves the same amounts on all accounts, or on none. Days that are more than 40 days before `now`,
    /// in UTC, are deleted. An account that is named twice is charged once.
    fn reserve(
        &self,
        accounts: &[(SpendingKey, Limits)],
        worst: Amounts,
        owner: &str,
        now: Timestamp,
        lease: SignedDuration,
    ) -> Result<ReserveOutcome, StoreError>;

    /// Charges what a call has cost, which may exceed what was reserved, and ends the reservation. A lease
    /// that has ended is no obstacle before the next reservation of anybody. Returns false, and changes
    /// nothing, if the reservation has ended.
    fn settle(&self, id: i64, real: Amounts) -> Result<bool, StoreError>;

    /// Returns what is spent of an account, and what is reserved of it.
    fn spent(&self, key: &SpendingKey, now: Timestamp) -> Result<(Amounts, Amounts), StoreError>;
}
