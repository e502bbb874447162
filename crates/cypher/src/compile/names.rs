//! Names of the graph: labels, relationship types and property keys, with suggestions for unknown ones.

use std::sync::Arc;

use super::Compiler;
use crate::ast::{Labels, Name};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::graph::{KeyId, LabelId, TypeId, number_of};

/// Number of names that a message suggests.
const SUGGESTIONS: usize = 3;

impl Compiler<'_> {
    /// Returns the numbers of labels. An alternative that does not occur is left out.
    pub(super) fn labels(&self, labels: &Labels, at: usize) -> Result<Vec<Vec<LabelId>>> {
        let known = self.settings.graph.labels();
        let mut test = Vec::with_capacity(labels.len());
        for alternatives in labels {
            let mut numbers = Vec::new();
            for name in alternatives {
                match number_of(known, name) {
                    Some(number) => numbers.push(LabelId(number)),
                    None => {
                        self.unknown(Detail::UnknownLabel, "label", name, known, at)?;
                    }
                }
            }
            test.push(numbers);
        }
        Ok(test)
    }

    /// Returns the numbers of relationship types, or `None` for any type.
    pub(super) fn types(&self, names: &[Name], at: usize) -> Result<Option<Vec<TypeId>>> {
        if names.is_empty() {
            return Ok(None);
        }
        let known = self.settings.graph.relationship_types();
        let mut types = Vec::new();
        for name in names {
            match number_of(known, name) {
                Some(number) => types.push(TypeId(number)),
                None => {
                    self.unknown(Detail::UnknownRelationshipType, "relationship type", name, known, at)?;
                }
            }
        }
        types.sort_unstable();
        types.dedup();
        Ok(Some(types))
    }

    /// Returns the number of a property key of nodes and relationships.
    pub(super) fn key(&self, name: &Name, at: usize) -> Result<Option<KeyId>> {
        let known = self.settings.graph.property_keys();
        let number = number_of(known, name).map(KeyId);
        if number.is_none() {
            self.unknown(Detail::UnknownPropertyKey, "property key", name, known, at)?;
        }
        Ok(number)
    }

    fn unknown(&self, detail: Detail, kind: &str, name: &str, known: &[Arc<str>], at: usize) -> Result<()> {
        if !self.settings.strict_names {
            return Ok(());
        }
        let nearest = nearest(name, known.iter().map(|known| &**known));
        let hint = if nearest.is_empty() {
            "it has none at all".to_owned()
        } else {
            let quoted: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
            format!("the nearest are {}", quoted.join(", "))
        };
        let message = format!("The graph has no {kind} `{name}`; {hint}.");
        Err(Error::compile(ErrorClass::SemanticError, detail, at, message))
    }
}

/// Returns the names that are nearest to a name, the nearest first.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let mut ranked: Vec<(usize, &str)> =
        known.map(|known| (distance(&name, &known.to_lowercase()), known)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Returns the number of characters to insert, delete or replace between two names, of the first 64 each.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (above, from) in one.chars().take(64).enumerate() {
        let mut diagonal = above;
        let mut left = above + 1;
        let mut next = vec![left];
        for (to, up) in two.iter().zip(row.iter().skip(1)) {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = *up;
            left = replaced.min(left + 1).min(up + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_stands_first() {
        let known = ["Function", "File", "Class", "Method"];
        assert_eq!(nearest("function", known.into_iter())[0], "Function");
        assert_eq!(nearest("Clas", known.into_iter())[0], "Class");
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("abc", "")), (3, 3, 3));
    }
}
