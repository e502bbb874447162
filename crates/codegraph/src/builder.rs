//! The facts of a file while they are being collected: interned names, the stack of scopes, and the variables
//! that are visible at the present place of the text.

use std::collections::HashSet;

use crate::facts::{
    Definition, DefinitionId, DefinitionKind, Expression, ExpressionId, FileFacts, Flow, Import, Name, Span,
    Traits, Variable, VariableId, VariableKind, Visibility,
};
use crate::fast_hash::FastMap;
use crate::language::Language;

/// Facts under construction.
pub(crate) struct FactsBuilder {
    facts: FileFacts,
    numbers: FastMap<Box<str>, Name>,
    scopes: Vec<Scope>,
    /// Variables that are visible here, the innermost last.
    visible: Vec<(Name, VariableId)>,
    /// Variables of each definition.
    declared: FastMap<(DefinitionId, Name), VariableId>,
    /// Names that a function takes from the file or from the function around it (`global`).
    foreign: HashSet<(DefinitionId, Name)>,
    /// Line of the node that is being left.
    pub(crate) line: u32,
}

/// A definition that is open.
#[derive(Debug, Clone, Copy)]
struct Scope {
    definition: DefinitionId,
    /// Number of visible variables outside.
    visible: usize,
}

/// The beginning of a definition.
pub(crate) struct Opening<'a> {
    /// Kind.
    pub(crate) kind: DefinitionKind,
    /// Name.
    pub(crate) name: &'a str,
    /// First line, from 1.
    pub(crate) first_line: u32,
    /// Last line.
    pub(crate) last_line: u32,
}

impl FactsBuilder {
    /// Creates the facts of a file without content.
    pub(crate) fn new(language: Language, line_count: u32) -> Self {
        let facts = FileFacts {
            language,
            names: Vec::new(),
            definitions: Vec::new(),
            variables: Vec::new(),
            package: Box::default(),
            imports: Vec::new(),
            expressions: Vec::new(),
            lines: Vec::new(),
            owners: Vec::new(),
            lists: Vec::new(),
            flows: Vec::new(),
            line_count,
            parse_errors: 0,
            gap: None,
        };
        let mut builder = Self {
            facts,
            numbers: FastMap::default(),
            scopes: Vec::new(),
            visible: Vec::new(),
            declared: FastMap::default(),
            foreign: HashSet::new(),
            line: 1,
        };
        builder.name("");
        builder.open(&Opening {
            kind: DefinitionKind::Module,
            name: "",
            first_line: 1,
            last_line: line_count.max(1),
        });
        builder.push(Expression::Unknown);
        builder
    }

    /// Returns the number of a name.
    pub(crate) fn name(&mut self, text: &str) -> Name {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = count(self.facts.names.len());
        self.facts.names.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// Returns a name by its number.
    pub(crate) fn text(&self, name: Name) -> &str {
        self.facts.name(name)
    }

    /// Returns the facts so far.
    pub(crate) fn facts(&self) -> &FileFacts {
        &self.facts
    }

    /// Adds an expression.
    pub(crate) fn push(&mut self, expression: Expression) -> ExpressionId {
        let id = count(self.facts.expressions.len());
        self.facts.expressions.push(expression);
        self.facts.lines.push(self.line);
        self.facts.owners.push(self.scope());
        id
    }

    /// Returns an expression.
    pub(crate) fn expression(&self, id: ExpressionId) -> Expression {
        self.facts.expression(id)
    }

    /// Replaces an expression.
    pub(crate) fn replace(&mut self, id: ExpressionId, expression: Expression) {
        if id != 0
            && let Some(place) = self.facts.expressions.get_mut(id as usize)
        {
            *place = expression;
        }
    }

    /// Adds a list of parts.
    pub(crate) fn span(&mut self, parts: &[ExpressionId]) -> Span {
        let start = count(self.facts.lists.len());
        self.facts.lists.extend_from_slice(parts);
        Span { start, length: count(parts.len()) }
    }

    /// Adds a choice between expressions; one or none needs no choice.
    pub(crate) fn choice(&mut self, parts: &[ExpressionId]) -> ExpressionId {
        let known: Vec<ExpressionId> = parts.iter().copied().filter(|part| *part != 0).collect();
        match known.as_slice() {
            [] => 0,
            [only] => *only,
            several => {
                let span = self.span(several);
                self.push(Expression::Choice(span))
            }
        }
    }

    /// Adds a name that stands here: the visible variable, or a name that is looked up later.
    pub(crate) fn use_name(&mut self, text: &str) -> ExpressionId {
        let name = self.name(text);
        let visible = self.visible.iter().rev().find(|(known, _)| *known == name);
        match visible {
            Some((_, variable)) => {
                let variable = *variable;
                self.push(Expression::Variable(variable))
            }
            None => {
                let scope = self.scope();
                self.push(Expression::Name { name, scope })
            }
        }
    }

    /// Returns the innermost open definition.
    pub(crate) fn scope(&self) -> DefinitionId {
        self.scopes.last().map_or(0, |scope| scope.definition)
    }

    /// Returns the innermost open function, or the file.
    pub(crate) fn function(&self) -> DefinitionId {
        let is_function = |scope: &&Scope| {
            self.definition(scope.definition).is_some_and(|definition| definition.kind.is_function())
        };
        self.scopes.iter().rev().find(is_function).map_or(0, |scope| scope.definition)
    }

    /// Returns a definition.
    pub(crate) fn definition(&self, id: DefinitionId) -> Option<&Definition> {
        self.facts.definitions.get(id as usize)
    }

    /// Returns the kind of a definition.
    pub(crate) fn kind(&self, id: DefinitionId) -> DefinitionKind {
        self.definition(id).map_or(DefinitionKind::Module, |definition| definition.kind)
    }

    /// Changes the innermost open definition.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Definition)) {
        let id = self.scope();
        self.change_definition(id, change);
    }

