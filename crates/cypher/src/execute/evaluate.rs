//! Expressions over a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Execution, Flow};
use crate::ast::Name;
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::functions::{self, Function, Surroundings, entity};
use crate::graph::{KeyId, number_of};
use crate::meter::{HEAVY, Hold};
use crate::number::integer;
use crate::program::{Expression, Pipeline, Projected, Slot};
use crate::row::Row;
use crate::value::{MAXIMUM_DEPTH, Value, equal};

impl Execution<'_> {
    /// Returns the value of an expression.
    // BOUNDED: by the height of an expression, which the parser limits.
    pub(super) fn evaluate(&self, expression: &Expression, row: &mut Row) -> Result<Value> {
        match expression {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Parameter(number) => Ok(self.parameters.get(*number).cloned().unwrap_or_default()),
            Expression::Slot(slot) => Ok(row.get(*slot).clone()),
            Expression::Property { object, name, key } => match &**object {
                Expression::Slot(slot) => self.property(row.get(*slot), name, *key),
                object => {
                    let object = self.evaluate(object, row)?;
                    self.property(&object, name, *key)
                }
            },
            Expression::Comparison(first, rest) => self.comparison(first, rest, row),
            Expression::Logic(logic, parts) => self.logic(*logic, parts, row),
            Expression::Not(operand) => Ok(self.truth(operand, row)?.map(|truth| !truth).into()),
            Expression::Function(function, arguments) => self.function(*function, arguments, row),
            _ => self.compound(expression, row),
        }
    }

    /// Returns the value of a less frequent expression. It is apart so that the frame of the frequent ones
    /// stays small.
    // BOUNDED: by the height of an expression.
    fn compound(&self, expression: &Expression, row: &mut Row) -> Result<Value> {
        match expression {
            Expression::Index(object, index) => self.index(object, index, row),
            Expression::Slice(object, first, last) => {
                self.slice(object, first.as_deref(), last.as_deref(), row)
            }
            Expression::List(items) => {
                let mut collected = Items::new(self)?;
                for item in items {
                    collected.push(self.evaluate(item, row)?)?;
                }
                collected.finish()
            }
            Expression::Map(entries) => self.map(entries, row),
            Expression::MapProjection { object, items } => self.map_projection(object, items, row),
            Expression::HasLabels { object, labels } => self.has_labels(object, labels, row),
            Expression::Negate(operand) => self.negate(operand, row),
            Expression::Arithmetic(first, rest) => self.arithmetic(first, rest, row),
            Expression::Text(operator, subject, other) => self.text(*operator, subject, other, row),
            Expression::Matches(subject, pattern) => match self.evaluate(subject, row)? {
                Value::String(text) => Ok(Value::Boolean(pattern.is_match(&text))),
                _ => Ok(Value::Null),
            },
            Expression::In(item, list) => self.is_in(item, list, row),
            Expression::IsNull(operand, is_null) => {
                Ok(Value::Boolean(self.evaluate(operand, row)?.is_null() == *is_null))
            }
            Expression::Case { subject, arms, otherwise } => {
                self.case(subject.as_deref(), arms, otherwise.as_deref(), row)
            }
            Expression::ListComprehension { slot, list, filter, map } => {
                self.list_comprehension(*slot, list, filter.as_deref(), map.as_deref(), row)
            }
            Expression::Quantifier { quantifier, slot, list, filter } => {
                self.quantifier(*quantifier, *slot, list, filter, row)
            }
            Expression::Reduce { accumulator, start, slot, list, body } => {
                let Some(list) = self.list(list, row)? else { return Ok(Value::Null) };
                let mut value = self.evaluate(start, row)?;
                for item in list.items() {
                    self.meter.tick()?;
                    row.set(*accumulator, value);
                    row.set(*slot, item.clone());
                    value = self.evaluate(body, row)?;
                    self.meter.check(value.weight())?;
                }
                Ok(value)
            }
            Expression::Exists(pipelines) => self.exists(pipelines, row),
            Expression::CountRows(pipelines) => self.count_rows(pipelines, row),
            Expression::Collect(pipeline, map) => {
                let mut collected = Items::new(self)?;
                self.within(pipeline, row, &mut |row| {
                    collected.push(self.evaluate(map, row)?)?;
                    Ok(Flow::Continue)
                })?;
                collected.finish()
            }
            Expression::First(pipeline, map) => {
                let mut first = Value::Null;
                self.within(pipeline, row, &mut |row| {
                    first = self.evaluate(map, row)?;
                    Ok(Flow::Stop)
                })?;
                Ok(first)
            }
            // The other ones are in `evaluate`.
            _ => Ok(Value::Null),
        }
    }

    /// Runs a subquery.
    fn within(
        &self,
        pipeline: &Pipeline,
        row: &mut Row,
        sink: &mut dyn FnMut(&mut Row) -> Result<Flow>,
    ) -> Result<()> {
        let _frame = self.meter.frame()?;
        self.run(pipeline, row, sink)
    }

    fn exists(&self, pipelines: &[Pipeline], row: &mut Row) -> Result<Value> {
        let mut is_found = false;
        for pipeline in pipelines {
            self.within(pipeline, row, &mut |_| {
                is_found = true;
                Ok(Flow::Stop)
            })?;
            if is_found {
                break;
            }
        }
        Ok(Value::Boolean(is_found))
    }

    fn count_rows(&self, pipelines: &[Pipeline], row: &mut Row) -> Result<Value> {
        let mut count = 0;
        for pipeline in pipelines {
            self.within(pipeline, row, &mut |_| {
                count += 1;
                Ok(Flow::Continue)
            })?;
        }
        Ok(Value::Integer(integer(count)))
    }

    fn property(&self, object: &Value, name: &Name, key: Option<KeyId>) -> Result<Value> {
        match object {
            Value::Null => Ok(Value::Null),
            Value::Node(node) => Ok(key.map_or(Value::Null, |key| self.graph.node_property(*node, key))),
            Value::Relationship(id) => {
                Ok(key.map_or(Value::Null, |key| self.graph.relationship_property(*id, key)))
            }
            Value::Map(map) => Ok(map.entries().get(name).cloned().unwrap_or_default()),
            _ => Err(Error::wrong_type(format!(
                "`{name}` cannot be read: {} has no properties.",
                object.type_name()
            ))),
        }
    }

    fn index(&self, object: &Expression, index: &Expression, row: &mut Row) -> Result<Value> {
        let object = self.evaluate(object, row)?;
        let index = self.evaluate(index, row)?;
        match (&object, &index) {
            (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
            (Value::List(list), Value::Integer(index)) => {
                let at = place(*index, list.items().len());
                Ok(at.and_then(|at| list.items().get(at)).cloned().unwrap_or_default())
            }
            (Value::Map(map), Value::String(key)) => Ok(map.entries().get(key).cloned().unwrap_or_default()),
            (Value::Node(_) | Value::Relationship(_), Value::String(key)) => {
                self.property(&object, key, number_of(self.graph.property_keys(), key).map(KeyId))
            }
            (Value::Map(_) | Value::Node(_) | Value::Relationship(_), other) => Err(Error::runtime(
                ErrorClass::TypeError,
                Detail::MapElementAccessByNonString,
                format!("A key is a string, and not {}.", other.type_name()),
            )),
            (Value::List(_), other) => Err(Error::runtime(
                ErrorClass::TypeError,
                Detail::ListElementAccessByNonInteger,
                format!("The index of a list is an integer, and not {}.", other.type_name()),
            )),
            _ => Err(Error::wrong_type(format!("{} has no elements to index.", object.type_name()))),
        }
    }

    fn slice(
        &self,
        object: &Expression,
        first: Option<&Expression>,
        last: Option<&Expression>,
        row: &mut Row,
    ) -> Result<Value> {
        let Some(list) = self.list(object, row)? else { return Ok(Value::Null) };
        let length = list.items().len();
        let mut bound = |bound: Option<&Expression>, default: usize| match bound {
            None => Ok(Some(default)),
            Some(bound) => match self.evaluate(bound, row)? {
                Value::Null => Ok(None),
                Value::Integer(index) if index < 0 => {
                    let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
                    Ok(Some(length.saturating_sub(back)))
                }
                Value::Integer(index) => Ok(Some(usize::try_from(index).unwrap_or(usize::MAX).min(length))),
                other => {
                    Err(Error::wrong_type(format!("A bound is an integer, and not {}.", other.type_name())))
                }
            },
        };
        let (Some(first), Some(last)) = (bound(first, 0)?, bound(last, length)?) else {
            return Ok(Value::Null);
        };
        Ok(Value::list(list.items().get(first..last).unwrap_or_default().to_vec()))
    }

    fn map(&self, entries: &[(Name, Expression)], row: &mut Row) -> Result<Value> {
        let mut map = BTreeMap::new();
        let mut hold = self.meter.hold(0)?;
        for (key, value) in entries {
            let value = self.evaluate(value, row)?;
            self.hold_heavy(&value, &mut hold)?;
            map.insert(key.clone(), value);
        }
        self.checked(Value::map(map))
    }

    fn map_projection(&self, object: &Expression, items: &[Projected], row: &mut Row) -> Result<Value> {
        let object = self.evaluate(object, row)?;
        let mut map = BTreeMap::new();
        for item in items {
            match (item, &object) {
                (_, Value::Null) => return Ok(Value::Null),
                (Projected::All, Value::Map(all)) => map.extend(all.entries().clone()),
                (Projected::All, _) => map.extend(entity::properties(self.graph, &object)),
                (Projected::Entry(key, value), _) => {
                    map.insert(key.clone(), self.evaluate(value, row)?);
                }
            }
        }
        if object.is_null() { Ok(Value::Null) } else { self.checked(Value::map(map)) }
    }

    fn has_labels(&self, object: &Expression, labels: &[Vec<Name>], row: &mut Row) -> Result<Value> {
        let names: Vec<&Arc<str>> = match self.evaluate(object, row)? {
            Value::Null => return Ok(Value::Null),
            Value::Node(node) => {
                let known = self.graph.labels();
                let found = self.graph.labels_of(node).iter();
                found.filter_map(|label| known.get(usize::from(label.0))).collect()
            }
            Value::Relationship(id) => {
                let number = usize::from(self.graph.type_of(id).0);
                self.graph.relationship_types().get(number).into_iter().collect()
            }
            other => {
                return Err(Error::wrong_type(format!(
                    "Only nodes have labels, and not {}.",
                    other.type_name()
                )));
            }
        };
        Ok(Value::Boolean(labels.iter().all(|test| test.iter().any(|label| names.contains(&label)))))
    }

    fn case(
        &self,
        subject: Option<&Expression>,
        arms: &[(Expression, Expression)],
        otherwise: Option<&Expression>,
        row: &mut Row,
    ) -> Result<Value> {
        let subject = subject.map(|subject| self.evaluate(subject, row)).transpose()?;
        for (condition, value) in arms {
            let applies = match &subject {
                Some(subject) => equal(subject, &self.evaluate(condition, row)?) == Some(true),
                None => self.is_true(condition, row)?,
            };
            if applies {
                return self.evaluate(value, row);
            }
        }
        otherwise.map_or(Ok(Value::Null), |otherwise| self.evaluate(otherwise, row))
    }

    fn function(&self, function: Function, arguments: &[Expression], row: &mut Row) -> Result<Value> {
        if function == Function::Coalesce {
            for argument in arguments {
                let value = self.evaluate(argument, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            return Ok(Value::Null);
        }
        let mut values = Vec::with_capacity(arguments.len());
        let mut hold = self.meter.hold(0)?;
        for argument in arguments {
            let value = self.evaluate(argument, row)?;
            self.hold_heavy(&value, &mut hold)?;
            values.push(value);
        }
        let around = Surroundings { graph: self.graph, budget: self.meter.left() };
        functions::call(function, &values, &around)
    }

    fn list_comprehension(
        &self,
        slot: Slot,
        list: &Expression,
        filter: Option<&Expression>,
        map: Option<&Expression>,
        row: &mut Row,
    ) -> Result<Value> {
        let Some(list) = self.list(list, row)? else { return Ok(Value::Null) };
        let mut collected = Items::new(self)?;
        for item in list.items() {
            self.meter.tick()?;
            row.set(slot, item.clone());
            if let Some(filter) = filter
                && !self.is_true(filter, row)?
            {
                continue;
            }
            collected.push(match map {
                Some(map) => self.evaluate(map, row)?,
                None => item.clone(),
            })?;
        }
        collected.finish()
    }

    /// Returns the list that an expression gives, or `None` for null.
    pub(super) fn list(
        &self,
        expression: &Expression,
        row: &mut Row,
    ) -> Result<Option<Arc<crate::value::List>>> {
        match self.evaluate(expression, row)? {
            Value::Null => Ok(None),
            Value::List(list) => Ok(Some(list)),
            other => Err(Error::wrong_type(format!("A list is needed, and not {}.", other.type_name()))),
        }
    }

    /// Counts a heavy value as long as an operation holds it.
    pub(super) fn hold_heavy(&self, value: &Value, hold: &mut Hold<'_>) -> Result<()> {
        let weight = value.weight();
        if weight > HEAVY {
            self.meter.look()?;
            self.meter.check(weight)?;
            hold.grow(weight);
        }
        Ok(())
    }

    /// Returns a value that was made, unless it is too deep or too large.
    pub(super) fn checked(&self, value: Value) -> Result<Value> {
        if value.depth() > MAXIMUM_DEPTH {
            let message = format!("A list or map is nested deeper than {MAXIMUM_DEPTH} levels.");
            return Err(Error::limit(Detail::NestingTooDeep, message));
        }
        self.meter.check(value.weight())?;
        Ok(value)
    }
}

/// A list in the making, which counts while it grows.
pub(super) struct Items<'e> {
    execution: &'e Execution<'e>,
    list: Vec<Value>,
    hold: Hold<'e>,
}

impl<'e> Items<'e> {
    pub(super) fn new(execution: &'e Execution<'e>) -> Result<Self> {
        Ok(Self { execution, list: Vec::new(), hold: execution.meter.hold(0)? })
    }

    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        let weight = value.weight();
        self.execution.meter.check(weight)?;
        self.hold.grow(weight);
        self.list.push(value);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Value> {
        let Self { execution, list, hold } = self;
        drop(hold);
        execution.checked(Value::list(list))
    }
}

/// Returns the place of an index in a list, where negative indexes count from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    if index >= 0 {
        return usize::try_from(index).ok();
    }
    length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
}
