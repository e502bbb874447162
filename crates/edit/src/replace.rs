use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::line_ends::{Plain, line_end_at, with_line_ends};
use crate::{Edited, Near, line_of, nearest};

/// One text that takes the place of another.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// What is there. Not empty.
    pub old: &'a str,
    /// What is to be there.
    pub new: &'a str,
    /// How often `old` must be there. All of them are replaced.
    pub count: Count,
}

/// How often a text must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// As often as this.
    Exactly(usize),
    /// At least once.
    Any,
}

/// A text in which everything was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The new text.
    pub text: Vec<u8>,
    /// What was replaced by what, in order; only what differs.
    pub edited: Vec<Edited>,
    /// How many places were replaced.
    pub count: usize,
}

/// Why nothing was replaced. Replacements are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The text is not there.
    Absent {
        /// Which replacement.
        index: usize,
        /// The places that are most like it, the best first.
        nearest: Vec<Near>,
        /// An earlier replacement that would bring it in.
        comes_with: Option<usize>,
    },
    /// The text is there more or less often than it must be.
    Count {
        /// Which replacement.
        index: usize,
        /// How often it is there.
        found: usize,
        /// How often it must be there.
        wanted: usize,
        /// The first places.
        places: Vec<Place>,
    },
    /// Two replacements want to replace the same text.
    Overlap {
        /// The one that begins first.
        first: usize,
        /// The other one.
        second: usize,
        /// Where.
        line: usize,
    },
}

/// A line, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// What is there, shortened.
    pub text: String,
}

/// How many places are told of.
const MOST_PLACES: usize = 5;
/// Of one line.
const MOST_CHARACTERS: usize = 120;

struct Found {
    index: usize,
    range: Range<usize>,
    /// What goes there, as it is written.
    new: Vec<u8>,
}

/// Replaces all of it, or nothing.
///
/// Every text is looked for in the text as it is given, and not in what another replacement makes of it. LF in a replacement
/// stands for whatever ends the lines there; one that names CR itself is first taken literally.
///
/// # Errors
/// [`Refused`].
pub fn replace(text: &[u8], replacements: &[Replacement<'_>]) -> Result<Replaced, Refused> {
    let plain = Plain::of(text);
    let mut found = Vec::new();
    for (index, replacement) in replacements.iter().enumerate() {
        find(text, &plain, index, replacement, &mut found).map_err(|refused| match refused {
            Refused::Absent { index, nearest, .. } => {
                let brings = |earlier: &Replacement<'_>| earlier.new.contains(replacement.old);
                Refused::Absent { index, nearest, comes_with: replacements[..index].iter().position(brings) }
            }
            other => other,
        })?;
    }
    found.sort_by_key(|found| (found.range.start, found.range.end));
    for pair in found.windows(2) {
        if pair[1].range.start < pair[0].range.end {
            let line = line_of(text, pair[1].range.start);
            return Err(Refused::Overlap { first: pair[0].index, second: pair[1].index, line });
        }
    }
    let count = found.len();
    let mut made = Vec::with_capacity(text.len());
    let mut edited: Vec<Edited> = Vec::with_capacity(count);
    let mut from = 0;
    for Found { range, new, .. } in found {
        made.extend_from_slice(&text[from..range.start]);
        let start = made.len();
        made.extend_from_slice(&new);
        from = range.end;
        edited.push(Edited { old: range, new: start..made.len() });
    }
    made.extend_from_slice(&text[from..]);
    Ok(Replaced { text: made, edited, count })
}

fn find(
    text: &[u8],
    plain: &Plain<'_>,
    index: usize,
    replacement: &Replacement<'_>,
    found: &mut Vec<Found>,
) -> Result<(), Refused> {
    let names_ends = replacement.old.contains('\r') || replacement.new.contains('\r');
    let literal = names_ends && memmem::find(text, replacement.old.as_bytes()).is_some();
    let old = if literal { Cow::Borrowed(replacement.old) } else { plainly(replacement.old) };
    let new = if literal { Cow::Borrowed(replacement.new) } else { plainly(replacement.new) };
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let searched: &[u8] = if literal { text } else { &plain.text };
    let places: Vec<usize> = memmem::find_iter(searched, old).collect();
    let original = |range: Range<usize>| if literal { range } else { plain.original(&range) };
    if places.is_empty() || old == new {
        return Err(Refused::Absent { index, nearest: nearest(text, old), comes_with: None });
    }
    // A single text that overlaps itself is there twice: it would be chance which is meant.
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
        return Err(Refused::Count { index, found: starts.len(), wanted, places: shown(text, &starts) });
    }
    // What both have in common stays as it is, line ends included.
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
        found.push(Found { index, range, new });
    }
    Ok(())
}

fn plainly(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

fn shown(text: &[u8], starts: &[usize]) -> Vec<Place> {
    starts.iter().take(MOST_PLACES).map(|start| place_at(text, *start)).collect()
}

/// The line in which a byte lies.
pub(crate) fn place_at(text: &[u8], offset: usize) -> Place {
    let start = memchr::memrchr(b'\n', &text[..offset]).map_or(0, |at| at + 1);
    let end = memchr::memchr(b'\n', &text[offset..]).map_or(text.len(), |at| offset + at);
    Place { line: line_of(text, offset), text: shortened(&text[start..end]) }
}

/// A line as people see it, shortened.
pub(crate) fn shortened(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\r', '\n']);
    match line.char_indices().nth(MOST_CHARACTERS) {
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
        // Whoever names CR means it, where it is there.
        assert_eq!(replaced("a\r\nb\r\n", &[one("a\r\n", "a\n")]), "a\nb\r\n");
        assert_eq!(replaced("x\n", &[one("x", "x\r")]), "x\r\n");
    }

    #[test]
    fn every_replacement_sees_the_text_as_it_was() {
        assert_eq!(replaced("one two", &[one("one", "two"), one("two", "one")]), "two one");
        let all = Replacement { old: "a", new: "aa", count: Count::Any };
        assert_eq!(replaced("a-a", &[all]), "aa-aa");
        let refused = replace(b"one\n", &[one("one", "two three"), one("three", "x")]).unwrap_err();
        assert!(matches!(refused, Refused::Absent { index: 1, comes_with: Some(0), .. }), "{refused:?}");
    }

    #[test]
    fn what_is_there_too_often_or_overlaps_is_refused_with_its_places() {
        let refused = replace(b"x\ny\nx\n", &[one("x", "z")]).unwrap_err();
        let Refused::Count { found: 2, wanted: 1, places, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(places.iter().map(|place| place.line).collect::<Vec<_>>(), [1, 3]);
        let refused = replace(b"aaa", &[one("aa", "b")]).unwrap_err();
        assert!(matches!(refused, Refused::Count { found: 2, .. }), "{refused:?}");
        let any = Replacement { old: "aa", new: "b", count: Count::Any };
        assert_eq!((replaced("aaa", &[any]), replaced("aaaa", &[any])), ("ba".into(), "bb".into()));
        let refused = replace(b"abc", &[one("ab", "x"), one("bc", "y")]).unwrap_err();
        assert!(matches!(refused, Refused::Overlap { first: 0, second: 1, .. }), "{refused:?}");
        // Texts that overlap in what they keep alone can both be meant.
        assert_eq!(replaced("{a}\n{b}\n", &[one("{a}\n{", "{x}\n{"), one("\n{b}", "\n{y}")]), "{x}\n{y}\n");
    }
}