    /// Changes a definition.
    pub(crate) fn change_definition(&mut self, id: DefinitionId, change: impl FnOnce(&mut Definition)) {
        if let Some(definition) = self.facts.definitions.get_mut(id as usize) {
            change(definition);
        }
    }

    /// Opens a definition.
    pub(crate) fn open(&mut self, opening: &Opening<'_>) -> DefinitionId {
        let name = self.name(opening.name);
        let id = count(self.facts.definitions.len());
        self.facts.definitions.push(Definition {
            name,
            kind: opening.kind,
            parent: self.scope(),
            first_line: opening.first_line,
            decorated_from: opening.first_line,
            last_line: opening.last_line,
            visibility: Visibility::Public,
            traits: Traits::default(),
            parameters: Vec::new(),
            receiver: None,
            result: 0,
            bases: Vec::new(),
            decorators: Vec::new(),
            attached_to: 0,
        });
        self.scopes.push(Scope { definition: id, visible: self.visible.len() });
        id
    }

    /// Closes the innermost definition. The file itself stays open.
    pub(crate) fn close(&mut self) -> DefinitionId {
        if self.scopes.len() < 2 {
            return 0;
        }
        let Some(scope) = self.scopes.pop() else { return 0 };
        self.visible.truncate(scope.visible);
        scope.definition
    }

    /// Returns the mark of a block, for [`FactsBuilder::close_block`].
    pub(crate) fn open_block(&self) -> usize {
        self.visible.len()
    }

    /// Hides the variables that became visible since the mark.
    pub(crate) fn close_block(&mut self, mark: usize) {
        self.visible.truncate(mark);
    }

    /// Declares a variable that is visible from here to the end of the block.
    pub(crate) fn declare(&mut self, name: Name, kind: VariableKind, type_: ExpressionId) -> VariableId {
        let scope = self.scope();
        let id = self.add_variable(scope, name, kind, type_);
        self.declared.entry((scope, name)).or_insert(id);
        if matches!(
            kind,
            VariableKind::Local
                | VariableKind::Parameter
                | VariableKind::Rest
                | VariableKind::NamedRest
                | VariableKind::Receiver
                | VariableKind::TypeParameter
        ) {
            self.visible.push((name, id));
        }
        id
    }

    /// Returns the variable of a definition, and declares it if it is new: for languages that declare by
    /// assigning.
    pub(crate) fn assign_in(&mut self, scope: DefinitionId, name: Name, kind: VariableKind) -> VariableId {
        if let Some(id) = self.declared.get(&(scope, name)) {
            return *id;
        }
        let id = self.add_variable(scope, name, kind, 0);
        self.declared.insert((scope, name), id);
        id
    }

