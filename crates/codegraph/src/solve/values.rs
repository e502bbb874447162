//! The values that an expression can have, as far as they decide what a call calls.

use crate::world::{ExternalId, GlobalDefinition, GlobalVariable, ModuleId};

/// Maximum number of values of one expression. What would have more is no longer worth an edge to each.
const MAXIMUM_VALUES: usize = 32;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    /// A function, or a method without its receiver.
    Function(GlobalDefinition),
    /// A method with its receiver.
    Bound(GlobalDefinition),
    /// A type itself.
    Class(GlobalDefinition),
    /// An instance of a type.
    Instance(GlobalDefinition),
    /// The results that a generator gives one by one.
    Generator(GlobalDefinition),
    /// The results of a function for each of several elements, as `map` gives them.
    Results(GlobalDefinition),
    /// A module.
    Module(ModuleId),
    /// Something outside of the project.
    External(ExternalId),
    /// The result of a call of something outside, or an instance of a type outside.
    ExternalInstance(ExternalId),
    /// A list or dictionary, by the number of its expression among all.
    Object(u32),
    /// The remaining arguments of a parameter.
    Rest(GlobalVariable),
    /// An instance of a type outside with type arguments, by the number of its expression among all.
    Applied(u32),
    /// A method of such an instance.
    AppliedMethod(u32),
    /// A text.
    Text,
}

/// A set of values in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values(Vec<Value>);

impl Values {
    /// Adds a value. Returns true if it is new.
    pub(crate) fn insert(&mut self, value: Value) -> bool {
        match self.0.binary_search(&value) {
            Ok(_) => false,
            Err(_) if self.0.len() >= MAXIMUM_VALUES => false,
            Err(at) => {
                self.0.insert(at, value);
                true
            }
        }
    }

    /// Returns the values.
    pub(crate) fn as_slice(&self) -> &[Value] {
        &self.0
    }
}
