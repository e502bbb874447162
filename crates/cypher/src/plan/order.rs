//! The order of a pattern: where to start, and which relationship to follow next.

use super::cost::{Access, Entry, Estimates};
use super::{KnownValue, PatternGraph};
use crate::ast::Direction;
use crate::graph::Graph;
use crate::program::Slot;

/// Number of nodes that are tried as the start. More would take long for patterns of hundreds of nodes.
const TRIED_STARTS: usize = 8;

/// One move through a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) enum Move {
    /// Finds a node on its own.
    Enter { node: usize, access: Access },
    /// Follows a relationship from a node to the other one, which may have its value already.
    Follow { relationship: usize, from: usize, to: usize, into: bool },
}

/// Returns the cheapest order that was found.
pub(super) fn best(pattern: &PatternGraph, graph: &dyn Graph, known: KnownValue<'_>) -> Vec<Move> {
    let estimates = Estimates::new(pattern, graph, known);
    let is_bound = |slot: Slot| !estimates.introduced.contains(&slot);
    let mut starts: Vec<(usize, Entry)> =
        (0..pattern.nodes.len()).map(|node| (node, estimates.entry(node, &is_bound))).collect();
    starts.sort_by(|one, two| {
        let by_rows = one.1.rows.total_cmp(&two.1.rows);
        by_rows.then_with(|| tie(pattern, one.0).cmp(&tie(pattern, two.0)))
    });
    let orders = starts.iter().take(TRIED_STARTS).map(|(start, _)| greedy(&estimates, *start));
    let cheapest = orders.reduce(|one, two| if two.0 < one.0 * 0.999 { two } else { one });
    cheapest.map(|(_, moves)| moves).unwrap_or_default()
}

/// Returns what decides between nodes of equal cost, whatever the order in which they are written: first the
/// node that more relationships leave, then the one with a name, then the name or the labels.
fn tie(pattern: &PatternGraph, index: usize) -> (isize, bool, String) {
    let mut leaving = 0;
    for relationship in &pattern.relationships {
        let (start, end) = match relationship.direction {
            Direction::Left => (relationship.right, relationship.left),
            Direction::Right => (relationship.left, relationship.right),
            Direction::Both => continue,
        };
        leaving += isize::from(end == index) - isize::from(start == index);
    }
    let Some(node) = pattern.nodes.get(index) else { return (leaving, true, String::new()) };
    let text = if node.is_named { node.name.to_string() } else { format!("{:?}", node.labels) };
    (leaving, !node.is_named, text)
}

/// Returns an order from a start, which always takes the cheapest next move, with its cost.
fn greedy(estimates: &Estimates<'_>, start: usize) -> (f64, Vec<Move>) {
    let pattern = estimates.pattern;
    let mut walk = Walk {
        estimates,
        has_node: vec![false; pattern.nodes.len()],
        is_done: vec![false; pattern.relationships.len()],
        rows: 1.0,
        cost: 0.0,
        moves: Vec::new(),
    };
    // Nodes with a value cost nothing, so every walk has them from the beginning.
    for node in 0..pattern.nodes.len() {
        if pattern.nodes.get(node).is_some_and(|node| node.is_bound) {
            walk.enter(node);
        }
    }
    if !walk.has_node.get(start).copied().unwrap_or(true) {
        walk.enter(start);
    }
    loop {
        while let Some((relationship, from, to)) = walk.cheapest_relationship() {
            walk.follow(relationship, from, to);
        }
        match walk.cheapest_node() {
            Some(node) => walk.enter(node),
            None => return (walk.cost, walk.moves),
        }
    }
}

/// A walk through a pattern, with the cost so far.
struct Walk<'a> {
    estimates: &'a Estimates<'a>,
    has_node: Vec<bool>,
    is_done: Vec<bool>,
    rows: f64,
    cost: f64,
    moves: Vec<Move>,
}

impl Walk<'_> {
    fn entry(&self, node: usize) -> Entry {
        let pattern = self.estimates.pattern;
        let has_value = |slot: Slot| {
            let mut nodes = pattern.nodes.iter().zip(&self.has_node);
            let mut relationships = pattern.relationships.iter().zip(&self.is_done);
            nodes.any(|(node, has_node)| *has_node && node.slot == slot)
                || relationships.any(|(relationship, is_done)| *is_done && relationship.slot == slot)
        };
        self.estimates.entry(node, &has_value)
    }

    fn enter(&mut self, node: usize) {
        let entry = self.entry(node);
        self.rows *= entry.rows;
        self.cost += self.rows;
        if !matches!(entry.access, Access::Lookup(_) | Access::Bound) {
            self.rows *= self.estimates.conditions(node);
        }
        self.moves.push(Move::Enter { node, access: entry.access });
        self.mark(node);
    }

    fn follow(&mut self, relationship: usize, from: usize, to: usize) {
        let into = self.has(to);
        self.rows *= self.growth(relationship, from, to);
        self.cost += self.rows;
        self.moves.push(Move::Follow { relationship, from, to, into });
        self.mark(to);
        if let Some(is_done) = self.is_done.get_mut(relationship) {
            *is_done = true;
        }
    }

    fn mark(&mut self, node: usize) {
        if let Some(has_node) = self.has_node.get_mut(node) {
            *has_node = true;
        }
    }

    fn has(&self, node: usize) -> bool {
        self.has_node.get(node).copied().unwrap_or(false)
    }

    fn growth(&self, relationship: usize, from: usize, to: usize) -> f64 {
        let relationship = self.estimates.pattern.relationships.get(relationship);
        relationship.map_or(1.0, |relationship| self.estimates.growth(relationship, from, to, self.has(to)))
    }

    /// Returns the relationship at a node with a value that makes the fewest rows.
    fn cheapest_relationship(&self) -> Option<(usize, usize, usize)> {
        let mut best: Option<(f64, (usize, usize, usize))> = None;
        for (number, relationship) in self.estimates.pattern.relationships.iter().enumerate() {
            if self.is_done.get(number).copied().unwrap_or(true) {
                continue;
            }
            for (from, to) in
                [(relationship.left, relationship.right), (relationship.right, relationship.left)]
            {
                if !self.has(from) || relationship.shortest.is_some() && !self.may_search(to) {
                    continue;
                }
                let growth = self.growth(number, from, to);
                if best.is_none_or(|(known, _)| growth < known) {
                    best = Some((growth, (number, from, to)));
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// Returns true if a shortest path may be searched now: its other end has a value, or is so open that a
    /// search from one end to all nodes is cheaper than one search for each node.
    fn may_search(&self, to: usize) -> bool {
        self.has(to) || self.entry(to).rows > 4.0
    }

    /// Returns the node without a value that makes the fewest rows.
    fn cheapest_node(&self) -> Option<usize> {
        let nodes = (0..self.has_node.len()).filter(|node| !self.has(*node));
        let rated = nodes.map(|node| (self.entry(node).rows, tie(self.estimates.pattern, node), node));
        rated
            .min_by(|one, two| one.0.total_cmp(&two.0).then_with(|| one.1.cmp(&two.1)))
            .map(|(.., node)| node)
    }
}
