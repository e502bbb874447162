//! The comparison of a document with the file of today. An index has no hash of the file, so its ranges have to
//! show that it describes this text.

use crate::document::{Document, Occurrence};
use crate::error::ScipError;
use crate::positions::{Encoding, Lines, Place};

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Every range and every definition fits, with columns in this encoding.
    Fits(Encoding),
    /// The index has the text of the file, and it is another one.
    OtherText,
    /// A range leaves the text, or cuts a character.
    Outside {
        /// Line, from 0.
        line: u32,
    },
    /// A definition is at a place that has another name.
    OtherName {
        /// Line, from 0.
        line: u32,
    },
}

/// An occurrence with the text at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// Line, from 0.
    pub line: u32,
    /// Text of the range.
    pub name: &'a str,
    /// Text behind the range in the line.
    pub rest: &'a str,
    /// Occurrence.
    pub occurrence: Occurrence<'a>,
}

impl<'a> Document<'a> {
    /// Compares the document with the content of its file. A document that does not say its encoding fits if it
    /// does in one of [`Encoding::KNOWN`].
    ///
    /// # Errors
    /// Returns [`ScipError::Damaged`] if an occurrence cannot be decoded.
    pub fn fit(&self, content: &str) -> Result<Fit, ScipError> {
        if self.text.is_some_and(|text| text != content) {
            return Ok(Fit::OtherText);
        }
        let lines = Lines::new(content);
        if self.encoding != Encoding::Unspecified {
            return self.fit_in(&lines, self.encoding);
        }
        let mut first = None;
        for encoding in Encoding::KNOWN {
            let found = self.fit_in(&lines, encoding)?;
            if matches!(found, Fit::Fits(_)) {
                return Ok(found);
            }
            first = first.or(Some(found));
        }
        Ok(first.unwrap_or(Fit::Fits(Encoding::Utf8)))
    }

    fn fit_in(&self, lines: &Lines<'_>, encoding: Encoding) -> Result<Fit, ScipError> {
        for occurrence in self.occurrences() {
            let occurrence = occurrence?;
            let Some(place) = occurrence.place else { continue };
            let Place { line, .. } = place;
            let Some((name, _)) = lines.at(place, encoding) else { return Ok(Fit::Outside { line }) };
            if occurrence.is_definition && !occurrence.is_local() && !is_named(occurrence.symbol, name) {
                return Ok(Fit::OtherName { line });
            }
        }
        Ok(Fit::Fits(encoding))
    }

    /// Returns the occurrences of global symbols that have a place, with their texts, in the order of the index.
    pub fn named<'t: 'a>(
        &self,
        lines: &'t Lines<'t>,
        encoding: Encoding,
    ) -> impl Iterator<Item = Result<Named<'a>, ScipError>> {
        self.occurrences().filter_map(move |occurrence| {
            let occurrence = match occurrence {
                Ok(occurrence) => occurrence,
                Err(error) => return Some(Err(error)),
            };
            let place =
                occurrence.place.filter(|_| !occurrence.symbol.is_empty() && !occurrence.is_local())?;
            let (name, rest) = lines.at(place, encoding)?;
            Some(Ok(Named { line: place.line, name, rest, occurrence }))
        })
    }
}

/// Returns true if the descriptors of a symbol have the name that stands at a definition. Quotes around the name,
/// and the `#` of private names, are not in every indexer's descriptors.
fn is_named(symbol: &str, text: &str) -> bool {
    let name = text.trim_matches(['\'', '"', '`', '#', '@', '$']);
    !name.is_empty() && descriptors(symbol).contains(name)
}

/// Returns the descriptors of a symbol: what follows its scheme, manager, package and version. A space within one
/// of these four is written twice.
fn descriptors(symbol: &str) -> &str {
    let mut rest = symbol;
    for _ in 0..4 {
        let Some(end) = end_of_word(rest) else { return rest };
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    rest
}

/// Returns the offset of the first space that is not written twice.
fn end_of_word(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte != b' ' {
            at += 1;
        } else if bytes.get(at + 1) == Some(&b' ') {
            at += 2;
        } else {
            return Some(at);
        }
    }
    None
}
