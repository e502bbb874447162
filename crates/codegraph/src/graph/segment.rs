//! The part of the graph that one file makes: its nodes, and the relationships that start in it. It follows from
//! the facts and the links of the file alone.

use std::sync::Arc;

use cypher::Value;

use crate::facts::{Definition, DefinitionKind, Gap, VariableKind, Visibility};
use crate::index::IndexedFile;
use crate::language::Family;
use crate::links::{FileLinks, Link, LinkKey, Origin, Target};
use crate::project::{folder_of, name_of};
use crate::relation::Relation;

/// A node, by what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    /// A folder, by its path; the root is the project.
    Folder(Arc<str>),
    /// A file, by its path.
    File(Arc<str>),
    /// A definition or variable, by its key.
    Symbol(Arc<str>),
    /// Something outside of the project, by the languages that can name it and its path: `os` of Python is not `os`
    /// of JavaScript.
    External(Family, Arc<str>),
}

impl Place {
    /// Returns true for places that several files share. They are there as long as a file needs them.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Folder(_) | Self::External(..))
    }
}

/// Properties with their names.
pub(super) type Properties = Vec<(&'static str, Value)>;

/// A node of a segment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SegmentNode {
    /// File or symbol that it stands for.
    pub(super) place: Place,
    /// Labels.
    pub(super) labels: &'static [&'static str],
    /// Properties.
    pub(super) properties: Properties,
}

/// The start, type and end of a relationship of a segment.
pub(super) type Course = (Place, Relation, Place);

/// A relationship of a segment. Its ends may be missing in the graph; then it is, too.
pub(super) type SegmentRelationship = (Course, Properties);

/// The source of the segment of a file.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    /// Path of the file.
    pub(super) path: &'a Arc<str>,
    /// File.
    pub(super) file: &'a IndexedFile,
    /// Links that start in it.
    pub(super) links: Option<&'a Arc<FileLinks>>,
}

