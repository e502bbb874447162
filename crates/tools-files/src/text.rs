//! Bytes of a file as text: where lines end, and what an encoding makes of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};
use tool::ToolError;

/// How a file's bytes become text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Decoding {
    /// UTF-8, or Base64 where they are none.
    Utf8,
    /// Base64 in any case.
    Base64,
    /// Another encoding, by its label.
    Label(&'static Encoding),
}

/// What decoding gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    /// Bytes that the text stands for; fewer than there were where the last character was cut.
    pub(crate) used: usize,
    /// The encoding that was really used.
    pub(crate) encoding: String,
    /// Whether some bytes stand for nothing in the encoding, and were replaced.
    pub(crate) replaced: bool,
    /// Whether it was shortened after it was decoded.
    pub(crate) shortened: bool,
}

impl Decoded {
    /// Shortens Base64 to this many characters, a multiple of four.
    pub(crate) fn bound_base64(&mut self, characters: usize) {
        if self.encoding == "base64" && self.text.len() > characters {
            self.text.truncate(characters);
            self.used = characters / 4 * 3;
            self.shortened = true;
        }
    }
}

/// Bytes of the longest character in any encoding (gb18030, UTF-8).
pub(crate) const LONGEST_CHARACTER: usize = 4;

impl Decoding {
    /// Reads the argument `encoding`.
    pub(crate) fn of(label: &str) -> Result<Self, ToolError> {
        if label.eq_ignore_ascii_case("base64") {
            return Ok(Self::Base64);
        }
        match Encoding::for_label_no_replacement(label.as_bytes()) {
            Some(encoding) if encoding == UTF_8 => Ok(Self::Utf8),
            Some(encoding) if encoding != REPLACEMENT => Ok(Self::Label(encoding)),
            _ => Err(ToolError::validation("encoding", format!("`{label}` is not known"))
                .hint("use utf-8, base64, or a WHATWG label such as latin1, utf-16le, shift_jis")),
        }
    }

    /// Decodes `bytes`: whole lines where the file goes on behind them, which `cut` says, unless there is no whole line. `start` says
    /// that the file begins with them.
    pub(crate) fn decode(self, bytes: Vec<u8>, start: bool, cut: bool) -> Decoded {
        match self {
            Self::Base64 => base64(&bytes),
            Self::Utf8 => utf8(bytes, cut),
            Self::Label(encoding) => labelled(encoding, &bytes, start, cut),
        }
    }

    /// Where lines end.
    pub(crate) fn line_ends(self) -> LineEnds {
        match self {
            Self::Label(encoding) if encoding == UTF_16LE => LineEnds::Pairs([b'\n', 0]),
            Self::Label(encoding) if encoding == UTF_16BE => LineEnds::Pairs([0, b'\n']),
            _ => LineEnds::Bytes,
        }
    }
}

fn base64(bytes: &[u8]) -> Decoded {
    Decoded {
        text: STANDARD.encode(bytes),
        used: bytes.len(),
        encoding: "base64".to_owned(),
        replaced: false,
        shortened: false,
    }
}

fn utf8(bytes: Vec<u8>, cut: bool) -> Decoded {
    // NUL is a character, but no text has it.
    if memchr::memchr(0, &bytes).is_some() {
        return base64(&bytes);
    }
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let fault = error.utf8_error();
            let mut bytes = error.into_bytes();
            if !cut || fault.error_len().is_some() || fault.valid_up_to() == 0 {
                return base64(&bytes);
            }
            bytes.truncate(fault.valid_up_to());
            String::from_utf8(bytes).unwrap_or_default()
        }
    };
    if cut && let Some(newline) = text.rfind('\n') {
        text.truncate(newline + 1);
    }
    Decoded { used: text.len(), text, encoding: "utf-8".to_owned(), replaced: false, shortened: false }
}

fn labelled(encoding: &'static Encoding, bytes: &[u8], start: bool, cut: bool) -> Decoded {
    let ends = Decoding::Label(encoding).line_ends();
    let (bytes, cut) = match ends.last(bytes).filter(|_| cut) {
        Some(end) => (&bytes[..end], false),
        None => (bytes, cut),
    };
    let decode = |bytes: &[u8]| {
        let (text, faulty) = if start {
            encoding.decode_with_bom_removal(bytes)
        } else {
            encoding.decode_without_bom_handling(bytes)
        };
        (text.into_owned(), faulty)
    };
    let whole = decode(bytes);
    let (mut used, mut decoded) = (bytes.len(), whole);
    // A character that was cut looks like a fault, which goes away with its first bytes.
    for shorter in 1..LONGEST_CHARACTER {
        if !(cut && decoded.1) || shorter >= bytes.len() {
            break;
        }
        let candidate = decode(&bytes[..bytes.len() - shorter]);
        if !candidate.1 {
            (used, decoded) = (bytes.len() - shorter, candidate);
        }
    }
    let (text, replaced) = decoded;
    Decoded { text, used, encoding: encoding.name().to_lowercase(), replaced, shortened: false }
}

