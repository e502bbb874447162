//! The graph of an index, for queries.

mod nodes;

use std::sync::Arc;

use cypher::{BuildError, GraphBuilder, MemoryGraph, NodeId, Value};

use crate::fast_hash::FastMap;
use crate::index::CodeIndex;
use crate::links::{Link, LinkKey, Origin, Target};
use crate::relation::Relation;

/// Property keys of nodes that queries find nodes by.
const INDEXED: [&str; 4] = ["id", "name", "path", "qualified_name"];

/// The graph of an index under construction.
struct Filler<'a> {
    index: &'a CodeIndex,
    builder: GraphBuilder,
    symbols: FastMap<Arc<str>, NodeId>,
    files: FastMap<Arc<str>, NodeId>,
    folders: FastMap<String, NodeId>,
    externals: FastMap<Arc<str>, NodeId>,
    texts: FastMap<&'static str, Arc<str>>,
}

impl CodeIndex {
    /// Returns the graph of the index. `name` is the name of the project.
    ///
    /// # Errors
    /// Returns [`BuildError`] if the graph would have more nodes or relationships than 32 bits can number.
    pub fn graph(&self, name: &str) -> Result<MemoryGraph, BuildError> {
        let mut filler = Filler {
            index: self,
            builder: GraphBuilder::new(),
            symbols: FastMap::default(),
            files: FastMap::default(),
            folders: FastMap::default(),
            externals: FastMap::default(),
            texts: FastMap::default(),
        };
        filler.nodes(name)?;
        filler.relationships()?;
        for key in INDEXED {
            filler.builder.add_index(key)?;
        }
        Ok(filler.builder.build())
    }
}

impl Filler<'_> {
    fn relationships(&mut self) -> Result<(), BuildError> {
        let index = self.index;
        for (path, file) in index.files() {
            let Some(links) = index.links(path) else { continue };
            for (key, link) in &links.links {
                let origin = match &key.origin {
                    Origin::File => self.files.get(path).copied(),
                    Origin::Definition(local) => {
                        let symbol = file.keys.definitions.get(*local as usize).and_then(Option::as_ref);
                        symbol.and_then(|symbol| self.symbols.get(symbol)).copied()
                    }
                    Origin::Variable(local) => {
                        let symbol = file.keys.variables.get(*local as usize).and_then(Option::as_ref);
                        symbol.and_then(|symbol| self.symbols.get(symbol)).copied()
                    }
                    Origin::Symbol(symbol) => self.symbols.get(symbol).copied(),
                };
                let target = match &key.target {
                    Target::Symbol(symbol) => self.symbols.get(symbol).copied(),
                    Target::File(path) => self.files.get(path).copied(),
                    Target::External(path) => Some(self.external(path)?),
                };
                if let (Some(origin), Some(target)) = (origin, target) {
                    self.relationship(key, link, origin, target, path)?;
                }
            }
        }
        Ok(())
    }

    fn relationship(
        &mut self,
        key: &LinkKey,
        link: &Link,
        origin: NodeId,
        target: NodeId,
        path: &Arc<str>,
    ) -> Result<(), BuildError> {
        let mut properties = vec![
            ("line", Value::from(i64::from(link.line))),
            ("file", Value::String(path.clone())),
            ("confidence", self.text(link.confidence.name())),
        ];
        match key.relation {
            Relation::Calls | Relation::MayCall | Relation::Tests | Relation::Instantiates => {
                properties.push(("count", Value::from(i64::from(link.count))));
                properties.push(("via", self.text(link.via.name())));
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
        let (origin, target) =
            if key.relation == Relation::Decorates { (target, origin) } else { (origin, target) };
        self.builder.add_relationship(origin, key.relation.name(), target, &properties)
    }

    /// Returns a text of the schema as a value that shares its bytes.
    fn text(&mut self, text: &'static str) -> Value {
        Value::String(self.texts.entry(text).or_insert_with(|| text.into()).clone())
    }

    /// Returns the node of something outside of the project.
    fn external(&mut self, path: &Arc<str>) -> Result<NodeId, BuildError> {
        if let Some(node) = self.externals.get(path) {
            return Ok(*node);
        }
        let (package, symbol) = split_external(path);
        let name = symbol.rsplit(['.', ':', '/']).next().unwrap_or(symbol);
        let name = if name.is_empty() { package } else { name };
        let properties = [
            ("id", Value::from(format!("external:{path}").as_str())),
            ("name", Value::from(name)),
            ("qualified_name", Value::String(path.clone())),
            ("package", Value::from(package)),
            ("symbol", Value::from(symbol)),
        ];
        let node = self.builder.add_node(&["External"], &properties)?;
        self.externals.insert(path.clone(), node);
        Ok(node)
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
