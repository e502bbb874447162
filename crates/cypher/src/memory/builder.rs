//! The builder of a [`MemoryGraph`]. It takes nodes and relationships in any order of names, and sorts once at
//! the end.

use std::collections::HashMap;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::MemoryGraph;
use super::adjacency::Adjacency;
use super::column::Columns;
use super::index::Index;
use crate::graph::{KeyId, LabelId, Link, NodeId, RelationshipId, Side, TypeId};
use crate::value::Value;

/// The reason why something cannot be added to a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// More than 65,535 different labels, types or keys.
    TooManyNames,
    /// More nodes or relationships than 32 bits can number.
    TooManyEntities,
    /// A relationship names a node that was not added.
    UnknownNode,
    /// A property is a map, a node, a relationship or a path.
    UnstorableValue,
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooManyNames => "a graph has at most 65,535 labels, types and property keys of each kind",
            Self::TooManyEntities => "a graph has at most 4,294,967,295 nodes and relationships of each kind",
            Self::UnknownNode => "a relationship starts or ends at a node that was not added",
            Self::UnstorableValue => "a property is a scalar or a list of scalars",
        })
    }
}

impl std::error::Error for BuildError {}

/// A graph under construction.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    labels: Names,
    types: Names,
    keys: Names,
    label_sets: Vec<Vec<LabelId>>,
    numbers_of_label_sets: BTreeMap<Vec<LabelId>, u32>,
    label_set_of: Vec<u32>,
    relationships: Vec<Edge>,
    /// Cells of row and value, by key.
    node_cells: Vec<Vec<(u32, Value)>>,
    /// Cells likewise; the row is the number in the order of adding.
    relationship_cells: Vec<Vec<(u32, Value)>>,
    /// Every text once, so that equal properties share their bytes.
    texts: HashSet<Arc<str>>,
    indexed: Vec<KeyId>,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    start: NodeId,
    relationship_type: TypeId,
    end: NodeId,
    /// The number in the order of adding.
    added: u32,
}

/// Names with their numbers.
#[derive(Debug, Default)]
struct Names {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u16>,
}

impl Names {
    fn number(&mut self, name: &str) -> Result<u16, BuildError> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = u16::try_from(self.names.len()).ok().filter(|number| *number < u16::MAX);
        let number = number.ok_or(BuildError::TooManyNames)?;
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        Ok(number)
    }
}

