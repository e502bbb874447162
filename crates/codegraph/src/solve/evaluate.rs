//! The values of one expression from those of its parts.

use std::rc::Rc;

use super::{Solver, Value};
use crate::facts::{DefinitionKind, Expression, ExpressionId, FileFacts, Flow, VariableKind};
use crate::fast_hash::FastMap;
use crate::language::Family;
use crate::world::{Entry, FileId, GlobalDefinition, Search, Symbol};

impl Solver<'_> {
    /// Adds to the values of an expression the ones that its parts give it now.
    pub(super) fn evaluate(&mut self, file: FileId, id: ExpressionId) {
        let Some(found) = self.world.file(file) else { return };
        let Some(node) = self.expression_node(file, id) else { return };
        let facts = &found.facts;
        match facts.expression(id) {
            Expression::Unknown
            | Expression::Number(_)
            | Expression::Keyword { .. }
            | Expression::Super { .. }
            | Expression::Spread(_) => {}
            Expression::Text(_) => self.add(node, Value::Text),
            Expression::Name { .. } => {
                let mut values = Vec::new();
                self.name_values(file, id, &mut values);
                self.add_all(node, &values);
            }
            Expression::Variable(variable) => {
                if let Some(from) = self.variable_node(found.first_variable + variable) {
                    self.copy(from, node);
                }
            }
            Expression::Definition(definition) => {
                let mut values = Vec::new();
                self.definition_values(found.first_definition + definition, &mut values);
                self.add_all(node, &values);
            }
            Expression::Member { object, name } => self.member(file, id, object, found.symbol(name)),
            Expression::Path { object, name } => {
                if found.family == Family::Rust {
                    let mut values = Vec::new();
                    self.name_values(file, id, &mut values);
                    self.add_all(node, &values);
                    if !values.is_empty() {
                        return;
                    }
                }
                self.member(file, id, object, found.symbol(name));
            }
            Expression::Call { callee, arguments } => {
                let arguments = facts.list(arguments);
                self.call(file, id, callee, arguments);
            }
            Expression::New { class, arguments } => {
                let arguments = facts.list(arguments);
                self.create(file, id, class, arguments);
            }
            Expression::This { scope } => {
                let definition = found.first_definition + scope;
                if let Some(class) = self.world.class_around(definition) {
                    self.add(node, Value::Instance(class));
                }
            }
            Expression::List(span) => {
                let object = Value::Object(found.first_expression + id);
                self.add(node, object);
                self.fill_list(file, facts, object, facts.list(span));
            }
            Expression::Dictionary(span) => {
                let object = Value::Object(found.first_expression + id);
                self.add(node, object);
                self.fill_dictionary(file, facts, object, facts.list(span));
            }
            Expression::Index { object, key } => {
                let mut values = Vec::new();
                let key = self.key(file, facts, key);
                for value in self.values(file, object).to_vec() {
                    self.element_values(file, id, value, key, &mut values);
                }
                self.add_all(node, &values);
            }
            Expression::Element(inner) => {
                let mut values = Vec::new();
                for value in self.values(file, inner).to_vec() {
                    self.iterated_values(file, id, value, &mut values);
                }
                self.add_all(node, &values);
            }
            Expression::Inner(inner) => {
                let mut values = Vec::new();
                for value in self.values(file, inner).to_vec() {
                    match value {
                        Value::Applied(applied) => values.extend(self.inner_instances(applied)),
                        value => values.push(value),
                    }
                }
                self.add_all(node, &values);
            }
            Expression::Choice(span) => {
                for part in facts.list(span) {
                    if let Some(from) = self.expression_node(file, *part) {
                        self.copy(from, node);
                    }
                }
            }
            Expression::Instance(type_) => {
                let mut values = Vec::new();
                self.instance_values(file, type_, &mut values);
                self.add_all(node, &values);
            }
            Expression::Generic { base, .. } => {
                if let Some(from) = self.expression_node(file, base) {
                    self.copy(from, node);
                }
            }
        }
    }

    /// Returns instances of what a type expression names. The bounds of a type parameter flow to it.
    pub(super) fn instance_values(&mut self, file: FileId, type_: ExpressionId, into: &mut Vec<Value>) {
        let Some(found) = self.world.file(file) else { return };
        let number = found.first_expression + type_;
        if let Expression::Variable(_) = found.facts.expression(type_) {
            for value in self.values(file, type_) {
                match value {
                    Value::Class(class) => into.push(Value::Instance(*class)),
                    Value::External(path) => into.push(Value::ExternalInstance(*path)),
                    _ => {}
                }
            }
            return;
        }
        if let Some(known) = self.declared.get(&(true, u32::MAX - number)) {
            into.extend_from_slice(known);
            return;
        }
        let mut values = self.instances(file, type_, 0);
        if let Expression::Definition(definition) = found.facts.expression(type_) {
            values.push(Value::Instance(found.first_definition + definition));
        }
        self.declared.insert((true, u32::MAX - number), values.clone());
        into.extend(values);
    }

    /// Returns the meanings of a name or path.
    pub(crate) fn binding(&mut self, file: FileId, id: ExpressionId) -> Rc<[Entry]> {
        let Some(found) = self.world.file(file) else { return Rc::new([]) };
        let number = found.first_expression + id;
        if let Some(known) = self.bindings.get(&number) {
            return known.clone();
        }
        let mut entries = self.world.entries_of(file, id, &Search::default(), 0);
        if let Expression::Name { name, .. } = found.facts.expression(id) {
            let name = found.facts.name(name);
            if entries.is_empty()
                && let Some(path) = builtin(found.family, name)
            {
                entries.push(Entry::External(self.world.external(&path)));
            }
        }
        let entries: Rc<[Entry]> = entries.into();
        self.bindings.insert(number, entries.clone());
        entries
    }

    /// Adds the values of a name.
    fn name_values(&mut self, file: FileId, id: ExpressionId, into: &mut Vec<Value>) {
        for entry in self.binding(file, id).iter() {
            self.entry_values(*entry, into);
        }
        let implicit = self.world.file(file).is_some_and(|found| found.family.has_implicit_receiver());
        if implicit {
            for value in into.iter_mut() {
                if let Value::Function(definition) = *value
                    && matches!(self.world.kind(definition), DefinitionKind::Method)
                {
                    *value = Value::Bound(definition);
                }
            }
        }
    }

    /// Adds the values of the meaning of a name.
    pub(super) fn entry_values(&mut self, entry: Entry, into: &mut Vec<Value>) {
        match entry {
            Entry::Definition(definition) => self.definition_values(definition, into),
            Entry::Variable(variable) => match self.variable_node(variable) {
                Some(node) => {
                    self.read(node);
                    into.extend_from_slice(self.set(node));
                }
                None => into.extend(self.declared_values(variable)),
            },
            Entry::Module(module) => into.push(Value::Module(module)),
            Entry::External(path) => into.push(Value::External(path)),
            Entry::Import(_) => {}
        }
    }

    /// Adds the values of a definition, after its decorators.
    pub(super) fn definition_values(&mut self, definition: GlobalDefinition, into: &mut Vec<Value>) {
        let kind = self.world.kind(definition);
        let plain = match kind {
            DefinitionKind::TypeAlias => {
                into.extend(self.world.alias_targets(definition).into_iter().map(Value::Class));
                return;
            }
            DefinitionKind::Namespace | DefinitionKind::Module => {
                let Some((file, _, local)) = self.world.local(definition) else { return };
                into.extend(self.world.module_around(file, local).map(Value::Module));
                return;
            }
            DefinitionKind::Extension => return,
            kind if kind.is_type() => Value::Class(self.world.canonical(definition)),
            _ => Value::Function(definition),
        };
        let Some((file, found, local)) = self.world.local(definition) else { return };
        let decorators = found.facts.definitions.get(local as usize).map(|found| found.decorators.as_slice());
        if decorators.is_none_or(<[_]>::is_empty) || found.family != Family::Python || !self.has(file) {
            into.push(plain);
            return;
        }
        let mut present = vec![plain];
        for decorator in decorators.unwrap_or_default().iter().rev() {
            let mut next = Vec::new();
            if let Some(node) = self.expression_node(file, *decorator) {
                self.read(node);
            }
            for value in self.values(file, *decorator).to_vec() {
                let (Value::Function(callee) | Value::Bound(callee)) = value else { continue };
                self.pass_values(callee, 0, &present);
                if let Some(node) = self.return_node(callee) {
                    self.read(node);
                    next.extend_from_slice(self.set(node));
                }
            }
            // A decorator from outside, or one that is not understood, is taken to give back what it got.
            let is_known = self
                .values(file, *decorator)
                .iter()
                .any(|value| matches!(value, Value::Function(_) | Value::Bound(_)));
            if is_known {
                present = next;
            }
        }
        into.extend(present);
    }

    /// Puts the elements of a list into its members.
    fn fill_list(&mut self, file: FileId, facts: &FileFacts, object: Value, parts: &[ExpressionId]) {
        for (at, part) in parts.iter().enumerate() {
            if let Expression::Spread(inner) = facts.expression(*part) {
                let mut values = Vec::new();
                for value in self.values(file, inner).to_vec() {
                    self.iterated_values(file, *part, value, &mut values);
                }
                self.add_to_field(object, self.known.any, &values);
                continue;
            }
            let values = self.values(file, *part).to_vec();
            let name = number_symbol(at);
            self.add_to_field(object, name, &values);
        }
    }

    /// Puts the values of a dictionary into its members.
    fn fill_dictionary(&mut self, file: FileId, facts: &FileFacts, object: Value, parts: &[ExpressionId]) {
        for pair in parts.chunks_exact(2) {
            let [key, value] = pair else { continue };
            if let Expression::Spread(inner) = facts.expression(*value) {
                for source in self.values(file, inner).to_vec() {
                    for name in self.field_names.get(&source).cloned().unwrap_or_default() {
                        let mut values = Vec::new();
                        self.field_values(source, name, &mut values);
                        self.add_to_field(object, name, &values);
                    }
                }
                continue;
            }
            let name = self.key(file, facts, *key).unwrap_or(self.known.any);
            let values = self.values(file, *value).to_vec();
            self.add_to_field(object, name, &values);
        }
    }

    /// Returns the only value of a variable, if nothing else is assigned to it.
    fn constant(&mut self, file: FileId, facts: &FileFacts, variable: u32) -> Option<ExpressionId> {
        let known = self.constants.entry(file).or_insert_with(|| {
            let mut constants: FastMap<u32, Option<ExpressionId>> = FastMap::default();
            for flow in &facts.flows {
                if let Flow::Assign { target, value } = flow
                    && let Expression::Variable(variable) = facts.expression(*target)
                {
                    constants.entry(variable).and_modify(|known| *known = None).or_insert(Some(*value));
                }
            }
            constants
        });
        let kind = facts.variables.get(variable as usize)?.kind;
        let is_plain = matches!(kind, VariableKind::Global | VariableKind::Local | VariableKind::Constant);
        known.get(&variable).copied().flatten().filter(|_| is_plain)
    }

    /// Returns the symbol of a key, if it is a constant.
    pub(super) fn key(&mut self, file: FileId, facts: &FileFacts, key: ExpressionId) -> Option<Symbol> {
        match facts.expression(key) {
            Expression::Text(name) => self.world.file(file).map(|found| found.symbol(name)),
            Expression::Number(number) => Some(number_symbol(number as usize)),
            Expression::Variable(variable) => {
                let value = self.constant(file, facts, variable)?;
                match facts.expression(value) {
                    Expression::Text(name) => self.world.file(file).map(|found| found.symbol(name)),
                    Expression::Number(number) => Some(number_symbol(number as usize)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Returns the symbol of an index. Symbols of names begin at the other end of the numbers.
pub(super) fn number_symbol(index: usize) -> Symbol {
    let index = u32::try_from(index).unwrap_or(u32::MAX).min(1 << 20);
    u32::MAX - 1 - index
}

/// Returns the path of a name that a language always knows.
fn builtin(family: Family, name: &str) -> Option<String> {
    match family {
        Family::Python => {
            let is_exception = name.chars().next().is_some_and(char::is_uppercase)
                && (["Error", "Exception", "Warning", "Exit", "Interrupt"]
                    .iter()
                    .any(|end| name.ends_with(end))
                    || matches!(name, "StopIteration" | "StopAsyncIteration"));
            (is_exception || PYTHON_BUILTINS.contains(&name)).then(|| format!("builtins.{name}"))
        }
        Family::Bash => Some(name.to_owned()),
        Family::JavaScript => SCRIPT_GLOBALS.contains(&name).then(|| name.to_owned()),
        Family::Go => GO_BUILTINS.contains(&name).then(|| format!("builtin.{name}")),
        Family::Java => {
            let is_type = name.chars().next().is_some_and(char::is_uppercase) && JAVA_LANG.contains(&name);
            is_type.then(|| format!("java.lang.{name}"))
        }
        _ => None,
    }
}

const PYTHON_BUILTINS: [&str; 71] = [
    "abs",
    "aiter",
    "all",
    "anext",
    "any",
    "ascii",
    "bin",
    "bool",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "help",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "memoryview",
    "min",
    "next",
    "object",
    "oct",
    "open",
    "ord",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "vars",
    "zip",
    "__import__",
];

const SCRIPT_GLOBALS: [&str; 30] = [
    "console",
    "Promise",
    "Object",
    "Array",
    "Map",
    "Set",
    "JSON",
    "Math",
    "Number",
    "String",
    "Boolean",
    "Symbol",
    "Date",
    "RegExp",
    "Error",
    "TypeError",
    "RangeError",
    "Proxy",
    "Reflect",
    "setTimeout",
    "setInterval",
    "clearTimeout",
    "clearInterval",
    "parseInt",
    "parseFloat",
    "fetch",
    "process",
    "Buffer",
    "URL",
    "queueMicrotask",
];

const GO_BUILTINS: [&str; 16] = [
    "append", "cap", "clear", "close", "complex", "copy", "delete", "imag", "len", "make", "max", "min",
    "new", "panic", "print", "recover",
];

const JAVA_LANG: [&str; 24] = [
    "System",
    "String",
    "Math",
    "Integer",
    "Long",
    "Double",
    "Boolean",
    "Object",
    "Thread",
    "Runtime",
    "StringBuilder",
    "Exception",
    "RuntimeException",
    "IllegalArgumentException",
    "IllegalStateException",
    "Class",
    "Character",
    "Float",
    "Short",
    "Byte",
    "Iterable",
    "Runnable",
    "Enum",
    "Throwable",
];
