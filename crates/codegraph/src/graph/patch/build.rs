//! The making of a patch.

use std::sync::Arc;

use cypher::{
    BuildError, Graph, KeyId, LabelId, Link, MemoryGraph, NodeId, RelationshipId, Side, TypeId, Value,
};

use super::{Cells, FastSet, Node, PatchedGraph, Relationship, Row};
use crate::fast_hash::FastMap;

/// The differences from a graph, as far as they are known. Names that the graph does not have are left out.
#[derive(Debug)]
pub(in crate::graph) struct Patch {
    base: Arc<MemoryGraph>,
    labels: FastMap<Arc<str>, LabelId>,
    types: FastMap<Arc<str>, TypeId>,
    keys: FastMap<Arc<str>, KeyId>,
    added: Vec<Node>,
    changed: FastMap<NodeId, Node>,
    removed: FastSet<NodeId>,
    added_relationships: Vec<Relationship>,
    changed_relationships: FastMap<RelationshipId, Cells>,
    removed_relationships: FastSet<RelationshipId>,
    /// Relationships of nodes on each side, added less removed.
    degrees: FastMap<(NodeId, Side), isize>,
}

/// Counts that differ, as differences.
#[derive(Default)]
struct Counts {
    by_type: FastMap<TypeId, isize>,
    at: FastMap<(TypeId, Side, LabelId), isize>,
}

impl Patch {
    /// Creates an empty patch.
    pub(in crate::graph) fn new(base: Arc<MemoryGraph>) -> Self {
        let numbered = |names: &[Arc<str>]| (0_u16..).zip(names.to_vec()).collect::<Vec<_>>();
        let labels = numbered(base.labels()).into_iter().map(|(at, name)| (name, LabelId(at))).collect();
        let types =
            numbered(base.relationship_types()).into_iter().map(|(at, name)| (name, TypeId(at))).collect();
        let keys = numbered(base.property_keys()).into_iter().map(|(at, name)| (name, KeyId(at))).collect();
        Self {
            base,
            labels,
            types,
            keys,
            added: Vec::new(),
            changed: FastMap::default(),
            removed: FastSet::default(),
            added_relationships: Vec::new(),
            changed_relationships: FastMap::default(),
            removed_relationships: FastSet::default(),
            degrees: FastMap::default(),
        }
    }

    fn node(&self, labels: &[&str], properties: &[(&str, Value)]) -> Node {
        let mut labels: Vec<LabelId> =
            labels.iter().filter_map(|label| self.labels.get(*label).copied()).collect();
        labels.sort_unstable();
        Node { labels, cells: self.cells(properties) }
    }

    fn cells(&self, properties: &[(&str, Value)]) -> Cells {
        let present = properties.iter().filter(|(_, value)| !value.is_null());
        present.filter_map(|(key, value)| Some((*self.keys.get(*key)?, value.clone()))).collect()
    }

    /// Adds a node.
    ///
    /// # Errors
    /// Returns [`BuildError::TooManyEntities`] if no number is left.
    pub(in crate::graph) fn add_node(
        &mut self,
        labels: &[&str],
        properties: &[(&str, Value)],
    ) -> Result<NodeId, BuildError> {
        let number = u32::try_from(self.base.node_bound() + self.added.len());
        let number = number.map_err(|_| BuildError::TooManyEntities)?;
        self.added.push(self.node(labels, properties));
        Ok(NodeId(number))
    }

    /// Gives a node of the base other labels and properties.
    pub(in crate::graph) fn change_node(
        &mut self,
        node: NodeId,
        labels: &[&str],
        properties: &[(&str, Value)],
    ) {
        self.changed.insert(node, self.node(labels, properties));
    }

    /// Removes a node with its relationships, which are of the base.
    pub(in crate::graph) fn remove_node(&mut self, node: NodeId) {
        let base = self.base.clone();
        for side in [Side::Outgoing, Side::Incoming] {
            for link in base.links(node, side, None) {
                self.remove_relationship(link.relationship);
            }
        }
        self.removed.insert(node);
    }

    /// Adds a relationship.
    pub(in crate::graph) fn add_relationship(
        &mut self,
        start: NodeId,
        name: &str,
        end: NodeId,
        properties: &[(&str, Value)],
    ) {
        let Some(relationship_type) = self.types.get(name).copied() else { return };
        let cells = self.cells(properties);
        self.added_relationships.push(Relationship { start, kind: relationship_type, end, cells });
        *self.degrees.entry((start, Side::Outgoing)).or_default() += 1;
        *self.degrees.entry((end, Side::Incoming)).or_default() += 1;
    }

    /// Gives a relationship of the base other properties.
    pub(in crate::graph) fn change_relationship(
        &mut self,
        relationship: RelationshipId,
        properties: &[(&str, Value)],
    ) {
        self.changed_relationships.insert(relationship, self.cells(properties));
    }

