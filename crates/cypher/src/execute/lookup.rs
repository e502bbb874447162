//! Steps that find nodes on their own.

use super::{Execution, Flow, Sink};
use crate::error::Result;
use crate::graph::{KeyId, LabelId, NodeId};
use crate::program::{Expression, Slot};
use crate::row::Row;
use crate::value::{Value, equal};

impl Execution<'_> {
    pub(super) fn all_nodes(&self, slot: Slot, row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let bound = u32::try_from(self.graph.node_bound()).unwrap_or(u32::MAX);
        for node in 0..bound {
            self.meter.tick()?;
            if !self.graph.has_node(NodeId(node)) {
                continue;
            }
            row.set(slot, Value::Node(NodeId(node)));
            if next(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    pub(super) fn each_node(
        &self,
        nodes: &[NodeId],
        slot: Slot,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        for node in nodes {
            self.meter.tick()?;
            row.set(slot, Value::Node(*node));
            if next(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// Finds nodes by the value of a property. The condition that asks for it is checked again behind this.
    pub(super) fn index_lookup(
        &self,
        slot: Slot,
        label: Option<LabelId>,
        key: KeyId,
        value: &Expression,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let value = self.evaluate(value, row)?;
        if equal(&value, &value) != Some(true) {
            // Null and NaN are equal to nothing.
            return Ok(Flow::Continue);
        }
        let nodes = self.graph.find(label, key, &value).unwrap_or_default();
        self.each_node(&nodes, slot, row, next)
    }

    pub(super) fn node_by_id(
        &self,
        slot: Slot,
        id: &Expression,
        row: &mut Row,
        next: Sink<'_>,
    ) -> Result<Flow> {
        let id = match self.evaluate(id, row)? {
            Value::Integer(id) => u32::try_from(id).ok(),
            Value::Float(id) => crate::number::exact_integer(id).and_then(|id| u32::try_from(id).ok()),
            _ => None,
        };
        match id.map(NodeId).filter(|node| self.graph.has_node(*node)) {
            Some(node) => self.each_node(&[node], slot, row, next),
            None => Ok(Flow::Continue),
        }
    }
}
