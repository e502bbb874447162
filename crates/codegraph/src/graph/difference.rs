//! The difference between a graph and an index: which files have other segments, and what of them is different.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use cypher::{BuildError, Graph, LabelId, NodeId, Side};

use super::Whole;
use super::patch::{Patch, PatchedGraph};
use super::segment::{Course, Place, Properties, Segment, SegmentRelationship, Texts, shared_node};
use crate::fast_hash::{FastHasher, FastMap};
use crate::index::{CodeIndex, IndexedFile};
use crate::links::FileLinks;
use crate::project::folder_of;
use crate::relation::Relation;

/// A file of an index with its links.
type Version<'a> = (&'a IndexedFile, Option<&'a Arc<FileLinks>>);

/// The files whose segments may differ.
#[derive(Debug, Default)]
pub(super) struct Difference {
    paths: Vec<Arc<str>>,
    /// Number of nodes and relationships to compare.
    pub(super) weight: usize,
}

/// A patch under construction.
struct Comparison<'a> {
    whole: &'a Whole,
    index: &'a CodeIndex,
    name: &'a str,
    patch: Patch,
    texts: Texts,
    /// Nodes of places that the graph does not have.
    added: FastMap<Place, NodeId>,
    /// Places that it should no longer have.
    gone: HashSet<Place, BuildHasherDefault<FastHasher>>,
}

impl Difference {
    /// Finds the files of an index that are not as they were.
    pub(super) fn new(whole: &Whole, index: &CodeIndex) -> Self {
        let mut difference = Self::default();
        let mut known = whole.files.iter().peekable();
        for (path, file) in index.files() {
            while let Some((gone, (old, links))) = known.next_if(|(known, _)| *known < path) {
                difference.add(gone, Some((old, links.as_ref())), None);
            }
            let new = (file, index.links(path));
            match known.next_if(|(known, _)| *known == path) {
                Some((_, (old, links))) => {
                    let old = (old, links.as_ref());
                    if !is_equal(old, new) || whole.dangling.contains(path) {
                        difference.add(path, Some(old), Some(new));
                    }
                }
                None => difference.add(path, None, Some(new)),
            }
        }
        for (gone, (old, links)) in known {
            difference.add(gone, Some((old, links.as_ref())), None);
        }
        difference
    }

    fn add(&mut self, path: &Arc<str>, old: Option<Version<'_>>, new: Option<Version<'_>>) {
        for (file, links) in [old, new].into_iter().flatten() {
            self.weight += file.facts.definitions.len() + links.map_or(0, |links| links.links.len());
        }
        self.paths.push(path.clone());
    }

    /// Makes the graph of the index from that of the whole. `name` is the name of the project.
    pub(super) fn patch(
        &self,
        whole: &Whole,
        index: &CodeIndex,
        name: &str,
    ) -> Result<PatchedGraph, BuildError> {
        let mut comparison = Comparison {
            whole,
            index,
            name,
            patch: Patch::new(whole.graph.clone()),
            texts: Texts::default(),
            added: FastMap::default(),
            gone: HashSet::default(),
        };
        // All nodes first, because relationships lead from file to file.
        for path in &self.paths {
            comparison.nodes(path)?;
        }
        for path in &self.paths {
            comparison.relationships(path)?;
        }
        comparison.remove();
        Ok(comparison.patch.build())
    }
}

/// Returns true if two versions of a file have equal segments.
fn is_equal(old: Version<'_>, new: Version<'_>) -> bool {
    let has_equal_links = match (old.1, new.1) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
        (None, None) => true,
        _ => false,
    };
    Arc::ptr_eq(&old.0.facts, &new.0.facts) && old.0.content == new.0.content && has_equal_links
}

