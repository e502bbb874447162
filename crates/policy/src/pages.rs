//! Rules about pages that a browser opens: the origins to which it may submit without a question,
//! and those that it never opens.

use crate::command::word_matches;
use crate::each::each;
use crate::{PolicyError, Rule};

/// Entries of `browser`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageRules {
    submitted: Vec<Rule>,
    denied: Vec<Rule>,
}

impl PageRules {
    /// Collects the entries of both lists.
    pub(crate) fn of(allowed: Vec<Vec<Rule>>, denied: Vec<Vec<Rule>>) -> Result<Self, PolicyError> {
        let mut rules = Self::default();
        each(allowed, |rule| check(&rule.entry).map(|()| rules.submitted.push(rule)))?;
        each(denied, |rule| check(&rule.entry).map(|()| rules.denied.push(rule)))?;
        Ok(rules)
    }

    /// Returns the first rule by which pages of the origin may submit.
    pub(crate) fn submitted_by(&self, origin: &str) -> Option<&Rule> {
        find(&self.submitted, origin)
    }

    /// Returns the first rule that denies pages of the origin.
    pub(crate) fn denied_by(&self, origin: &str) -> Option<&Rule> {
        find(&self.denied, origin)
    }

    /// Returns a sentence with the rule that denies every origin of this entry.
    pub(crate) fn covers(&self, entry: &str) -> Option<String> {
        // An entry with its own wildcards is only covered by the same words, which match it as text.
        self.denied_by(entry).map(|rule| format!("{rule} denies all of it"))
    }
}

fn find<'a>(rules: &'a [Rule], origin: &str) -> Option<&'a Rule> {
    let origin = origin.to_lowercase();
    rules.iter().find(|rule| word_matches(&rule.entry.to_lowercase(), &origin))
}

/// Checks an entry.
fn check(entry: &str) -> Result<(), String> {
    let rest = entry.strip_prefix("https://").or_else(|| entry.strip_prefix("http://"));
    let is_origin = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.contains(|letter: char| letter == '/' || letter == '@' || letter.is_whitespace())
    });
    if is_origin {
        return Ok(());
    }
    Err("an origin is `https://HOST` or `http://HOST`, with `:PORT` if the port is not the usual one; `*` stands \
         for any characters"
        .into())
}
