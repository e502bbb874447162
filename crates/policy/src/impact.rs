//! Edits of code that many others call. Who calls what is a fact that the caller of the policy finds out.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::EditedSymbol;

use crate::judge::Cause;
use crate::{Part, Policy};

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
    /// Nobody has looked, because no rule asks.
    #[default]
    Unasked,
    /// Symbols with more callers than the rules allow, the one with the most first.
    Known(Vec<EditedSymbol>),
    /// The facts could not be had, for this reason. The call is asked about.
    Unknown(String),
}

impl Policy {
    /// Returns the number of callers above which an edit is asked about. If there is none, no caller of the
    /// policy needs to know who calls what.
    pub fn asks_above_callers(&self) -> Option<u64> {
        self.callers_over.0.get()
    }

    /// Returns the reason why a change with these facts is asked about, or `None` if it is not.
    // BOUNDED: the policies of a ceiling have no ceiling themselves.
    pub fn impact_reason(&self, impact: &Impact) -> Option<String> {
        let own = self.cause_of(impact).map(|cause| cause.reason);
        own.or_else(|| self.bounding().find_map(|policy| policy.impact_reason(impact)))
    }

    /// Judges the facts about a part by line 10.
    pub(crate) fn judge_impact(&self, part: &Part) -> Option<Cause> {
        self.cause_of(&part.impact)
    }

    fn cause_of(&self, impact: &Impact) -> Option<Cause> {
        let (limit, origin) = &self.callers_over;
        let (most, entry) = (limit.get()?, limit.entry()?);
        let cause = |reason: String, hint: &str| Cause {
            rule: self.setting("impact", &entry, origin.clone()),
            reason,
            hint: Some(hint.to_owned()),
        };
        match impact {
            Impact::Unasked => None,
            Impact::Unknown(why) => Some(cause(
                format!("it changes code, and its callers are not known: {why}"),
                "repeat the call when the code graph is ready, or ask the user",
            )),
            Impact::Known(symbols) => {
                let symbol = symbols
                    .iter()
                    .filter(|symbol| symbol.callers > most)
                    .max_by_key(|symbol| symbol.callers)?;
                let EditedSymbol { name, file, line, callers, .. } = symbol;
                Some(cause(
                    format!(
                        "it changes `{name}` ({file}:{line}), which has {callers} callers, more than {most}"
                    ),
                    "code_impact shows who is affected; a human decides about the edit",
                ))
            }
        }
    }
}
