//! The links of all nodes on one side, in compressed rows: one array of links, sorted by node and type.

use crate::graph::{Link, NodeId, RelationshipId, TypeId};

/// The links of all nodes on one side.
#[derive(Debug, Default)]
pub(super) struct Adjacency {
    /// The index of the first link of each node, and the number of links at the end.
    offsets: Vec<u32>,
    links: Vec<Link>,
    /// The type of each link.
    types: Vec<TypeId>,
}

impl Adjacency {
    /// Creates the rows from links that are sorted by node and type.
    pub(super) fn new(
        nodes: usize,
        links: usize,
        sorted: impl Iterator<Item = (NodeId, TypeId, Link)>,
    ) -> Self {
        let mut all = Self {
            offsets: Vec::with_capacity(nodes + 1),
            links: Vec::with_capacity(links),
            types: Vec::with_capacity(links),
        };
        let mut count = 0_u32;
        for (node, relationship_type, link) in sorted {
            while all.offsets.len() <= node.0 as usize {
                all.offsets.push(count);
            }
            all.links.push(link);
            all.types.push(relationship_type);
            count += 1;
        }
        all.offsets.resize(nodes + 1, count);
        all
    }

    /// Creates the rows of the starts from arrays of the stored form: the index of the first link of each node
    /// with the number of links at the end, the ends of the links, and their types. Returns `None` unless the rows
    /// are sorted by their types, and all of them name nodes and types that are there.
    pub(super) fn checked(
        offsets: Vec<u32>,
        ends: &[u32],
        types: Vec<TypeId>,
        type_count: usize,
    ) -> Option<Self> {
        let nodes = offsets.len().checked_sub(1)?;
        let is_whole = offsets.first() == Some(&0)
            && offsets.last().is_some_and(|last| *last as usize == ends.len())
            && ends.len() == types.len()
            && offsets.is_sorted();
        let is_known = ends.iter().all(|end| (*end as usize) < nodes)
            && types.iter().all(|found| usize::from(found.0) < type_count);
        if !is_whole || !is_known {
            return None;
        }
        let is_sorted = offsets.windows(2).all(|pair| match pair {
            [first, last] => types.get(*first as usize..*last as usize).is_some_and(<[_]>::is_sorted),
            _ => false,
        });
        if !is_sorted {
            return None;
        }
        let link = |(number, end): (u32, &u32)| Link {
            relationship: RelationshipId(number),
            neighbour: NodeId(*end),
        };
        Some(Self { offsets, links: (0_u32..).zip(ends).map(link).collect(), types })
    }

    /// Creates the rows of the ends from those of the starts. Relationships of one type keep their order.
    pub(super) fn turned(&self, starts: &[NodeId], type_count: usize) -> Self {
        let nodes = self.offsets.len().saturating_sub(1);
        let end = |number: u32| self.neighbour_at(number as usize).map_or(0, |end| end.0 as usize);
        let kind = |number: u32| self.types.get(number as usize).map_or(0, |found| usize::from(found.0));
        let count = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        let (by_type, _) = sorted(0..count, kind, type_count);
        let (by_end, offsets) = sorted(by_type.into_iter(), end, nodes);
        let types = by_end.iter().map(|number| self.type_at(*number as usize).unwrap_or(TypeId(0))).collect();
        let link = |number: u32| {
            let start = starts.get(number as usize).copied().unwrap_or(NodeId(0));
            Link { relationship: RelationshipId(number), neighbour: start }
        };
        Self { offsets, links: by_end.into_iter().map(link).collect(), types }
    }

    /// Returns the start of each link, if the rows are those of the starts.
    pub(super) fn starts(&self) -> Vec<NodeId> {
        let mut starts = Vec::with_capacity(self.links.len());
        for (node, pair) in (0_u32..).zip(self.offsets.windows(2)) {
            if let [_, last] = pair {
                starts.resize(*last as usize, NodeId(node));
            }
        }
        starts
    }

    /// Returns the index of the first link of each node, and the number of links at the end.
    pub(super) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Returns all links.
    pub(super) fn all(&self) -> &[Link] {
        &self.links
    }

    /// Returns the types of all links.
    pub(super) fn types(&self) -> &[TypeId] {
        &self.types
    }

    /// Returns the links of a node: of one type, or of all types.
    pub(super) fn links(&self, node: NodeId, relationship_type: Option<TypeId>) -> &[Link] {
        let at = node.0 as usize;
        let (Some(first), Some(last)) = (self.offsets.get(at), self.offsets.get(at + 1)) else { return &[] };
        let row = *first as usize..*last as usize;
        let links = self.links.get(row.clone()).unwrap_or_default();
        let Some(wanted) = relationship_type else { return links };
        let types = self.types.get(row).unwrap_or_default();
        let begin = types.partition_point(|known| *known < wanted);
        let length = types.get(begin..).unwrap_or_default().partition_point(|known| *known == wanted);
        links.get(begin..begin + length).unwrap_or_default()
    }

    /// Returns the node at the far end of a link.
    pub(super) fn neighbour_at(&self, at: usize) -> Option<NodeId> {
        self.links.get(at).map(|link| link.neighbour)
    }

    /// Returns the type of a link.
    pub(super) fn type_at(&self, at: usize) -> Option<TypeId> {
        self.types.get(at).copied()
    }
}

/// Sorts numbers by a key below a bound, and keeps the order of those with equal keys. Returns the index of the
/// first number of each key, too, and the count at the end.
fn sorted(
    numbers: impl ExactSizeIterator<Item = u32> + Clone,
    key: impl Fn(u32) -> usize,
    bound: usize,
) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0_u32; bound + 1];
    for number in numbers.clone() {
        if let Some(count) = offsets.get_mut(key(number) + 1) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for offset in &mut offsets {
        sum += *offset;
        *offset = sum;
    }
    let mut next = offsets.clone();
    let mut all = vec![0; numbers.len()];
    for number in numbers {
        if let Some(at) = next.get_mut(key(number)) {
            if let Some(place) = all.get_mut(*at as usize) {
                *place = number;
            }
            *at += 1;
        }
    }
    (all, offsets)
}
