//! Estimates of how many rows a step makes.

use super::{KnownValue, Lookup, PatternGraph, Predicate, Relationship, Target};
use crate::ast::Direction;
use crate::graph::{Graph, Side};
use crate::identifier::{LabelId, TypeId};
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
    /// The lookup of the predicate with this index.
    Lookup(usize),
    /// The label with this index among the node's tests.
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
    /// The share of all nodes that pass the conditions of each node, labels aside.
    shares: Vec<f64>,
}

impl<'a> Estimates<'a> {
    pub(super) fn new(pattern: &'a PatternGraph, graph: &'a dyn Graph, known: KnownValue<'_>) -> Self {
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
            // One label can be scanned; alternatives need a scan of all nodes.
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
        if is_bound || relationship.is_bound {
            return (hops / self.nodes()).min(1.0);
        }
        hops * self.label_share(relationship, to) * self.conditions(to)
    }

    /// Returns the average number of relationships of a pattern at a node.
    fn degree(&self, relationship: &Relationship, from: usize) -> f64 {
        let node = self.pattern.nodes.get(from);
        let labels = node.map(|node| node.labels.as_slice()).unwrap_or_default();
        let smallest = labels.iter().map(|labels| self.with_labels(labels)).reduce(f64::min);
        let nodes = smallest.unwrap_or_else(|| self.nodes()).max(1.0);
        let sides = sides_at(relationship, from);
        let links: f64 = sides.iter().map(|side| self.links(relationship, *side, labels)).sum();
        (links / nodes).max(0.01)
    }

    /// Returns the share of a pattern's relationships whose far end has the labels of a node.
    fn label_share(&self, relationship: &Relationship, to: usize) -> f64 {
        let labels = self.pattern.nodes.get(to).map(|node| node.labels.as_slice()).unwrap_or_default();
        if labels.is_empty() {
            return 1.0;
        }
        let sides = sides_at(relationship, to);
        let count = |labels| sides.iter().map(|side| self.links(relationship, *side, labels)).sum::<f64>();
        (count(labels) / count(&[]).max(1.0)).clamp(0.0001, 1.0)
    }

    /// Returns the number of relationships of a pattern whose node on a side has labels.
    fn links(&self, relationship: &Relationship, side: Side, labels: &[Vec<LabelId>]) -> f64 {
        let all_types = || (0..self.graph.relationship_types().len()).filter_map(|at| u16::try_from(at).ok());
        let of_type = |number: TypeId| {
            let test = |labels: &Vec<LabelId>| {
                labels.iter().map(|label| self.graph.count_at(number, side, *label)).sum::<usize>()
            };
            let smallest = labels.iter().map(test).min();
            float_of_count(smallest.unwrap_or_else(|| self.graph.count_of_type(number)))
        };
        match &relationship.types {
            Some(types) => types.iter().map(|number| of_type(*number)).sum(),
            None if labels.is_empty() => float_of_count(self.graph.relationship_count()),
            None => all_types().map(TypeId).map(of_type).sum(),
        }
    }

    /// Returns the share of nodes that pass the conditions of a node, labels aside.
    pub(super) fn conditions(&self, node: usize) -> f64 {
        self.shares.get(node).copied().unwrap_or(1.0)
    }

    fn share(&self, index: usize) -> f64 {
        let Some(node) = self.pattern.nodes.get(index) else { return 1.0 };
        let predicates = self.pattern.predicates.iter().zip(&self.lookups);
        let conditions = predicates.filter_map(|(predicate, rows)| {
            if predicate.lookup.as_ref().is_some_and(|lookup| lookup.node == index) {
                return Some(rows.map_or(EQUALITY_SHARE, |rows| rows / self.nodes()));
            }
            (predicate.needs == [node.slot]).then_some(UNKNOWN_SHARE)
        });
        conditions.fold(1.0, |product, share| product * share.min(1.0))
    }

    fn with_labels(&self, labels: &[LabelId]) -> f64 {
        labels.iter().map(|label| float_of_count(self.graph.nodes_with_label(*label).len())).sum()
    }

    fn nodes(&self) -> f64 {
        float_of_count(self.graph.node_count()).max(1.0)
    }
}

/// Returns the sides of a node on which the relationships of a pattern are.
fn sides_at(relationship: &Relationship, node: usize) -> &'static [Side] {
    match (relationship.direction, relationship.left == node) {
        (Direction::Both, _) => &[Side::Outgoing, Side::Incoming],
        (Direction::Right, true) | (Direction::Left, false) => &[Side::Outgoing],
        _ => &[Side::Incoming],
    }
}
