//! Regular expressions of `=~`. The engine behind them takes linear time, so a pattern cannot stall a query.

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled pattern in bytes.
const MAXIMUM_SIZE: usize = 1 << 20;

/// Compiles a pattern that must match a whole text. The error is a sentence for the author of the query.
pub(crate) fn whole_match(pattern: &str) -> Result<Regex, String> {
    let whole = format!("^(?:{pattern})$");
    let compiled = RegexBuilder::new(&whole).size_limit(MAXIMUM_SIZE).dfa_size_limit(MAXIMUM_SIZE).build();
    compiled.map_err(|_| "The regular expression is malformed or too large.".to_owned())
}
