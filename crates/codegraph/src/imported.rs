//! Findings of compilers at the calls of files. They count for exactly the content that a file had when the index was
//! imported; for any other, the relationships are those of this crate alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Findings of compilers in files, by the paths of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Imported {
    files: BTreeMap<Box<str>, Arc<ImportedFile>>,
}

/// Findings of a compiler in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// Hash (blake3) of the content that the file had.
    content: [u8; 32],
    /// Targets by line, from 1, and name, in ascending order.
    places: Vec<ImportedPlace>,
}

/// A definition that a name at a place means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ImportedPlace {
    /// Line, from 1.
    pub(crate) line: u32,
    pub(crate) name: Box<str>,
    /// Key of the definition.
    pub(crate) target: Box<str>,
}

impl Imported {
    /// Records the findings in a file with this content, in place of those before.
    pub(crate) fn insert(&mut self, path: &str, content: [u8; 32], mut places: Vec<ImportedPlace>) {
        places.sort_unstable();
        places.dedup();
        self.files.insert(path.into(), Arc::new(ImportedFile { content, places }));
    }

    /// Returns true if there is a file of this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Returns the file of a path, if it was imported with this content.
    pub(crate) fn current(&self, path: &str, content: &[u8; 32]) -> Option<&Arc<ImportedFile>> {
        self.files.get(path).filter(|file| file.content == *content)
    }

    /// Adds another import, which replaces what is known of its files.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
    }

    /// Returns a hash of everything; `None` if there is nothing.
    pub fn hash(&self) -> Option<[u8; 32]> {
        if self.files.is_empty() {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        let mut text = |text: &str| {
            hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
        };
        let mut numbers = Vec::new();
        for (path, file) in &self.files {
            text(path);
            numbers.extend_from_slice(&file.content);
            numbers.extend_from_slice(&file.places.len().to_le_bytes());
            for place in &file.places {
                numbers.extend_from_slice(&place.line.to_le_bytes());
                text(&place.name);
                text(&place.target);
            }
        }
        hasher.update(&numbers);
        Some(*hasher.finalize().as_bytes())
    }
}

impl ImportedFile {
    /// Returns the keys of the definitions that a name in a line, from 1, means.
    pub(crate) fn targets<'f>(&'f self, line: u32, name: &str) -> impl Iterator<Item = &'f str> + use<'f> {
        let first = self.places.partition_point(|place| (place.line, &*place.name) < (line, name));
        let length = self.places.get(first..).unwrap_or_default().iter();
        let length = length.take_while(|place| place.line == line && &*place.name == name).count();
        self.places.get(first..first + length).unwrap_or_default().iter().map(|place| &*place.target)
    }
}
