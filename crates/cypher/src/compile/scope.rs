//! The variables that a clause can see.

use super::types::Type;
use crate::ast::Name;
use crate::program::Slot;

/// The variables in scope, in the order of their definition.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) variables: Vec<Variable>,
}

/// A variable with its place and its type.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) name: Name,
    pub(super) slot: Slot,
    pub(super) kind: Type,
}

impl Scope {
    /// Returns a variable; a later definition hides an earlier one.
    pub(super) fn find(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| *variable.name == *name)
    }

    pub(super) fn define(&mut self, name: &Name, slot: Slot, kind: Type) {
        self.variables.push(Variable { name: name.clone(), slot, kind });
    }

    /// Returns the visible variables in the order of their names.
    pub(super) fn visible(&self) -> Vec<Variable> {
        let mut variables: Vec<Variable> = Vec::new();
        for variable in self.variables.iter().rev() {
            if !variables.iter().any(|known| known.name == variable.name) {
                variables.push(variable.clone());
            }
        }
        variables.sort_by(|one, two| one.name.cmp(&two.name));
        variables
    }
}
