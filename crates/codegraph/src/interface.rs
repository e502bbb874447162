//! The interface of a file: the part of its facts that the resolution of other files can depend on. An edit
//! inside of a function leaves it as it is.

use crate::facts::{DefinitionKind, Expression, ExpressionId, FileFacts, Flow, Span};
use crate::symbols::SymbolKeys;

/// Maximum number of expressions that one declaration contributes.
const MAXIMUM_EXPRESSIONS: usize = 4_000;

/// Returns a hash of the interface of a file.
pub(crate) fn interface(facts: &FileFacts, keys: &SymbolKeys) -> [u8; 32] {
    let mut writer = Writer { facts, ordinals: ordinals(facts), hasher: blake3::Hasher::new() };
    writer.text(facts.language.name());
    writer.text(&facts.package);
    for (at, definition) in facts.definitions.iter().enumerate() {
        if writer.is_nested(at) || definition.kind == DefinitionKind::Lambda {
            continue;
        }
        writer.text(facts.name(definition.name));
        writer.text(keys.definitions.get(at).and_then(Option::as_deref).unwrap_or(""));
        writer.number(definition.kind as u32);
        writer.number(definition.visibility as u32);
        writer.number(writer.ordinal(definition.parent));
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
        writer.hasher.update(&bits.map(u8::from));
        writer.expression(definition.result);
        writer.expression(definition.attached_to);
        for base in &definition.bases {
            writer.number(u32::from(base.is_implemented));
            writer.expression(base.expression);
        }
        writer.text(";");
    }
    for variable in &facts.variables {
        if variable.kind.is_shared() {
            writer.text(facts.name(variable.name));
            writer.number(variable.kind as u32);
            writer.number(writer.ordinal(variable.scope));
            writer.expression(variable.declared);
        }
    }
    for flow in &facts.flows {
        if let Flow::Assign { target, value } = flow
            && let Expression::Variable(variable) = facts.expression(*target)
            && let Some(known) = facts.variables.get(variable as usize)
            && known.kind.is_shared()
        {
            writer.text(facts.name(known.name));
            writer.number(writer.ordinal(known.scope));
            writer.expression(*value);
        }
    }
    for import in &facts.imports {
        writer.text(&import.path);
        writer.text(facts.name(import.member));
        writer.text(facts.name(import.alias));
        writer.number(import.kind as u32);
        writer.number(u32::from(import.level));
        writer.number(writer.ordinal(import.scope));
        writer.number(u32::from(import.is_exported));
    }
    *writer.hasher.finalize().as_bytes()
}

struct Writer<'a> {
    facts: &'a FileFacts,
    /// Number of each definition among those of the interface; `None` for others.
    ordinals: Vec<Option<u32>>,
    hasher: blake3::Hasher,
}

/// Numbers the definitions that other files can depend on: all but functions inside of functions. A type inside of
/// a function counts, because it may implement something from elsewhere.
fn ordinals(facts: &FileFacts) -> Vec<Option<u32>> {
    let mut ordinals: Vec<Option<u32>> = Vec::with_capacity(facts.definitions.len());
    let mut is_inside: Vec<bool> = Vec::with_capacity(facts.definitions.len());
    let mut next = 0;
    for (at, definition) in facts.definitions.iter().enumerate() {
        let around = facts.definitions.get(definition.parent as usize);
        let inside = at != 0
            && (around.is_some_and(|around| around.kind.is_function())
                || is_inside.get(definition.parent as usize).copied().unwrap_or(false));
        is_inside.push(inside);
        let is_hidden = inside && definition.kind == DefinitionKind::Function;
        if is_hidden || definition.kind == DefinitionKind::Lambda {
            ordinals.push(None);
        } else {
            ordinals.push(Some(next));
            next += 1;
        }
    }
    ordinals
}

impl Writer<'_> {
    fn is_nested(&self, definition: usize) -> bool {
        self.ordinals.get(definition).copied().flatten().is_none()
    }

    fn ordinal(&self, definition: u32) -> u32 {
        self.ordinals.get(definition as usize).copied().flatten().unwrap_or(u32::MAX)
    }

    fn text(&mut self, text: &str) {
        self.hasher.update(text.as_bytes());
        self.hasher.update(&[0]);
    }

    fn number(&mut self, number: u32) {
        self.hasher.update(&number.to_le_bytes());
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
                    self.number(self.ordinal(scope));
                }
                Expression::Variable(variable) => {
                    if let Some(variable) = facts.variables.get(variable as usize) {
                        self.text("variable");
                        self.number(variable.kind as u32);
                        self.text(facts.name(variable.name));
                        self.number(self.ordinal(variable.scope));
                    }
                }
                Expression::Definition(definition) => {
                    self.text("definition");
                    self.number(self.ordinal(definition));
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
                    self.number(self.ordinal(scope));
                }
                Expression::Super { scope } => {
                    self.text("super");
                    self.number(self.ordinal(scope));
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