/// Where lines end in the bytes of an encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineEnds {
    /// At every byte 0x0A.
    Bytes,
    /// At every such pair at an even position.
    Pairs([u8; 2]),
}

impl LineEnds {
    /// How many lines end in a chunk, which begins at an even position.
    pub(crate) fn count(self, chunk: &[u8]) -> u64 {
        let count = match self {
            Self::Bytes => memchr::memchr_iter(b'\n', chunk).count(),
            Self::Pairs(pair) => chunk.chunks_exact(2).filter(|found| *found == pair).count(),
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// The position behind the `number`th line end of a chunk, counted from 1.
    pub(crate) fn position_after(self, chunk: &[u8], number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        match self {
            Self::Bytes => memchr::memchr_iter(b'\n', chunk).nth(index).map(|at| at + 1),
            Self::Pairs(pair) => {
                let mut pairs = chunk.chunks_exact(2).enumerate().filter(|(_, found)| *found == pair);
                pairs.nth(index).map(|(at, _)| at * 2 + 2)
            }
        }
    }

    /// Gives the position behind the last line end of a chunk, which begins at an even position.
    pub(crate) fn last(self, chunk: &[u8]) -> Option<usize> {
        match self {
            Self::Bytes => memchr::memrchr(b'\n', chunk).map(|at| at + 1),
            Self::Pairs(pair) => chunk.chunks_exact(2).rposition(|found| found == pair).map(|at| at * 2 + 2),
        }
    }

    /// Whether a line ends at the end of a chunk.
    pub(crate) fn ends(self, chunk: &[u8]) -> bool {
        match self {
            Self::Bytes => chunk.ends_with(b"\n"),
            Self::Pairs(pair) => chunk.ends_with(&pair),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(label: &str, bytes: &[u8], cut: bool) -> (String, usize, String, bool) {
        let Decoded { text, used, encoding, replaced, .. } =
            Decoding::of(label).unwrap().decode(bytes.to_vec(), true, cut);
        (text, used, encoding, replaced)
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(decoded("utf-8", "aé".as_bytes(), true), ("aé".into(), 3, "utf-8".into(), false));
        assert_eq!(decoded("utf-8", b"a\xc3", true), ("a".into(), 1, "utf-8".into(), false));
        assert_eq!(decoded("utf-16le", b"\xff\xfea\0\x3d", true), ("a".into(), 4, "utf-16le".into(), false));
        let half_of_a_pair = b"a\0\x3d\xd8";
        assert_eq!(decoded("utf-16le", half_of_a_pair, true), ("a".into(), 2, "utf-16le".into(), false));
        assert_eq!(decoded("shift_jis", b"\x82\xa0\x82", true), ("あ".into(), 2, "shift_jis".into(), false));
    }

    #[test]
    fn a_part_is_cut_between_lines_where_there_is_one() {
        assert_eq!(decoded("utf-8", b"a\nb\r\nc", true).1, 5);
        assert_eq!(decoded("utf-8", b"a\nb\xc3", true).0, "a\n");
        assert_eq!(decoded("utf-8", b"a\nb", false).0, "a\nb");
        assert_eq!(decoded("latin1", b"\xe9\n\xe9", true).0, "é\n");
        assert_eq!(decoded("utf-16le", b"a\0\n\0b\0\x0a\x0a", true).1, 4);
        assert_eq!(decoded("utf-8", b"a\n\xffb", true).2, "base64");
    }

    #[test]
    fn what_is_no_text_comes_as_base64() {
        assert_eq!(decoded("UTF-8", b"a\xffb", true).2, "base64");
        assert_eq!(decoded("utf8", b"a\0b", false), ("YQBi".into(), 3, "base64".into(), false));
        assert_eq!(decoded("utf-8", b"a\xc3", false).2, "base64");
        assert_eq!(decoded("base64", b"text", false).0, "dGV4dA==");
        assert_eq!(decoded("latin1", b"\xe9", false), ("é".into(), 1, "windows-1252".into(), false));
        assert!(decoded("euc-jp", b"\xff", false).3);
        assert_eq!(Decoding::of("klingon").unwrap_err().code, tool::Code::Validation);
    }

    #[test]
    fn lines_of_wide_characters_end_at_even_positions() {
        let ends = Decoding::of("utf-16le").unwrap().line_ends();
        // The second pair straddles two characters, and is no line end.
        let chunk = b"\n\0a\n\0b\n\0";
        assert_eq!(ends.count(chunk), 2);
        assert_eq!(ends.position_after(chunk, 1), Some(2));
        assert_eq!(ends.position_after(chunk, 2), Some(8));
        assert_eq!(ends.position_after(chunk, 3), None);
    }
}
