//! Steps along one relationship.

use super::{Execution, Flow, Sink};
use crate::error::Result;
use crate::graph::{Link, NodeId, RelationshipId, Side};
use crate::program::{Expand, Follow, Slot};
use crate::row::Row;
use crate::value::Value;

impl Execution<'_> {
    pub(super) fn expand(&self, expand: &Expand, row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let Some(from) = row.node(expand.from) else { return Ok(Flow::Continue) };
        if expand.is_bound {
            return self.expand_bound(expand, from, row, next);
        }
        let target = if expand.into { Some(row.node(expand.to)) } else { None };
        if target == Some(None) {
            return Ok(Flow::Continue);
        }
        let target = target.flatten();
        // Between two known nodes, the one with fewer links is quicker to look through.
        if let Some(target) = target
            && self.degree(target, &expand.follow.turned()) < self.degree(from, &expand.follow)
        {
            return self.each_link(target, &expand.follow.turned(), |link| {
                if link.neighbour != from {
                    return Ok(Flow::Continue);
                }
                pass_link(expand, link.relationship, target, row, next)
            });
        }
        self.each_link(from, &expand.follow, |link| {
            if target.is_some_and(|target| target != link.neighbour) {
                return Ok(Flow::Continue);
            }
            pass_link(expand, link.relationship, link.neighbour, row, next)
        })
    }

    /// Follows a relationship that has its value already.
    fn expand_bound(&self, expand: &Expand, from: NodeId, row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let Value::Relationship(relationship) = *row.get(expand.relationship) else {
            return Ok(Flow::Continue);
        };
        if is_used(&expand.unlike, relationship, row) {
            return Ok(Flow::Continue);
        }
        for to in self.far_ends(from, relationship, &expand.follow) {
            if expand.into && row.node(expand.to) != Some(to) {
                continue;
            }
            row.set(expand.to, Value::Node(to));
            return next(row);
        }
        Ok(Flow::Continue)
    }

    /// Returns where a relationship leads from a node, if it is one that may be followed.
    pub(super) fn far_ends(
        &self,
        from: NodeId,
        relationship: RelationshipId,
        follow: &Follow,
    ) -> impl Iterator<Item = NodeId> {
        let has_type =
            follow.types.as_ref().is_none_or(|types| types.contains(&self.graph.type_of(relationship)));
        let (start, end) = self.graph.ends(relationship);
        let forward = (has_type && start == from && follow.side != Some(Side::Incoming)).then_some(end);
        let backward = (has_type && end == from && follow.side != Some(Side::Outgoing)).then_some(start);
        forward.into_iter().chain(backward.filter(|_| start != end || forward.is_none()))
    }

    fn degree(&self, node: NodeId, follow: &Follow) -> usize {
        follow.lists().map(|(side, number)| self.graph.links(node, side, number).len()).sum()
    }

    /// Calls a function for each link of a node that may be followed, each relationship once.
    pub(super) fn each_link(
        &self,
        node: NodeId,
        follow: &Follow,
        mut receive: impl FnMut(Link) -> Result<Flow>,
    ) -> Result<Flow> {
        for (side, number) in follow.lists() {
            for link in self.graph.links(node, side, number) {
                self.meter.tick()?;
                let is_second_look =
                    follow.side.is_none() && side == Side::Incoming && link.neighbour == node;
                if !is_second_look && receive(*link)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }
}

impl Follow {
    /// Returns the lists of links that this asks for: a side with a type, or with any type.
    fn lists(&self) -> impl Iterator<Item = (Side, Option<crate::graph::TypeId>)> {
        let sides: &[Side] = match self.side {
            None => &[Side::Outgoing, Side::Incoming],
            Some(Side::Outgoing) => &[Side::Outgoing],
            Some(Side::Incoming) => &[Side::Incoming],
        };
        let count = self.types.as_ref().map_or(1, Vec::len);
        sides.iter().flat_map(move |side| {
            (0..count).map(move |at| (*side, self.types.as_ref().and_then(|types| types.get(at)).copied()))
        })
    }

    /// Returns the same relationships as the other end sees them.
    pub(super) fn turned(&self) -> Self {
        let side = self.side.map(|side| match side {
            Side::Outgoing => Side::Incoming,
            Side::Incoming => Side::Outgoing,
        });
        Self { side, types: self.types.clone() }
    }
}

/// Passes a relationship on, unless another one of the pattern is the same.
fn pass_link(
    expand: &Expand,
    relationship: RelationshipId,
    to: NodeId,
    row: &mut Row,
    next: Sink<'_>,
) -> Result<Flow> {
    if is_used(&expand.unlike, relationship, row) {
        return Ok(Flow::Continue);
    }
    row.set(expand.relationship, Value::Relationship(relationship));
    row.set(expand.to, Value::Node(to));
    next(row)
}

/// Returns true if one of the slots has a relationship already.
pub(super) fn is_used(slots: &[Slot], relationship: RelationshipId, row: &Row) -> bool {
    let is_it = |value: &Value| matches!(value, Value::Relationship(other) if *other == relationship);
    slots.iter().any(|slot| match row.get(*slot) {
        Value::List(list) => list.items().iter().any(is_it),
        single => is_it(single),
    })
}
