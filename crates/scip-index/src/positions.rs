//! Positions in a text: lines, and columns in the units of each encoding.

/// The unit in which an index counts columns (`PositionEncoding` of `scip.proto`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Absent from the document, so that each unit is tried.
    Unspecified,
    /// Bytes of UTF-8.
    Utf8,
    /// Units of UTF-16.
    Utf16,
    /// Characters.
    Utf32,
}

impl Encoding {
    /// Every known unit, in the order in which they are tried.
    pub const KNOWN: [Self; 3] = [Self::Utf8, Self::Utf16, Self::Utf32];

    /// Returns the encoding of a number of `scip.proto`. An unknown one counts as absent.
    pub(crate) fn of_number(number: u64) -> Self {
        match number {
            1 => Self::Utf8,
            2 => Self::Utf16,
            3 => Self::Utf32,
            _ => Self::Unspecified,
        }
    }
}

/// A range within one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 0.
    pub line: u32,
    /// First column, from 0, in units of the encoding of the document.
    pub start: u32,
    /// Column after the last one.
    pub end: u32,
}

/// A text by its lines.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    lines: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    /// Splits a text at line feeds, with or without a carriage return.
    pub fn new(text: &'a str) -> Self {
        Self { lines: text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect() }
    }

    /// Returns the text of a range, and the text behind it in the line. `None` if the range does not fit: it leaves
    /// the text, or it begins or ends within a character. `Unspecified` fits nothing.
    pub fn at(&self, place: Place, encoding: Encoding) -> Option<(&'a str, &'a str)> {
        let line = *self.lines.get(usize::try_from(place.line).ok()?)?;
        let start = offset(line, place.start, encoding)?;
        let end = offset(line, place.end, encoding)?;
        Some((line.get(start..end)?, line.get(end..)?))
    }
}

/// Returns the offset in bytes of a column.
fn offset(line: &str, column: u32, encoding: Encoding) -> Option<usize> {
    let column = usize::try_from(column).ok()?;
    let unit: fn(char) -> usize = match encoding {
        Encoding::Unspecified => return None,
        Encoding::Utf8 => return line.is_char_boundary(column).then_some(column),
        Encoding::Utf16 => char::len_utf16,
        Encoding::Utf32 => |_: char| 1,
    };
    let mut left = column;
    for (at, letter) in line.char_indices() {
        if left == 0 {
            return Some(at);
        }
        left = left.checked_sub(unit(letter))?;
    }
    (left == 0).then_some(line.len())
}