    /// Removes a relationship of the base.
    pub(in crate::graph) fn remove_relationship(&mut self, relationship: RelationshipId) {
        if self.removed_relationships.insert(relationship) {
            let (start, end) = self.base.ends(relationship);
            *self.degrees.entry((start, Side::Outgoing)).or_default() -= 1;
            *self.degrees.entry((end, Side::Incoming)).or_default() -= 1;
        }
    }

    /// Returns the relationships of the base between two nodes whose text of a key is the given one, or all.
    pub(in crate::graph) fn between(
        &self,
        start: NodeId,
        name: &str,
        end: NodeId,
        owner: Option<(&str, &str)>,
    ) -> Vec<RelationshipId> {
        let Some(relationship_type) = self.types.get(name).copied() else { return Vec::new() };
        let outgoing = self.base.links(start, Side::Outgoing, Some(relationship_type));
        let incoming = self.base.links(end, Side::Incoming, Some(relationship_type));
        let (links, far) = if outgoing.len() < incoming.len() { (outgoing, end) } else { (incoming, start) };
        let is_owned = |link: &&Link| {
            let Some((key, text)) = owner else { return true };
            let Some(key) = self.keys.get(key) else { return false };
            matches!(self.base.relationship_property(link.relationship, *key), Value::String(own) if *own == *text)
        };
        let between = links.iter().filter(|link| link.neighbour == far).filter(is_owned);
        between.map(|link| link.relationship).collect()
    }

    /// Returns the nodes of the base from which relationships on a side were removed, so that none is left there.
    pub(in crate::graph) fn bared(&self, side: Side) -> Vec<NodeId> {
        let is_bare = |node: NodeId, change: isize| {
            let before = isize::try_from(self.base.links(node, side, None).len()).unwrap_or(isize::MAX);
            change < 0 && before.saturating_add(change) <= 0
        };
        let changes = self.degrees.iter().filter(|((_, at), _)| *at == side);
        let bare = changes.filter(|((node, _), change)| is_bare(*node, **change)).map(|((node, _), _)| *node);
        bare.filter(|node| !self.removed.contains(node)).collect()
    }

    /// Returns true if a node has relationships on a side.
    pub(in crate::graph) fn has_links(&self, node: NodeId, side: Side) -> bool {
        let before = isize::try_from(self.base.links(node, side, None).len()).unwrap_or(isize::MAX);
        before.saturating_add(self.degrees.get(&(node, side)).copied().unwrap_or(0)) > 0
    }

    /// Finishes the graph.
    pub(in crate::graph) fn build(self) -> PatchedGraph {
        let counts = self.counts();
        let by_type = counts
            .by_type
            .iter()
            .map(|(kind, change)| (*kind, self.base.count_of_type(*kind).saturating_add_signed(*change)));
        let by_type = by_type.collect();
        let counts = counts.at.iter().map(|((kind, side, label), change)| {
            let before = self.base.count_at(*kind, *side, *label);
            ((*kind, *side, *label), before.saturating_add_signed(*change))
        });
        let counts = counts.collect();
        let (rows, by_label, found) = (self.rows(), self.by_label(), self.found());
        let relationship_count = (self.base.relationship_count() + self.added_relationships.len())
            .saturating_sub(self.removed_relationships.len());
        PatchedGraph {
            base: self.base,
            added: self.added,
            changed: self.changed,
            removed: self.removed,
            added_relationships: self.added_relationships,
            changed_relationships: self.changed_relationships,
            relationship_count,
            rows,
            by_label,
            by_type,
            counts,
            found,
        }
    }

    /// Returns the labels of a node after the changes.
    fn labels_of(&self, node: NodeId) -> &[LabelId] {
        let known = match (node.0 as usize).checked_sub(self.base.node_bound()) {
            Some(at) => self.added.get(at),
            None => self.changed.get(&node),
        };
        known.map_or_else(|| self.base.labels_of(node), |node| &node.labels)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for relationship in &self.removed_relationships {
            let kind = self.base.type_of(*relationship);
            let (start, end) = self.base.ends(*relationship);
            counts.add(kind, Side::Outgoing, self.base.labels_of(start), -1);
            counts.add(kind, Side::Incoming, self.base.labels_of(end), -1);
            *counts.by_type.entry(kind).or_default() -= 1;
        }
        for added in &self.added_relationships {
            let kind = added.kind;
            counts.add(kind, Side::Outgoing, self.labels_of(added.start), 1);
            counts.add(kind, Side::Incoming, self.labels_of(added.end), 1);
            *counts.by_type.entry(kind).or_default() += 1;
        }
        for (node, changed) in &self.changed {
            let before = self.base.labels_of(*node);
            if before == changed.labels.as_slice() {
                continue;
            }
            for side in [Side::Outgoing, Side::Incoming] {
                for link in self.base.links(*node, side, None) {
                    if !self.removed_relationships.contains(&link.relationship) {
                        let kind = self.base.type_of(link.relationship);
                        counts.add(kind, side, before, -1);
                        counts.add(kind, side, &changed.labels, 1);
                    }
                }
            }
        }
        counts
    }

