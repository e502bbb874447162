//! Calls: arguments flow to parameters, results to the call.

use std::sync::Arc;

use super::evaluate::number_symbol;
use super::{Solver, Value};
use crate::facts::{Expression, ExpressionId, VariableKind};
use crate::language::Family;
use crate::world::{Entry, FileId, GlobalDefinition, Symbol};

impl Solver<'_> {
    /// Adds the results of a call to it, and lets its arguments flow.
    pub(super) fn call(
        &mut self,
        file: FileId,
        id: ExpressionId,
        callee: ExpressionId,
        arguments: &[ExpressionId],
    ) {
        let Some(node) = self.expression_node(file, id) else { return };
        let mut results = Vec::new();
        let callees = self.callees(file, callee);
        for value in &callees {
            match *value {
                Value::Function(definition) => {
                    self.pass(file, definition, arguments, true);
                    self.results(definition, &mut results);
                }
                Value::Bound(definition) => {
                    self.pass(file, definition, arguments, false);
                    self.results(definition, &mut results);
                }
                Value::Class(class) => self.construct(file, class, arguments, &mut results),
                Value::Instance(class) => self.call_instance(file, id, class, arguments, &mut results),
                Value::External(path) => self.call_outside(file, path, arguments, &mut results),
                Value::AppliedMethod(applied) => {
                    results.push(Value::Applied(applied));
                    let inner = self.inner_instances(applied);
                    for argument in arguments {
                        for value in self.values(file, *argument).to_vec() {
                            if let Value::Function(lambda) = value {
                                self.pass_values(lambda, 0, &inner);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        self.required(file, callee, arguments, &mut results);
        self.each(file, id, callee, arguments, &mut results);
        self.add_all(node, &results);
    }

    /// Returns the values that a call calls.
    pub(crate) fn callees(&mut self, file: FileId, callee: ExpressionId) -> Vec<Value> {
        if let Some(found) = self.world.file(file)
            && let Expression::Super { scope } = found.facts.expression(callee)
        {
            let class = self.world.class_around(found.first_definition + scope);
            let mut values = Vec::new();
            let mut names = self.constructor_names(found.family);
            if found.family == Family::Ruby {
                // `super` calls the method of the same name.
                let around = found.facts.definitions.get(scope as usize);
                names = around.map(|around| found.symbol(around.name)).into_iter().collect();
            }
            for name in names {
                if let Some(class) = class
                    && values.is_empty()
                {
                    self.inherited_values(class, name, &mut values);
                }
            }
            if values.is_empty()
                && found.family == Family::Java
                && let Some(base) = class.and_then(|class| self.base_of(class))
            {
                values.extend(self.constructors(base).into_iter().map(Value::Bound));
            }
            values.retain(|value| !matches!(value, Value::External(_)));
            return values;
        }
        self.values(file, callee).to_vec()
    }

    fn base_of(&self, class: GlobalDefinition) -> Option<GlobalDefinition> {
        self.world.bases.get(&class)?.iter().find_map(|base| match base {
            Entry::Definition(base) if !base_is_interface(self, *base) => Some(*base),
            _ => None,
        })
    }

    /// Returns the names that constructors of a family have.
    fn constructor_names(&self, family: Family) -> Vec<Symbol> {
        let name = match family {
            Family::Python => self.known.init,
            Family::JavaScript => self.known.constructor,
            Family::Ruby => self.known.initialize,
            Family::Php => self.known.php_construct,
            _ => None,
        };
        name.into_iter().collect()
    }

    /// Returns the constructors of a class.
    pub(crate) fn constructors(&self, class: GlobalDefinition) -> Vec<GlobalDefinition> {
        let Some((_, found, local)) = self.world.local(class) else { return Vec::new() };
        let mut names = self.constructor_names(found.family);
        if names.is_empty() {
            // Elsewhere a constructor has the name of its class.
            names.extend(found.facts.definitions.get(local as usize).map(|class| found.symbol(class.name)));
        }
        let entries = names.into_iter().flat_map(|name| self.world.find_member(class, name));
        let definitions = entries.filter_map(|entry| match entry {
            Entry::Definition(definition) if self.world.kind(definition).is_function() => Some(definition),
            _ => None,
        });
        definitions.collect()
    }

    /// Returns the constructor that a class inherits from outside of the project.
    pub(crate) fn inherited_constructor(&self, class: GlobalDefinition) -> Option<Arc<str>> {
        let family = self.world.local(class).map(|(_, found, _)| found.family)?;
        let name = match family {
            Family::Python => "__init__",
            Family::JavaScript => "constructor",
            Family::Ruby => "initialize",
            Family::Php => "__construct",
            _ => return None,
        };
        let base = self.external_base(class)?;
        (!base.starts_with("builtins.")).then(|| format!("{base}.{name}").into())
    }

    /// Creates an instance of a class.
    fn construct(
        &mut self,
        file: FileId,
        class: GlobalDefinition,
        arguments: &[ExpressionId],
        results: &mut Vec<Value>,
    ) {
        let instance = Value::Instance(class);
        results.push(instance);
        for constructor in self.constructors(class) {
            self.pass_receiver(constructor, instance);
            self.pass(file, constructor, arguments, false);
        }
    }

    /// Calls an instance.
    fn call_instance(
        &mut self,
        file: FileId,
        id: ExpressionId,
        class: GlobalDefinition,
        arguments: &[ExpressionId],
        results: &mut Vec<Value>,
    ) {
        let family = self.world.local(class).map(|(_, found, _)| found.family);
        if family == Some(Family::Rust) {
            results.push(Value::Instance(class));
            return;
        }
        let Some(call) = self.known.call else { return };
        for entry in self.world.find_member(class, call) {
            let Entry::Definition(definition) = entry else { continue };
            self.pass_receiver(definition, Value::Instance(class));
            self.pass(file, definition, arguments, false);
            self.call_is_implied(file, id, definition);
            self.results(definition, results);
        }
    }

    /// Adds what `require("...")` of JavaScript gives.
    fn required(
        &mut self,
        file: FileId,
        callee: ExpressionId,
        arguments: &[ExpressionId],
        results: &mut Vec<Value>,
    ) {
        let Some(found) = self.world.file(file) else { return };
        let facts = &found.facts;
        let is_require = found.family == Family::JavaScript
            && matches!(facts.expression(callee), Expression::Name { name, .. } if matches!(facts.name(name), "require" | "import"));
        let Some(argument) = arguments.first().filter(|_| is_require) else { return };
        let Expression::Text(path) = facts.expression(*argument) else { return };
        let path = facts.name(path);
        let Some(target) = self.world.script_file(&found.path, path) else {
            results.push(Value::External(self.world.external(path)));
            return;
        };
        let Some(module) = self.world.file(target).map(|target| target.module) else { return };
        let module = Value::Module(module);
        results.push(module);
        if let Some(exports) = self.known.exports {
            self.field_values(module, exports, results);
        }
    }

    /// Creates an instance by the name of its class.
    pub(super) fn create(
        &mut self,
        file: FileId,
        id: ExpressionId,
        class: ExpressionId,
        arguments: &[ExpressionId],
    ) {
        let Some(node) = self.expression_node(file, id) else { return };
        let mut results = Vec::new();
        for value in self.values(file, class).to_vec() {
            match value {
                Value::Class(class) => self.construct(file, class, arguments, &mut results),
                Value::External(path) => results.push(Value::ExternalInstance(path)),
                Value::Function(definition) => {
                    self.pass(file, definition, arguments, true);
                    results.push(Value::Instance(definition));
                }
                _ => {}
            }
        }
        if results.is_empty() {
            let mut values = self.instances(file, class, 0);
            results.append(&mut values);
        }
        self.add_all(node, &results);
    }

    /// Adds the results of a function.
    pub(super) fn results(&mut self, definition: GlobalDefinition, into: &mut Vec<Value>) {
        let Some((_, found, local)) = self.world.local(definition) else { return };
        let is_generator = found
            .facts
            .definitions
            .get(local as usize)
            .is_some_and(|definition| definition.traits.is_generator);
        if is_generator {
            into.push(Value::Generator(definition));
            return;
        }
        if let Some(node) = self.return_node(definition) {
            self.read(node);
            into.extend_from_slice(self.set(node));
        }
        into.extend(self.declared_results(definition));
    }

    /// Lets the arguments of a call flow to the parameters of a function.
    fn pass(
        &mut self,
        file: FileId,
        definition: GlobalDefinition,
        arguments: &[ExpressionId],
        is_unbound: bool,
    ) {
        let Some((owner, found, local)) = self.world.local(definition) else { return };
        if !self.has(owner) {
            return;
        }
        let Some(facts) = self.world.file(file).map(|found| &found.facts) else { return };
        let takes_receiver = is_unbound
            && found
                .facts
                .definitions
                .get(local as usize)
                .is_some_and(|definition| definition.receiver.is_some());
        let mut position = 0;
        for argument in arguments {
            match facts.expression(*argument) {
                Expression::Keyword { name, value } => {
                    let name = facts.name(name);
                    let values = self.values(file, value).to_vec();
                    self.pass_by_name(definition, name, &values);
                }
                Expression::Spread(inner) => {
                    for value in self.values(file, inner).to_vec() {
                        self.pass_elements(definition, value, position);
                    }
                }
                _ => {
                    let values = self.values(file, *argument).to_vec();
                    if takes_receiver && position == 0 {
                        for value in &values {
                            self.pass_receiver(definition, *value);
                        }
                    } else {
                        self.pass_values(definition, position - usize::from(takes_receiver), &values);
                    }
                    position += 1;
                }
            }
        }
    }

    /// Lets the elements of a value flow to parameters: by their names from a dictionary, else by their places.
    fn pass_elements(&mut self, definition: GlobalDefinition, value: Value, position: usize) {
        for name in self.field_names.get(&value).cloned().unwrap_or_default() {
            let mut values = Vec::new();
            self.field_values(value, name, &mut values);
            let index = (0..16).find(|index| number_symbol(*index) == name);
            match index {
                Some(index) => self.pass_values(definition, position + index, &values),
                None if name == self.known.any => {
                    for index in 0..8 {
                        self.pass_values(definition, position + index, &values);
                    }
                }
                None => {
                    let text = self.world.name(name).to_owned();
                    self.pass_by_name(definition, &text, &values);
                }
            }
        }
    }

    /// Lets values flow to the parameter at a place.
    pub(super) fn pass_values(&mut self, definition: GlobalDefinition, position: usize, values: &[Value]) {
        let Some((_, found, local)) = self.world.local(definition) else { return };
        let Some(parameters) = found.facts.definitions.get(local as usize).map(|found| &found.parameters)
        else {
            return;
        };
        let kind = |parameter: &u32| found.facts.variables.get(*parameter as usize).map(|found| found.kind);
        let rest = parameters.iter().position(|parameter| kind(parameter) == Some(VariableKind::Rest));
        let chosen = match rest {
            Some(rest) if position >= rest => parameters.get(rest),
            _ => parameters.get(position),
        };
        let Some(parameter) = chosen.copied() else { return };
        let variable = found.first_variable + parameter;
        let Some(node) = self.variable_node(variable) else { return };
        if rest.is_some_and(|rest| position >= rest) {
            let place = number_symbol(position - rest.unwrap_or(0));
            self.add_to_field(Value::Rest(variable), place, values);
            self.add_all(node, &[Value::Rest(variable)]);
        } else if kind(&parameter) != Some(VariableKind::NamedRest) {
            self.add_all(node, values);
        }
    }

    /// Lets values flow to the parameter with a name.
    fn pass_by_name(&mut self, definition: GlobalDefinition, name: &str, values: &[Value]) {
        let Some((_, found, local)) = self.world.local(definition) else { return };
        let Some(parameters) = found.facts.definitions.get(local as usize).map(|found| &found.parameters)
        else {
            return;
        };
        let mut named_rest = None;
        for parameter in parameters {
            let Some(known) = found.facts.variables.get(*parameter as usize) else { continue };
            if known.kind == VariableKind::NamedRest {
                named_rest = Some(*parameter);
            } else if found.facts.name(known.name) == name {
                if let Some(node) = self.variable_node(found.first_variable + parameter) {
                    self.add_all(node, values);
                }
                return;
            }
        }
        if let Some(parameter) = named_rest
            && let Some(name) = self.world.known_symbol(name)
        {
            let variable = found.first_variable + parameter;
            self.add_to_field(Value::Rest(variable), name, values);
            if let Some(node) = self.variable_node(variable) {
                self.add_all(node, &[Value::Rest(variable)]);
            }
        }
    }
}

fn base_is_interface(solver: &Solver<'_>, base: GlobalDefinition) -> bool {
    solver.world.kind(base).is_interface()
}
