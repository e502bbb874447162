//! Edits of code that many others call. Who calls what is a fact that the caller of the policy finds out.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::EditedSymbol;

/// Edits of code that are asked about because of who calls it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImpactRules {
    /// Number of callers above which an edit of a function, method or type is asked about. Callers are
    /// counted by the code graph.
    #[schemars(extend("x-default" = "none", "examples" = [20]))]
    pub callers_over: Option<u64>,
}

impl ImpactRules {
    /// Returns true if no rule is set.
    pub(crate) fn is_unset(&self) -> bool {
        self.callers_over.is_none()
    }
}

/// Number of callers above which an edit is asked about, or none.
///
/// The order is meaningful: a lower number is stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallersOver(pub(crate) Option<Reverse<u64>>);

impl CallersOver {
    /// Returns the number, if there is a rule.
    pub fn get(self) -> Option<u64> {
        self.0.map(|Reverse(most)| most)
    }

    /// Returns the rule as it is written in configuration.
    pub(crate) fn entry(self) -> Option<String> {
        self.get().map(|most| format!("callers_over: {most}"))
    }
}

/// Facts about the symbols that a call would change in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Impact {
    /// Facts that were not looked up, because no rule asks.
    #[default]
    Unasked,
    /// Symbols with more callers than the rules allow, the one with the most first.
    Known(Vec<EditedSymbol>),
    /// The facts could not be had, for this reason. The call is asked about.
    Unknown(String),
}
