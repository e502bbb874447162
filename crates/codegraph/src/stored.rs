//! The relationships of an index in a form that is kept beside the facts, so that an index of the same files need
//! not resolve them anew. They are valid for exactly one set of files and facts, which their key names.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::facts::DefinitionId;
use crate::language::Family;
use crate::links::{FileLinks, Link, LinkKey, Origin, Target};
use crate::relation::{Confidence, Relation, Via};
use crate::world::{Structure, StructureParts};

/// The version of the resolution and of this form. It must change with every change of either.
pub(crate) const RESOLVER_VERSION: u32 = 3;

/// The relationships of a file, with what they depend on.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// Hash of what they depend on, besides the declarations of the names.
    pub(crate) key: [u8; 32],
    /// Relationships.
    pub(crate) links: Arc<FileLinks>,
    /// Short hashes of the names whose declarations they depend on.
    pub(crate) asked: Arc<[u32]>,
}

impl Resolved {
    /// Returns true if the relationships depend on the declarations of one of some names, by their short hashes in
    /// ascending order.
    pub(crate) fn has_asked(&self, names: &[u32]) -> bool {
        let own: &[u32] = &self.asked;
        let (few, many) = if names.len() < own.len() { (names, own) } else { (own, names) };
        few.iter().any(|name| many.binary_search(name).is_ok())
    }
}

/// Relationships of all files, and the structures of the families that are resolved file by file.
pub(crate) type AllResolved = (HashMap<Arc<str>, Resolved>, BTreeMap<Family, Structure>);

/// The stored form. Texts are numbers in one table.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    texts: Vec<Box<str>>,
    files: Vec<StoredFile>,
    families: Vec<(Family, StructureParts)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredFile {
    path: u32,
    key: [u8; 32],
    asked: Vec<u32>,
    links: Vec<StoredLink>,
    unresolved: Vec<(DefinitionId, u32)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredLink {
    origin: StoredOrigin,
    relation: Relation,
    target: StoredTarget,
    line: u32,
    count: u32,
    confidence: Confidence,
    via: Via,
    detail: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
enum StoredOrigin {
    File,
    Definition(DefinitionId),
    Variable(u32),
    Symbol(u32),
}

#[derive(Debug, Serialize, Deserialize)]
enum StoredTarget {
    Symbol(u32),
    File(u32),
    External(u32),
}

/// The table of texts while it is made.
#[derive(Default)]
struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    all: Vec<Box<str>>,
}

impl Texts {
    fn number(&mut self, text: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(text.as_ref().into());
        self.numbers.insert(text.clone(), number);
        number
    }
}

/// Encodes what was resolved; `None` if it cannot be encoded.
pub(crate) fn encode<'a>(
    resolved: &HashMap<Arc<str>, Resolved>,
    structures: impl Iterator<Item = (Family, &'a Structure)>,
) -> Option<Vec<u8>> {
    let mut texts = Texts::default();
    let in_order: BTreeMap<&Arc<str>, &Resolved> = resolved.iter().collect();
    let mut files = Vec::with_capacity(in_order.len());
    for (path, Resolved { key, links, asked }) in in_order {
        let link = |(key, link): (&LinkKey, &Link)| StoredLink {
            origin: match &key.origin {
                Origin::File => StoredOrigin::File,
                Origin::Definition(definition) => StoredOrigin::Definition(*definition),
                Origin::Variable(variable) => StoredOrigin::Variable(*variable),
                Origin::Symbol(symbol) => StoredOrigin::Symbol(texts.number(symbol)),
            },
            relation: key.relation,
            target: match &key.target {
                Target::Symbol(symbol) => StoredTarget::Symbol(texts.number(symbol)),
                Target::File(path) => StoredTarget::File(texts.number(path)),
                Target::External(path) => StoredTarget::External(texts.number(path)),
            },
            line: link.line,
            count: link.count,
            confidence: link.confidence,
            via: link.via,
            detail: link.detail.as_ref().map(|detail| texts.number(detail)),
        };
        let stored: Vec<StoredLink> = links.links.iter().map(link).collect();
        files.push(StoredFile {
            path: texts.number(path),
            key: *key,
            asked: asked.to_vec(),
            links: stored,
            unresolved: links.unresolved.iter().map(|(at, count)| (*at, *count)).collect(),
        });
    }
    let families = structures.map(|(family, structure)| (family, structure.parts())).collect();
    postcard::to_allocvec(&Stored { texts: texts.all, files, families }).ok()
}

/// Decodes what [`encode`] encoded; `None` if it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<AllResolved> {
    let Stored { texts, files, families } = postcard::from_bytes(bytes).ok()?;
    let texts: Vec<Arc<str>> = texts.into_iter().map(Arc::from).collect();
    let text = |number: u32| texts.get(number as usize).cloned();
    let mut resolved = HashMap::with_capacity(files.len());
    for StoredFile { path, key, asked, links, unresolved } in files {
        let link = |link: StoredLink| {
            let origin = match link.origin {
                StoredOrigin::File => Origin::File,
                StoredOrigin::Definition(definition) => Origin::Definition(definition),
                StoredOrigin::Variable(variable) => Origin::Variable(variable),
                StoredOrigin::Symbol(symbol) => Origin::Symbol(text(symbol)?),
            };
            let target = match link.target {
                StoredTarget::Symbol(symbol) => Target::Symbol(text(symbol)?),
                StoredTarget::File(path) => Target::File(text(path)?),
                StoredTarget::External(path) => Target::External(text(path)?),
            };
            let detail = match link.detail {
                Some(detail) => Some(text(detail)?),
                None => None,
            };
            let StoredLink { relation, line, count, confidence, via, .. } = link;
            Some((LinkKey { origin, relation, target }, Link { line, count, confidence, via, detail }))
        };
        let links = links.into_iter().map(link).collect::<Option<BTreeMap<_, _>>>()?;
        let links = Arc::new(FileLinks { links, unresolved: unresolved.into_iter().collect() });
        resolved.insert(text(path)?, Resolved { key, links, asked: asked.into() });
    }
    let families = families.into_iter().map(|(family, parts)| (family, Structure::from(parts))).collect();
    Some((resolved, families))
}
