//! Limits of a turn.

/// Limits of a turn, so that it ends whatever the model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of requests to the model.
    pub steps: u32,
    /// Maximum number of calls that are made for one answer of the model.
    pub calls_per_step: usize,
    /// Maximum number of reading calls that run at once.
    pub parallel_calls: usize,
    /// Number of steps in a row with equal calls and equal results after which the model is told.
    pub repeats_told: u32,
    /// Number of steps in a row with equal calls and equal results after which the turn ends.
    pub repeats: u32,
    /// Number of steps in a row without a call that could be made, after which the turn ends.
    pub faulty_steps: u32,
    /// Maximum number of answers in a row that are continued because they were cut at their limit.
    pub continuations: u32,
    /// Maximum number of characters of all results of one step.
    pub result_chars: usize,
    /// Maximum number of tokens of a request before the conversation is summarised; three quarters of the
    /// model's context if that is less.
    pub history_tokens: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // A change of several files with its tests takes about thirty.
            steps: 200,
            calls_per_step: 32,
            parallel_calls: 8,
            repeats_told: 3,
            repeats: 8,
            faulty_steps: 6,
            continuations: 3,
            // Eight results at the engine's limit of 25,000 characters.
            result_chars: 200_000,
            history_tokens: 150_000,
        }
    }
}
