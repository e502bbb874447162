//! The interface of a file: the part of its facts that the resolution of other files can depend on. An edit
//! inside of a function leaves it as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::{
    Definition, DefinitionKind, Expression, ExpressionId, FileFacts, Flow, Import, ImportKind, Span,
};
use crate::fast_hash::short_hash;
use crate::symbols::SymbolKeys;

/// Maximum number of expressions that one declaration contributes.
const MAXIMUM_EXPRESSIONS: usize = 4_000;

/// Short hashes of names, in ascending order, and hashes of what is declared.
type Declarations = Arc<[(u32, [u8; 32])]>;

/// The interface of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Hash of what may change the meaning of any name: bases of types, modules and imports of everything.
    pub(crate) shape: [u8; 32],
    /// Functions, variables and single imports: hashes of their names, in ascending order, and of what is declared.
    declared: Declarations,
    /// Types, likewise.
    types: Declarations,
}

impl Interface {
    /// Creates the interface of a file.
    pub(crate) fn new(facts: &FileFacts, keys: &SymbolKeys) -> Self {
        let places = places(facts, keys);
        let mut writer = Writer { facts, places, written: Vec::new(), declared: BTreeMap::new() };
        let mut types = BTreeMap::new();
        writer.text(facts.language.name());
        writer.text(&facts.package);
        let mut shape = std::mem::take(&mut writer.written);
        for (at, definition) in facts.definitions.iter().enumerate() {
            if writer.places.get(at).is_none_or(|place| *place == Spot::Hidden) {
                continue;
            }
            writer.definition(at, definition, keys);
            let is_shape = !definition.bases.is_empty()
                || matches!(definition.kind, DefinitionKind::Module | DefinitionKind::Namespace);
            if definition.kind.is_function() {
                writer.declare(facts.name(definition.name));
            } else if is_shape {
                shape.append(&mut writer.written);
            } else if definition.kind == DefinitionKind::Extension {
                // The members are declared on their own, and the structure of the types has its type.
                writer.written.clear();
            } else {
                std::mem::swap(&mut writer.declared, &mut types);
                writer.declare(facts.name(definition.name));
                std::mem::swap(&mut writer.declared, &mut types);
            }
        }
        for variable in &facts.variables {
            if variable.kind.is_shared() {
                writer.number(variable.kind as u32);
                writer.place(variable.scope);
                writer.expression(variable.declared);
                writer.declare(facts.name(variable.name));
            }
        }
        for flow in &facts.flows {
            if let Flow::Assign { target, value } = flow
                && let Expression::Variable(variable) = facts.expression(*target)
                && let Some(known) = facts.variables.get(variable as usize)
                && known.kind.is_shared()
            {
                writer.text("=");
                writer.place(known.scope);
                writer.expression(*value);
                writer.declare(facts.name(known.name));
            }
        }
        for import in &facts.imports {
            writer.import(import);
            if matches!(import.kind, ImportKind::All | ImportKind::Include) {
                shape.append(&mut writer.written);
            } else {
                writer.declare(facts.name(import.alias));
            }
        }
        Self {
            shape: *blake3::hash(&shape).as_bytes(),
            declared: writer.declared.into_iter().collect(),
            types: types.into_iter().collect(),
        }
    }

    /// Adds the hashes of the names whose declarations differ from those of another interface. Returns false if
    /// that is not all: if a type has changed, which was known without its name, too.
    pub(crate) fn add_differences(&self, other: &Self, into: &mut Vec<u32>) -> bool {
        differences(&self.declared, &other.declared, |name, _| into.push(name));
        let mut is_all = true;
        differences(&self.types, &other.types, |name, is_changed| {
            into.push(name);
            is_all &= !is_changed;
        });
        is_all
    }
}

/// Calls a function for each name whose declarations differ, with true if both have some.
fn differences(own: &Declarations, other: &Declarations, mut found: impl FnMut(u32, bool)) {
    let (mut own, mut other) = (own.iter().peekable(), other.iter().peekable());
    loop {
        match (own.peek(), other.peek()) {
            (Some(one), Some(two)) if one.0 == two.0 => {
                if one.1 != two.1 {
                    found(one.0, true);
                }
                own.next();
                other.next();
            }
            (Some(one), two) if two.is_none_or(|two| one.0 < two.0) => {
                found(one.0, false);
                own.next();
            }
            (_, Some(two)) => {
                found(two.0, false);
                other.next();
            }
            _ => break,
        }
    }
}

/// The place of a definition in an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Spot {
    /// Key, or of a block that adds to a type the name of the type and a number.
    Key(Arc<str>),
    /// A definition that nothing outside of the file can depend on.
    Hidden,
}

/// The text of an interface, in parts.
struct Writer<'a> {
    facts: &'a FileFacts,
    places: Vec<Spot>,
    /// Declaration that is being written.
    written: Vec<u8>,
    declared: BTreeMap<u32, [u8; 32]>,
}

/// Returns the places of the definitions. Functions inside of functions have none. A type inside of a function has
/// one, because it may implement something from elsewhere.
fn places(facts: &FileFacts, keys: &SymbolKeys) -> Vec<Spot> {
    let mut places: Vec<Spot> = Vec::with_capacity(facts.definitions.len());
    let mut is_inside: Vec<bool> = Vec::with_capacity(facts.definitions.len());
    let mut blocks: BTreeMap<&str, u32> = BTreeMap::new();
    for (at, definition) in facts.definitions.iter().enumerate() {
        let around = facts.definitions.get(definition.parent as usize);
        let inside = at != 0
            && (around.is_some_and(|around| around.kind.is_function())
                || is_inside.get(definition.parent as usize).copied().unwrap_or(false));
        is_inside.push(inside);
        let is_hidden = inside && definition.kind == DefinitionKind::Function;
        if is_hidden || definition.kind == DefinitionKind::Lambda {
            places.push(Spot::Hidden);
        } else if let Some(key) = keys.definitions.get(at).cloned().flatten() {
            places.push(Spot::Key(key));
        } else {
            let name = keys.qualified.get(at).map_or("", |name| name);
            let number = blocks.entry(name).or_insert(0_u32);
            *number += 1;
            places.push(Spot::Key(format!("{name}*{number}").into()));
        }
    }
    places
}

