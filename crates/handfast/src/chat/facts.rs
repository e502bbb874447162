//! Facts for the status line: who works, and what it has used.

use llm::{Usage, Usd};

/// Facts for the status line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Name of the model.
    pub(crate) model: String,
    /// Name of the agent; empty if it has none.
    pub(crate) agent: String,
    /// Budget in words; empty if there is none.
    pub(crate) budget: String,
}

/// Usage of the turns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    /// Tokens.
    pub(crate) usage: Usage,
    /// Cost, as far as prices are known.
    pub(crate) cost: Usd,
    /// True if a price is unknown.
    pub(crate) is_partial: bool,
    /// Number of requests to the model.
    pub(crate) steps: u32,
    /// Number of calls.
    pub(crate) calls: u32,
}

impl Spent {
    /// Adds what a request or a turn has used. `None` is an unknown price.
    pub(super) fn add(&mut self, usage: Usage, cost: Option<Usd>, steps: u32, calls: u32) {
        self.usage.add(usage);
        self.cost = self.cost.saturating_add(cost.unwrap_or(Usd::ZERO));
        self.is_partial |= cost.is_none();
        self.steps += steps;
        self.calls += calls;
    }
}
