//! The planner: from the patterns of one clause to steps in the cheapest order that it finds.
//!
//! The order depends on what a pattern says, and not on how it is written: each node is tried as the start,
//! and relationships are followed from either end. The planner reads counts of the graph, and no property.

use crate::ast::{Direction, Name};
use crate::graph::Graph;
use crate::identifier::{KeyId, TypeId};
use crate::program::{Expression, LabelTest, Slot, Step};
use crate::value::Value;

mod cost;
mod emit;
mod order;

/// The patterns of one clause as a graph.
#[derive(Debug, Default)]
pub(crate) struct PatternGraph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) relationships: Vec<Relationship>,
    pub(crate) paths: Vec<PatternPath>,
    pub(crate) predicates: Vec<Predicate>,
    /// True if repeated rows do not matter.
    pub(crate) ends_only: bool,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) slot: Slot,
    pub(crate) name: Name,
    /// True if the query gives the name.
    pub(crate) is_named: bool,
    /// True if the slot has its value before the clause.
    pub(crate) is_bound: bool,
    pub(crate) labels: LabelTest,
}

#[derive(Debug)]
pub(crate) struct Relationship {
    pub(crate) slot: Slot,
    pub(crate) is_bound: bool,
    /// The index of the node on the left of the text.
    pub(crate) left: usize,
    pub(crate) right: usize,
    pub(crate) direction: Direction,
    pub(crate) types: Option<Vec<TypeId>>,
    /// The bounds of a variable length.
    pub(crate) range: Option<Range>,
    /// True if all shortest paths are wanted, for a shortest path.
    pub(crate) shortest: Option<bool>,
    /// Properties of each relationship of a variable length.
    pub(crate) properties: Vec<(Option<KeyId>, Expression)>,
    /// True if a name refers to the relationships.
    pub(crate) keep: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) minimum: u32,
    pub(crate) maximum: u32,
    /// True if the maximum is that of the limits.
    pub(crate) is_capped: bool,
}

#[derive(Debug)]
pub(crate) struct PatternPath {
    pub(crate) slot: Slot,
    pub(crate) start: Slot,
    pub(crate) relationships: Vec<Slot>,
}

/// A condition, with the slots that it reads.
#[derive(Debug)]
pub(crate) struct Predicate {
    pub(crate) expression: Expression,
    pub(crate) needs: Vec<Slot>,
    pub(crate) lookup: Option<Lookup>,
}

/// A value that leads to a node without a scan.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// The index of the node.
    pub(crate) node: usize,
    pub(crate) target: Target,
    pub(crate) value: Expression,
    /// The slots that the value reads.
    pub(crate) needs: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Property(KeyId),
    Id,
}

/// A function that returns the value of an expression which is known before the first row.
pub(crate) type KnownValue<'a> = &'a dyn Fn(&Expression) -> Option<Value>;

/// Returns the steps that find the patterns.
pub(crate) fn plan(pattern: PatternGraph, graph: &dyn Graph, known: KnownValue<'_>) -> Vec<Step> {
    if pattern.is_impossible() {
        return vec![Step::Nothing];
    }
    let order = order::best(&pattern, graph, known);
    emit::steps(pattern, &order, graph)
}

impl PatternGraph {
    /// Returns true if a label or a type of the patterns does not occur in the graph.
    fn is_impossible(&self) -> bool {
        let has_no_label = |node: &Node| node.labels.iter().any(Vec::is_empty);
        let has_no_type = |relationship: &Relationship| {
            let can_be_empty = relationship.range.is_some_and(|range| range.minimum == 0);
            relationship.types.as_ref().is_some_and(Vec::is_empty) && !can_be_empty
        };
        self.nodes.iter().any(has_no_label) || self.relationships.iter().any(has_no_type)
    }

    /// Returns the slots that the clause itself gives values to.
    fn introduced(&self) -> Vec<Slot> {
        let nodes = self.nodes.iter().filter(|node| !node.is_bound).map(|node| node.slot);
        let free = self.relationships.iter().filter(|relationship| !relationship.is_bound);
        let paths = self.paths.iter().map(|path| path.slot);
        nodes.chain(free.map(|relationship| relationship.slot)).chain(paths).collect()
    }
}
