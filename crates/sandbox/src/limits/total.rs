//! Number of processes of several cells together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counter that the watchdogs of several cells share. It holds the processes that each of them saw last.
#[derive(Debug, Default)]
pub struct ProcessTotal(AtomicU64);

/// Part of one cell in a total. Dropping it takes the cell's processes out of the total.
#[derive(Default)]
pub(super) struct CellCount {
    total: Option<Arc<ProcessTotal>>,
    own: u64,
}

impl CellCount {
    pub(super) fn new(total: Option<Arc<ProcessTotal>>) -> Self {
        Self { total, own: 0 }
    }

    /// Replaces the count of this cell, and returns that of all cells. A cell that shares no total is alone in it.
    pub(super) fn replace(&mut self, count: u64) -> u64 {
        let Some(total) = &self.total else { return count };
        // Wrapping arithmetic on an atomic is exact for a difference of either sign.
        let change = count.wrapping_sub(self.own);
        self.own = count;
        total.0.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }
}

impl Drop for CellCount {
    fn drop(&mut self) {
        self.replace(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_count_together_until_they_end() {
        let total = Arc::new(ProcessTotal::default());
        let mut first = CellCount::new(Some(Arc::clone(&total)));
        let mut second = CellCount::new(Some(Arc::clone(&total)));
        assert_eq!((first.replace(4), second.replace(3)), (4, 7));
        assert_eq!(first.replace(1), 4);
        drop(second);
        assert_eq!(first.replace(2), 2);
        assert_eq!(CellCount::default().replace(9), 9, "alone");
    }
}
