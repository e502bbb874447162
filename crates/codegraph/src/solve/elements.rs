//! Elements of values: by a key, or one after the other.

use super::{Solver, Value};
use crate::facts::{Expression, ExpressionId};
use crate::world::{Entry, FileId, Symbol};

impl Solver<'_> {
    /// Adds the elements of a value by a key, or all of them.
    pub(super) fn element_values(
        &mut self,
        file: FileId,
        id: ExpressionId,
        value: Value,
        key: Option<Symbol>,
        into: &mut Vec<Value>,
    ) {
        match value {
            Value::Object(_) | Value::Rest(_) | Value::Module(_) => match key {
                Some(name) => {
                    self.field_values(value, name, into);
                    self.field_values(value, self.known.any, into);
                }
                None => self.all_field_values(value, into),
            },
            Value::Applied(applied) => into.extend(self.inner_instances(applied)),
            Value::Generator(_) => self.iterated_values(file, id, value, into),
            Value::Instance(_) => {
                let Some(method) = self.world.known_symbol("__getitem__") else { return };
                self.call_implicitly(file, id, value, method, into);
            }
            _ => {}
        }
    }

    /// Adds the values that a loop over a value gives.
    pub(super) fn iterated_values(
        &mut self,
        file: FileId,
        id: ExpressionId,
        value: Value,
        into: &mut Vec<Value>,
    ) {
        match value {
            Value::Object(number) => {
                let is_dictionary = self.world.local_expression(number).is_some_and(|(file, expression)| {
                    let facts = self.world.file(file).map(|found| found.facts.expression(expression));
                    matches!(facts, Some(Expression::Dictionary(_)))
                });
                if !is_dictionary {
                    self.all_field_values(value, into);
                }
            }
            Value::Rest(_) => self.all_field_values(value, into),
            Value::Results(definition) => self.results(definition, into),
            Value::Applied(applied) => into.extend(self.inner_instances(applied)),
            Value::Generator(definition) => {
                if let Some(node) = self.yield_node(definition) {
                    self.read(node);
                    into.extend_from_slice(self.set(node));
                }
            }
            Value::Instance(_) => {
                let mut iterators = Vec::new();
                if let Some(iter) = self.known.iter {
                    self.call_implicitly(file, id, value, iter, &mut iterators);
                }
                for iterator in iterators {
                    match (iterator, self.known.next) {
                        (Value::Instance(_), Some(next)) => {
                            self.call_implicitly(file, id, iterator, next, into);
                        }
                        (Value::Generator(_) | Value::Object(_), _) => {
                            self.iterated_values_once(iterator, into);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn iterated_values_once(&mut self, value: Value, into: &mut Vec<Value>) {
        match value {
            Value::Generator(definition) => {
                if let Some(node) = self.yield_node(definition) {
                    self.read(node);
                    into.extend_from_slice(self.set(node));
                }
            }
            value => self.all_field_values(value, into),
        }
    }

    /// Calls a method that the text does not name, and adds its results.
    fn call_implicitly(
        &mut self,
        file: FileId,
        id: ExpressionId,
        receiver: Value,
        method: Symbol,
        into: &mut Vec<Value>,
    ) {
        let Value::Instance(class) = receiver else { return };
        for entry in self.world.find_member(class, method) {
            let Entry::Definition(definition) = entry else { continue };
            if !self.world.kind(definition).is_function() {
                continue;
            }
            self.pass_receiver(definition, receiver);
            self.call_is_implied(file, id, definition);
            self.results(definition, into);
        }
    }
}
