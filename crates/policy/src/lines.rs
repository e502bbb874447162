use std::collections::BTreeMap;

/// On which lines of its file the keys and entries of each profile stand, so that a rule can be found where it is written.
///
/// Whoever read the file fills it in; what is not known is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, BTreeMap<String, KeyLines>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeyLines {
    key: u32,
    entries: Vec<u32>,
}

impl Lines {
    /// Notes a key of a profile and, where it is a list, its entries. Lines are counted from 1.
    pub fn note(&mut self, profile: &str, key: &str, line: u32, entries: Vec<u32>) {
        let lines = KeyLines { key: line, entries };
        self.0.entry(profile.to_owned()).or_default().insert(key.to_owned(), lines);
    }

    /// The line of a key.
    pub fn of_key(&self, profile: &str, key: &str) -> Option<u32> {
        Some(self.0.get(profile)?.get(key)?.key)
    }

    /// The line of an entry of a list, by its position in it.
    pub fn of_entry(&self, profile: &str, key: &str, position: usize) -> Option<u32> {
        self.0.get(profile)?.get(key)?.entries.get(position).copied()
    }
}
