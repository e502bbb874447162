//! Line numbers of profile keys.

use std::collections::BTreeMap;

/// Line numbers of the keys and entries of each profile in its file, so that a rule can be found
/// where it is written.
///
/// The code that reads the file records them. Unknown lines are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, BTreeMap<String, KeyLines>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeyLines {
    key: u32,
    entries: Vec<u32>,
}

impl Lines {
    /// Records a key of a profile and, for a list, its entries. Lines are counted from 1.
    pub fn note(&mut self, profile: &str, key: &str, line: u32, entries: Vec<u32>) {
        let lines = KeyLines { key: line, entries };
        self.0.entry(profile.to_owned()).or_default().insert(key.to_owned(), lines);
    }

    /// Returns the line of a key.
    pub fn of_key(&self, profile: &str, key: &str) -> Option<u32> {
        Some(self.0.get(profile)?.get(key)?.key)
    }

    /// Returns the line of an entry of a list, by its position in the list.
    pub fn of_entry(&self, profile: &str, key: &str, position: usize) -> Option<u32> {
        self.0.get(profile)?.get(key)?.entries.get(position).copied()
    }
}
