//! Line ends: matches text with LF against files with CRLF.

use std::borrow::Cow;
use std::ops::Range;

/// A text in which every line ends with LF, and the positions of the removed CRs.
pub(crate) struct Plain<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    /// Positions, in `text`, of each LF that had a CR before it.
    carriage_returns: Vec<usize>,
}

impl<'a> Plain<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        let mut ends = memchr::memmem::find_iter(text, b"\r\n").peekable();
        if ends.peek().is_none() {
            return Self { text: Cow::Borrowed(text), carriage_returns: Vec::new() };
        }
        let mut plain = Vec::with_capacity(text.len());
        let (mut carriage_returns, mut from) = (Vec::new(), 0);
        for end in ends {
            plain.extend_from_slice(&text[from..end]);
            carriage_returns.push(plain.len());
            from = end + 1;
        }
        plain.extend_from_slice(&text[from..]);
        Self { text: Cow::Owned(plain), carriage_returns }
    }

    /// Maps a range of `text` to the range in the original text.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let at = |place: usize| place + self.carriage_returns.partition_point(|lf| *lf < place);
        at(range.start)..at(range.end)
    }
}

/// Returns the line end of the line that contains the byte at `offset`, or of the previous line if
/// that line is the last.
pub(crate) fn line_end_at(text: &[u8], offset: usize) -> &'static [u8] {
    let ends_with_crlf = |lf: usize| lf > 0 && text[lf - 1] == b'\r';
    let next = memchr::memchr(b'\n', &text[offset..]).map(|at| offset + at);
    match next.or_else(|| memchr::memrchr(b'\n', &text[..offset])) {
        Some(lf) if ends_with_crlf(lf) => b"\r\n",
        _ => b"\n",
    }
}

/// Returns the text with LF replaced by CRLF if `end` is CRLF.
pub(crate) fn with_line_ends<'a>(text: &'a [u8], end: &[u8]) -> Cow<'a, [u8]> {
    if end == b"\n" || memchr::memchr(b'\n', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut made = Vec::with_capacity(text.len() + 16);
    for part in text.split_inclusive(|byte| *byte == b'\n') {
        match part.strip_suffix(b"\n") {
            Some(line) => {
                made.extend_from_slice(line);
                made.extend_from_slice(end);
            }
            None => made.extend_from_slice(part),
        }
    }
    Cow::Owned(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lead_back_to_the_text_as_it_was() {
        let text = b"a\r\nb\nc\r\n\r\nd";
        let plain = Plain::of(text);
        assert_eq!(&*plain.text, b"a\nb\nc\n\nd");
        let original = |range: Range<usize>| &text[plain.original(&range)];
        assert_eq!(original(0..3), b"a\r\nb");
        assert_eq!(original(2..6), b"b\nc\r\n");
        assert_eq!(original(5..8), b"\r\n\r\nd");
        assert_eq!(line_end_at(text, 3), b"\n");
        assert_eq!(line_end_at(text, text.len()), b"\r\n");
        assert_eq!(&*with_line_ends(b"x\ny\n", b"\r\n"), b"x\r\ny\r\n");
    }
}
