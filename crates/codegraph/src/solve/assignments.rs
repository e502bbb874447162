//! Assignments: values flow to variables, members, elements and patterns of them.

use super::evaluate::number_symbol;
use super::{Solver, Value};
use crate::facts::{Expression, ExpressionId};
use crate::language::Family;
use crate::world::{Entry, FileId, Symbol};

impl Solver<'_> {
    /// Lets values flow to a place.
    pub(super) fn assign(&mut self, file: FileId, target: ExpressionId, value: ExpressionId) {
        let values = self.values(file, value).to_vec();
        if !values.is_empty() && !self.is_declared_otherwise(file, target, value) {
            self.assign_values(file, target, &values, 0);
        }
    }

    /// Returns true if a place has a declared type of the project, and the value is not an instance by that
    /// declaration. Where types are declared, the declaration counts.
    fn is_declared_otherwise(&mut self, file: FileId, target: ExpressionId, value: ExpressionId) -> bool {
        let Some(found) = self.world.file(file).filter(|found| !found.family.is_dynamic()) else {
            return false;
        };
        let Expression::Variable(variable) = found.facts.expression(target) else { return false };
        let declared = found.facts.variables.get(variable as usize).map_or(0, |variable| variable.declared);
        if declared == 0 || matches!(found.facts.expression(value), Expression::Instance(_)) {
            return false;
        }
        let mut instances = Vec::new();
        self.instance_values(file, declared, &mut instances);
        instances.iter().any(|value| matches!(value, Value::Instance(_)))
    }

    /// Lets values flow to a place.
    // BOUNDED: by 16 patterns within each other.
    fn assign_values(&mut self, file: FileId, target: ExpressionId, values: &[Value], depth: u32) {
        let Some(found) = self.world.file(file) else { return };
        let facts = &found.facts;
        if depth > 16 || values.is_empty() {
            return;
        }
        match facts.expression(target) {
            Expression::Variable(variable) => {
                if let Some(node) = self.variable_node(found.first_variable + variable) {
                    self.add_all(node, values);
                }
            }
            Expression::Name { .. } => {
                for entry in self.binding(file, target).iter() {
                    if let Entry::Variable(variable) = *entry
                        && let Some(node) = self.variable_node(variable)
                    {
                        self.add_all(node, values);
                    }
                }
            }
            Expression::Member { object, name } | Expression::Path { object, name } => {
                let name = found.symbol(name);
                for holder in self.values(file, object).to_vec() {
                    self.assign_member(holder, name, values);
                }
                self.assign_exports(file, object, name, values);
            }
            Expression::Index { object, key } => {
                let name = self.key(file, facts, key).unwrap_or(self.known.any);
                for holder in self.values(file, object).to_vec() {
                    if matches!(holder, Value::Object(_)) {
                        self.add_to_field(holder, name, values);
                    }
                }
            }
            Expression::List(span) => {
                let parts = facts.list(span).to_vec();
                let starred =
                    parts.iter().position(|part| matches!(facts.expression(*part), Expression::Spread(_)));
                for (at, part) in parts.iter().enumerate() {
                    let mut elements = Vec::new();
                    let is_after = starred.is_some_and(|starred| at >= starred);
                    let key = if is_after { None } else { Some(number_symbol(at)) };
                    for value in values {
                        match value {
                            Value::Object(_) | Value::Rest(_) => {
                                self.element_values(file, *part, *value, key, &mut elements);
                            }
                            Value::Generator(_) => self.iterated_values(file, *part, *value, &mut elements),
                            Value::Applied(applied) => elements.extend(self.tuple_part(*applied, at)),
                            _ => {}
                        }
                    }
                    self.assign_values(file, *part, &elements, depth + 1);
                }
            }
            Expression::Dictionary(span) => {
                for pair in facts.list(span).to_vec().chunks_exact(2) {
                    let [key, part] = pair else { continue };
                    let mut elements = Vec::new();
                    if let Some(name) = self.key(file, facts, *key) {
                        for value in values {
                            self.member_values(file, *value, name, &mut elements);
                        }
                    }
                    self.assign_values(file, *part, &elements, depth + 1);
                }
            }
            Expression::Spread(inner) => {
                let object = Value::Object(found.first_expression + target);
                self.add_to_field(object, self.known.any, values);
                self.assign_values(file, inner, &[object], depth + 1);
            }
            Expression::Inner(inner) => {
                let mut inside = Vec::new();
                for value in values {
                    match value {
                        Value::Applied(applied) => inside.extend(self.inner_instances(*applied)),
                        value => inside.push(*value),
                    }
                }
                self.assign_values(file, inner, &inside, depth + 1);
            }
            Expression::Choice(span) => {
                for part in facts.list(span).to_vec() {
                    self.assign_values(file, part, values, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Lets values flow to a member of a value.
    fn assign_member(&mut self, holder: Value, name: Symbol, values: &[Value]) {
        match holder {
            Value::Instance(class) | Value::Class(class) => {
                for entry in self.world.find_member(class, name) {
                    if let Entry::Variable(variable) = entry
                        && let Some(node) = self.variable_node(variable)
                    {
                        self.add_all(node, values);
                    }
                }
                self.add_to_field(holder, name, values);
            }
            Value::Module(_) | Value::Object(_) | Value::Function(_) => {
                self.add_to_field(holder, name, values);
            }
            _ => {}
        }
    }

    /// Lets values flow to the exports of a file, for `module.exports` and `exports.name`.
    fn assign_exports(&mut self, file: FileId, object: ExpressionId, name: Symbol, values: &[Value]) {
        let Some(found) = self.world.file(file) else { return };
        if found.family != Family::JavaScript {
            return;
        }
        let facts = &found.facts;
        let module = Value::Module(found.module);
        match facts.expression(object) {
            Expression::Name { name: object, .. }
                if facts.name(object) == "module" && Some(name) == self.known.exports =>
            {
                self.add_to_field(module, name, values);
            }
            Expression::Name { name: object, .. } if facts.name(object) == "exports" => {
                self.add_to_field(module, name, values);
            }
            Expression::Member { object: outer, name: inner } if facts.name(inner) == "exports" => {
                let is_module = matches!(facts.expression(outer), Expression::Name { name, .. } if facts.name(name) == "module");
                if is_module {
                    self.add_to_field(module, name, values);
                }
            }
            _ => {}
        }
    }
}
