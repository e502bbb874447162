//! The nodes of the graph, and the relationships of what contains what.

use std::sync::Arc;

use cypher::{BuildError, NodeId, Value};

use super::Filler;
use crate::facts::{Definition, DefinitionKind, Gap, VariableKind, Visibility};
use crate::index::IndexedFile;
use crate::project::{folder_of, name_of};
use crate::relation::Relation;

impl Filler<'_> {
    /// Adds all nodes.
    pub(super) fn nodes(&mut self, name: &str) -> Result<(), BuildError> {
        let repository =
            self.builder.add_node(&["Repo"], &[("id", Value::from("repo")), ("name", Value::from(name))])?;
        self.folders.insert(String::new(), repository);
        let index = self.index;
        for (path, file) in index.files() {
            let folder = self.folder(folder_of(path))?;
            let node = self.file(path, file)?;
            self.contain(Relation::Contains, folder, node)?;
            self.definitions(path, file, node)?;
        }
        Ok(())
    }

    fn contain(&mut self, relation: Relation, outer: NodeId, inner: NodeId) -> Result<(), BuildError> {
        self.builder.add_relationship(outer, relation.name(), inner, &[])
    }

    /// Returns the node of a folder, with all those around it.
    fn folder(&mut self, path: &str) -> Result<NodeId, BuildError> {
        let mut missing = Vec::new();
        let mut at = path;
        let mut node = loop {
            if let Some(node) = self.folders.get(at) {
                break *node;
            }
            missing.push(at);
            at = folder_of(at);
        };
        for folder in missing.into_iter().rev() {
            let properties = [
                ("id", Value::from(format!("{folder}/").as_str())),
                ("name", Value::from(name_of(folder))),
                ("path", Value::from(folder)),
            ];
            let inner = self.builder.add_node(&["Directory"], &properties)?;
            self.contain(Relation::Contains, node, inner)?;
            self.folders.insert(folder.to_owned(), inner);
            node = inner;
        }
        Ok(node)
    }

    fn file(&mut self, path: &Arc<str>, file: &IndexedFile) -> Result<NodeId, BuildError> {
        let links = self.index.links(path);
        let unresolved: u32 = links.map_or(0, |links| links.unresolved.values().sum());
        let size = i64::try_from(file.size).unwrap_or(i64::MAX);
        let hash: String = file.content.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut properties = vec![
            ("id", Value::String(path.clone())),
            ("name", Value::from(name_of(path))),
            ("path", Value::String(path.clone())),
            ("file", Value::String(path.clone())),
            ("language", self.text(file.facts.language.name())),
            ("content_hash", Value::from(hash.as_str())),
            ("size", Value::from(size)),
            ("lines", Value::from(i64::from(file.facts.line_count))),
            ("parse_errors", Value::from(i64::from(file.facts.parse_errors))),
            ("unresolved_calls", Value::from(i64::from(unresolved))),
            ("is_test", Value::Boolean(is_test_path(path))),
        ];
        if let Some(gap) = file.facts.gap {
            let gap = match gap {
                Gap::TooLarge => "too_large",
                Gap::TooMuchWork => "too_much_work",
                Gap::TooManyNodes => "too_many_nodes",
            };
            properties.push(("gap", self.text(gap)));
        }
        let node = self.builder.add_node(&["File"], &properties)?;
        self.files.insert(path.clone(), node);
        Ok(node)
    }

    /// Adds the definitions of a file.
    fn definitions(&mut self, path: &Arc<str>, file: &IndexedFile, node: NodeId) -> Result<(), BuildError> {
        let facts = file.facts.clone();
        let keys = file.keys.clone();
        let links = self.index.links(path).cloned();
        let in_test_file = is_test_path(path);
        let language = self.text(facts.language.name());
        let mut nodes: Vec<NodeId> = Vec::with_capacity(facts.definitions.len());
        for (local, definition) in (0_u32..).zip(&facts.definitions) {
            let at = local as usize;
            let around = nodes.get(definition.parent as usize).copied().unwrap_or(node);
            let Some(Some(key)) = keys.definitions.get(at) else {
                nodes.push(around);
                continue;
            };
            let qualified = keys.qualified.get(at).cloned().unwrap_or_default();
            let unresolved = links.as_ref().and_then(|links| links.unresolved.get(&local)).copied();
            let mut properties = vec![
                ("id", Value::String(key.clone())),
                ("file", Value::String(path.clone())),
                ("start_line", Value::from(i64::from(definition.first_line))),
                ("end_line", Value::from(i64::from(definition.last_line))),
                ("language", language.clone()),
                ("visibility", self.text(visibility(definition.visibility))),
                ("is_test", Value::Boolean(definition.traits.is_test || in_test_file)),
            ];
            if local == 0 {
                let name = name_of(path);
                let name = name.split_once('.').map_or(name, |(stem, _)| stem);
                properties.push(("name", Value::from(name)));
                properties.push(("qualified_name", Value::String(path.clone())));
            } else {
                let name = facts.name(definition.name);
                let last = qualified.rsplit('.').next().unwrap_or(&qualified);
                properties.push(("name", Value::from(if name.is_empty() { last } else { name })));
                properties.push(("qualified_name", Value::String(qualified)));
            }
            properties.extend(unresolved.map(|count| ("unresolved_calls", Value::from(i64::from(count)))));
            let added = self.builder.add_node(labels(definition), &properties)?;
            self.symbols.insert(key.clone(), added);
            let is_outside = definition.attached_to != 0
                || facts
                    .definitions
                    .get(definition.parent as usize)
                    .is_some_and(|outer| outer.kind == DefinitionKind::Extension);
            let around = if local == 0 { node } else { around };
            // The resolution knows the type of what stands outside of its type.
            if !is_outside {
                self.contain(Relation::Defines, around, added)?;
            }
            nodes.push(added);
        }
        for (at, variable) in facts.variables.iter().enumerate() {
            let Some(Some(key)) = keys.variables.get(at) else { continue };
            let is_field = matches!(variable.kind, VariableKind::Field | VariableKind::Case);
            let label: &[&str] = if is_field { &["Field"] } else { &["Variable"] };
            let qualified = key.split_once('#').map_or("", |(_, name)| name);
            let properties = [
                ("id", Value::String(key.clone())),
                ("name", Value::from(facts.name(variable.name))),
                ("qualified_name", Value::from(qualified)),
                ("file", Value::String(path.clone())),
                ("start_line", Value::from(i64::from(variable.line))),
                ("end_line", Value::from(i64::from(variable.line))),
                ("language", language.clone()),
                ("visibility", self.text(visibility(variable.visibility))),
                ("is_test", Value::Boolean(in_test_file)),
            ];
            let added = self.builder.add_node(label, &properties)?;
            self.symbols.insert(key.clone(), added);
            let around = nodes.get(variable.scope as usize).copied().unwrap_or(node);
            self.contain(Relation::Defines, around, added)?;
        }
        Ok(())
    }
}