/// The texts of the schema as values that share their bytes.
#[derive(Debug, Default)]
pub(super) struct Texts(crate::fast_hash::FastMap<&'static str, Arc<str>>);

impl Texts {
    fn value(&mut self, text: &'static str) -> Value {
        Value::String(self.0.entry(text).or_insert_with(|| text.into()).clone())
    }
}

impl Segment<'_> {
    /// Returns the nodes of the file.
    pub(super) fn nodes(&self, texts: &mut Texts) -> Vec<SegmentNode> {
        let (path, facts, keys) = (self.path, &self.file.facts, &self.file.keys);
        let mut nodes = Vec::with_capacity(facts.definitions.len() + 1);
        nodes.push(SegmentNode {
            place: Place::File(path.clone()),
            labels: &["File"],
            properties: self.file_properties(texts),
        });
        let in_test_file = is_test_path(path);
        let language = texts.value(facts.language.name());
        for (local, definition) in (0_u32..).zip(&facts.definitions) {
            let at = local as usize;
            let Some(Some(key)) = keys.definitions.get(at) else { continue };
            let qualified = keys.qualified.get(at).cloned().unwrap_or_default();
            let unresolved = self.links.and_then(|links| links.unresolved.get(&local)).copied();
            let mut properties = vec![
                ("id", Value::String(key.clone())),
                ("file", Value::String(path.clone())),
                ("start_line", Value::from(i64::from(definition.first_line))),
                ("end_line", Value::from(i64::from(definition.last_line))),
                ("language", language.clone()),
                ("visibility", texts.value(visibility(definition.visibility))),
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
            if definition.decorated_from < definition.first_line {
                properties.push(("decorated_from", Value::from(i64::from(definition.decorated_from))));
            }
            properties.extend(unresolved.map(|count| ("unresolved_calls", Value::from(i64::from(count)))));
            let place = Place::Symbol(key.clone());
            nodes.push(SegmentNode { place, labels: labels(definition), properties });
        }
        for (at, variable) in facts.variables.iter().enumerate() {
            let Some(Some(key)) = keys.variables.get(at) else { continue };
            let is_field = matches!(variable.kind, VariableKind::Field | VariableKind::Case);
            let qualified = key.split_once('#').map_or("", |(_, name)| name);
            let properties = vec![
                ("id", Value::String(key.clone())),
                ("name", Value::from(facts.name(variable.name))),
                ("qualified_name", Value::from(qualified)),
                ("file", Value::String(path.clone())),
                ("start_line", Value::from(i64::from(variable.line))),
                ("end_line", Value::from(i64::from(variable.line))),
                ("language", language.clone()),
                ("visibility", texts.value(visibility(variable.visibility))),
                ("is_test", Value::Boolean(in_test_file)),
            ];
            let labels: &'static [&'static str] = if is_field { &["Field"] } else { &["Variable"] };
            nodes.push(SegmentNode { place: Place::Symbol(key.clone()), labels, properties });
        }
        nodes
    }

    /// Returns the relationships of the file.
    pub(super) fn relationships(&self, texts: &mut Texts) -> Vec<SegmentRelationship> {
        let mut all = self.containment();
        for (key, link) in self.links.into_iter().flat_map(|links| &links.links) {
            if let Some(origin) = self.origin_of(key) {
                all.push(self.link(key, link, origin, texts));
            }
        }
        all
    }

    /// Returns the start and the end of each link.
    pub(super) fn link_ends(&self) -> impl Iterator<Item = (Place, Place)> + '_ {
        let links = self.links.into_iter().flat_map(|links| links.links.keys());
        links.filter_map(|key| Some((self.origin_of(key)?, self.target_of(key))))
    }

    /// Returns the place at which a link ends.
    fn target_of(&self, key: &LinkKey) -> Place {
        match &key.target {
            Target::Symbol(symbol) => Place::Symbol(symbol.clone()),
            Target::File(path) => Place::File(path.clone()),
            Target::External(path) => Place::External(self.file.facts.language.family(), path.clone()),
        }
    }

    /// Returns the relationships of what contains what.
    fn containment(&self) -> Vec<SegmentRelationship> {
        let (facts, keys) = (&self.file.facts, &self.file.keys);
        let own = Place::File(self.path.clone());
        let folder = Place::Folder(folder_of(self.path).into());
        let mut all = vec![((folder, Relation::Contains, own.clone()), Properties::new())];
        // The place of each definition, or of the one around it.
        let mut places: Vec<Place> = Vec::with_capacity(facts.definitions.len());
        for (at, definition) in facts.definitions.iter().enumerate() {
            let around = places.get(definition.parent as usize).unwrap_or(&own).clone();
            let Some(Some(key)) = keys.definitions.get(at) else {
                places.push(around);
                continue;
            };
            let place = Place::Symbol(key.clone());
            let outer = facts.definitions.get(definition.parent as usize);
            let is_outside = definition.attached_to != 0
                || outer.is_some_and(|outer| outer.kind == DefinitionKind::Extension);
            // The resolution knows the type of what stands outside of its type.
            if !is_outside {
                all.push(((around, Relation::Defines, place.clone()), Properties::new()));
            }
            places.push(place);
        }
        for (at, variable) in facts.variables.iter().enumerate() {
            let Some(Some(key)) = keys.variables.get(at) else { continue };
            let around = places.get(variable.scope as usize).unwrap_or(&own).clone();
            all.push(((around, Relation::Defines, Place::Symbol(key.clone())), Properties::new()));
        }
        all
    }

    fn link(&self, key: &LinkKey, link: &Link, origin: Place, texts: &mut Texts) -> SegmentRelationship {
        let mut properties = vec![
            ("line", Value::from(i64::from(link.line))),
            ("file", Value::String(self.path.clone())),
            ("confidence", texts.value(link.confidence.name())),
        ];
        match key.relation {
            Relation::Calls | Relation::MayCall | Relation::Tests | Relation::Instantiates => {
                properties.push(("count", Value::from(i64::from(link.count))));
                properties.push(("via", texts.value(link.via.name())));
            }
            Relation::References => {
                properties.push(("count", Value::from(i64::from(link.count))));
                properties.extend(link.detail.clone().map(|detail| ("kind", Value::String(detail))));
            }
            Relation::Imports | Relation::ReExports => {
                properties.extend(link.detail.clone().map(|detail| ("alias", Value::String(detail))));
                properties.push(("resolved", Value::Boolean(!matches!(key.target, Target::External(_)))));
            }
            _ => {}
        }
        let target = self.target_of(key);
        let is_turned = key.relation == Relation::Decorates;
        let (from, to) = if is_turned { (target, origin) } else { (origin, target) };
        ((from, key.relation, to), properties)
    }

    /// Returns the place at which a link starts.
    fn origin_of(&self, key: &LinkKey) -> Option<Place> {
        let symbol = |symbol: Option<&Option<Arc<str>>>| symbol.cloned().flatten().map(Place::Symbol);
        match &key.origin {
            Origin::File => Some(Place::File(self.path.clone())),
            Origin::Definition(local) => symbol(self.file.keys.definitions.get(*local as usize)),
            Origin::Variable(local) => symbol(self.file.keys.variables.get(*local as usize)),
            Origin::Symbol(symbol) => Some(Place::Symbol(symbol.clone())),
        }
    }

    fn file_properties(&self, texts: &mut Texts) -> Properties {
        let (path, file) = (self.path, self.file);
        let unresolved: u32 = self.links.map_or(0, |links| links.unresolved.values().sum());
        let size = i64::try_from(file.size).unwrap_or(i64::MAX);
        let hash: String = file.content.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut properties = vec![
            ("id", Value::String(path.clone())),
            ("name", Value::from(name_of(path))),
            ("path", Value::String(path.clone())),
            ("file", Value::String(path.clone())),
            ("language", texts.value(file.facts.language.name())),
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
                Gap::Failed => "failed",
            };
            properties.push(("gap", texts.value(gap)));
        }
        properties
    }
}

