//! One row of slots, which every step of a query changes in place.

use crate::identifier::NodeId;
use crate::program::Slot;
use crate::value::Value;

static NULL: Value = Value::Null;

/// The values of all variables of a query.
#[derive(Debug)]
pub(crate) struct Row(Vec<Value>);

impl Row {
    /// Creates a row of nulls.
    pub(crate) fn new(width: usize) -> Self {
        Self(vec![Value::Null; width])
    }

    pub(crate) fn get(&self, slot: Slot) -> &Value {
        self.0.get(slot).unwrap_or(&NULL)
    }

    /// Returns the node of a slot, if it has one.
    pub(crate) fn node(&self, slot: Slot) -> Option<NodeId> {
        match self.get(slot) {
            Value::Node(node) => Some(*node),
            _ => None,
        }
    }

    pub(crate) fn set(&mut self, slot: Slot, value: Value) {
        if let Some(place) = self.0.get_mut(slot) {
            *place = value;
        }
    }
}
