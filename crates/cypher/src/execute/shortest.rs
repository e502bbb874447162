//! Shortest paths, breadth first: from both ends between two known nodes, from one end to all nodes otherwise.

use std::collections::HashMap;

use super::variable::{WantedProperties, relationship_list};
use super::{Execution, Flow, Sink};
use crate::error::Result;
use crate::fast_hash::FastHash;
use crate::graph::{NodeId, RelationshipId};
use crate::meter::Hold;
use crate::program::{Follow, Shortest};
use crate::row::Row;
use crate::value::Value;

/// A node that a search has reached: at which distance, and over which links.
#[derive(Debug)]
struct Reached {
    distance: u32,
    links: Vec<(NodeId, RelationshipId)>,
}

/// A search from one node, level by level.
struct Search<'a> {
    follow: Follow,
    reached: HashMap<NodeId, Reached, FastHash>,
    frontier: Vec<NodeId>,
    distance: u32,
    /// True if all links of the shortest length are kept, or only the first one.
    all: bool,
    hold: Hold<'a>,
}

impl<'a> Execution<'a> {
    pub(super) fn shortest(&self, shortest: &Shortest, row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let expand = &shortest.expand;
        let Some(from) = row.node(expand.from) else { return Ok(Flow::Continue) };
        let wanted = self.wanted(expand, row)?;
        if !expand.into {
            return self.to_all(shortest, from, &wanted, row, next);
        }
        let Some(to) = row.node(expand.to) else { return Ok(Flow::Continue) };
        if from == to {
            // The shortest way from a node to itself has no relationship.
            let is_allowed = expand.minimum == 0;
            return if is_allowed { pass(shortest, &[], to, row, next) } else { Ok(Flow::Continue) };
        }
        let paths = self.between(shortest, from, to, &wanted)?;
        for path in paths {
            if pass(shortest, &path, to, row, next)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// Finds shortest paths between two different nodes, from both ends at once.
    fn between(
        &self,
        shortest: &Shortest,
        from: NodeId,
        to: NodeId,
        wanted: &WantedProperties,
    ) -> Result<Vec<Vec<RelationshipId>>> {
        let expand = &shortest.expand;
        let mut forward = self.search(from, expand.follow.clone(), shortest.all)?;
        let mut backward = self.search(to, expand.follow.turned(), shortest.all)?;
        let mut best: Option<u32> = None;
        let mut meetings: Vec<NodeId> = Vec::new();
        while best.is_none() && forward.distance + backward.distance < expand.maximum {
            if forward.frontier.is_empty() || backward.frontier.is_empty() {
                return Ok(Vec::new());
            }
            let is_forward = forward.frontier.len() <= backward.frontier.len();
            let (this, other) =
                if is_forward { (&mut forward, &backward) } else { (&mut backward, &forward) };
            self.advance(this, wanted)?;
            for node in &this.frontier {
                let Some(met) = other.reached.get(node) else { continue };
                let length = this.distance + met.distance;
                if best.is_none_or(|best| length < best) {
                    best = Some(length);
                    meetings.clear();
                }
                if best == Some(length) {
                    meetings.push(*node);
                }
            }
        }
        let Some(length) = best else {
            if expand.is_capped && !forward.frontier.is_empty() && !backward.frontier.is_empty() {
                self.meter.note_cap();
            }
            return Ok(Vec::new());
        };
        let mut paths = Vec::new();
        let mut hold = self.meter.hold(0)?;
        meetings.truncate(if shortest.all { usize::MAX } else { 1 });
        for node in meetings {
            let before = self.ways(&forward, node, &mut hold)?;
            let after = self.ways(&backward, node, &mut hold)?;
            for start in &before {
                for end in &after {
                    self.meter.tick()?;
                    let path: Vec<RelationshipId> = start.iter().rev().chain(end).copied().collect();
                    let bytes = 32 + 4 * length as usize;
                    self.meter.check(bytes)?;
                    hold.grow(bytes);
                    paths.push(path);
                }
            }
        }
        Ok(paths)
    }

    /// Finds shortest paths from a node to every other one.
    fn to_all(
        &self,
        shortest: &Shortest,
        from: NodeId,
        wanted: &WantedProperties,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let expand = &shortest.expand;
        let mut search = self.search(from, expand.follow.clone(), shortest.all)?;
        if expand.minimum == 0 && pass(shortest, &[], from, row, next)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        while search.distance < expand.maximum && !search.frontier.is_empty() {
            self.advance(&mut search, wanted)?;
            for end in &search.frontier {
                let mut hold = self.meter.hold(0)?;
                for way in self.ways(&search, *end, &mut hold)? {
                    let path: Vec<RelationshipId> = way.iter().rev().copied().collect();
                    if pass(shortest, &path, *end, row, next)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
            }
        }
        if expand.is_capped && !search.frontier.is_empty() {
            self.meter.note_cap();
        }
        Ok(Flow::Continue)
    }

    fn search(&self, from: NodeId, follow: Follow, all: bool) -> Result<Search<'a>> {
        let mut reached: HashMap<NodeId, Reached, FastHash> = HashMap::default();
        reached.insert(from, Reached { distance: 0, links: Vec::new() });
        Ok(Search { follow, reached, frontier: vec![from], distance: 0, all, hold: self.meter.hold(0)? })
    }

    /// Takes a search one level further.
    fn advance(&self, search: &mut Search<'_>, wanted: &WantedProperties) -> Result<()> {
        search.distance += 1;
        let mut frontier = Vec::new();
        let mut count = 0;
        for node in std::mem::take(&mut search.frontier) {
            self.each_link(node, &search.follow, |link| {
                if !self.has_all(link.relationship, wanted) {
                    return Ok(Flow::Continue);
                }
                match search.reached.get_mut(&link.neighbour) {
                    None => {
                        let links = vec![(node, link.relationship)];
                        let reached = Reached { distance: search.distance, links };
                        search.reached.insert(link.neighbour, reached);
                        frontier.push(link.neighbour);
                        count += 1;
                    }
                    Some(known) if search.all && known.distance == search.distance => {
                        known.links.push((node, link.relationship));
                        count += 1;
                    }
                    Some(_) => {}
                }
                Ok(Flow::Continue)
            })?;
            // About the size of an entry with one link.
            let bytes = std::mem::take(&mut count) * 80;
            self.meter.check(bytes)?;
            search.hold.grow(bytes);
        }
        search.frontier = frontier;
        Ok(())
    }

    /// Returns the ways from a reached node back to the start of its search.
    fn ways(
        &self,
        search: &Search<'_>,
        node: NodeId,
        hold: &mut Hold<'_>,
    ) -> Result<Vec<Vec<RelationshipId>>> {
        let mut open = vec![(node, Vec::new())];
        let mut ways = Vec::new();
        while let Some((node, way)) = open.pop() {
            self.meter.tick()?;
            let links = search.reached.get(&node).map(|reached| reached.links.as_slice()).unwrap_or_default();
            if links.is_empty() {
                ways.push(way);
                continue;
            }
            for (before, relationship) in links.iter().rev() {
                let mut longer = way.clone();
                longer.push(*relationship);
                let bytes = 32 + 4 * longer.len();
                self.meter.check(bytes)?;
                hold.grow(bytes);
                open.push((*before, longer));
            }
        }
        Ok(ways)
    }
}

/// Passes a path on.
fn pass(
    shortest: &Shortest,
    path: &[RelationshipId],
    to: NodeId,
    row: &mut Row,
    next: Sink<'_>,
) -> Result<Flow> {
    let expand = &shortest.expand;
    row.set(expand.relationships, relationship_list(path, expand.reversed));
    row.set(expand.to, Value::Node(to));
    next(row)
}
