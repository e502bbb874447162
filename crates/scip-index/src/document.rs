//! A document: the occurrences of symbols in one file.

use std::fmt::Display;

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::ScipError;
use crate::positions::{Encoding, Place};

/// Numbers of the fields of the message `Document` in `scip.proto`.
const RELATIVE_PATH: u32 = 1;
const OCCURRENCE: u32 = 2;
const TEXT: u32 = 5;
const POSITION_ENCODING: u32 = 6;

/// Numbers of the fields of the message `Occurrence`.
const RANGE: u32 = 1;
const SYMBOL: u32 = 2;
const SYMBOL_ROLES: u32 = 3;

/// Bits of `SymbolRole`.
const DEFINITION: u64 = 0x1;
const IMPORT: u64 = 0x2;

/// A document of an index.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Path of the file from the root of the project, as the index has it. It can be anything.
    pub path: &'a str,
    /// Text of the file, if the index has it.
    pub text: Option<&'a str>,
    /// Encoding in which columns are counted.
    pub encoding: Encoding,
    bytes: &'a [u8],
    count: u64,
    at: u64,
}

/// A symbol at a place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence<'a> {
    /// Range; `None` if the range spans lines or is none at all.
    pub place: Option<Place>,
    /// Symbol; may be empty.
    pub symbol: &'a str,
    /// True if the symbol is defined here.
    pub is_definition: bool,
    /// True if the symbol is imported here.
    pub is_import: bool,
}

impl Occurrence<'_> {
    /// Returns true if the symbol has a meaning in its own document alone.
    pub fn is_local(&self) -> bool {
        self.symbol.starts_with("local ")
    }
}

/// The occurrences of a document, which are decoded one by one.
#[derive(Debug)]
pub struct Occurrences<'a> {
    fields: Fields<'a>,
    at: u64,
}

impl<'a> Document<'a> {
    /// Reads everything but the occurrences, and counts these. `at` is the offset of the document in the file.
    pub(crate) fn parse(bytes: &'a [u8], at: u64) -> Result<Self, ScipError> {
        let mut found = Self { path: "", text: None, encoding: Encoding::Unspecified, bytes, count: 0, at };
        for field in Fields::new(bytes) {
            match field.map_err(|error| damaged(at, &error))? {
                (RELATIVE_PATH, Field::Bytes(bytes)) => found.path = text(bytes, at)?,
                (OCCURRENCE, Field::Bytes(_)) => found.count += 1,
                (TEXT, Field::Bytes(bytes)) => {
                    found.text = Some(text(bytes, at)?).filter(|text| !text.is_empty());
                }
                (POSITION_ENCODING, Field::Number(number)) => found.encoding = Encoding::of_number(number),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns the number of occurrences.
    pub fn occurrence_count(&self) -> u64 {
        self.count
    }

    /// Returns the occurrences in the order of the index.
    pub fn occurrences(&self) -> Occurrences<'a> {
        Occurrences { fields: Fields::new(self.bytes), at: self.at }
    }

    /// Returns the path if it stays below the root: relative, with slashes, and without `.`, `..`, empty parts,
    /// backslashes and control characters.
    pub fn safe_path(&self) -> Option<&'a str> {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        let is_strange = |letter: char| letter == '\\' || letter.is_control();
        let is_safe = self.path.split('/').all(is_plain) && !self.path.contains(is_strange);
        is_safe.then_some(self.path)
    }
}

impl<'a> Iterator for Occurrences<'a> {
    type Item = Result<Occurrence<'a>, ScipError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return match self.fields.next()? {
                Ok((OCCURRENCE, Field::Bytes(bytes))) => Some(occurrence(bytes, self.at)),
                Ok(_) => continue,
                Err(error) => Some(Err(damaged(self.at, &error))),
            };
        }
    }
}

/// Reads one occurrence.
fn occurrence(bytes: &[u8], at: u64) -> Result<Occurrence<'_>, ScipError> {
    let mut range = Range::default();
    let (mut symbol, mut roles) = ("", 0);
    for field in Fields::new(bytes) {
        match field.map_err(|error| damaged(at, &error))? {
            (RANGE, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    range.push(decode_varint(&mut packed).map_err(|error| damaged(at, &error))?);
                }
            }
            (RANGE, Field::Number(number)) => range.push(number),
            (SYMBOL, Field::Bytes(bytes)) => symbol = text(bytes, at)?,
            (SYMBOL_ROLES, Field::Number(number)) => roles = number,
            _ => {}
        }
    }
    let (is_definition, is_import) = (roles & DEFINITION != 0, roles & IMPORT != 0);
    Ok(Occurrence { place: range.place(), symbol, is_definition, is_import })
}

/// The numbers of a range, of which no more than five are kept.
#[derive(Debug, Default)]
struct Range {
    numbers: [u64; 4],
    count: usize,
}

impl Range {
    fn push(&mut self, number: u64) {
        if let Some(place) = self.numbers.get_mut(self.count) {
            *place = number;
        }
        self.count = self.count.saturating_add(1);
    }

    /// Returns the range if it has three or four numbers and is within one line, and not empty.
    fn place(&self) -> Option<Place> {
        let [line, start, third, fourth] = self.numbers;
        let (last, end) = match self.count {
            3 => (line, third),
            4 => (third, fourth),
            _ => return None,
        };
        let [line, start, end] = [u32::try_from(line), u32::try_from(start), u32::try_from(end)];
        let place = Place { line: line.ok()?, start: start.ok()?, end: end.ok()? };
        (last == u64::from(place.line) && place.start < place.end).then_some(place)
    }
}

/// The value of a field. Fields of other wire types are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field<'a> {
    /// A number.
    Number(u64),
    /// A message, a text or packed numbers.
    Bytes(&'a [u8]),
    /// Something else.
    Other,
}

impl<'a> Field<'a> {
    /// Returns the bytes of a field with a length.
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) | Self::Other => None,
        }
    }
}

/// A field that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FieldError {
    /// A field is longer than its message.
    #[error("a field is longer than its message")]
    Length,
    /// The bytes are no field.
    #[error("{0}")]
    Decode(DecodeError),
}

impl From<DecodeError> for FieldError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// The fields of a message. After an error there are none.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Creates the fields of a message.
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u32, Field<'a>), FieldError> {
        let (number, wire) = decode_key(&mut self.rest)?;
        let value = match wire {
            WireType::Varint => Field::Number(decode_varint(&mut self.rest)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest)?;
                let split =
                    usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
                let (bytes, rest) = split.ok_or(FieldError::Length)?;
                self.rest = rest;
                Field::Bytes(bytes)
            }
            _ => {
                skip_field(wire, number, &mut self.rest, DecodeContext::default())?;
                Field::Other
            }
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

/// Returns the error for bytes that cannot be decoded.
pub(crate) fn damaged(at: u64, error: &impl Display) -> ScipError {
    ScipError::Damaged { at, problem: error.to_string() }
}

/// Returns a text.
pub(crate) fn text(bytes: &[u8], at: u64) -> Result<&str, ScipError> {
    std::str::from_utf8(bytes)
        .map_err(|_| ScipError::Damaged { at, problem: "a text is not in UTF-8".to_owned() })
}
