//! Figures about calls: their number, outcomes and durations.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tool::CallResult;

use crate::trace::TraceFigures;

/// Name under which calls of unknown tools are counted, so that no caller can make the figures
/// grow.
const NO_TOOL: &str = "unknown";

/// Upper ends of the ranges that durations are counted in, in milliseconds: reads take less than 1
/// ms, commands up to an hour.
pub const RANGES_MS: [u64; 10] = [1, 5, 10, 50, 100, 500, 1_000, 10_000, 60_000, 600_000];

/// Figures since the start.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Number of ended calls by tool and outcome: `ok` or an error code.
    pub ended: BTreeMap<(&'static str, &'static str), u64>,
    /// Number of ended calls per duration: one entry for each of [`RANGES_MS`] as the upper end,
    /// and one for longer calls.
    pub took: [u64; RANGES_MS.len() + 1],
    /// Total duration of the ended calls.
    pub took_in_all: Duration,
    /// Number of running calls.
    pub running: usize,
    /// Figures about spans, if calls are traced.
    pub traces: Option<TraceFigures>,
}

#[derive(Default)]
pub(crate) struct Counted(Mutex<Figures>);

impl Counted {
    /// Counts a call that has ended. `tool` is its name, if there is such a tool.
    pub(crate) fn count(&self, tool: Option<&'static str>, result: &CallResult) {
        let outcome = result.error().map_or("ok", |error| error.code.as_str());
        let milliseconds = result.meta.duration_ms;
        let range = RANGES_MS.iter().position(|end| milliseconds <= *end).unwrap_or(RANGES_MS.len());
        let mut figures = self.0.lock();
        *figures.ended.entry((tool.unwrap_or(NO_TOOL), outcome)).or_default() += 1;
        figures.took[range] += 1;
        figures.took_in_all += Duration::from_millis(milliseconds);
    }

    pub(crate) fn so_far(&self) -> Figures {
        self.0.lock().clone()
    }
}
