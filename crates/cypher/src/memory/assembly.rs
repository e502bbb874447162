//! The parts of a graph that follow from the others: starts, links from the other side, lists by label, and counts.

use std::collections::HashMap;
use std::sync::Arc;

use super::MemoryGraph;
use super::adjacency::Adjacency;
use super::column::Columns;
use super::index::Index;
use crate::fast_hash::FastHash;
use crate::graph::{LabelId, NodeId, Side, TypeId};

/// The parts of a graph that everything else follows from.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) labels: Vec<Arc<str>>,
    pub(super) types: Vec<Arc<str>>,
    pub(super) keys: Vec<Arc<str>>,
    pub(super) label_sets: Vec<Vec<LabelId>>,
    pub(super) label_set_of: Vec<u32>,
    pub(super) outgoing: Adjacency,
    pub(super) texts: Vec<Arc<str>>,
    pub(super) node_columns: Columns,
    pub(super) relationship_columns: Columns,
    pub(super) indexes: Vec<Option<Index>>,
}

/// The number of relationships of each type whose node on a side has a label, by type, side and label.
#[derive(Debug, Default)]
pub(super) struct Counts(HashMap<u64, usize, FastHash>);

impl Counts {
    /// Returns the number of a type, side and label.
    pub(super) fn at(&self, relationship_type: TypeId, side: Side, label: LabelId) -> usize {
        let key = key(relationship_type, side, u32::from(label.0));
        self.0.get(&key).copied().unwrap_or(0)
    }
}

/// Returns the key of a type, a side and a number.
fn key(relationship_type: TypeId, side: Side, number: u32) -> u64 {
    let side = u64::from(side == Side::Incoming);
    u64::from(relationship_type.0) << 33 | side << 32 | u64::from(number)
}

impl Parts {
    /// Makes the graph.
    pub(super) fn assemble(self) -> MemoryGraph {
        let starts = self.outgoing.starts();
        let incoming = self.outgoing.turned(&starts, self.types.len());
        let mut relationships_by_type = vec![0; self.types.len()];
        for found in self.outgoing.types() {
            if let Some(count) = relationships_by_type.get_mut(usize::from(found.0)) {
                *count += 1;
            }
        }
        let counts = self.counts(&starts);
        let mut nodes_by_label = vec![Vec::new(); self.labels.len()];
        for (node, set) in (0_u32..).zip(&self.label_set_of) {
            for label in self.label_sets.get(*set as usize).into_iter().flatten() {
                if let Some(nodes) = nodes_by_label.get_mut(usize::from(label.0)) {
                    nodes.push(NodeId(node));
                }
            }
        }
        nodes_by_label.iter_mut().for_each(Vec::shrink_to_fit);
        MemoryGraph {
            labels: self.labels,
            types: self.types,
            keys: self.keys,
            label_sets: self.label_sets,
            label_set_of: self.label_set_of,
            nodes_by_label,
            relationships_by_type,
            counts,
            outgoing: self.outgoing,
            incoming,
            starts,
            texts: self.texts,
            node_columns: self.node_columns,
            relationship_columns: self.relationship_columns,
            indexes: self.indexes,
        }
    }

    fn counts(&self, starts: &[NodeId]) -> Counts {
        let mut by_set: HashMap<u64, usize, FastHash> = HashMap::default();
        let mut add = |relationship_type: TypeId, side: Side, node: NodeId| {
            let set = self.label_set_of.get(node.0 as usize).copied().unwrap_or(0);
            *by_set.entry(key(relationship_type, side, set)).or_default() += 1;
        };
        for ((found, link), start) in self.outgoing.types().iter().zip(self.outgoing.all()).zip(starts) {
            add(*found, Side::Outgoing, *start);
            add(*found, Side::Incoming, link.neighbour);
        }
        let mut counts = Counts::default();
        for (of_set, count) in by_set {
            let set = usize::try_from(of_set & u64::from(u32::MAX)).unwrap_or(usize::MAX);
            let row = of_set & !u64::from(u32::MAX);
            for label in self.label_sets.get(set).into_iter().flatten() {
                *counts.0.entry(row | u64::from(label.0)).or_default() += count;
            }
        }
        counts
    }
}
