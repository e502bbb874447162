//! The builder of a [`MemoryGraph`]. It takes nodes and relationships in any order of names, and sorts once at
//! the end.

mod copy;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::MemoryGraph;
use super::adjacency::Adjacency;
use super::assembly::Parts;
use super::column::{Cell, Columns};
use super::index::Index;
use crate::graph::{KeyId, LabelId, Link, NodeId, RelationshipId, TypeId};
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
    node_cells: Vec<Vec<(u32, Cell)>>,
    /// Cells likewise; the row is the number in the order of adding.
    relationship_cells: Vec<Vec<(u32, Cell)>>,
    /// Every text once, so that equal properties share their bytes.
    texts: Vec<Arc<str>>,
    numbers_of_texts: HashMap<Arc<str>, u32>,
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
        let row = self.row(set)?;
        for (key, value) in properties {
            let (key, cell) = (KeyId(self.keys.number(key)?), self.cell(value.clone())?);
            push_cell(&mut self.node_cells, key, row, cell);
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
            let (key, cell) = (KeyId(self.keys.number(key)?), self.cell(value.clone())?);
            push_cell(&mut self.relationship_cells, key, added, cell);
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

    /// Adds a node with a sorted set of labels. Returns its number.
    fn row(&mut self, labels: Vec<LabelId>) -> Result<u32, BuildError> {
        let row = next_number(self.label_set_of.len())?;
        let set = if let Some(number) = self.numbers_of_label_sets.get(&labels) {
            *number
        } else {
            let number = next_number(self.label_sets.len())?;
            self.label_sets.push(labels.clone());
            self.numbers_of_label_sets.insert(labels, number);
            number
        };
        self.label_set_of.push(set);
        Ok(row)
    }

    /// Finishes the graph.
    pub fn build(mut self) -> MemoryGraph {
        drop(std::mem::take(&mut self.numbers_of_texts));
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
        let link = |number: u32, neighbour| Link { relationship: RelationshipId(number), neighbour };
        let links = (0_u32..)
            .zip(&edges)
            .map(|(number, edge)| (edge.start, edge.relationship_type, link(number, edge.end)));
        let outgoing = Adjacency::new(nodes, edges.len(), links);
        drop(edges);
        self.texts.shrink_to_fit();
        let node_columns = Columns::new(self.node_cells, &self.texts);
        let relationship_columns = Columns::new(self.relationship_cells, &self.texts);
        let mut indexes: Vec<Option<Index>> = self.keys.names.iter().map(|_| None).collect();
        for key in self.indexed {
            if let Some(place) = indexes.get_mut(usize::from(key.0)) {
                *place = Some(Index::new(node_columns.entries(key, &self.texts)));
            }
        }
        self.label_set_of.shrink_to_fit();
        let parts = Parts {
            labels: self.labels.names,
            types: self.types.names,
            keys: self.keys.names,
            label_sets: self.label_sets,
            label_set_of: self.label_set_of,
            outgoing,
            texts: self.texts,
            node_columns,
            relationship_columns,
            indexes,
        };
        parts.assemble()
    }

    fn cell(&mut self, value: Value) -> Result<Cell, BuildError> {
        let is_scalar = |value: &Value| {
            matches!(value, Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::String(_))
        };
        match value {
            Value::String(text) => self.text(text).map(Cell::Text),
            Value::List(list) if !list.items().iter().all(is_scalar) => Err(BuildError::UnstorableValue),
            Value::Map(_) | Value::Node(_) | Value::Relationship(_) | Value::Path(_) => {
                Err(BuildError::UnstorableValue)
            }
            value => Ok(Cell::Other(value)),
        }
    }

    /// Returns the number of a text in the table.
    fn text(&mut self, text: Arc<str>) -> Result<u32, BuildError> {
        if let Some(known) = self.numbers_of_texts.get(&text) {
            return Ok(*known);
        }
        let number = next_number(self.texts.len())?;
        self.texts.push(text.clone());
        self.numbers_of_texts.insert(text, number);
        Ok(number)
    }
}

fn push_cell(cells: &mut Vec<Vec<(u32, Cell)>>, key: KeyId, row: u32, cell: Cell) {
    if matches!(cell, Cell::Other(Value::Null)) {
        return;
    }
    let at = usize::from(key.0);
    if cells.len() <= at {
        cells.resize_with(at + 1, Vec::new);
    }
    if let Some(cells) = cells.get_mut(at) {
        cells.push((row, cell));
    }
}

fn next_number(count: usize) -> Result<u32, BuildError> {
    u32::try_from(count).ok().filter(|number| *number < u32::MAX).ok_or(BuildError::TooManyEntities)
}
