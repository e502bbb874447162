//! The check of facts that another program has made: every number in them names something that is there, and
//! nothing contains itself. Facts that pass it are as safe to resolve as those of this crate's own extraction.

use crate::facts::{DefinitionKind, Expression, ExpressionId, FileFacts, Flow, Span};

impl FileFacts {
    /// Returns true if every number refers to something within these facts, definitions stand after those around
    /// them, and expressions after their parts.
    pub fn is_consistent(&self) -> bool {
        let expressions = self.expressions.len();
        self.names.first().is_some_and(|name| name.is_empty())
            && self.definitions.first().is_some_and(|file| file.kind == DefinitionKind::Module)
            && matches!(self.expressions.first(), Some(Expression::Unknown))
            && self.lines.len() == expressions
            && self.owners.len() == expressions
            && self.owners.iter().all(|owner| self.has_definition(*owner))
            && (0..self.definitions.len()).all(|at| self.has_sound_definition(at))
            && self.variables.iter().all(|variable| {
                self.has_name(variable.name)
                    && self.has_definition(variable.scope)
                    && self.has_expression(variable.declared)
            })
            && self.imports.iter().all(|import| {
                self.has_definition(import.scope)
                    && self.has_name(import.member)
                    && self.has_name(import.alias)
            })
            && (0..expressions).all(|at| self.has_sound_expression(at))
            && self.flows.iter().all(|flow| match *flow {
                Flow::Assign { target, value } => self.has_expression(target) && self.has_expression(value),
                Flow::Return { function, value } | Flow::Yield { function, value } => {
                    self.has_definition(function) && self.has_expression(value)
                }
            })
    }

    fn has_name(&self, name: u32) -> bool {
        (name as usize) < self.names.len()
    }

    fn has_definition(&self, definition: u32) -> bool {
        (definition as usize) < self.definitions.len()
    }

    fn has_expression(&self, expression: ExpressionId) -> bool {
        (expression as usize) < self.expressions.len()
    }

    fn has_variable(&self, variable: u32) -> bool {
        (variable as usize) < self.variables.len()
    }

    fn has_sound_definition(&self, at: usize) -> bool {
        let Some(definition) = self.definitions.get(at) else { return false };
        let is_placed = if at == 0 { definition.parent == 0 } else { (definition.parent as usize) < at };
        is_placed
            && self.has_name(definition.name)
            && definition.parameters.iter().chain(&definition.receiver).all(|id| self.has_variable(*id))
            && [definition.result, definition.attached_to].iter().all(|id| self.has_expression(*id))
            && definition.bases.iter().all(|base| self.has_expression(base.expression))
            && definition.decorators.iter().all(|id| self.has_expression(*id))
    }

    fn has_sound_expression(&self, at: usize) -> bool {
        let is_before = |id: ExpressionId| (id as usize) < at;
        let are_before = |span: Span| {
            let end = (span.start as usize).saturating_add(span.length as usize);
            self.lists
                .get(span.start as usize..end)
                .is_some_and(|parts| parts.iter().all(|id| is_before(*id)))
        };
        match self.expressions.get(at).copied().unwrap_or(Expression::Unknown) {
            Expression::Unknown | Expression::Number(_) => true,
            Expression::Name { name, scope } => self.has_name(name) && self.has_definition(scope),
            Expression::Variable(variable) => self.has_variable(variable),
            Expression::Definition(definition) => self.has_definition(definition),
            Expression::Member { object, name } | Expression::Path { object, name } => {
                is_before(object) && self.has_name(name)
            }
            Expression::Call { callee: part, arguments }
            | Expression::New { class: part, arguments }
            | Expression::Generic { base: part, arguments } => is_before(part) && are_before(arguments),
            Expression::This { scope } | Expression::Super { scope } => self.has_definition(scope),
            Expression::Keyword { name, value } => self.has_name(name) && is_before(value),
            Expression::Spread(part)
            | Expression::Element(part)
            | Expression::Inner(part)
            | Expression::Instance(part) => is_before(part),
            Expression::List(span) | Expression::Dictionary(span) | Expression::Choice(span) => {
                are_before(span)
            }
            Expression::Index { object, key } => is_before(object) && is_before(key),
            Expression::Text(name) => self.has_name(name),
        }
    }
}