impl Writer<'_> {
    /// Counts what was written to the declarations of a name.
    fn declare(&mut self, name: &str) {
        let known = self.declared.entry(short_hash(name)).or_default();
        self.written.extend_from_slice(known);
        *known = *blake3::hash(&self.written).as_bytes();
        self.written.clear();
    }

    fn definition(&mut self, at: usize, definition: &Definition, keys: &SymbolKeys) {
        self.text(self.facts.name(definition.name));
        self.text(keys.definitions.get(at).and_then(Option::as_deref).unwrap_or(""));
        self.number(definition.kind as u32);
        self.number(definition.visibility as u32);
        self.place(definition.parent);
        let traits = definition.traits;
        let bits = [
            traits.is_test,
            traits.is_static,
            traits.is_class_method,
            traits.is_property,
            traits.is_abstract,
            traits.is_generator,
            traits.is_default_export,
            traits.is_exported,
            definition.receiver.is_some(),
        ];
        self.written.extend(bits.map(u8::from));
        self.expression(definition.result);
        self.expression(definition.attached_to);
        for base in &definition.bases {
            self.number(u32::from(base.is_implemented));
            self.expression(base.expression);
        }
        self.text(";");
    }

    fn import(&mut self, import: &Import) {
        self.text(&import.path);
        self.text(self.facts.name(import.member));
        self.text(self.facts.name(import.alias));
        self.number(import.kind as u32);
        self.number(u32::from(import.level));
        self.place(import.scope);
        self.number(u32::from(import.is_exported));
    }

    /// Writes which definition this is, so that others before it do not change what is written.
    fn place(&mut self, definition: u32) {
        match self.places.get(definition as usize) {
            Some(Spot::Key(key)) => {
                let key = key.clone();
                self.text(&key);
            }
            Some(Spot::Hidden) | None => self.text("?"),
        }
    }

    fn text(&mut self, text: &str) {
        self.written.extend_from_slice(text.as_bytes());
        self.written.push(0);
    }

    fn number(&mut self, number: u32) {
        self.written.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes the beginning of an expression with several parts.
    fn parts(&mut self, kind: &str, span: Span, open: &mut Vec<ExpressionId>) {
        self.text(kind);
        self.number(span.length);
        open.extend_from_slice(self.facts.list(span));
    }

    /// Writes an expression and its parts, without their lines.
    fn expression(&mut self, expression: ExpressionId) {
        let mut open = vec![expression];
        let mut written = 0;
        while let Some(at) = open.pop() {
            written += 1;
            if written > MAXIMUM_EXPRESSIONS {
                break;
            }
            let facts = self.facts;
            match facts.expression(at) {
                Expression::Unknown => self.text("?"),
                Expression::Name { name, scope } => {
                    self.text("name");
                    self.text(facts.name(name));
                    self.place(scope);
                }
                Expression::Variable(variable) => {
                    if let Some(variable) = facts.variables.get(variable as usize) {
                        self.text("variable");
                        self.number(variable.kind as u32);
                        self.text(facts.name(variable.name));
                        self.place(variable.scope);
                    }
                }
                Expression::Definition(definition) => {
                    self.text("definition");
                    self.place(definition);
                }
                Expression::Member { object, name } => {
                    self.text(".");
                    self.text(facts.name(name));
                    open.push(object);
                }
                Expression::Path { object, name } => {
                    self.text("::");
                    self.text(facts.name(name));
                    open.push(object);
                }
                Expression::Call { callee, arguments } => {
                    self.text("()");
                    self.number(arguments.length);
                    open.push(callee);
                    open.extend_from_slice(facts.list(arguments));
                }
                Expression::New { class, arguments } => {
                    self.text("new");
                    self.number(arguments.length);
                    open.push(class);
                    open.extend_from_slice(facts.list(arguments));
                }
                Expression::This { scope } => {
                    self.text("this");
                    self.place(scope);
                }
                Expression::Super { scope } => {
                    self.text("super");
                    self.place(scope);
                }
                Expression::Keyword { name, value } => {
                    self.text("=");
                    self.text(facts.name(name));
                    open.push(value);
                }
                Expression::Spread(inner) => {
                    self.text("...");
                    open.push(inner);
                }
                Expression::Element(inner) => {
                    self.text("element");
                    open.push(inner);
                }
                Expression::Inner(inner) => {
                    self.text("inner");
                    open.push(inner);
                }
                Expression::Instance(inner) => {
                    self.text("instance");
                    open.push(inner);
                }
                Expression::List(span) => self.parts("list", span, &mut open),
                Expression::Dictionary(span) => self.parts("dictionary", span, &mut open),
                Expression::Choice(span) => self.parts("choice", span, &mut open),
                Expression::Index { object, key } => {
                    self.text("[");
                    open.extend([object, key]);
                }
                Expression::Text(name) => {
                    self.text("text");
                    self.text(facts.name(name));
                }
                Expression::Number(number) => {
                    self.text("number");
                    self.number(number);
                }
                Expression::Generic { base, arguments } => {
                    self.text("<>");
                    self.number(arguments.length);
                    open.push(base);
                    open.extend_from_slice(facts.list(arguments));
                }
            }
        }
    }
}
