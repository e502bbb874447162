//! The nodes of one property key, by a hash of their values. An index names candidates: a hash of 32 bits can
//! be that of another value.

use std::hash::{DefaultHasher, Hasher};

use crate::graph::NodeId;
use crate::value::{Value, hash_value};

/// The nodes of one property key, sorted by hash and node.
#[derive(Debug)]
pub(super) struct Index {
    entries: Vec<(u32, NodeId)>,
    distinct: usize,
}

impl Index {
    pub(super) fn new(values: impl Iterator<Item = (u32, Value)>) -> Self {
        let mut entries: Vec<(u32, NodeId)> =
            values.map(|(node, value)| (short_hash(&value), NodeId(node))).collect();
        entries.sort_unstable();
        entries.shrink_to_fit();
        Self::of_entries(entries)
    }

    /// Creates the index from its sorted entries.
    pub(super) fn of_entries(entries: Vec<(u32, NodeId)>) -> Self {
        let changes = entries.windows(2).filter(|pair| matches!(pair, [one, two] if one.0 != two.0)).count();
        Self { distinct: changes + 1, entries }
    }

    /// Returns the entries of hash and node.
    pub(super) fn entries(&self) -> &[(u32, NodeId)] {
        &self.entries
    }

    /// Returns the nodes whose value may equal a value, in ascending order.
    pub(super) fn nodes(&self, value: &Value) -> impl Iterator<Item = NodeId> {
        let hash = short_hash(value);
        let begin = self.entries.partition_point(|entry| entry.0 < hash);
        let rest = self.entries.get(begin..).unwrap_or_default();
        rest.iter().take_while(move |entry| entry.0 == hash).map(|entry| entry.1)
    }

    /// Returns how many nodes have one value on the average, at least 1.
    pub(super) fn average(&self) -> usize {
        self.entries.len().div_ceil(self.distinct).max(1)
    }
}

/// Returns the hash of a value in an index. It may be another one in a program that was built otherwise.
pub(super) fn short_hash(value: &Value) -> u32 {
    let mut hasher = DefaultHasher::new();
    hash_value(value, &mut hasher);
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
