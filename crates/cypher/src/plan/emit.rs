//! Steps from an order: each condition stands at the first place where everything that it reads has a value.

use super::cost::Access;
use super::order::Move;
use super::{Lookup, PatternGraph, Predicate, Relationship, Target};
use crate::ast::Direction;
use crate::graph::{Graph, Side};
use crate::identifier::{LabelId, TypeId};
use crate::program::{Expand, Follow, LabelTest, Shortest, Slot, Step, VariableExpand};

/// Returns the steps of an order.
pub(super) fn steps(mut pattern: PatternGraph, order: &[Move], graph: &dyn Graph) -> Vec<Step> {
    let mut emitter = Emitter {
        graph,
        introduced: pattern.introduced(),
        has_value: Vec::new(),
        predicates: std::mem::take(&mut pattern.predicates).into_iter().map(Some).collect(),
        followed: Vec::new(),
        steps: Vec::new(),
    };
    emitter.conditions();
    for step in order {
        match *step {
            Move::Enter { node, access } => emitter.enter(&pattern, node, access),
            Move::Follow { relationship, from, to, into } => {
                emitter.follow(&mut pattern, relationship, from, to, into);
            }
        }
        emitter.conditions();
    }
    for path in std::mem::take(&mut pattern.paths) {
        emitter.has_value.push(path.slot);
        let (slot, start, relationships) = (path.slot, path.start, path.relationships);
        emitter.steps.push(Step::Path { slot, start, relationships });
        emitter.conditions();
    }
    emitter.steps
}

struct Emitter<'a> {
    graph: &'a dyn Graph,
    introduced: Vec<Slot>,
    has_value: Vec<Slot>,
    /// Conditions that stand in no step yet.
    predicates: Vec<Option<Predicate>>,
    /// Relationships that were followed, by their index.
    followed: Vec<usize>,
    steps: Vec<Step>,
}