    /// Declares a variable of another open definition.
    pub(crate) fn declare_in(
        &mut self,
        scope: DefinitionId,
        name: Name,
        kind: VariableKind,
        type_: ExpressionId,
    ) -> VariableId {
        let id = self.add_variable(scope, name, kind, type_);
        self.declared.entry((scope, name)).or_insert(id);
        id
    }

    /// Changes a variable.
    pub(crate) fn change_variable(&mut self, id: VariableId, change: impl FnOnce(&mut Variable)) {
        if let Some(variable) = self.facts.variables.get_mut(id as usize) {
            change(variable);
        }
    }

    /// Marks a name of a function as one from outside of it.
    pub(crate) fn take_from_outside(&mut self, name: Name) {
        let scope = self.scope();
        self.foreign.insert((scope, name));
    }

    /// Returns true if a name of a function is one from outside of it.
    pub(crate) fn is_from_outside(&self, name: Name) -> bool {
        self.foreign.contains(&(self.scope(), name))
    }

    /// Adds a flow.
    pub(crate) fn flow(&mut self, flow: Flow) {
        self.facts.flows.push(flow);
    }

    /// Adds an assignment, if both sides are known.
    pub(crate) fn assign(&mut self, target: ExpressionId, value: ExpressionId) {
        if target != 0 && value != 0 {
            self.flow(Flow::Assign { target, value });
        }
    }

    /// Adds an import.
    pub(crate) fn import(&mut self, import: Import) {
        self.facts.imports.push(import);
    }

    /// Sets the package of the file.
    pub(crate) fn set_package(&mut self, package: &str) {
        self.facts.package = package.into();
    }

    /// Counts an error of the parse.
    pub(crate) fn count_error(&mut self) {
        self.facts.parse_errors = self.facts.parse_errors.saturating_add(1);
    }

    /// Notes a reason why the facts are incomplete.
    pub(crate) fn set_gap(&mut self, gap: crate::facts::Gap) {
        self.facts.gap = Some(gap);
    }

    /// Finishes the facts: names of variables that were declared after their use become variables.
    pub(crate) fn finish(mut self, classes_hide: bool) -> FileFacts {
        // A name that is a function and a variable of one scope can be either.
        for id in 1..count(self.facts.definitions.len()) {
            let Some(definition) = self.facts.definitions.get(id as usize) else { continue };
            let is_inner = self.kind(definition.parent).is_function();
            if is_inner
                && definition.name != 0
                && let Some(variable) = self.declared.get(&(definition.parent, definition.name)).copied()
            {
                let target = self.push(Expression::Variable(variable));
                let value = self.push(Expression::Definition(id));
                self.assign(target, value);
            }
        }
        for at in 0..self.facts.expressions.len() {
            let Some(Expression::Name { name, scope }) = self.facts.expressions.get(at).copied() else {
                continue;
            };
            if let Some(variable) = self.variable_from(scope, name, classes_hide)
                && let Some(place) = self.facts.expressions.get_mut(at)
            {
                *place = Expression::Variable(variable);
            }
        }
        self.facts
    }

    /// Looks a variable up from a definition outwards. Fields of a class around a function are passed over if
    /// `classes_hide`; global variables stay names, because an import or a definition may have that name too.
    fn variable_from(&self, scope: DefinitionId, name: Name, classes_hide: bool) -> Option<VariableId> {
        let mut at = scope;
        loop {
            if at == 0 {
                return None;
            }
            let definition = self.definition(at)?;
            let is_hidden = at != scope && classes_hide && definition.kind.is_type();
            if !is_hidden
                && !self.foreign.contains(&(at, name))
                && (definition.kind.is_function() || classes_hide)
                && let Some(variable) = self.declared.get(&(at, name))
            {
                return Some(*variable);
            }
            at = definition.parent;
        }
    }

    fn add_variable(
        &mut self,
        scope: DefinitionId,
        name: Name,
        kind: VariableKind,
        declared: ExpressionId,
    ) -> VariableId {
        let id = count(self.facts.variables.len());
        let visibility = Visibility::Public;
        let line = self.line;
        self.facts.variables.push(Variable { name, scope, kind, declared, line, visibility });
        id
    }
}

/// Returns a length as a number of 32 bits. Files are bounded far below that.
pub(crate) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
