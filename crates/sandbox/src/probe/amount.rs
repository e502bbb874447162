//! Requested amounts of limited resources; the limit of the probe's cell is half of each.

/// Bytes of memory.
pub(super) const MEMORY: u64 = 128 << 20;
/// Number of processes at once.
pub(super) const PROCESSES: u64 = 128;
/// Bytes of one file.
pub(super) const FILE: u64 = 16 << 20;
