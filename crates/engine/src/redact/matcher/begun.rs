//! Where a text may have begun that has not come to its end: all that a stream has to hold back.

use super::spelling::{Reach, Spelling, is_encoded, squeeze};
use super::{LEAST, Matcher, PIECE, STRIDE, Text};

/// Bytes at the end of which too few may belong to a text for one of its pieces to be found: a text that begins there is looked up by
/// how it begins.
const SHORT: usize = LEAST + STRIDE + PIECE;
/// The same of one that is written in pieces, with the columns of a dump between them; and the characters of it.
const SHORT_IN_PIECES: usize = 200;
const FEW: usize = 24;

/// The texts by how they begin: their numbers, in the order of their bytes, and those of each spelling.
#[derive(Default)]
pub(super) struct Beginnings {
    all: Vec<u32>,
    lines: Vec<u32>,
    digits: Vec<u32>,
    percent: Vec<u32>,
}

impl Beginnings {
    pub(super) fn of(texts: &[Text], bytes: &[u8]) -> Self {
        let mut all: Vec<u32> = (0_u32..).zip(texts).map(|(number, _)| number).collect();
        all.sort_unstable_by_key(|number| &bytes[texts[*number as usize].at.clone()]);
        let spelt = |spelling| {
            let is = |number: &u32| texts[*number as usize].spelling == spelling;
            all.iter().copied().filter(is).collect()
        };
        let (lines, digits, percent) =
            (spelt(Spelling::Lines), spelt(Spelling::Digits), spelt(Spelling::Percent));
        Self { all, lines, digits, percent }
    }
}

impl Matcher {
    /// From where on what has come may be the beginning of a text; its end where nothing is.
    pub(in crate::redact) fn begun(&self, within: &[u8]) -> usize {
        let from = within.len().saturating_sub(self.reach);
        let tail = &within[from..];
        let mut first = tail.len();
        self.look(tail, |found, reach| {
            if !matches!(reach, Reach::Whole(_)) {
                first = first.min(found.at.start);
            }
            true
        });
        let in_pieces = tail.len().saturating_sub(SHORT_IN_PIECES);
        let short = tail.len().saturating_sub(SHORT);
        let escapes = tail[in_pieces..].contains(&b'%');
        let begins = |at: &usize| {
            let rest = &tail[*at..];
            (*at >= short && self.goes_on(&self.beginnings.all, rest)) || self.begins_in_pieces(rest, escapes)
        };
        from + (in_pieces..first).find(begins).unwrap_or(first)
    }

    /// Whether a text that is written in pieces begins with all of this, and goes on.
    fn begins_in_pieces(&self, rest: &[u8], escapes: bool) -> bool {
        let begins = |sorted: &[u32], spelling, columns| {
            let (squeezed, count, is_all) = squeeze::<FEW>(rest, spelling, columns);
            is_all && self.goes_on(sorted, &squeezed[..count])
        };
        let first = rest.first().copied().unwrap_or_default();
        (is_encoded(first) && begins(&self.beginnings.lines, Spelling::Lines, false))
            || (first.is_ascii_hexdigit()
                && [false, true]
                    .into_iter()
                    .any(|columns| begins(&self.beginnings.digits, Spelling::Digits, columns)))
            || (escapes && begins(&self.beginnings.percent, Spelling::Percent, false))
    }

    fn goes_on(&self, sorted: &[u32], beginning: &[u8]) -> bool {
        let bytes = |number: &u32| &self.bytes[self.texts[*number as usize].at.clone()];
        let first = sorted.partition_point(|number| bytes(number) < beginning);
        let alike = sorted[first..].iter().map(bytes).take_while(|text| text.starts_with(beginning));
        alike.into_iter().any(|text| text.len() > beginning.len())
    }
}
