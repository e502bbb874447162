//! Tokens of one answer.

/// Tokens that an answer took, as its provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All tokens of the request, with those of the cache.
    pub input: u64,
    /// Part of `input` that the provider read from its cache.
    pub cached: u64,
    /// Part of `input` that the provider wrote to its cache.
    pub cache_written: u64,
    /// All tokens of the answer, with those of its thinking.
    pub output: u64,
    /// Part of `output` that the model thought; 0 if the provider does not say.
    pub thinking: u64,
    /// True if the provider reported no numbers for a part of it, and an upper bound stands in their place.
    pub is_estimate: bool,
}

impl Usage {
    /// Returns the sum of input and output.
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Adds the tokens of another answer.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_written = self.cache_written.saturating_add(other.cache_written);
        self.output = self.output.saturating_add(other.output);
        self.thinking = self.thinking.saturating_add(other.thinking);
        self.is_estimate |= other.is_estimate;
    }
}
