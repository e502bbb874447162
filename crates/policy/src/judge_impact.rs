//! Judgement of the facts about edited code.

use tool::EditedSymbol;

use crate::judge::Cause;
use crate::{Impact, Part, Policy};

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
