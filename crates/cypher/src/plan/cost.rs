//! Estimates of how many rows a step makes.

use super::{Known, Lookup, PatternGraph, Predicate, Relationship, Target};
use crate::graph::Graph;
use crate::number::float_of_count;
use crate::program::Slot;

/// Share of rows that a condition of unknown selectivity is taken to pass.
const UNKNOWN_SHARE: f64 = 0.3;

/// Share of rows that an equality without an index is taken to pass.
const EQUALITY_SHARE: f64 = 0.1;

/// Number of hops after which the estimate of a variable length stops to grow.
const ESTIMATED_HOPS: u32 = 6;

/// The best way to find a node without its relationships.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    /// The expected number of nodes.
    pub(super) rows: f64,
    pub(super) access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Access {
    Bound,
    /// By the lookup of the predicate with this index.
    Lookup(usize),
    /// By the label with this index among the node's tests.
    Label(usize),
    All,
}

/// The estimates of one pattern.
pub(super) struct Estimates<'a> {
    pub(super) pattern: &'a PatternGraph,
    pub(super) graph: &'a dyn Graph,
    pub(super) introduced: Vec<Slot>,
    /// The expected number of nodes of each predicate's lookup.
    lookups: Vec<Option<f64>>,
    /// The share of all nodes that pass the labels and conditions of each node.
    shares: Vec<f64>,
}

impl<'a> Estimates<'a> {
    pub(super) fn new(pattern: &'a PatternGraph, graph: &'a dyn Graph, known: Known<'_>) -> Self {
        let introduced = pattern.introduced();
        let rows = |lookup: &Lookup| match lookup.target {
            Target::Id => Some(1),
            Target::Property(key) => graph.estimate(key, known(&lookup.value).as_ref()),
        };
        let lookup = |predicate: &Predicate| {
            predicate.lookup.as_ref().and_then(rows).map(|rows| float_of_count(rows).max(0.1))
        };
        let lookups = pattern.predicates.iter().map(lookup).collect();
        let mut all = Self { pattern, graph, introduced, lookups, shares: Vec::new() };
        all.shares = (0..pattern.nodes.len()).map(|node| all.share(node)).collect();
        all
    }

    /// Returns the best way to find a node, once these slots have values.
    pub(super) fn entry(&self, index: usize, has_value: &dyn Fn(Slot) -> bool) -> Entry {
        let all = Entry { rows: self.nodes().max(1.0), access: Access::All };
        let Some(node) = self.pattern.nodes.get(index) else { return all };
        if node.is_bound {
            return Entry { rows: 1.0, access: Access::Bound };
        }
        let mut best = all;
        for (test, labels) in node.labels.iter().enumerate() {
            let rows = self.with_labels(labels);
            // Only one label can be scanned; alternatives need a scan of all nodes.
            if labels.len() == 1 && rows < best.rows {
                best = Entry { rows, access: Access::Label(test) };
            }
        }
        for (number, predicate) in self.pattern.predicates.iter().enumerate() {
            let Some(lookup) = predicate.lookup.as_ref().filter(|lookup| lookup.node == index) else {
                continue;
            };
            let is_ready =
                lookup.needs.iter().all(|slot| has_value(*slot) || !self.introduced.contains(slot));
            if !is_ready || lookup.needs.contains(&node.slot) {
                continue;
            }
            let Some(rows) = self.lookups.get(number).copied().flatten() else { continue };
            if rows < best.rows || best.access == Access::All {
                best = Entry { rows, access: Access::Lookup(number) };
            }
        }
        best
    }

    /// Returns by which factor the rows grow when a relationship is followed from a node to another one.
    pub(super) fn growth(&self, relationship: &Relationship, from: usize, to: usize, is_bound: bool) -> f64 {
        let degree = self.degree(relationship, from);
        let hops = match (relationship.range, relationship.shortest) {
            (_, Some(_)) => 1.0,
            (None, _) => degree,
            (Some(range), _) => {
                let last = range.maximum.min(range.minimum.saturating_add(ESTIMATED_HOPS));
                let hops = range.minimum..=last;
                hops.map(|length| degree.powi(i32::try_from(length.min(12)).unwrap_or(12))).sum::<f64>()
            }
        };
        let share = self.shares.get(to).copied().unwrap_or(1.0);
        if is_bound || relationship.is_bound { (hops / self.nodes()).min(1.0) } else { hops * share }
    }

    fn degree(&self, relationship: &Relationship, from: usize) -> f64 {
        let count = match &relationship.types {
            None => self.graph.relationship_count(),
            Some(types) => types.iter().map(|number| self.graph.count_of_type(*number)).sum(),
        };
        let sides = if relationship.direction == crate::ast::Direction::Both { 2.0 } else { 1.0 };
        let labels = self.pattern.nodes.get(from).map(|node| node.labels.iter());
        let smallest = labels.into_iter().flatten().map(|labels| self.with_labels(labels)).reduce(f64::min);
        // Half of the relationships are taken to belong to the nodes of a label that is not all nodes.
        let starts = smallest.unwrap_or_else(|| self.nodes()).max(1.0);
        (float_of_count(count) * sides / starts.max(self.nodes() / 8.0)).max(0.01)
    }

    /// Returns the share of nodes that pass the labels and conditions of a node.
    fn share(&self, index: usize) -> f64 {
        let Some(node) = self.pattern.nodes.get(index) else { return 1.0 };
        let labels = node.labels.iter().map(|labels| self.with_labels(labels) / self.nodes());
        let predicates = self.pattern.predicates.iter().zip(&self.lookups);
        let conditions = predicates.filter_map(|(predicate, rows)| {
            if predicate.lookup.as_ref().is_some_and(|lookup| lookup.node == index) {
                return Some(rows.map_or(EQUALITY_SHARE, |rows| rows / self.nodes()));
            }
            (predicate.needs == [node.slot]).then_some(UNKNOWN_SHARE)
        });
        labels.chain(conditions).fold(1.0, |product, share| product * share.min(1.0))
    }

    fn with_labels(&self, labels: &[crate::identifier::LabelId]) -> f64 {
        labels.iter().map(|label| float_of_count(self.graph.nodes_with_label(*label).len())).sum()
    }

    fn nodes(&self) -> f64 {
        float_of_count(self.graph.node_count()).max(1.0)
    }
}