impl Emitter<'_> {
    /// Adds every condition that can be decided now.
    fn conditions(&mut self) {
        for place in &mut self.predicates {
            let is_ready = |slot: &Slot| self.has_value.contains(slot) || !self.introduced.contains(slot);
            if let Some(predicate) = place.take_if(|predicate| predicate.needs.iter().all(is_ready)) {
                self.steps.push(Step::Filter(predicate.expression));
            }
        }
    }

    fn enter(&mut self, pattern: &PatternGraph, index: usize, access: Access) {
        let Some(node) = pattern.nodes.get(index) else { return };
        let slot = node.slot;
        let mut tests = node.labels.clone();
        let step = match access {
            Access::Bound => Step::BoundNode { slot },
            Access::All => Step::AllNodes { slot },
            Access::Label(test) => match tests.get(test).and_then(|labels| labels.first()).copied() {
                Some(label) => {
                    tests.remove(test);
                    Step::LabelScan { slot, label }
                }
                None => Step::AllNodes { slot },
            },
            Access::Lookup(number) => self.lookup(number, slot, &mut tests),
        };
        self.steps.push(step);
        self.has_value.push(slot);
        self.label_test(slot, tests);
    }

    fn lookup(&mut self, number: usize, slot: Slot, tests: &mut LabelTest) -> Step {
        let predicate = self.predicates.get_mut(number).and_then(Option::as_mut);
        let Some(Lookup { target, value, .. }) = predicate.and_then(|predicate| predicate.lookup.take())
        else {
            return Step::AllNodes { slot };
        };
        match target {
            Target::Id => Step::NodeById { slot, id: value },
            Target::Property(key) => {
                let single = tests.iter().position(|labels| labels.len() == 1);
                let label = single.and_then(|test| tests.remove(test).first().copied());
                Step::IndexLookup { slot, label, key, value }
            }
        }
    }

    fn label_test(&mut self, slot: Slot, labels: LabelTest) {
        if !labels.is_empty() {
            self.steps.push(Step::HasLabels { slot, labels });
        }
    }

    fn follow(&mut self, pattern: &mut PatternGraph, number: usize, from: usize, to: usize, into: bool) {
        let unlike: Vec<Slot> = self.overlapping(pattern, number);
        let has_later = pattern.relationships.len() > self.followed.len() + 1;
        let ends_only = pattern.ends_only;
        let (Some(start), Some(end)) = (pattern.nodes.get(from), pattern.nodes.get(to)) else { return };
        let (from_slot, to_slot) = (start.slot, end.slot);
        let mut tests = if into { LabelTest::new() } else { end.labels.clone() };
        let Some(relationship) = pattern.relationships.get_mut(number) else { return };
        let reversed = relationship.left != from;
        let follow =
            Follow { side: side(relationship.direction, reversed), types: relationship.types.clone() };
        if relationship.range.is_none_or(|range| range.minimum > 0) {
            tests.retain(|labels| !ends_have(self.graph, &follow, labels));
        }
        let (slot, is_bound) = (relationship.slot, relationship.is_bound);
        self.steps.push(match relationship.range {
            None => Step::Expand(Box::new(Expand {
                from: from_slot,
                to: to_slot,
                into,
                relationship: slot,
                is_bound,
                follow,
                unlike,
            })),
            Some(range) => {
                let keep = relationship.keep || has_later;
                let is_directed = follow.side.is_some();
                let ends_only =
                    ends_only && !keep && !is_bound && is_directed && range.minimum <= 1 && unlike.is_empty();
                let expand = VariableExpand {
                    from: from_slot,
                    to: to_slot,
                    into,
                    relationships: slot,
                    is_bound,
                    follow,
                    unlike,
                    minimum: range.minimum,
                    maximum: range.maximum,
                    is_capped: range.is_capped,
                    properties: std::mem::take(&mut relationship.properties),
                    reversed,
                    keep: keep || relationship.shortest.is_some(),
                    ends_only,
                };
                match relationship.shortest {
                    Some(all) => Step::Shortest(Box::new(Shortest { expand, all })),
                    None => Step::VariableExpand(Box::new(expand)),
                }
            }
        });
        self.followed.push(number);
        self.has_value.extend([slot, to_slot]);
        self.label_test(to_slot, tests);
    }

    /// Returns the slots of followed relationships that a relationship could be equal to.
    fn overlapping(&self, pattern: &PatternGraph, number: usize) -> Vec<Slot> {
        let Some(own) = pattern.relationships.get(number).filter(|own| own.shortest.is_none()) else {
            return Vec::new();
        };
        let followed = self.followed.iter().filter_map(|other| pattern.relationships.get(*other));
        followed
            .filter(|other| other.shortest.is_none() && may_be_equal(own, other))
            .map(|other| other.slot)
            .collect()
    }
}

/// Returns true if every relationship that may be followed leads to a node with one of the labels, so that
/// there is nothing to check.
fn ends_have(graph: &dyn Graph, follow: &Follow, labels: &[LabelId]) -> bool {
    let (Some(types), [label]) = (&follow.types, labels) else { return false };
    let ends: &[Side] = match follow.side {
        Some(Side::Outgoing) => &[Side::Incoming],
        Some(Side::Incoming) => &[Side::Outgoing],
        None => &[Side::Outgoing, Side::Incoming],
    };
    let all_have =
        |number: &TypeId, side: &Side| graph.count_at(*number, *side, *label) == graph.count_of_type(*number);
    types.iter().all(|number| ends.iter().all(|side| all_have(number, side)))
}

fn may_be_equal(one: &Relationship, two: &Relationship) -> bool {
    match (&one.types, &two.types) {
        (Some(one), Some(two)) => one.iter().any(|number| two.contains(number)),
        _ => true,
    }
}

fn side(direction: Direction, reversed: bool) -> Option<Side> {
    match (direction, reversed) {
        (Direction::Both, _) => None,
        (Direction::Right, false) | (Direction::Left, true) => Some(Side::Outgoing),
        _ => Some(Side::Incoming),
    }
}
