//! Steps along paths of variable length: no relationship occurs twice in a path, so that cycles end.

use std::collections::HashSet;

use super::expand::is_used;
use super::{Execution, Flow, Sink};
use crate::error::Result;
use crate::fast_hash::FastHash;
use crate::graph::{KeyId, Link, NodeId, RelationshipId};
use crate::program::VariableExpand;
use crate::row::Row;
use crate::value::{Value, equal};

/// The properties that each relationship of a path has.
pub(super) type WantedProperties = Vec<(Option<KeyId>, Value)>;

impl Execution<'_> {
    pub(super) fn variable_expand(
        &self,
        expand: &VariableExpand,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let Some(from) = row.node(expand.from) else { return Ok(Flow::Continue) };
        let target = if expand.into { Some(row.node(expand.to)) } else { None };
        if target == Some(None) {
            return Ok(Flow::Continue);
        }
        let target = target.flatten();
        let wanted = self.wanted(expand, row)?;
        if expand.is_bound {
            return self.along_known(expand, from, target, &wanted, row, next);
        }
        if expand.ends_only {
            return self.ends(expand, from, target, &wanted, row, next);
        }
        self.paths(expand, from, target, &wanted, row, next)
    }

    /// Returns the values that properties of relationships must have.
    pub(super) fn wanted(&self, expand: &VariableExpand, row: &mut Row) -> Result<WantedProperties> {
        let evaluate = |(key, value): &(Option<KeyId>, _)| Ok((*key, self.evaluate(value, row)?));
        expand.properties.iter().map(evaluate).collect()
    }

    /// Returns true if a relationship has all properties.
    pub(super) fn has_all(&self, relationship: RelationshipId, wanted: &WantedProperties) -> bool {
        wanted.iter().all(|(key, value)| {
            let found = key.map_or(Value::Null, |key| self.graph.relationship_property(relationship, key));
            equal(&found, value) == Some(true)
        })
    }

    /// Finds all paths, depth first.
    fn paths(
        &self,
        expand: &VariableExpand,
        from: NodeId,
        target: Option<NodeId>,
        wanted: &WantedProperties,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let mut path: Vec<RelationshipId> = Vec::new();
        let mut hold = self.meter.hold(0)?;
        let mut counted = 0;
        // The links that are still to be followed, with the length of the path before each.
        let mut open: Vec<(Link, usize)> = Vec::new();
        if expand.minimum == 0 && pass_path(expand, from, target, &path, row, next)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        if expand.maximum > 0 {
            self.push_links(from, expand, 0, &mut open)?;
        }
        while let Some((link, length)) = open.pop() {
            self.meter.tick()?;
            path.truncate(length);
            let relationship = link.relationship;
            if path.contains(&relationship)
                || is_used(&expand.unlike, relationship, row)
                || !self.has_all(relationship, wanted)
            {
                continue;
            }
            path.push(relationship);
            if path.len() >= expand.minimum as usize
                && pass_path(expand, link.neighbour, target, &path, row, next)? == Flow::Stop
            {
                return Ok(Flow::Stop);
            }
            if path.len() < expand.maximum as usize {
                self.push_links(link.neighbour, expand, path.len(), &mut open)?;
                if open.capacity() > counted {
                    let bytes = (open.capacity() - counted) * size_of::<(Link, usize)>();
                    self.meter.check(bytes)?;
                    hold.grow(bytes);
                    counted = open.capacity();
                }
            } else if expand.is_capped {
                self.note_longer(link.neighbour, expand, |link| !path.contains(&link.relationship))?;
            }
        }
        Ok(Flow::Continue)
    }

    fn push_links(
        &self,
        node: NodeId,
        expand: &VariableExpand,
        length: usize,
        open: &mut Vec<(Link, usize)>,
    ) -> Result<()> {
        let before = open.len();
        self.each_link(node, &expand.follow, |link| {
            open.push((link, length));
            Ok(Flow::Continue)
        })?;
        // The last link is followed first, so the order is turned round.
        if let Some(added) = open.get_mut(before..) {
            added.reverse();
        }
        Ok(())
    }

    /// Notes that the cap of unbounded patterns has left out a longer path, if it has.
    fn note_longer(
        &self,
        node: NodeId,
        expand: &VariableExpand,
        is_new: impl Fn(Link) -> bool,
    ) -> Result<()> {
        if self.meter.cap_mattered() {
            return Ok(());
        }
        self.each_link(node, &expand.follow, |link| {
            if is_new(link) {
                self.meter.note_cap();
                return Ok(Flow::Stop);
            }
            Ok(Flow::Continue)
        })?;
        Ok(())
    }

    /// Finds the nodes that any path reaches, each once, breadth first.
    fn ends(
        &self,
        expand: &VariableExpand,
        from: NodeId,
        target: Option<NodeId>,
        wanted: &WantedProperties,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let mut hold = self.meter.hold(0)?;
        let mut seen: HashSet<NodeId, FastHash> = HashSet::default();
        let mut frontier = vec![from];
        if expand.minimum == 0 {
            seen.insert(from);
            if pass_path(expand, from, target, &[], row, next)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        for _ in 0..expand.maximum {
            let mut reached = Vec::new();
            for node in frontier {
                self.each_link(node, &expand.follow, |link| {
                    if !seen.contains(&link.neighbour) && self.has_all(link.relationship, wanted) {
                        seen.insert(link.neighbour);
                        reached.push(link.neighbour);
                    }
                    Ok(Flow::Continue)
                })?;
            }
            let bytes = reached.len() * 24;
            self.meter.check(bytes)?;
            hold.grow(bytes);
            for end in &reached {
                if pass_path(expand, *end, target, &[], row, next)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            if reached.is_empty() {
                return Ok(Flow::Continue);
            }
            frontier = reached;
        }
        if expand.is_capped {
            for node in frontier {
                self.note_longer(node, expand, |link| !seen.contains(&link.neighbour))?;
            }
        }
        Ok(Flow::Continue)
    }

    /// Follows a list of relationships that has its value already.
    fn along_known(
        &self,
        expand: &VariableExpand,
        from: NodeId,
        target: Option<NodeId>,
        wanted: &WantedProperties,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let Value::List(list) = row.get(expand.relationships) else { return Ok(Flow::Continue) };
        let list = list.clone();
        let mut node = from;
        let mut used: HashSet<RelationshipId> = HashSet::new();
        let count = u32::try_from(list.items().len()).unwrap_or(u32::MAX);
        if count < expand.minimum || count > expand.maximum {
            return Ok(Flow::Continue);
        }
        for at in 0..list.items().len() {
            self.meter.tick()?;
            let at = if expand.reversed { list.items().len() - 1 - at } else { at };
            let Some(Value::Relationship(relationship)) = list.items().get(at) else {
                return Ok(Flow::Continue);
            };
            let is_free = used.insert(*relationship) && !is_used(&expand.unlike, *relationship, row);
            let Some(end) = self.far_ends(node, *relationship, &expand.follow).next() else {
                return Ok(Flow::Continue);
            };
            if !is_free || !self.has_all(*relationship, wanted) {
                return Ok(Flow::Continue);
            }
            node = end;
        }
        if target.is_some_and(|target| target != node) {
            return Ok(Flow::Continue);
        }
        row.set(expand.to, Value::Node(node));
        next(row)
    }
}

/// Passes a path on, if it leads to the target.
fn pass_path(
    expand: &VariableExpand,
    end: NodeId,
    target: Option<NodeId>,
    path: &[RelationshipId],
    row: &mut Row,
    next: Sink<'_>,
) -> Result<Flow> {
    if target.is_some_and(|target| target != end) {
        return Ok(Flow::Continue);
    }
    if expand.keep {
        row.set(expand.relationships, relationship_list(path, expand.reversed));
    }
    row.set(expand.to, Value::Node(end));
    next(row)
}

/// Returns the relationships of a path in the order in which the pattern is written.
pub(super) fn relationship_list(path: &[RelationshipId], reversed: bool) -> Value {
    let mut items: Vec<Value> = path.iter().copied().map(Value::Relationship).collect();
    if reversed {
        items.reverse();
    }
    Value::list(items)
}