/// Returns the labels and properties of a folder or of something outside of the project. `name` is the name of
/// the project.
pub(super) fn shared_node(place: &Place, name: &str) -> (&'static [&'static str], Properties) {
    match place {
        Place::Folder(path) if path.is_empty() => {
            (&["Repo"], vec![("id", Value::from("repo")), ("name", Value::from(name))])
        }
        Place::External(family, path) => {
            let (package, symbol) = split_external(path);
            let name = symbol.rsplit(['.', ':', '/']).next().unwrap_or(symbol);
            let name = if name.is_empty() { package } else { name };
            let properties = vec![
                ("id", Value::from(format!("external:{}:{path}", family.name()).as_str())),
                ("name", Value::from(name)),
                ("qualified_name", Value::String(path.clone())),
                ("language", Value::from(family.name())),
                ("package", Value::from(package)),
                ("symbol", Value::from(symbol)),
            ];
            (&["External"], properties)
        }
        Place::Folder(path) | Place::File(path) | Place::Symbol(path) => {
            let properties = vec![
                ("id", Value::from(format!("{path}/").as_str())),
                ("name", Value::from(name_of(path))),
                ("path", Value::String(path.clone())),
            ];
            (&["Directory"], properties)
        }
    }
}

/// Splits the path of something outside into the package and the name in it.
fn split_external(path: &str) -> (&str, &str) {
    if let Some((package, symbol)) = path.split_once("::") {
        return (package, symbol);
    }
    let folder = path.rfind('/').map_or(0, |at| at + 1);
    match path.get(folder..).and_then(|name| name.find('.')) {
        Some(0) | None => (path, ""),
        Some(at) => (path.get(..folder + at).unwrap_or(path), path.get(folder + at + 1..).unwrap_or("")),
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
