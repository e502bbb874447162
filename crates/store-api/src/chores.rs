//! Periodic work on a state that one of its processes does.

use jiff::{SignedDuration, Timestamp};

use crate::error::StoreError;

/// Periodic work on a state folder that one of its processes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Removal of outdated content.
    Prune,
    /// Verification of saved content.
    Check,
}

/// The periodic work on a state, shared by all its processes.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Chores: Send + Sync {
    /// Returns true if no process has begun the chore for the time `every`. In a new state, the
    /// time begins now.
    fn is_due(&self, chore: Chore, every: SignedDuration, now: Timestamp) -> Result<bool, StoreError>;

    /// Records for all processes that a chore begins now.
    fn begin(&self, chore: Chore, now: Timestamp) -> Result<(), StoreError>;
}
