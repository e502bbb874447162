//! Calls of things outside of the project whose effect on values is known.

use super::{Solver, Value};
use crate::facts::{Expression, ExpressionId};
use crate::language::Family;
use crate::world::{FileId, GlobalDefinition};

impl Solver<'_> {
    /// Calls something outside of the project.
    pub(super) fn call_outside(
        &mut self,
        file: FileId,
        path: u32,
        arguments: &[ExpressionId],
        results: &mut Vec<Value>,
    ) {
        let name = self.world.external_path(path);
        let values = |solver: &Self, at: usize| {
            arguments.get(at).map(|argument| solver.values(file, *argument).to_vec()).unwrap_or_default()
        };
        match &*name {
            "builtins.iter" | "builtins.list" | "builtins.tuple" | "builtins.sorted"
            | "builtins.reversed" | "builtins.set" | "Object.create" | "Object.freeze" => {
                results.extend(values(self, 0));
            }
            "builtins.next" => {
                for value in values(self, 0) {
                    self.iterated_values(file, 0, value, results);
                }
            }
            "builtins.super" | "builtins.print" | "builtins.len" => {}
            "builtins.getattr" => {
                let key = arguments.get(1).copied().unwrap_or(0);
                let found = self.world.file(file).map(|found| found.facts.clone());
                let key = found.and_then(|facts| self.key(file, &facts, key));
                for (value, key) in values(self, 0).into_iter().zip(key) {
                    self.member_values(file, value, key, results);
                }
            }
            "Object.defineProperty" => {
                let key = arguments.get(1).copied().unwrap_or(0);
                let facts = self.world.file(file).map(|found| found.facts.clone());
                let key = facts.and_then(|facts| self.key(file, &facts, key));
                let members = self.described(&values(self, 2));
                for (value, key) in values(self, 0).into_iter().zip(key) {
                    self.add_to_field(value, key, &members);
                }
            }
            "Object.defineProperties" => {
                for descriptors in values(self, 1) {
                    for key in self.field_names.get(&descriptors).cloned().unwrap_or_default() {
                        let mut found = Vec::new();
                        self.field_values(descriptors, key, &mut found);
                        let members = self.described(&found);
                        for value in values(self, 0) {
                            self.add_to_field(value, key, &members);
                        }
                    }
                }
            }
            "builtins.map" | "builtins.filter" => {
                for at in 0..arguments.len().min(4) {
                    for value in values(self, at) {
                        if let Value::Function(definition) | Value::Bound(definition) = value {
                            self.map_over(file, definition, arguments, results);
                        }
                    }
                }
            }
            _ => results.push(Value::ExternalInstance(path)),
        }
    }

    /// Returns the values that descriptors of properties give.
    fn described(&mut self, descriptors: &[Value]) -> Vec<Value> {
        let mut members = Vec::new();
        for name in ["value", "get"].iter().filter_map(|name| self.world.known_symbol(name)) {
            for descriptor in descriptors {
                self.field_values(*descriptor, name, &mut members);
            }
        }
        members
    }

    /// Calls a function with the elements of the other arguments, as `map` does.
    fn map_over(
        &mut self,
        file: FileId,
        definition: GlobalDefinition,
        arguments: &[ExpressionId],
        results: &mut Vec<Value>,
    ) {
        for (at, argument) in arguments.iter().enumerate().skip(1) {
            let mut elements = Vec::new();
            for value in self.values(file, *argument).to_vec() {
                self.iterated_values(file, *argument, value, &mut elements);
            }
            self.pass_values(definition, at - 1, &elements);
        }
        self.call_is_implied(file, self.present, definition);
        results.push(Value::Results(definition));
    }

    /// Calls the functions that a method of an array or promise calls with its elements.
    pub(super) fn each(
        &mut self,
        file: FileId,
        id: ExpressionId,
        callee: ExpressionId,
        arguments: &[ExpressionId],
        results: &mut Vec<Value>,
    ) {
        let Some(found) = self.world.file(file).filter(|found| found.family == Family::JavaScript) else {
            return;
        };
        let Expression::Member { object, name } = found.facts.expression(callee) else { return };
        if found.facts.name(name) == "bind" {
            let functions = self.values(file, object).to_vec().into_iter();
            results.extend(functions.filter(|value| matches!(value, Value::Function(_) | Value::Bound(_))));
        }
        if !is_callback_method(found.facts.name(name))
            || !self.values(file, callee).iter().all(|value| is_outside(*value))
        {
            return;
        }
        let mut elements = Vec::new();
        for value in self.values(file, object).to_vec() {
            self.iterated_values(file, id, value, &mut elements);
        }
        for argument in arguments.iter().take(2) {
            for value in self.values(file, *argument).to_vec() {
                if let Value::Function(definition) | Value::Bound(definition) = value {
                    self.pass_values(definition, 0, &elements);
                    self.call_is_implied(file, id, definition);
                }
            }
        }
    }
}

fn is_outside(value: Value) -> bool {
    matches!(value, Value::External(_) | Value::AppliedMethod(_))
}

/// Returns true for methods of arrays and promises that call the functions that they are given.
fn is_callback_method(name: &str) -> bool {
    matches!(
        name,
        "forEach"
            | "map"
            | "filter"
            | "reduce"
            | "some"
            | "every"
            | "find"
            | "findIndex"
            | "flatMap"
            | "sort"
            | "then"
            | "catch"
            | "finally"
    )
}
