//! The import of a SCIP index.

use std::collections::HashMap;

use scip_index::{Document, Fit, Lines, ScipError};

use crate::imported::{Imported, ImportedPlace};
use crate::index::{CodeIndex, IndexedFile};

/// Maximum number of places of all files, each some 50 bytes.
const MAXIMUM_PLACES: usize = 4_000_000;

/// The number of files of an import, by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportCounts {
    /// Files whose index fits.
    pub fitting: usize,
    /// Files that have changed since they were indexed, or that are of another project.
    pub outdated: usize,
    /// Documents of files that are not in the graph.
    pub unknown: usize,
    /// Names at places whose target is known.
    pub places: usize,
}

/// An import under way. Each document of the index has to be given to [`ScipImport::define`], and then once more to
/// [`ScipImport::refer`], because a name can stand before the definition that it means.
#[derive(Debug)]
pub struct ScipImport<'a> {
    index: &'a CodeIndex,
    /// Key of the definition of each symbol.
    keys: HashMap<Box<str>, Box<str>>,
    found: Imported,
    counts: ImportCounts,
}

impl<'a> ScipImport<'a> {
    /// Begins an import into an index whose facts are in memory.
    pub fn new(index: &'a CodeIndex) -> Self {
        Self { index, keys: HashMap::new(), found: Imported::default(), counts: ImportCounts::default() }
    }

    /// Takes the definitions of a document. `content` reads a file of the graph by its path.
    ///
    /// # Errors
    /// Returns [`ScipError`] if the document is damaged, or if there are too many places.
    pub fn define(
        &mut self,
        document: &Document<'_>,
        content: impl FnOnce(&str) -> Option<Vec<u8>>,
    ) -> Result<(), ScipError> {
        let Some((path, file)) = self.file(document) else {
            self.counts.unknown += 1;
            return Ok(());
        };
        let read = content(path).filter(|read| *blake3::hash(read).as_bytes() == file.content);
        let Some(text) = read.and_then(|read| String::from_utf8(read).ok()) else {
            self.counts.outdated += 1;
            return Ok(());
        };
        let Fit::Fits(encoding) = document.fit(&text)? else {
            self.counts.outdated += 1;
            return Ok(());
        };
        self.counts.fitting += 1;
        let lines = Lines::new(&text);
        for named in document.named(&lines, encoding) {
            let named = named?;
            if named.occurrence.is_definition
                && let Some(key) = definition_at(file, named.line + 1, named.name)
            {
                self.check_room()?;
                self.keys.insert(named.occurrence.symbol.into(), key.into());
            }
        }
        self.found.insert(path, file.content, Vec::new());
        Ok(())
    }

    /// Takes the references of a document whose definitions were taken.
    ///
    /// # Errors
    /// Returns [`ScipError`] if the document is damaged, or if there are too many places.
    pub fn refer(
        &mut self,
        document: &Document<'_>,
        content: impl FnOnce(&str) -> Option<Vec<u8>>,
    ) -> Result<(), ScipError> {
        let Some((path, file)) = self.file(document) else { return Ok(()) };
        if !self.found.contains(path) {
            return Ok(());
        }
        let read = content(path).filter(|read| *blake3::hash(read).as_bytes() == file.content);
        let text = read.and_then(|read| String::from_utf8(read).ok());
        let Some(text) = text else { return Ok(()) };
        let Fit::Fits(encoding) = document.fit(&text)? else { return Ok(()) };
        let lines = Lines::new(&text);
        let mut places = Vec::new();
        for named in document.named(&lines, encoding) {
            let named = named?;
            if named.occurrence.is_definition || named.occurrence.is_import {
                continue;
            }
            let Some(target) = self.keys.get(named.occurrence.symbol) else { continue };
            // A name that is another one was shifted by an edit, or is an alias.
            if name_of(target) != named.name {
                continue;
            }
            self.check_room()?;
            let place =
                ImportedPlace { line: named.line + 1, name: named.name.into(), target: target.clone() };
            places.push(place);
            self.counts.places += 1;
        }
        self.found.insert(path, file.content, places);
        Ok(())
    }

    /// Ends the import.
    pub fn finish(self) -> (Imported, ImportCounts) {
        (self.found, self.counts)
    }

    fn file<'d>(&self, document: &Document<'d>) -> Option<(&'d str, &'a IndexedFile)> {
        let path = document.safe_path()?;
        Some((path, self.index.files().get(path)?))
    }

    fn check_room(&self) -> Result<(), ScipError> {
        if self.counts.places + self.keys.len() < MAXIMUM_PLACES {
            return Ok(());
        }
        Err(ScipError::TooLarge { what: "a number of names", limit: MAXIMUM_PLACES as u64 })
    }
}

/// Returns the key of the function or type of a name that begins at a line, from 1.
fn definition_at<'f>(file: &'f IndexedFile, line: u32, name: &str) -> Option<&'f str> {
    let found = file.facts.definitions.iter().zip(&file.keys.definitions).skip(1).find(|(definition, _)| {
        let is_target = definition.kind.is_function() || definition.kind.is_type();
        is_target && definition.first_line == line && file.facts.name(definition.name) == name
    });
    found.and_then(|(_, key)| key.as_deref())
}

/// Returns the name of the definition of a key.
fn name_of(key: &str) -> &str {
    let qualified = key.split_once('#').map_or(key, |(_, qualified)| qualified);
    let last = qualified.rsplit('.').next().unwrap_or(qualified);
    last.split_once('~').map_or(last, |(name, _)| name)
}
