//! Collection of the rules of lists.

use crate::{PolicyError, Rule};

/// Adds every rule, or returns an error for the first invalid one.
pub(crate) fn each(
    lists: Vec<Vec<Rule>>,
    mut add: impl FnMut(Rule) -> Result<(), String>,
) -> Result<(), PolicyError> {
    for rule in lists.into_iter().flatten() {
        add(rule.clone()).map_err(|problem| PolicyError::of_entry(&rule, problem))?;
    }
    Ok(())
}
