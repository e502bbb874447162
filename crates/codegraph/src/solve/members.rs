//! Members of values.

use super::{Solver, Value};
use crate::facts::{Expression, ExpressionId};
use crate::language::Family;
use crate::world::{Entry, FileId, GlobalDefinition, Search, Symbol};

/// Maximum number of names in the path of something outside.
const MAXIMUM_PATH: usize = 6;

impl Solver<'_> {
    /// Adds the values of a member to an expression.
    pub(super) fn member(&mut self, file: FileId, id: ExpressionId, object: ExpressionId, name: Symbol) {
        let Some(node) = self.expression_node(file, id) else { return };
        let mut values = Vec::new();
        if let Some(class) = self.super_class(file, object) {
            self.inherited_values(class, name, &mut values);
        } else {
            for value in self.values(file, object).to_vec() {
                self.member_values(file, value, name, &mut values);
            }
        }
        self.add_all(node, &values);
    }

    /// Returns the class whose bases an expression for the receiver as its base means.
    pub(crate) fn super_class(&self, file: FileId, object: ExpressionId) -> Option<GlobalDefinition> {
        let found = self.world.file(file)?;
        let facts = &found.facts;
        match facts.expression(object) {
            Expression::Super { scope } => self.world.class_around(found.first_definition + scope),
            Expression::Call { callee, .. } if found.family == Family::Python => {
                match facts.expression(callee) {
                    Expression::Name { name, scope } if facts.name(name) == "super" => {
                        self.world.class_around(found.first_definition + scope)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Adds a member that a class inherits.
    pub(super) fn inherited_values(&mut self, class: GlobalDefinition, name: Symbol, into: &mut Vec<Value>) {
        let entries = self.world.find_member_in(class, name, 1);
        if entries.is_empty() {
            self.external_member(class, name, into);
        }
        for entry in entries {
            self.instance_entry(Value::Instance(class), entry, into);
        }
    }

    /// Adds a member of a class that comes from a base outside of the project.
    fn external_member(&mut self, class: GlobalDefinition, name: Symbol, into: &mut Vec<Value>) {
        let name = self.world.name(name);
        let path = self.external_base(class).map(|base| format!("{base}.{name}"));
        into.extend(path.map(|path| Value::External(self.world.external(&path))));
    }

    /// Returns the path of the first base of a class that is outside of the project.
    pub(super) fn external_base(&self, class: GlobalDefinition) -> Option<std::sync::Arc<str>> {
        let order = self.world.linearisation(class);
        let bases = order.iter().flat_map(|class| self.world.bases.get(class).into_iter().flatten());
        let external = bases.filter_map(|base| match base {
            Entry::External(path) => Some(*path),
            _ => None,
        });
        external.into_iter().next().map(|base| self.world.external_path(base))
    }

    /// Adds the values of a member of a value.
    pub(super) fn member_values(&mut self, file: FileId, value: Value, name: Symbol, into: &mut Vec<Value>) {
        match value {
            Value::Instance(class) => {
                let before = into.len();
                for base in self.world.linearisation(class) {
                    self.field_values(Value::Instance(base), name, into);
                    self.field_values(Value::Class(base), name, into);
                }
                self.prototype_member(file, class, name, into);
                let entries = self.world.find_member(class, name);
                for entry in &entries {
                    self.instance_entry(value, *entry, into);
                }
                if entries.is_empty() && into.len() == before {
                    self.external_member(class, name, into);
                }
            }
            Value::Class(class) => {
                if self.world.name(name) == "new"
                    && self.world.local(class).is_some_and(|(_, found, _)| found.family == Family::Ruby)
                {
                    into.push(value);
                    return;
                }
                if self.world.name(name) == "prototype"
                    && self.world.local(class).is_some_and(|(_, found, _)| found.family == Family::JavaScript)
                {
                    into.push(value);
                }
                for base in self.world.linearisation(class) {
                    self.field_values(Value::Class(base), name, into);
                }
                for entry in self.world.find_member(class, name) {
                    self.class_entry(class, entry, into);
                }
            }
            Value::Module(module) => {
                for entry in self.world.look_up_in_module(module, name, &Search::default()) {
                    self.entry_values(entry, into);
                }
                self.field_values(value, name, into);
                self.exported_member(file, value, name, into);
            }
            Value::External(path) | Value::ExternalInstance(path) => {
                self.outside_member(file, path, name, into);
            }
            Value::Object(_) | Value::Rest(_) => {
                self.field_values(value, name, into);
            }
            Value::Applied(applied) => self.applied_member(file, applied, name, into),
            Value::Function(definition) | Value::Bound(definition) => {
                self.field_values(value, name, into);
                if self.world.file(file).is_some_and(|found| found.family == Family::JavaScript) {
                    match self.world.name(name) {
                        // `f.call(...)` and `f.apply(...)` are still calls of the function.
                        "call" | "apply" => into.push(value),
                        "prototype" => into.push(Value::Class(definition)),
                        _ => {}
                    }
                }
            }
            Value::Generator(_) | Value::Results(_) | Value::AppliedMethod(_) | Value::Text => {}
        }
    }

    /// Adds a member of what was assigned to the prototype of a function that creates instances.
    fn prototype_member(
        &mut self,
        file: FileId,
        class: GlobalDefinition,
        name: Symbol,
        into: &mut Vec<Value>,
    ) {
        let Some(prototype) = self.known.prototype.filter(|_| self.world.kind(class).is_function()) else {
            return;
        };
        let mut prototypes = Vec::new();
        self.field_values(Value::Function(class), prototype, &mut prototypes);
        for value in prototypes {
            if let Value::Object(_) = value {
                self.member_values(file, value, name, into);
            }
        }
    }

    /// Adds what `module.exports = ...` of a file gives a member.
    fn exported_member(&mut self, file: FileId, module: Value, name: Symbol, into: &mut Vec<Value>) {
        let Some(exports) = self.known.exports.filter(|exports| *exports != name) else { return };
        if self.world.file(file).is_none_or(|found| found.family != Family::JavaScript) {
            return;
        }
        let mut exported = Vec::new();
        self.field_values(module, exports, &mut exported);
        for value in exported {
            if value != module && !matches!(value, Value::Module(_)) {
                self.member_values(file, value, name, into);
            }
        }
    }

    /// Adds a member of something outside of the project.
    fn outside_member(&mut self, file: FileId, path: u32, name: Symbol, into: &mut Vec<Value>) {
        let separator =
            if self.world.file(file).is_some_and(|found| found.family == Family::Rust) { "::" } else { "." };
        let path = self.world.external_path(path);
        if path.matches(separator).count() < MAXIMUM_PATH {
            let path = format!("{path}{separator}{}", self.world.name(name));
            into.push(Value::External(self.world.external(&path)));
        }
    }

    /// Adds a member of an instance of a type outside with type arguments. Smart pointers have the members of
    /// what they point to; the methods of containers lead back to the container.
    fn applied_member(&mut self, file: FileId, applied: u32, name: Symbol, into: &mut Vec<Value>) {
        let before = into.len();
        let is_container = is_container_method(self.world.name(name));
        let points = self.applied_name(applied).is_some_and(is_pointer);
        if points || !is_container {
            for value in self.inner_instances(applied) {
                if let Value::Instance(_) | Value::Applied(_) = value
                    && value != Value::Applied(applied)
                {
                    self.member_of_inner(file, value, name, into);
                }
            }
        }
        if into.len() == before {
            into.push(Value::AppliedMethod(applied));
        }
    }

    fn member_of_inner(&mut self, file: FileId, value: Value, name: Symbol, into: &mut Vec<Value>) {
        let mut at = value;
        // A pointer in a pointer in a container: more layers than that are not looked through.
        for _ in 0..4 {
            match at {
                Value::Instance(class) => {
                    for entry in self.world.find_member(class, name) {
                        self.instance_entry(at, entry, into);
                    }
                    return;
                }
                Value::Applied(applied) => {
                    let Some(inner) = self.inner_instances(applied).into_iter().next() else { return };
                    at = inner;
                }
                _ => return,
            }
        }
        let _ = file;
    }

    /// Adds the values of a member of an instance.
    fn instance_entry(&mut self, receiver: Value, entry: Entry, into: &mut Vec<Value>) {
        let Entry::Definition(definition) = entry else {
            self.entry_values(entry, into);
            return;
        };
        let Some(found) = self.world.definition(definition) else { return };
        if !found.kind.is_function() {
            self.definition_values(definition, into);
            return;
        }
        let (is_static, is_class_method, is_property) =
            (found.traits.is_static, found.traits.is_class_method, found.traits.is_property);
        if is_static {
            into.push(Value::Function(definition));
            return;
        }
        let receiver = match receiver {
            Value::Instance(class) if is_class_method => Value::Class(class),
            receiver => receiver,
        };
        self.pass_receiver(definition, receiver);
        if is_property {
            self.results(definition, into);
            self.call_is_implied(self.current, self.present, definition);
            return;
        }
        let before = into.len();
        self.definition_values(definition, into);
        for value in into.iter_mut().skip(before) {
            if *value == Value::Function(definition) {
                *value = Value::Bound(definition);
            }
        }
    }

    /// Adds the values of a member of a class.
    fn class_entry(&mut self, class: GlobalDefinition, entry: Entry, into: &mut Vec<Value>) {
        let Entry::Definition(definition) = entry else {
            self.entry_values(entry, into);
            return;
        };
        let is_class_method =
            self.world.definition(definition).is_some_and(|definition| definition.traits.is_class_method);
        if is_class_method {
            self.pass_receiver(definition, Value::Class(class));
            into.push(Value::Bound(definition));
        } else {
            self.definition_values(definition, into);
        }
    }

    /// Gives a method its receiver.
    pub(super) fn pass_receiver(&mut self, definition: GlobalDefinition, receiver: Value) {
        let Some((_, found, local)) = self.world.local(definition) else { return };
        let receiver_variable = found.facts.definitions.get(local as usize).and_then(|found| found.receiver);
        if let Some(variable) = receiver_variable
            && let Some(node) = self.variable_node(found.first_variable + variable)
        {
            self.add_all(node, &[receiver]);
        }
    }
}

/// Returns true for types that have the members of what they point to.
fn is_pointer(name: &str) -> bool {
    matches!(
        name,
        "Box"
            | "Rc"
            | "Arc"
            | "Ref"
            | "RefMut"
            | "MutexGuard"
            | "Pin"
            | "Cow"
            | "unique_ptr"
            | "shared_ptr"
            | "weak_ptr"
            | "Optional"
            | "Promise"
            | "Readonly"
            | "Partial"
    )
}

/// Returns true for methods that containers themselves have, in most languages.
fn is_container_method(name: &str) -> bool {
    matches!(
        name,
        "len"
            | "is_empty"
            | "push"
            | "pop"
            | "insert"
            | "remove"
            | "get"
            | "get_mut"
            | "iter"
            | "iter_mut"
            | "into_iter"
            | "clone"
            | "map"
            | "and_then"
            | "unwrap"
            | "unwrap_or"
            | "unwrap_or_default"
            | "unwrap_or_else"
            | "expect"
            | "as_ref"
            | "as_mut"
            | "ok"
            | "err"
            | "ok_or"
            | "ok_or_else"
            | "is_some"
            | "is_none"
            | "is_ok"
            | "is_err"
            | "first"
            | "last"
            | "contains"
            | "contains_key"
            | "entry"
            | "keys"
            | "values"
            | "extend"
            | "clear"
            | "drain"
            | "filter"
            | "find"
            | "any"
            | "all"
            | "collect"
            | "lock"
            | "borrow"
            | "borrow_mut"
            | "read"
            | "write"
            | "take"
            | "replace"
            | "retain"
            | "sort"
            | "sort_by"
            | "sort_by_key"
            | "append"
            | "add"
            | "size"
            | "forEach"
            | "set"
            | "put"
            | "stream"
            | "then"
            | "next"
            | "as_slice"
            | "to_vec"
            | "join"
            | "split"
            | "reverse"
            | "concat"
            | "at"
            | "new"
            | "default"
            | "from"
            | "into"
            | "to_owned"
            | "to_string"
            | "eq"
            | "cmp"
            | "hash"
            | "fmt"
            | "is_some_and"
            | "is_none_or"
            | "map_or"
            | "map_or_else"
            | "map_err"
            | "or_else"
            | "or_default"
            | "or_insert"
            | "or_insert_with"
            | "cloned"
            | "copied"
            | "count"
            | "begin"
            | "end"
            | "Add"
            | "Count"
            | "isPresent"
            | "orElse"
            | "has"
            | "delete"
    )
}