fn labels(definition: &Definition) -> &'static [&'static str] {
    match definition.kind {
        DefinitionKind::Module | DefinitionKind::Namespace => &["Module"],
        DefinitionKind::Class => &["Class"],
        DefinitionKind::Struct => &["Class", "Struct"],
        DefinitionKind::Enum => &["Class", "Enum"],
        DefinitionKind::Interface => &["Class", "Interface"],
        DefinitionKind::Trait => &["Class", "Trait"],
        DefinitionKind::TypeAlias | DefinitionKind::Extension => &["Class", "TypeAlias"],
        DefinitionKind::Function | DefinitionKind::Lambda => &["Function"],
        DefinitionKind::Method | DefinitionKind::Constructor => &["Function", "Method"],
        DefinitionKind::Macro => &["Function", "Macro"],
    }
}

fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Public => "public",
        Visibility::Internal => "internal",
        Visibility::Private => "private",
    }
}

/// Returns true if a file is a test by the usual names of files and folders.
fn is_test_path(path: &str) -> bool {
    let name = name_of(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let in_folder = path
        .split('/')
        .rev()
        .skip(1)
        .any(|part| matches!(part, "tests" | "test" | "__tests__" | "spec" | "testdata"));
    in_folder
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || name.contains(".test.")
        || name.contains(".spec.")
        || stem.ends_with("Test") && stem.len() > 4
        || stem.ends_with("Tests") && stem.len() > 5
}
