//! Rules about pushes of git: which branches pass without a question, and which are refused.

use crate::command::word_matches;
use crate::each::each;
use crate::{PolicyError, Rule};

/// Beginning of the full name of a branch.
const BRANCHES: &str = "refs/heads/";

/// Entries of `git_push`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PushRules {
    allowed: Vec<Rule>,
    denied: Vec<Rule>,
}

impl PushRules {
    /// Collects the entries of both lists.
    pub(crate) fn of(allowed: Vec<Vec<Rule>>, denied: Vec<Vec<Rule>>) -> Result<Self, PolicyError> {
        let mut rules = Self::default();
        each(allowed, |rule| check(&rule.entry).map(|()| rules.allowed.push(rule)))?;
        each(denied, |rule| check(&rule.entry).map(|()| rules.denied.push(rule)))?;
        Ok(rules)
    }

    /// Returns the first rule that allows changes of the ref. An entry for branches covers no other ref.
    pub(crate) fn allowed_by(&self, name: &str) -> Option<&Rule> {
        let branch = name.strip_prefix(BRANCHES);
        self.allowed.iter().find(|rule| {
            if rule.entry.starts_with("refs/") {
                word_matches(&rule.entry, name)
            } else {
                branch.is_some_and(|branch| word_matches(&rule.entry, branch))
            }
        })
    }

    /// Returns the first rule that denies changes of the ref. Upper and lower case are the same,
    /// because they are to some servers.
    pub(crate) fn denied_by(&self, name: &str) -> Option<&Rule> {
        let name = name.to_lowercase();
        let branch = name.strip_prefix(BRANCHES).unwrap_or(&name);
        self.denied.iter().find(|rule| {
            let pattern = rule.entry.to_lowercase();
            word_matches(&pattern, &name) || word_matches(&pattern, branch)
        })
    }

    /// Returns a sentence with the rule that denies every ref of this entry.
    pub(crate) fn covers(&self, entry: &str) -> Option<String> {
        // An entry with its own wildcards is only covered by the same words, which match it as text.
        let name = if entry.starts_with("refs/") { entry.to_owned() } else { format!("{BRANCHES}{entry}") };
        self.denied_by(&name).map(|rule| format!("{rule} denies all of it"))
    }
}

/// Checks an entry.
fn check(entry: &str) -> Result<(), String> {
    if entry.is_empty() || entry.contains(char::is_whitespace) {
        return Err("the name of a branch is one word, in which `*` stands for any characters".into());
    }
    Ok(())
}

/// Returns an example as the full name of a ref.
pub(crate) fn full_name(example: &str) -> String {
    if example.starts_with("refs/") { example.to_owned() } else { format!("{BRANCHES}{example}") }
}
