//! Stable keys of definitions: the path of the file and the names down to the definition. A key does not change
//! when other parts of the file do.

use std::sync::Arc;

use crate::facts::{DefinitionKind, Expression, FileFacts};
use crate::fast_hash::FastMap;
use crate::language::Family;

/// The keys of the definitions and variables of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SymbolKeys {
    /// Key of each definition; `None` if it is no node of the graph.
    pub(crate) definitions: Vec<Option<Arc<str>>>,
    /// Key of each variable, likewise.
    pub(crate) variables: Vec<Option<Arc<str>>>,
    /// Names down to each definition, joined by dots.
    pub(crate) qualified: Vec<Arc<str>>,
}

impl SymbolKeys {
    /// Creates the keys of a file.
    pub(crate) fn new(path: &str, facts: &FileFacts) -> Self {
        let shows_lambdas = facts.language.family() == Family::Python;
        let mut qualified: Vec<Arc<str>> = Vec::with_capacity(facts.definitions.len());
        let mut definitions = Vec::with_capacity(facts.definitions.len());
        let mut seen: FastMap<String, u32> = FastMap::default();
        let mut lambdas: FastMap<u32, u32> = FastMap::default();
        for (at, definition) in facts.definitions.iter().enumerate() {
            if at == 0 {
                qualified.push("".into());
                definitions.push(Some(format!("{path}#").into()));
                continue;
            }
            let around = qualified.get(definition.parent as usize).cloned().unwrap_or_default();
            if definition.kind == DefinitionKind::Lambda && !shows_lambdas {
                // A number would change with every function without a name before it.
                qualified.push(around);
                definitions.push(None);
                continue;
            }
            let name = match definition.kind {
                DefinitionKind::Extension => type_name(facts, definition.attached_to),
                DefinitionKind::Lambda => {
                    let number = lambdas.entry(definition.parent).or_insert(0);
                    *number += 1;
                    format!("<lambda{number}>")
                }
                _ if definition.attached_to != 0 => {
                    let class = type_name(facts, definition.attached_to);
                    format!("{class}.{}", facts.name(definition.name))
                }
                _ if facts.name(definition.name).is_empty() => "<anonymous>".to_owned(),
                _ => facts.name(definition.name).to_owned(),
            };
            let full = if around.is_empty() { name } else { format!("{around}.{name}") };
            let is_node = definition.kind != DefinitionKind::Extension;
            definitions.push(is_node.then(|| unique(path, &full, &mut seen)));
            qualified.push(full.into());
        }
        let siblings: std::collections::HashSet<(u32, u32)> =
            facts.definitions.iter().map(|definition| (definition.parent, definition.name)).collect();
        let mut variables = Vec::with_capacity(facts.variables.len());
        for variable in &facts.variables {
            let is_node = variable.kind.is_shared()
                && variable.name != 0
                && !siblings.contains(&(variable.scope, variable.name));
            let around = qualified.get(variable.scope as usize).cloned().unwrap_or_default();
            let name = facts.name(variable.name);
            let full = if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") };
            variables.push(is_node.then(|| unique(path, &full, &mut seen)));
        }
        Self { definitions, variables, qualified }
    }
}

/// Returns a key that no other definition of the file has.
fn unique(path: &str, name: &str, seen: &mut FastMap<String, u32>) -> Arc<str> {
    let times = seen.entry(name.to_owned()).or_insert(0);
    *times += 1;
    if *times == 1 { format!("{path}#{name}").into() } else { format!("{path}#{name}~{times}").into() }
}

/// Returns the last name of an expression that names a type.
pub(crate) fn type_name(facts: &FileFacts, expression: u32) -> String {
    let mut at = expression;
    for _ in 0..16 {
        match facts.expression(at) {
            Expression::Name { name, .. }
            | Expression::Member { name, .. }
            | Expression::Path { name, .. } => {
                return facts.name(name).to_owned();
            }
            Expression::Variable(variable) => {
                let name = facts.variables.get(variable as usize).map_or(0, |variable| variable.name);
                return facts.name(name).to_owned();
            }
            Expression::Generic { base, .. } => at = base,
            Expression::Inner(inner) => at = inner,
            Expression::Index { object, .. } => at = object,
            _ => break,
        }
    }
    "<type>".to_owned()
}
