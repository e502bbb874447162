//! Calls that a compiler resolved.

use super::Collector;
use crate::facts::{Expression, ExpressionId};
use crate::relation::{Confidence, Via};
use crate::world::GlobalDefinition;

impl Collector<'_, '_> {
    /// Collects one call as a compiler resolved it. Returns false if the compiler says nothing about it, or names
    /// only definitions that are gone.
    pub(super) fn compiled_call(&mut self, id: ExpressionId, callee: ExpressionId) -> bool {
        let Some(imported) = self.world.imported.get(&self.found.path) else { return false };
        let facts = &self.found.facts;
        let mut named = callee;
        if let Expression::Generic { base, .. } = facts.expression(named) {
            named = base;
        }
        let name = match facts.expression(named) {
            Expression::Name { name, .. }
            | Expression::Path { name, .. }
            | Expression::Member { name, .. } => facts.name(name),
            Expression::Variable(variable) => {
                facts.variables.get(variable as usize).map_or("", |variable| facts.name(variable.name))
            }
            Expression::Definition(definition) => {
                facts.definitions.get(definition as usize).map_or("", |found| facts.name(found.name))
            }
            _ => return false,
        };
        // The relationships of the file are resolved anew when the declarations of the name change.
        let _ = self.world.known_symbol(name);
        let targets = imported.targets(facts.line(named), name);
        // Several calls of one name in one line are not told apart: each has the targets of all.
        let found: Vec<GlobalDefinition> = targets.filter_map(|key| self.definition_of(key)).collect();
        for definition in &found {
            let kind = self.world.kind(*definition);
            if kind.is_type() {
                self.instantiate_as(id, *definition, Confidence::Exact, Via::Compiler);
            } else {
                self.link_call(id, *definition, Confidence::Exact, Via::Compiler);
            }
        }
        !found.is_empty()
    }

    /// Returns the definition of a key, if it is there.
    fn definition_of(&self, key: &str) -> Option<GlobalDefinition> {
        let (path, _) = key.split_once('#')?;
        let file = self.world.file_at(path)?;
        let keys = self.keys.get(file as usize)?;
        let at = keys.definitions.iter().position(|known| known.as_deref() == Some(key))?;
        Some(self.world.file(file)?.first_definition + crate::builder::count(at))
    }
}
