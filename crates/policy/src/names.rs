//! Rules about objects that are known by a name: secrets, kinds of database statements, parts of
//! Handfast, tools.

use crate::command::word_matches;
use crate::host::{HostRules, normal_host};
use crate::{PolicyError, Rule};

/// Entries of one or more lists.
#[derive(Debug, Clone)]
pub(crate) struct NameRules {
    shape: Shape,
    entries: Vec<Entry>,
}

/// Kind of object that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `NAME`, or `NAME at HOST`.
    Secret,
    /// The first words of a kind of statement, in upper or lower case.
    Statement,
    /// The first words of a description of a change.
    Change,
    /// The name of a tool.
    Tool,
}

#[derive(Debug, Clone)]
struct Entry {
    words: Vec<String>,
    /// Host that the entry is about, or `None` for all hosts.
    host: Option<HostRules>,
    rule: Rule,
}

/// Separator in the names of tools of other programs: `server__tool`.
const FOREIGN_SEPARATOR: &str = "__";

impl NameRules {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, entries: Vec::new() }
    }

    /// Adds an entry. `*` in a word stands for any characters.
    ///
    /// # Errors
    /// Returns a description of the problem if the entry is malformed.
    pub(crate) fn add(&mut self, rule: Rule) -> Result<(), String> {
        let (name, host) = match rule.entry.split_once(" at ").filter(|_| self.shape == Shape::Secret) {
            Some((name, host)) => {
                let mut hosts = HostRules::default();
                hosts.add(Rule { entry: host.trim().to_owned(), ..rule.clone() })?;
                (name, Some(hosts))
            }
            None => (rule.entry.as_str(), None),
        };
        let words = self.words(name);
        let one = matches!(self.shape, Shape::Secret | Shape::Tool);
        match words.len() {
            0 => return Err("the name is empty".into()),
            1 => {}
            _ if one => return Err("a name must be one word".into()),
            _ => {}
        }
        self.entries.push(Entry { words, host, rule });
        Ok(())
    }

    /// Requires that each entry names one of `names`, unless `names` is empty.
    ///
    /// # Errors
    /// Returns [`PolicyError::Entry`] for an entry that names none of them.
    pub(crate) fn require_known(&self, names: &[&str]) -> Result<(), PolicyError> {
        let fits = |entry: &&Entry| {
            entry.words.first().is_some_and(|word| names.iter().any(|name| word_matches(word, name)))
        };
        // Tools of other programs come and go, and their names have two underscores in them.
        let is_foreign =
            |entry: &&Entry| entry.words.first().is_some_and(|word| word.contains(FOREIGN_SEPARATOR));
        let unknown = |entry: &&Entry| !names.is_empty() && !fits(entry) && !is_foreign(entry);
        match self.entries.iter().find(unknown) {
            None => Ok(()),
            Some(entry) => {
                Err(PolicyError::of_entry(&entry.rule, "unknown tool; `handfast tools` lists them".into()))
            }
        }
    }

    /// Returns the first rule that matches this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Rule> {
        self.find_at(name, None)
    }

    /// Returns the first rule that matches this name at a host, which is in normal form.
    pub(crate) fn find_at(&self, name: &str, host: Option<&str>) -> Option<&Rule> {
        let words = self.words(name);
        let named = |entry: &&Entry| {
            let fits = entry.words.len() <= words.len()
                && entry.words.iter().zip(&words).all(|(pattern, word)| word_matches(pattern, word));
            let whole = self.shape != Shape::Secret && self.shape != Shape::Tool || words.len() == 1;
            let there = match (&entry.host, host) {
                (None, _) => true,
                (Some(hosts), Some(host)) => hosts.find(host, None).is_some(),
                (Some(_), None) => false,
            };
            fits && whole && there
        };
        self.entries.iter().find(named).map(|entry| &entry.rule)
    }

    /// Returns true if a rule matches this name, possibly only for some hosts.
    pub(crate) fn names(&self, name: &str) -> bool {
        let words = self.words(name);
        let fits = |entry: &Entry| {
            entry.words.len() == words.len()
                && entry.words.iter().zip(&words).all(|(pattern, word)| word_matches(pattern, word))
        };
        self.entries.iter().any(fits)
    }

    /// Returns true if a rule matches an example, which is spelled like an entry.
    pub(crate) fn matches(&self, example: &str) -> bool {
        match example.split_once(" at ").filter(|_| self.shape == Shape::Secret) {
            Some((name, host)) => self.find_at(name, normal_host(host.trim()).as_deref()).is_some(),
            None => self.find(example).is_some(),
        }
    }

    /// Returns a sentence with the rule that covers every name of this entry.
    pub(crate) fn covers(&self, entry: &str) -> Option<String> {
        // An entry with its own wildcards is only covered by the same words, which match it as text.
        let (name, host) = entry.split_once(" at ").map_or((entry, None), |(name, host)| (name, Some(host)));
        let host = host.and_then(|host| normal_host(host.trim()));
        let rule = self.find_at(name, host.as_deref())?;
        Some(format!("{rule} denies all of it"))
    }

    fn words(&self, text: &str) -> Vec<String> {
        let words = text.split_whitespace();
        match self.shape {
            Shape::Statement => words.map(str::to_ascii_lowercase).collect(),
            _ => words.map(str::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    fn rules(shape: Shape, entries: &[&str]) -> Result<NameRules, String> {
        let mut rules = NameRules::new(shape);
        for entry in entries {
            let (profile, origin) = ("p".into(), Origin::BuiltIn);
            rules.add(Rule { key: "deny_secrets", entry: (*entry).to_owned(), profile, origin })?;
        }
        Ok(rules)
    }

    #[test]
    fn a_secret_is_named_alone_or_at_a_host() {
        let rules = rules(Shape::Secret, &["aws_*", "token at *.example.com"]).unwrap();
        assert!(rules.find_at("aws_key", Some("a.org")).is_some());
        assert!(rules.find_at("token", Some("api.example.com")).is_some());
        assert!(rules.find_at("token", Some("a.org")).is_none());
        assert!(rules.find_at("Token", Some("api.example.com")).is_none());
    }

    #[test]
    fn a_statement_is_named_by_its_beginning_in_any_case() {
        let rules = rules(Shape::Statement, &["drop", "alter table"]).unwrap();
        assert!(rules.find("DROP  TABLE").is_some());
        assert!(rules.find("Alter table").is_some());
        assert!(rules.find("alter").is_none());
        assert!(rules.find("dropped").is_none());
    }

    #[test]
    fn an_entry_that_names_nothing_is_refused() {
        assert!(rules(Shape::Tool, &["file_read file_write"]).is_err());
        assert!(rules(Shape::Secret, &[""]).is_err());
        assert!(rules(Shape::Secret, &["a at b c"]).is_err());
        assert!(rules(Shape::Tool, &["file_*"]).unwrap().find("file_read").is_some());
    }
}