impl GraphBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node. A property that is null is left out.
    ///
    /// # Errors
    /// Returns [`BuildError`] if there are too many names or nodes, or if a value cannot be a property.
    pub fn add_node(&mut self, labels: &[&str], properties: &[(&str, Value)]) -> Result<NodeId, BuildError> {
        let mut set = Vec::with_capacity(labels.len());
        for label in labels {
            set.push(LabelId(self.labels.number(label)?));
        }
        set.sort_unstable();
        set.dedup();
        let row = next_number(self.label_set_of.len())?;
        let set = if let Some(number) = self.numbers_of_label_sets.get(&set) {
            *number
        } else {
            let number = next_number(self.label_sets.len())?;
            self.label_sets.push(set.clone());
            self.numbers_of_label_sets.insert(set, number);
            number
        };
        self.label_set_of.push(set);
        for (key, value) in properties {
            let (key, value) = self.cell(key, value)?;
            push_cell(&mut self.node_cells, key, row, value);
        }
        Ok(NodeId(row))
    }

    /// Adds a relationship. Its final number is known only in the finished graph.
    ///
    /// # Errors
    /// Returns [`BuildError`] as [`GraphBuilder::add_node`] does, and for an unknown node.
    pub fn add_relationship(
        &mut self,
        start: NodeId,
        relationship_type: &str,
        end: NodeId,
        properties: &[(&str, Value)],
    ) -> Result<(), BuildError> {
        if start.0.max(end.0) as usize >= self.label_set_of.len() {
            return Err(BuildError::UnknownNode);
        }
        let relationship_type = TypeId(self.types.number(relationship_type)?);
        let added = next_number(self.relationships.len())?;
        self.relationships.push(Edge { start, relationship_type, end, added });
        for (key, value) in properties {
            let (key, value) = self.cell(key, value)?;
            push_cell(&mut self.relationship_cells, key, added, value);
        }
        Ok(())
    }

    /// Numbers names in their order, so that queries know those that nothing in the graph has.
    ///
    /// # Errors
    /// Returns [`BuildError::TooManyNames`] if there are too many.
    pub fn declare(&mut self, labels: &[&str], types: &[&str], keys: &[&str]) -> Result<(), BuildError> {
        for (names, known) in [(labels, &mut self.labels), (types, &mut self.types), (keys, &mut self.keys)] {
            for name in names {
                known.number(name)?;
            }
        }
        Ok(())
    }

    /// Asks for an index of the nodes by a property key, whatever their labels.
    ///
    /// # Errors
    /// Returns [`BuildError::TooManyNames`] if the key is one too many.
    pub fn add_index(&mut self, key: &str) -> Result<(), BuildError> {
        let key = KeyId(self.keys.number(key)?);
        self.indexed.push(key);
        Ok(())
    }

    /// Finishes the graph.
    pub fn build(mut self) -> MemoryGraph {
        drop(std::mem::take(&mut self.texts));
        let nodes = self.label_set_of.len();
        let mut edges = self.relationships;
        edges.sort_unstable_by_key(|edge| (edge.start, edge.relationship_type, edge.end, edge.added));
        let mut number_of = vec![0_u32; edges.len()];
        for (number, edge) in (0_u32..).zip(&edges) {
            if let Some(place) = number_of.get_mut(edge.added as usize) {
                *place = number;
            }
        }
        for (row, _) in self.relationship_cells.iter_mut().flatten() {
            *row = number_of.get(*row as usize).copied().unwrap_or(0);
        }
        drop(number_of);
        let mut relationships_by_type = vec![0; self.types.names.len()];
        let mut counts_by_set: HashMap<(TypeId, Side, u32), usize> = HashMap::new();
        for edge in &edges {
            let relationship_type = edge.relationship_type;
            if let Some(count) = relationships_by_type.get_mut(usize::from(relationship_type.0)) {
                *count += 1;
            }
            for (side, node) in [(Side::Outgoing, edge.start), (Side::Incoming, edge.end)] {
                let set = self.label_set_of.get(node.0 as usize).copied().unwrap_or(0);
                *counts_by_set.entry((relationship_type, side, set)).or_default() += 1;
            }
        }
        let mut counts = HashMap::new();
        for ((relationship_type, side, set), count) in counts_by_set {
            for label in self.label_sets.get(set as usize).into_iter().flatten() {
                *counts.entry((relationship_type, side, *label)).or_default() += count;
            }
        }
        for (number, edge) in (0_u32..).zip(&mut edges) {
            edge.added = number;
        }
        let link = |number: u32, neighbour| Link { relationship: RelationshipId(number), neighbour };
        let links = edges.iter().map(|edge| (edge.start, edge.relationship_type, link(edge.added, edge.end)));
        let outgoing = Adjacency::new(nodes, links);
        let starts = edges.iter().map(|edge| edge.start).collect();
        edges.sort_unstable_by_key(|edge| (edge.end, edge.relationship_type, edge.start, edge.added));
        let links = edges.iter().map(|edge| (edge.end, edge.relationship_type, link(edge.added, edge.start)));
        let incoming = Adjacency::new(nodes, links);
        drop(edges);
        let mut indexes: Vec<Option<Index>> = self.keys.names.iter().map(|_| None).collect();
        for key in self.indexed {
            let cells = self.node_cells.get(usize::from(key.0)).map(Vec::as_slice).unwrap_or_default();
            if let Some(place) = indexes.get_mut(usize::from(key.0)) {
                *place = Some(Index::new(cells.iter().map(|(node, value)| (*node, value))));
            }
        }
        let mut nodes_by_label = vec![Vec::new(); self.labels.names.len()];
        for (node, set) in (0_u32..).zip(&self.label_set_of) {
            for label in self.label_sets.get(*set as usize).into_iter().flatten() {
                if let Some(nodes) = nodes_by_label.get_mut(usize::from(label.0)) {
                    nodes.push(NodeId(node));
                }
            }
        }
        nodes_by_label.iter_mut().for_each(Vec::shrink_to_fit);
        self.label_set_of.shrink_to_fit();
        MemoryGraph {
            labels: self.labels.names,
            types: self.types.names,
            keys: self.keys.names,
            label_sets: self.label_sets,
            label_set_of: self.label_set_of,
            nodes_by_label,
            relationships_by_type,
            counts,
            outgoing,
            incoming,
            starts,
            node_columns: Columns::new(self.node_cells),
            relationship_columns: Columns::new(self.relationship_cells),
            indexes,
        }
    }

    fn cell(&mut self, key: &str, value: &Value) -> Result<(KeyId, Value), BuildError> {
        let is_scalar = |value: &Value| {
            matches!(value, Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::String(_))
        };
        let value = match value {
            Value::Null => Value::Null,
            Value::String(text) => Value::String(self.shared(text)),
            value if is_scalar(value) => value.clone(),
            Value::List(list) if list.items().iter().all(is_scalar) => value.clone(),
            _ => return Err(BuildError::UnstorableValue),
        };
        Ok((KeyId(self.keys.number(key)?), value))
    }

    fn shared(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        self.texts.insert(text.clone());
        text.clone()
    }
}

fn push_cell(cells: &mut Vec<Vec<(u32, Value)>>, key: KeyId, row: u32, value: Value) {
    if value.is_null() {
        return;
    }
    let at = usize::from(key.0);
    if cells.len() <= at {
        cells.resize_with(at + 1, Vec::new);
    }
    if let Some(cells) = cells.get_mut(at) {
        cells.push((row, value));
    }
}

fn next_number(count: usize) -> Result<u32, BuildError> {
    u32::try_from(count).ok().filter(|number| *number < u32::MAX).ok_or(BuildError::TooManyEntities)
}
