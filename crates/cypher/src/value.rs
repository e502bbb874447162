//! Values of the language: their equality, their order, their size and their text.
//!
//! Operations on values that can exceed a limit are not here, because only an execution knows its limits.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::identifier::{NodeId, RelationshipId};

mod order;

pub use order::{Comparison, compare, equal, total_order};

/// Maximum depth of lists and maps within each other. It bounds every recursion over a value.
pub(crate) const MAXIMUM_DEPTH: u16 = 100;

/// A value.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value, or an unknown one.
    #[default]
    Null,
    /// A truth value.
    Boolean(bool),
    /// An integer of 64 bits.
    Integer(i64),
    /// A float of 64 bits.
    Float(f64),
    /// A text.
    String(Arc<str>),
    /// A list of values of any types.
    List(Arc<List>),
    /// A map from texts to values.
    Map(Arc<Map>),
    /// A node of the graph.
    Node(NodeId),
    /// A relationship of the graph.
    Relationship(RelationshipId),
    /// A path through the graph.
    Path(Arc<Path>),
}

/// A list with its size, so that a limit can be checked without a walk.
#[derive(Debug, Clone, Default)]
pub struct List {
    items: Vec<Value>,
    weight: usize,
    depth: u16,
}

/// A map with its size.
#[derive(Debug, Clone, Default)]
pub struct Map {
    entries: BTreeMap<Arc<str>, Value>,
    weight: usize,
    depth: u16,
}

/// A walk: one node more than relationships. Each relationship connects the nodes beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Nodes in the order of the walk.
    pub nodes: Vec<NodeId>,
    /// Relationships between them.
    pub relationships: Vec<RelationshipId>,
}

impl List {
    /// Creates a list.
    pub fn new(items: Vec<Value>) -> Self {
        let weight = items.iter().fold(48_usize, |sum, item| sum.saturating_add(item.weight()));
        let depth = items.iter().map(Value::depth).max().unwrap_or(0).saturating_add(1);
        Self { items, weight, depth }
    }

    /// Returns the items.
    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Map {
    /// Creates a map.
    pub fn new(entries: BTreeMap<Arc<str>, Value>) -> Self {
        let weigh = |sum: usize, (key, value): (&Arc<str>, &Value)| {
            sum.saturating_add(key.len() + 48).saturating_add(value.weight())
        };
        let weight = entries.iter().fold(48_usize, weigh);
        let depth = entries.values().map(Value::depth).max().unwrap_or(0).saturating_add(1);
        Self { entries, weight, depth }
    }

    /// Returns the entries.
    pub fn entries(&self) -> &BTreeMap<Arc<str>, Value> {
        &self.entries
    }
}

impl Value {
    /// Creates a text.
    pub fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    /// Creates a list.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List::new(items)))
    }

    /// Creates a map.
    pub fn map(entries: BTreeMap<Arc<str>, Self>) -> Self {
        Self::Map(Arc::new(Map::new(entries)))
    }

    /// Returns true for [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the size of the value in bytes, as if nothing of it were shared.
    pub fn weight(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::String(text) => own + 16 + text.len(),
            Self::List(list) => list.weight.saturating_add(own),
            Self::Map(map) => map.weight.saturating_add(own),
            Self::Path(path) => own + 64 + 4 * (path.nodes.len() + path.relationships.len()),
            _ => own,
        }
    }

    /// Returns the depth of lists and maps within each other.
    pub(crate) fn depth(&self) -> u16 {
        match self {
            Self::List(list) => list.depth,
            Self::Map(map) => map.depth,
            _ => 0,
        }
    }

    /// Returns the name of the type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Node(_) => "a node",
            Self::Relationship(_) => "a relationship",
            Self::Path(_) => "a path",
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<Option<bool>> for Value {
    fn from(value: Option<bool>) -> Self {
        value.map_or(Self::Null, Self::Boolean)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::string(value)
    }
}

/// Equality of the exact value: 1 differs from 1.0, and null equals null.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && total_order(self, other).is_eq()
    }
}

/// A value by equivalence, as groups and `DISTINCT` compare: null equals null, NaN equals NaN, and 1
/// equals 1.0.
#[derive(Debug, Clone)]
pub(crate) struct Equivalent(pub(crate) Value);

impl PartialEq for Equivalent {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Value::Node(one), Value::Node(two)) => one == two,
            (Value::String(one), Value::String(two)) => Arc::ptr_eq(one, two) || one == two,
            (one, two) => total_order(one, two).is_eq(),
        }
    }
}

impl Eq for Equivalent {}

impl Hash for Equivalent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_value(&self.0, state);
    }
}

/// Feeds a value to a hasher, so that equivalent values have equal hashes.
// BOUNDED: by MAXIMUM_DEPTH, which every constructed value keeps.
pub(crate) fn hash_value<H: Hasher>(value: &Value, state: &mut H) {
    match value {
        Value::Null => state.write_u8(0),
        Value::Boolean(value) => state.write_u8(1 + u8::from(*value)),
        Value::Integer(value) => hash_integer(*value, state),
        Value::Float(value) => match crate::number::exact_integer(*value) {
            Some(integer) => hash_integer(integer, state),
            None if value.is_nan() => state.write_u8(4),
            None => {
                state.write_u8(5);
                state.write_u64(value.to_bits());
            }
        },
        Value::String(text) => {
            state.write_u8(6);
            text.hash(state);
        }
        Value::List(list) => {
            state.write_u8(7);
            state.write_usize(list.items.len());
            for item in &list.items {
                hash_value(item, state);
            }
        }
        Value::Map(map) => {
            state.write_u8(8);
            state.write_usize(map.entries.len());
            for (key, item) in &map.entries {
                key.hash(state);
                hash_value(item, state);
            }
        }
        Value::Node(node) => {
            state.write_u8(9);
            state.write_u32(node.0);
        }
        Value::Relationship(relationship) => {
            state.write_u8(10);
            state.write_u32(relationship.0);
        }
        Value::Path(path) => {
            state.write_u8(11);
            path.hash(state);
        }
    }
}

fn hash_integer<H: Hasher>(value: i64, state: &mut H) {
    state.write_u8(3);
    state.write_i64(value);
}

/// Shows a value without its graph: nodes and relationships appear by their numbers.
impl fmt::Display for Value {
    // BOUNDED: by MAXIMUM_DEPTH.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Boolean(value) => write!(formatter, "{value}"),
            Self::Integer(value) => write!(formatter, "{value}"),
            Self::Float(value) => formatter.write_str(&crate::number::float_text(*value)),
            Self::String(text) => write!(formatter, "'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
            Self::List(list) => {
                formatter.write_str("[")?;
                for (at, item) in list.items.iter().enumerate() {
                    write!(formatter, "{}{item}", if at > 0 { ", " } else { "" })?;
                }
                formatter.write_str("]")
            }
            Self::Map(map) => {
                formatter.write_str("{")?;
                for (at, (key, item)) in map.entries.iter().enumerate() {
                    write!(formatter, "{}{key}: {item}", if at > 0 { ", " } else { "" })?;
                }
                formatter.write_str("}")
            }
            Self::Node(node) => write!(formatter, "(#{})", node.0),
            Self::Relationship(relationship) => write!(formatter, "[#{}]", relationship.0),
            Self::Path(path) => {
                formatter.write_str("<")?;
                for (at, node) in path.nodes.iter().enumerate() {
                    write!(formatter, "{}(#{})", if at > 0 { ", " } else { "" }, node.0)?;
                }
                formatter.write_str(">")
            }
        }
    }
}
