//! Counts of responses, for the metrics.

use std::collections::BTreeMap;

use hyper::StatusCode;
use parking_lot::Mutex;

/// Number of responses, by route, method and status.
#[derive(Default)]
pub(crate) struct ResponseCounts(Mutex<Counts>);

/// Counts by route, method and status.
type Counts = BTreeMap<(&'static str, &'static str, u16), u64>;

impl ResponseCounts {
    pub(crate) fn count(&self, route: &'static str, method: &'static str, status: StatusCode) {
        let mut counts = self.0.lock();
        *counts.entry((route, method, status.as_u16())).or_default() += 1;
    }
    /// Returns a copy of the counts.
    pub(crate) fn all(&self) -> Counts {
        self.0.lock().clone()
    }
}
