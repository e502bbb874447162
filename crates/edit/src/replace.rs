//! Replaces exact texts in a content, all or none.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::line_ends::{Plain, line_end_at, with_line_ends};
use crate::{EditedRange, Near, line_of, nearest};

/// One replacement of a text by another.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// Text to find. Not empty.
    pub old: &'a str,
    /// Text that replaces it.
    pub new: &'a str,
    /// Required number of occurrences of `old`. All of them are replaced.
    pub count: Count,
}

/// A required number of occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Exactly this number.
    Exactly(usize),
    /// One or more.
    Any,
}

/// The result of a list of replacements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceOutcome {
    /// The new text.
    pub text: Vec<u8>,
    /// Ranges that changed, in order.
    pub edited: Vec<EditedRange>,
    /// Number of replaced occurrences.
    pub count: usize,
}

/// A reason why nothing was replaced. Indexes count replacements from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaceError {
    /// The content does not have the text.
    Absent {
        /// Index of the replacement.
        index: usize,
        /// The most similar places, the best first.
        nearest: Vec<Near>,
        /// Index of an earlier replacement whose new text would bring in the missing text.
        comes_with: Option<usize>,
    },
    /// The number of occurrences differs from the required one.
    Count {
        /// Index of the replacement.
        index: usize,
        /// Number of occurrences.
        found: usize,
        /// Required number of occurrences.
        wanted: usize,
        /// The first places.
        places: Vec<Place>,
    },
    /// Two replacements overlap.
    Overlap {
        /// Index of the replacement that begins first.
        first: usize,
        /// Index of the other replacement.
        second: usize,
        /// Line of the overlap.
        line: usize,
    },
}

/// A line of a text, as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Line number, counted from 1.
    pub line: usize,
    /// Text of the line, shortened.
    pub text: String,
}

/// Maximum number of places that are reported.
const MAX_PLACES: usize = 5;
/// Maximum number of characters of a shown line.
const MAX_CHARACTERS: usize = 120;

struct FoundOccurrence {
    index: usize,
    range: Range<usize>,
    /// Replacement with the file's line ends.
    new: Vec<u8>,
}