impl<'a> Comparison<'a> {
    fn before(&self, path: &'a Arc<str>) -> Option<Segment<'a>> {
        let (file, links) = self.whole.files.get(path)?;
        Some(Segment { path, file, links: links.as_ref() })
    }

    fn after(&self, path: &'a Arc<str>) -> Option<Segment<'a>> {
        Some(Segment { path, file: self.index.files().get(path)?, links: self.index.links(path) })
    }

    /// Compares the nodes of a file.
    fn nodes(&mut self, path: &'a Arc<str>) -> Result<(), BuildError> {
        let old = self.before(path).map_or_else(Vec::new, |segment| segment.nodes(&mut self.texts));
        let new = self.after(path).map_or_else(Vec::new, |segment| segment.nodes(&mut self.texts));
        let mut known: FastMap<Place, _> =
            old.into_iter().map(|node| (node.place, (node.labels, node.properties))).collect();
        for node in new {
            match (known.remove(&node.place), self.whole.places.get(&node.place)) {
                (Some((labels, properties)), Some(number)) => {
                    if labels != node.labels || properties != node.properties {
                        self.patch.change_node(*number, node.labels, &node.properties);
                    }
                }
                _ => {
                    let number = self.patch.add_node(node.labels, &node.properties)?;
                    self.added.insert(node.place, number);
                }
            }
        }
        self.gone.extend(known.into_keys());
        Ok(())
    }

    /// Compares the relationships of a file.
    fn relationships(&mut self, path: &'a Arc<str>) -> Result<(), BuildError> {
        let old = self.before(path).map_or_else(Vec::new, |segment| segment.relationships(&mut self.texts));
        let new = self.after(path).map_or_else(Vec::new, |segment| segment.relationships(&mut self.texts));
        let was_there = |place: &Place| place.is_shared() || self.whole.places.contains_key(place);
        let mut known = by_course(old, was_there);
        for (course, properties) in by_course(new, |place| place.is_shared() || self.has(place)) {
            let before = known.remove(&course).unwrap_or_default();
            if before == properties {
                continue;
            }
            let numbers = self.between(&course, &before, path);
            if let ([number], [_], [properties]) =
                (numbers.as_slice(), before.as_slice(), properties.as_slice())
            {
                self.patch.change_relationship(*number, properties);
                continue;
            }
            for number in numbers {
                self.patch.remove_relationship(number);
            }
            let (from, to) = (self.node(&course.0)?, self.node(&course.2)?);
            for properties in &properties {
                self.patch.add_relationship(from, course.1.name(), to, properties);
            }
        }
        for (course, before) in known {
            for number in self.between(&course, &before, path) {
                self.patch.remove_relationship(number);
            }
        }
        Ok(())
    }

    /// Returns the relationships of the graph that a file made on a course.
    fn between(&self, course: &Course, known: &[Properties], path: &str) -> Vec<cypher::RelationshipId> {
        let place = |place: &Place| self.whole.places.get(place).copied();
        let (Some(from), Some(to), Some(first)) = (place(&course.0), place(&course.2), known.first()) else {
            return Vec::new();
        };
        // A file alone says what contains it and its definitions, and without properties.
        let owner = (!first.is_empty()).then_some(("file", path));
        self.patch.between(from, course.1.name(), to, owner)
    }

    /// Returns true if a place has a node after the changes.
    fn has(&self, place: &Place) -> bool {
        self.added.contains_key(place) || self.whole.places.contains_key(place) && !self.gone.contains(place)
    }

    /// Returns the node of a place, and adds it with the folders around it if files share it.
    fn node(&mut self, place: &Place) -> Result<NodeId, BuildError> {
        let mut at = place.clone();
        let mut first = None;
        let mut inner = None;
        loop {
            let known = self.added.get(&at).or_else(|| self.whole.places.get(&at)).copied();
            let node = match known {
                Some(node) => node,
                None => {
                    let (labels, properties) = shared_node(&at, self.name);
                    let node = self.patch.add_node(labels, &properties)?;
                    self.added.insert(at.clone(), node);
                    node
                }
            };
            if let Some(inner) = inner {
                self.patch.add_relationship(node, Relation::Contains.name(), inner, &[]);
            }
            let first = *first.get_or_insert(node);
            match &at {
                Place::Folder(path) if known.is_none() && !path.is_empty() => {
                    inner = Some(node);
                    at = Place::Folder(folder_of(path).into());
                }
                _ => return Ok(first),
            }
        }
    }

    /// Removes the nodes that are gone, and those that files share and no file needs any more.
    fn remove(&mut self) {
        for place in &self.gone {
            if let Some(node) = self.whole.places.get(place) {
                self.patch.remove_node(*node);
            }
        }
        let graph = self.whole.graph.clone();
        let is_a = |node: NodeId, label: &str| {
            let name = |number: &LabelId| graph.labels().get(usize::from(number.0));
            graph.labels_of(node).iter().any(|number| name(number).is_some_and(|name| **name == *label))
        };
        loop {
            let mut unneeded = self.patch.bared(Side::Outgoing);
            unneeded.retain(|node| is_a(*node, "Directory") || is_a(*node, "External"));
            unneeded.extend(self.patch.bared(Side::Incoming).iter().filter(|node| is_a(**node, "External")));
            unneeded.retain(|node| {
                let is_needed = self.patch.has_links(*node, Side::Incoming);
                is_a(*node, "Directory") || !is_needed && !self.patch.has_links(*node, Side::Outgoing)
            });
            if unneeded.is_empty() {
                break;
            }
            for node in unneeded {
                self.patch.remove_node(node);
            }
        }
    }
}

/// Returns the relationships whose ends are there, by their courses.
fn by_course(
    all: Vec<SegmentRelationship>,
    is_there: impl Fn(&Place) -> bool,
) -> FastMap<Course, Vec<Properties>> {
    let mut found: FastMap<Course, Vec<Properties>> = FastMap::default();
    for (course, properties) in all {
        if is_there(&course.0) && is_there(&course.2) {
            found.entry(course).or_default().push(properties);
        }
    }
    found
}
