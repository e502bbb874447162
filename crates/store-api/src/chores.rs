//! Periodic work on a state that one of its processes does.

/// Periodic work on a state folder that one of its processes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Removal of outdated content.
    Prune,
    /// Verification of saved content.
    Check,
}
