//! How many calls there were, what came of them, and how long they took.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tool::CallResult;

use crate::trace::TraceFigures;

/// What calls of names that no tool has are counted as, so that no caller can make the figures grow.
const NO_TOOL: &str = "unknown";

/// Upper ends of the ranges that durations are counted in, in milliseconds: reads take less than one, commands up to an hour.
pub const RANGES_MS: [u64; 10] = [1, 5, 10, 50, 100, 500, 1_000, 10_000, 60_000, 600_000];

/// The figures since the start.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// How many calls ended, by tool and by what came of them: `ok` or a code.
    pub ended: BTreeMap<(&'static str, &'static str), u64>,
    /// How many ended calls took up to each of [`RANGES_MS`], and longer ones.
    pub took: [u64; RANGES_MS.len() + 1],
    /// How long the ended calls took in all.
    pub took_in_all: Duration,
    /// How many run now.
    pub running: usize,
    /// What became of the spans, where somebody follows calls.
    pub traces: Option<TraceFigures>,
}

#[derive(Default)]
pub(crate) struct Counted(Mutex<Figures>);

impl Counted {
    /// Counts a call that has ended; `tool` is its name where there is such a tool.
    pub(crate) fn count(&self, tool: Option<&'static str>, result: &CallResult) {
        let outcome = result.error().map_or("ok", |error| error.code.as_str());
        let milliseconds = result.meta.duration_ms;
        let range = RANGES_MS.iter().position(|end| milliseconds <= *end).unwrap_or(RANGES_MS.len());
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *figures.ended.entry((tool.unwrap_or(NO_TOOL), outcome)).or_default() += 1;
        figures.took[range] += 1;
        figures.took_in_all += Duration::from_millis(milliseconds);
    }

    pub(crate) fn so_far(&self) -> Figures {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
