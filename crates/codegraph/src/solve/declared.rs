//! The values that declarations alone give: of types, of results, and of variables in files that are not solved.

use super::{Solver, Value};
use crate::facts::{DefinitionKind, Expression, ExpressionId};
use crate::world::{Entry, FileId, GlobalDefinition, GlobalVariable, Search};

/// Maximum number of steps into an expression of another file.
const MAXIMUM_DEPTH: u32 = 12;

impl Solver<'_> {
    /// Returns instances of the type that an expression names.
    // BOUNDED: by `MAXIMUM_DEPTH` steps.
    pub(super) fn instances(&self, file: FileId, type_: ExpressionId, depth: u32) -> Vec<Value> {
        let Some(found) = self.world.file(file) else { return Vec::new() };
        if type_ == 0 || depth > MAXIMUM_DEPTH {
            return Vec::new();
        }
        let expression = found.facts.expression(type_);
        if let Expression::Choice(span) = expression {
            let parts = found.facts.list(span).to_vec();
            return parts.into_iter().flat_map(|part| self.instances(file, part, depth + 1)).collect();
        }
        if let Expression::List(_) = expression {
            return vec![Value::Applied(found.first_expression + type_)];
        }
        let mut values = Vec::new();
        for entry in self.world.entries_of(file, type_, &Search::default(), 0) {
            match entry {
                Entry::Definition(definition) => match self.world.kind(definition) {
                    kind if kind.is_type() => values.push(Value::Instance(self.world.canonical(definition))),
                    DefinitionKind::TypeAlias => values.extend(self.alias_instances(definition, depth)),
                    _ => {}
                },
                Entry::External(path) => {
                    if matches!(expression, Expression::Generic { .. }) {
                        values.push(Value::Applied(found.first_expression + type_));
                    } else {
                        values.push(Value::ExternalInstance(path));
                    }
                }
                _ => {}
            }
        }
        if values.is_empty() && matches!(expression, Expression::Generic { .. }) {
            values.push(Value::Applied(found.first_expression + type_));
        }
        values
    }

    /// Returns instances of the type that another name for a type means.
    fn alias_instances(&self, alias: GlobalDefinition, depth: u32) -> Vec<Value> {
        let types = self.world.alias_targets(alias);
        if !types.is_empty() {
            return types.into_iter().map(Value::Instance).collect();
        }
        let Some((file, found, local)) = self.world.local(alias) else { return Vec::new() };
        let target = found.facts.definitions.get(local as usize).map_or(0, |definition| definition.result);
        // A name for a type outside is followed a few steps: each may have several meanings.
        self.instances(file, target, depth + MAXIMUM_DEPTH / 3)
    }

    /// Returns the values that the declared result of a function has.
    pub(super) fn declared_results(&mut self, definition: GlobalDefinition) -> Vec<Value> {
        if let Some(values) = self.declared.get(&(true, definition)) {
            return values.clone();
        }
        let Some((file, found, local)) = self.world.local(definition) else { return Vec::new() };
        let result = found.facts.definitions.get(local as usize).map_or(0, |definition| definition.result);
        let values = self.instances(file, result, 0);
        self.declared.insert((true, definition), values.clone());
        values
    }

    /// Returns the values of a variable of a file that is not solved.
    pub(super) fn declared_values(&mut self, variable: GlobalVariable) -> Vec<Value> {
        if let Some(values) = self.declared.get(&(false, variable)) {
            return values.clone();
        }
        let values = self.variable_instances(variable, 0);
        self.declared.insert((false, variable), values.clone());
        values
    }

    fn variable_instances(&self, variable: GlobalVariable, depth: u32) -> Vec<Value> {
        let Some((file, found, local)) = self.world.local_variable(variable) else { return Vec::new() };
        let declared = found.facts.variables.get(local as usize).map_or(0, |variable| variable.declared);
        let mut values = self.instances(file, declared, depth);
        if values.is_empty() {
            for expression in self.world.initial.get(&variable).into_iter().flatten() {
                values.extend(self.initial_values(file, *expression, depth + 1));
            }
        }
        values
    }

    /// Returns the values of an expression from declarations alone.
    // BOUNDED: by `MAXIMUM_DEPTH` steps.
    fn initial_values(&self, file: FileId, expression: ExpressionId, depth: u32) -> Vec<Value> {
        let Some(found) = self.world.file(file) else { return Vec::new() };
        if depth > MAXIMUM_DEPTH {
            return Vec::new();
        }
        match found.facts.expression(expression) {
            Expression::Instance(type_) | Expression::New { class: type_, .. } => {
                self.instances(file, type_, depth)
            }
            Expression::Inner(inner) => self.initial_values(file, inner, depth + 1),
            Expression::Definition(definition) => {
                let definition = found.first_definition + definition;
                if self.world.kind(definition).is_function() {
                    vec![Value::Function(definition)]
                } else {
                    Vec::new()
                }
            }
            Expression::Call { callee, .. } => {
                let mut values = Vec::new();
                for entry in self.world.entries_of(file, callee, &Search::default(), 0) {
                    let Entry::Definition(definition) = entry else { continue };
                    if self.world.kind(definition).is_type() {
                        values.push(Value::Instance(definition));
                    } else if let Some((file, found, local)) = self.world.local(definition) {
                        let result =
                            found.facts.definitions.get(local as usize).map_or(0, |found| found.result);
                        values.extend(self.instances(file, result, depth + 1));
                    }
                }
                values
            }
            Expression::Name { .. } | Expression::Path { .. } | Expression::Member { .. } => {
                let mut values = Vec::new();
                for entry in self.world.entries_of(file, expression, &Search::default(), 0) {
                    match entry {
                        Entry::Definition(definition) if self.world.kind(definition).is_function() => {
                            values.push(Value::Function(definition));
                        }
                        Entry::Variable(variable) => {
                            values.extend(self.variable_instances(variable, depth + 1));
                        }
                        _ => {}
                    }
                }
                values
            }
            _ => Vec::new(),
        }
    }

    /// Returns instances of one of the types of a tuple type.
    pub(super) fn tuple_part(&self, applied: u32, at: usize) -> Vec<Value> {
        let Some((file, expression)) = self.world.local_expression(applied) else { return Vec::new() };
        let Some(found) = self.world.file(file) else { return Vec::new() };
        let Expression::List(span) = found.facts.expression(expression) else { return Vec::new() };
        found.facts.list(span).get(at).map(|part| self.instances(file, *part, 1)).unwrap_or_default()
    }

    /// Returns instances of the type arguments of an applied type, the last first.
    pub(super) fn inner_instances(&self, applied: u32) -> Vec<Value> {
        let Some((file, expression)) = self.world.local_expression(applied) else { return Vec::new() };
        let Some(found) = self.world.file(file) else { return Vec::new() };
        let Expression::Generic { arguments, .. } = found.facts.expression(expression) else {
            return Vec::new();
        };
        let arguments = found.facts.list(arguments).to_vec();
        // The values of a map matter, and the success of a result.
        let is_result = self.applied_name(applied).is_some_and(|name| name.ends_with("Result"));
        let chosen = if is_result { arguments.first() } else { arguments.last() };
        chosen.map(|argument| self.instances(file, *argument, 1)).unwrap_or_default()
    }

    /// Returns the name of the type outside of an applied type.
    pub(super) fn applied_name(&self, applied: u32) -> Option<&str> {
        let (file, expression) = self.world.local_expression(applied)?;
        let found = self.world.file(file)?;
        let Expression::Generic { base, .. } = found.facts.expression(expression) else { return None };
        match found.facts.expression(base) {
            Expression::Name { name, .. }
            | Expression::Path { name, .. }
            | Expression::Member { name, .. } => Some(found.facts.name(name)),
            _ => None,
        }
    }
}