/// Applies all replacements, or none.
///
/// Each text is searched for in the original text, and not in the result of another replacement. LF
/// in a replacement matches any line end. A replacement that contains CR is first tried literally.
///
/// # Errors
/// [`ReplaceError`].
pub fn replace(text: &[u8], replacements: &[Replacement<'_>]) -> Result<ReplaceOutcome, ReplaceError> {
    let plain = Plain::of(text);
    let mut found = Vec::new();
    for (index, replacement) in replacements.iter().enumerate() {
        find(text, &plain, index, replacement, &mut found).map_err(|refused| match refused {
            ReplaceError::Absent { index, nearest, .. } => {
                let brings = |earlier: &Replacement<'_>| earlier.new.contains(replacement.old);
                ReplaceError::Absent {
                    index,
                    nearest,
                    comes_with: replacements[..index].iter().position(brings),
                }
            }
            other => other,
        })?;
    }
    found.sort_by_key(|found| (found.range.start, found.range.end));
    for pair in found.windows(2) {
        if pair[1].range.start < pair[0].range.end {
            let line = line_of(text, pair[1].range.start);
            return Err(ReplaceError::Overlap { first: pair[0].index, second: pair[1].index, line });
        }
    }
    let count = found.len();
    let mut made = Vec::with_capacity(text.len());
    let mut edited: Vec<EditedRange> = Vec::with_capacity(count);
    let mut from = 0;
    for FoundOccurrence { range, new, .. } in found {
        made.extend_from_slice(&text[from..range.start]);
        let start = made.len();
        made.extend_from_slice(&new);
        from = range.end;
        edited.push(EditedRange { old: range, new: start..made.len() });
    }
    made.extend_from_slice(&text[from..]);
    Ok(ReplaceOutcome { text: made, edited, count })
}

fn find(
    text: &[u8],
    plain: &Plain<'_>,
    index: usize,
    replacement: &Replacement<'_>,
    found: &mut Vec<FoundOccurrence>,
) -> Result<(), ReplaceError> {
    let names_ends = replacement.old.contains('\r') || replacement.new.contains('\r');
    let literal = names_ends && memmem::find(text, replacement.old.as_bytes()).is_some();
    let old = if literal { Cow::Borrowed(replacement.old) } else { plainly(replacement.old) };
    let new = if literal { Cow::Borrowed(replacement.new) } else { plainly(replacement.new) };
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let searched: &[u8] = if literal { text } else { &plain.text };
    let places: Vec<usize> = memmem::find_iter(searched, old).collect();
    let original = |range: Range<usize>| if literal { range } else { plain.original(&range) };
    if places.is_empty() || old == new {
        return Err(ReplaceError::Absent { index, nearest: nearest(text, old), comes_with: None });
    }
    // A single occurrence that overlaps another counts as two, because the choice between them
    // would be arbitrary.
    let again = |place: usize| {
        let behind = &searched[place + 1..(place + 2 * old.len() - 1).min(searched.len())];
        memmem::find(behind, old).map(|at| place + 1 + at)
    };
    let overlapping = places.first().filter(|_| places.len() == 1).and_then(|place| again(*place));
    if let Count::Exactly(wanted) = replacement.count
        && (places.len() != wanted || overlapping.is_some())
    {
        let all = places.iter().copied().chain(overlapping);
        let starts: Vec<usize> = all.map(|place| original(place..place).start).collect();
        return Err(ReplaceError::Count { index, found: starts.len(), wanted, places: shown(text, &starts) });
    }
    // The common beginning and end stay unchanged, including their line ends.
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let shorter = old.len().min(new.len()) - before;
    let same_ends = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let behind = same_ends.min(shorter);
    for place in places {
        let range = original(place + before..place + old.len() - behind);
        let new = &new[before..new.len() - behind];
        let new = if literal {
            new.to_vec()
        } else {
            with_line_ends(new, line_end_at(text, range.start)).into_owned()
        };
        found.push(FoundOccurrence { index, range, new });
    }
    Ok(())
}

fn plainly(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

fn shown(text: &[u8], starts: &[usize]) -> Vec<Place> {
    starts.iter().take(MAX_PLACES).map(|start| place_at(text, *start)).collect()
}

/// Returns the line that contains the byte at `offset`.
pub(crate) fn place_at(text: &[u8], offset: usize) -> Place {
    let start = memchr::memrchr(b'\n', &text[..offset]).map_or(0, |at| at + 1);
    let end = memchr::memchr(b'\n', &text[offset..]).map_or(text.len(), |at| offset + at);
    Place { line: line_of(text, offset), text: shortened(&text[start..end]) }
}

/// Returns a line as people read it, shortened.
pub(crate) fn shortened(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\r', '\n']);
    match line.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<'a>(old: &'a str, new: &'a str) -> Replacement<'a> {
        Replacement { old, new, count: Count::Exactly(1) }
    }

    fn replaced(text: &str, list: &[Replacement<'_>]) -> String {
        String::from_utf8(replace(text.as_bytes(), list).unwrap().text).unwrap()
    }

    #[test]
    fn line_ends_stay_what_they_are_around_and_within_a_replacement() {
        assert_eq!(replaced("a\r\nb\r\nc\r\n", &[one("a\nb", "a\nx\nb")]), "a\r\nx\r\nb\r\nc\r\n");
        assert_eq!(replaced("a\nb\r\nc\n", &[one("b\nc", "b\nd")]), "a\nb\r\nd\n");
        assert_eq!(replaced("a\r\nb", &[one("b", "b\nc")]), "a\r\nb\r\nc");
        assert_eq!(replaced("a\nb", &[one("a\r\nb", "a\r\nc")]), "a\nc");
        // A CR in a replacement is literal if the file has it.
        assert_eq!(replaced("a\r\nb\r\n", &[one("a\r\n", "a\n")]), "a\nb\r\n");
        assert_eq!(replaced("x\n", &[one("x", "x\r")]), "x\r\n");
    }

    #[test]
    fn every_replacement_sees_the_text_as_it_was() {
        assert_eq!(replaced("one two", &[one("one", "two"), one("two", "one")]), "two one");
        let all = Replacement { old: "a", new: "aa", count: Count::Any };
        assert_eq!(replaced("a-a", &[all]), "aa-aa");
        let refused = replace(b"one\n", &[one("one", "two three"), one("three", "x")]).unwrap_err();
        assert!(matches!(refused, ReplaceError::Absent { index: 1, comes_with: Some(0), .. }), "{refused:?}");
    }

    #[test]
    fn what_is_there_too_often_or_overlaps_is_refused_with_its_places() {
        let refused = replace(b"x\ny\nx\n", &[one("x", "z")]).unwrap_err();
        let ReplaceError::Count { found: 2, wanted: 1, places, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(places.iter().map(|place| place.line).collect::<Vec<_>>(), [1, 3]);
        let refused = replace(b"aaa", &[one("aa", "b")]).unwrap_err();
        assert!(matches!(refused, ReplaceError::Count { found: 2, .. }), "{refused:?}");
        let any = Replacement { old: "aa", new: "b", count: Count::Any };
        assert_eq!((replaced("aaa", &[any]), replaced("aaaa", &[any])), ("ba".into(), "bb".into()));
        let refused = replace(b"abc", &[one("ab", "x"), one("bc", "y")]).unwrap_err();
        assert!(matches!(refused, ReplaceError::Overlap { first: 0, second: 1, .. }), "{refused:?}");
        // Texts that overlap only in what they leave unchanged are both applied.
        assert_eq!(replaced("{a}\n{b}\n", &[one("{a}\n{", "{x}\n{"), one("\n{b}", "\n{y}")]), "{x}\n{y}\n");
    }
}
