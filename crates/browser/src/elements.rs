//! References: the short names by which an agent points at elements.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Reference to an element: `e12` in the main frame, `f2e5` in frame 2.
///
/// A reference stays with its element for the element's life, and passes to its successor when the
/// page renders the same thing again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    /// Number of the frame; 0 for the main frame.
    pub frame: u32,
    /// Number of the element within its frame.
    pub number: u32,
}

impl Reference {
    /// Returns the reference to an element of the main frame.
    pub fn in_main_frame(number: u32) -> Self {
        Self { frame: 0, number }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frame > 0 {
            write!(formatter, "f{}", self.frame)?;
        }
        write!(formatter, "e{}", self.number)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Error for a text that is no reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no reference like e12 or f2e5")]
pub struct NotReference;

impl FromStr for Reference {
    type Err = NotReference;

    fn from_str(text: &str) -> Result<Self, NotReference> {
        let (frame, number) = match text.strip_prefix('f') {
            Some(rest) => {
                let (frame, number) = rest.split_once('e').ok_or(NotReference)?;
                (positive(frame)?, number)
            }
            None => (0, text.strip_prefix('e').ok_or(NotReference)?),
        };
        Ok(Self { frame, number: positive(number)? })
    }
}

/// Reads a number above zero that is written in digits alone.
fn positive(digits: &str) -> Result<u32, NotReference> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    match digits.parse() {
        Ok(number) if is_plain => Ok(number),
        _ => Err(NotReference),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_they_are_written() {
        for text in ["e1", "e12", "f2e5", "f10e4294967295"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_no_references() {
        for text in
            ["", "e", "e0", "e01", "e-1", "e1x", "f2", "fe1", "f0e1", "E1", "em", "e4294967296", "e+1", " e1"]
        {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
