//! Search for the prefix of a text at the end of a stream's input, which the stream must hold back.

use super::{BREAK, BREAKS, LEAST, Matcher, PIECE, STRIDE, Text, line_break};

/// Number of bytes at the end of the input in which a text may have begun with too few bytes to
/// hold one of its pieces. The search looks up these texts by their beginning.
const SHORT: usize = LEAST + STRIDE + PIECE + BREAK;

/// Numbers of the texts, sorted by the bytes of the texts.
#[derive(Default)]
pub(super) struct Beginnings {
    all: Vec<u32>,
    wrapping: Vec<u32>,
}

impl Beginnings {
    pub(super) fn of(texts: &[Text], bytes: &[u8]) -> Self {
        let mut all: Vec<u32> = (0_u32..).zip(texts).map(|(number, _)| number).collect();
        all.sort_unstable_by_key(|number| &bytes[texts[*number as usize].at.clone()]);
        let wraps = |number: &u32| texts[*number as usize].wraps;
        let wrapping = all.iter().copied().filter(wraps).collect();
        Self { all, wrapping }
    }
}

impl Matcher {
    /// Returns the offset from which the input may be the beginning of a text, or the length of the
    /// input.
    pub(in crate::redact) fn begun(&self, within: &[u8]) -> usize {
        let from = within.len().saturating_sub(self.reach);
        let tail = &within[from..];
        let mut first = tail.len();
        self.look(tail, |found, is_whole| {
            if !is_whole {
                first = first.min(found.at.start);
            }
            true
        });
        let short = tail.len().saturating_sub(SHORT);
        from + (short..first).find(|at| self.begins(&tail[*at..])).unwrap_or(first)
    }

    /// Returns true if a text starts with all these bytes and is longer.
    fn begins(&self, rest: &[u8]) -> bool {
        let unbroken = self.goes_on(&self.beginnings.all, rest);
        let may_break = |at: &usize| b"\r\n\\".contains(&rest[*at]);
        let Some(at) = (1..rest.len()).find(may_break).filter(|_| !unbroken) else { return unbroken };
        let behind = match line_break(&rest[at..]) {
            Some(length) => &rest[at + length..],
            None if may_become_break(&rest[at..]) => &[],
            None => return false,
        };
        self.goes_on(&self.beginnings.wrapping, &[&rest[..at], behind].concat())
    }

    fn goes_on(&self, sorted: &[u32], beginning: &[u8]) -> bool {
        let bytes = |number: &u32| &self.bytes[self.texts[*number as usize].at.clone()];
        let first = sorted.partition_point(|number| bytes(number) < beginning);
        let alike = sorted[first..].iter().map(bytes).take_while(|text| text.starts_with(beginning));
        alike.into_iter().any(|text| text.len() > beginning.len())
    }
}

/// Returns true if the bytes are the beginning of a line break.
pub(super) fn may_become_break(rest: &[u8]) -> bool {
    BREAKS.iter().any(|line_break| line_break.len() > rest.len() && line_break.starts_with(rest))
}