    /// Returns the links of the nodes whose relationships are not those of the base.
    fn rows(&self) -> FastMap<(NodeId, Side), Row> {
        let mut links: FastMap<(NodeId, Side), Vec<(TypeId, Link)>> = FastMap::default();
        let base = |node: NodeId, side: Side| -> Vec<(TypeId, Link)> {
            let kept = self.base.links(node, side, None).iter();
            let kept = kept.filter(|link| !self.removed_relationships.contains(&link.relationship));
            kept.map(|link| (self.base.type_of(link.relationship), *link)).collect()
        };
        for relationship in &self.removed_relationships {
            let (start, end) = self.base.ends(*relationship);
            for place in [(start, Side::Outgoing), (end, Side::Incoming)] {
                links.entry(place).or_insert_with(|| base(place.0, place.1));
            }
        }
        for (number, added) in (self.base.relationship_count()..).zip(&self.added_relationships) {
            let relationship = RelationshipId(u32::try_from(number).unwrap_or(u32::MAX));
            for (node, side, neighbour) in
                [(added.start, Side::Outgoing, added.end), (added.end, Side::Incoming, added.start)]
            {
                let row = links.entry((node, side)).or_insert_with(|| base(node, side));
                row.push((added.kind, Link { relationship, neighbour }));
            }
        }
        let row = |mut links: Vec<(TypeId, Link)>| {
            links.sort_by_key(|(kind, _)| *kind);
            Row {
                types: links.iter().map(|(kind, _)| *kind).collect(),
                links: links.into_iter().map(|(_, link)| link).collect(),
            }
        };
        links.into_iter().map(|(place, links)| (place, row(links))).collect()
    }

    /// Returns the nodes of the labels that have others than in the base.
    fn by_label(&self) -> FastMap<LabelId, Vec<NodeId>> {
        let mut touched: FastSet<LabelId> = FastSet::default();
        let mut added: FastMap<LabelId, Vec<NodeId>> = FastMap::default();
        for node in &self.removed {
            touched.extend(self.base.labels_of(*node));
        }
        for (node, changed) in &self.changed {
            if self.base.labels_of(*node) != changed.labels.as_slice() {
                touched.extend(self.base.labels_of(*node));
                for label in &changed.labels {
                    added.entry(*label).or_default().push(*node);
                    touched.insert(*label);
                }
            }
        }
        for (number, node) in (self.base.node_bound()..).zip(&self.added) {
            for label in &node.labels {
                added.entry(*label).or_default().push(NodeId(u32::try_from(number).unwrap_or(u32::MAX)));
                touched.insert(*label);
            }
        }
        let nodes = |label: LabelId| {
            let kept = self.base.nodes_with_label(label).iter().copied();
            let kept = kept.filter(|node| !self.removed.contains(node));
            let mut nodes: Vec<NodeId> = kept
                .filter(|node| self.changed.get(node).is_none_or(|known| known.labels.contains(&label)))
                .collect();
            nodes.extend(added.get(&label).into_iter().flatten());
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        touched.into_iter().map(|label| (label, nodes(label))).collect()
    }

    /// Returns the added and changed nodes by the texts that the base has an index of.
    fn found(&self) -> FastMap<KeyId, FastMap<Arc<str>, Vec<NodeId>>> {
        let mut found: FastMap<KeyId, FastMap<Arc<str>, Vec<NodeId>>> = FastMap::default();
        for key in self.keys.values() {
            if self.base.estimate(*key, None).is_some() {
                found.insert(*key, FastMap::default());
            }
        }
        let added = (self.base.node_bound()..).zip(&self.added);
        let added = added.map(|(number, node)| (NodeId(u32::try_from(number).unwrap_or(u32::MAX)), node));
        for (number, node) in added.chain(self.changed.iter().map(|(number, node)| (*number, node))) {
            for (key, value) in &node.cells {
                if let Value::String(text) = value
                    && let Some(nodes) = found.get_mut(key)
                {
                    nodes.entry(text.clone()).or_default().push(number);
                }
            }
        }
        found
    }
}

impl Counts {
    fn add(&mut self, kind: TypeId, side: Side, labels: &[LabelId], change: isize) {
        for label in labels {
            *self.at.entry((kind, side, *label)).or_default() += change;
        }
    }
}
