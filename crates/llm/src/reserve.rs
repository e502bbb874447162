//! Interface to a ledger that the caller keeps, beside the one in memory: one that outlives this process, or
//! is shared with others.

use tool::BoxFuture;

use crate::budget::{Amount, OverBudget, WorstCase};

/// Ledger of the caller, for the requests of one account.
pub trait Reserve: Send + Sync {
    /// Reserves the worst case of one request, which is sent only after that. If the future is dropped,
    /// nothing must stay reserved, because nothing is sent.
    fn reserve(&self, worst: WorstCase) -> BoxFuture<'_, Result<Box<dyn Hold>, ReserveError>>;
}

/// Reservation for one request. Dropping it charges the worst case, because nobody knows how far the request
/// came.
pub trait Hold: Send {
    /// Charges what the request has taken, and ends the reservation. A ledger that cannot record this keeps
    /// the worst case.
    fn settle(self: Box<Self>, real: Amount);
}

/// Reason why nothing was reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// A budget does not allow the request.
    #[error(transparent)]
    Over(#[from] OverBudget),
    /// The ledger cannot be read or written, for the given reason.
    #[error("the budgets cannot be kept: {0}")]
    Failed(String),
}
