//! The structure of the types of a family of languages: what `World::link_types` found out about them. Names that
//! mean something else can change it, and then anything can mean something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Entry, GlobalDefinition, World};
use crate::language::Family;
use crate::symbols::SymbolKeys;

/// The structure of the types of a family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Structure {
    /// Hash of the types: their bases, and which are one.
    types: [u8; 32],
    /// Hash of what each file has outside of the type that it belongs to.
    by_file: BTreeMap<Arc<str>, [u8; 32]>,
    /// Hash of it by the short hashes of names.
    by_name: BTreeMap<u32, [u8; 32]>,
}

/// The parts of a structure, as they are stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StructureParts {
    types: [u8; 32],
    by_file: Vec<(Box<str>, [u8; 32])>,
    by_name: Vec<(u32, [u8; 32])>,
}

impl From<StructureParts> for Structure {
    fn from(StructureParts { types, by_file, by_name }: StructureParts) -> Self {
        let by_file = by_file.into_iter().map(|(path, hash)| (path.into(), hash)).collect();
        Self { types, by_file, by_name: by_name.into_iter().collect() }
    }
}

/// A difference of two structures, apart from the types.
#[derive(Debug, Default)]
pub(crate) struct StructureChange {
    /// Files that have something that belongs to another type now.
    pub(crate) files: Vec<Arc<str>>,
    /// Short hashes of the names of it.
    pub(crate) names: Vec<u32>,
}

impl Structure {
    /// Returns the parts.
    pub(crate) fn parts(&self) -> StructureParts {
        let by_file = self.by_file.iter().map(|(path, hash)| (path.as_ref().into(), *hash)).collect();
        let by_name = self.by_name.iter().map(|(name, hash)| (*name, *hash)).collect();
        StructureParts { types: self.types, by_file, by_name }
    }

    /// Returns what is different from an earlier structure, or `None` if the types are.
    pub(crate) fn change(&self, before: &Self) -> Option<StructureChange> {
        (self.types == before.types).then(|| StructureChange {
            files: differences(&self.by_file, &before.by_file),
            names: differences(&self.by_name, &before.by_name),
        })
    }
}

/// Returns the keys that have different values, or a value in one map alone, in ascending order.
fn differences<K: Ord + Clone>(one: &BTreeMap<K, [u8; 32]>, other: &BTreeMap<K, [u8; 32]>) -> Vec<K> {
    let differs = one.iter().filter(|(key, hash)| other.get(key) != Some(hash)).map(|(key, _)| key);
    let mut all: Vec<K> = differs.chain(other.keys().filter(|key| !one.contains_key(key))).cloned().collect();
    all.sort_unstable();
    all
}

impl World {
    /// Returns the structure of a family. `keys` are those of the files, in their order.
    pub(crate) fn structure(&self, family: Family, keys: &[Arc<SymbolKeys>]) -> Structure {
        let mut types = blake3::Hasher::new();
        let mut structure = Structure::default();
        // Definitions outside of the type that they belong to, and the places where each name has a part of it.
        let (mut outside, mut named) = (Vec::new(), Vec::new());
        for (file, keys_of_file) in self.files.iter().zip(keys) {
            if file.family != family {
                continue;
            }
            let facts = &file.facts;
            let (first, mut written) = (outside.len(), Vec::new());
            for (local, definition) in (0_u32..).zip(&facts.definitions) {
                let global = file.first_definition + local;
                let own = keys_of_file.qualified.get(local as usize).map_or("", |name| name);
                // A block that belongs to a type, or something that stands on its own.
                let block = self.attached.get(&(file.first_definition + definition.parent));
                if let Some(class) = self.attached.get(&global).or(block) {
                    let start = outside.len();
                    write(&mut outside, &file.path);
                    write(&mut outside, own);
                    self.write_definition(&mut outside, *class, keys);
                    named.push((self.names.hash(file.symbol(definition.name)), start..outside.len()));
                }
                if !definition.kind.is_type() {
                    continue;
                }
                if let Some(first) = self.canonical.get(&global) {
                    write(&mut written, own);
                    self.write_definition(&mut written, *first, keys);
                }
                for base in self.bases.get(&global).into_iter().flatten() {
                    write(&mut written, own);
                    match base {
                        Entry::Definition(base) => self.write_definition(&mut written, *base, keys),
                        Entry::External(path) => write(&mut written, &self.external_path(*path)),
                        _ => write(&mut written, "?"),
                    }
                }
            }
            for variable in facts.variables.iter().filter(|variable| variable.kind.is_shared()) {
                if let Some(class) = self.attached.get(&(file.first_definition + variable.scope)) {
                    let start = outside.len();
                    write(&mut outside, &file.path);
                    self.write_definition(&mut outside, *class, keys);
                    named.push((self.names.hash(file.symbol(variable.name)), start..outside.len()));
                }
            }
            if !written.is_empty() {
                types.update(file.path.as_bytes()).update(&[0]).update(&written);
            }
            let of_file = outside.get(first..).unwrap_or_default();
            if !of_file.is_empty() {
                structure.by_file.insert(file.path.clone(), *blake3::hash(of_file).as_bytes());
            }
        }
        // The sort is stable, so the parts of a name stay in the order of the files.
        named.sort_by_key(|(name, _)| *name);
        let of_names = named.chunk_by(|(one, _), (other, _)| one == other);
        let hashed = of_names.filter_map(|parts| {
            let mut hasher = blake3::Hasher::new();
            for (_, part) in parts {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(outside.get(part.clone()).unwrap_or_default());
            }
            parts.first().map(|(name, _)| (*name, *hasher.finalize().as_bytes()))
        });
        structure.by_name = hashed.collect();
        structure.types = *types.finalize().as_bytes();
        structure
    }

    fn write_definition(&self, into: &mut Vec<u8>, definition: GlobalDefinition, keys: &[Arc<SymbolKeys>]) {
        let Some((number, file, local)) = self.local(definition) else { return };
        write(into, &file.path);
        let key = keys.get(number as usize).and_then(|keys| keys.definitions.get(local as usize));
        write(into, key.and_then(Option::as_deref).unwrap_or("?"));
    }
}

fn write(into: &mut Vec<u8>, text: &str) {
    into.extend_from_slice(text.as_bytes());
    into.push(0);
}
