//! The structure of the types of a family of languages: what World::link_types found out about them. Names that
//! mean something else can change it, and then anything can mean something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Entry, GlobalDefinition, World};
use crate::facts::DefinitionKind;
use crate::language::Family;
use crate::symbols::SymbolKeys;

/// The structure of the types of a family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Structure {
    /// Hash of the types: their extensions, their bases, and which are one.
    types: [u8; 32],
    /// Hash of the functions of each file that stand outside of their types.
    attached: BTreeMap<Arc<str>, [u8; 32]>,
}

impl Structure {
    /// Returns true if the types are equal, and the functions of all files, too, but of some.
    pub(crate) fn is_equal_but(&self, other: &Self, is_edited: impl Fn(&str) -> bool) -> bool {
        let is_known =
            |(path, hash): (&Arc<str>, &[u8; 32])| is_edited(path) || other.attached.get(path) == Some(hash);
        let is_gone = |path: &Arc<str>| !is_edited(path) && !self.attached.contains_key(path);
        self.types == other.types && self.attached.iter().all(is_known) && !other.attached.keys().any(is_gone)
    }
}

impl World {
    /// Returns the structure of a family. `keys` are those of the files, in their order.
    pub(crate) fn structure(&self, family: Family, keys: &[Arc<SymbolKeys>]) -> Structure {
        let mut types = blake3::Hasher::new();
        let mut attached = BTreeMap::new();
        for (file, keys_of_file) in self.files.iter().zip(keys) {
            if file.family != family {
                continue;
            }
            let mut functions = Vec::new();
            let mut written = Vec::new();
            for (local, definition) in (0_u32..).zip(&file.facts.definitions) {
                let global = file.first_definition + local;
                let is_type = definition.kind.is_type() || definition.kind == DefinitionKind::Extension;
                let own = || keys_of_file.qualified.get(local as usize).map_or("", |name| name);
                if let Some(class) = self.attached.get(&global) {
                    let into = if is_type { &mut written } else { &mut functions };
                    write(into, own());
                    self.write_definition(into, *class, keys);
                }
                if !is_type {
                    continue;
                }
                if let Some(first) = self.canonical.get(&global) {
                    write(&mut written, own());
                    self.write_definition(&mut written, *first, keys);
                }
                for base in self.bases.get(&global).into_iter().flatten() {
                    write(&mut written, own());
                    match base {
                        Entry::Definition(base) => self.write_definition(&mut written, *base, keys),
                        Entry::External(path) => write(&mut written, &self.external_path(*path)),
                        _ => write(&mut written, "?"),
                    }
                }
            }
            if !written.is_empty() {
                types.update(file.path.as_bytes()).update(&[0]).update(&written);
            }
            if !functions.is_empty() {
                attached.insert(file.path.clone(), *blake3::hash(&functions).as_bytes());
            }
        }
        Structure { types: *types.finalize().as_bytes(), attached }
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
