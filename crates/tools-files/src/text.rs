//! Bytes of a file as text: line ends and encodings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};
use tool::ToolError;

/// A conversion of a file's bytes to text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Decoding {
    /// UTF-8, or Base64 for invalid UTF-8.
    Utf8,
    /// Base64 always.
    Base64,
    /// Another encoding, by its label.
    Label(&'static Encoding),
}

/// The result of a conversion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) text: String,
    /// Number of bytes that the text represents. A truncated last character is not counted.
    pub(crate) used: usize,
    /// Name of the encoding that was used.
    pub(crate) encoding: String,
    /// True if invalid bytes were replaced.
    pub(crate) replaced: bool,
    /// True if the text was shortened after the conversion.
    pub(crate) shortened: bool,
    /// Most likely encoding of bytes that are not UTF-8.
    pub(crate) likely: Option<&'static str>,
}

impl Conversion {
    /// Shortens Base64 to this number of characters, which is a multiple of four.
    pub(crate) fn bound_base64(&mut self, characters: usize) {
        if self.encoding == "base64" && self.text.len() > characters {
            self.text.truncate(characters);
            self.used = characters / 4 * 3;
            self.shortened = true;
        }
    }
}

/// Maximum length of a character in any encoding, in bytes (gb18030, UTF-8).
pub(crate) const LONGEST_CHARACTER: usize = 4;

impl Decoding {
    /// Parses the argument `encoding`.
    pub(crate) fn of(label: &str) -> Result<Self, ToolError> {
        if label.eq_ignore_ascii_case("base64") {
            return Ok(Self::Base64);
        }
        match encoding_named(label) {
            Some(encoding) if encoding == UTF_8 => Ok(Self::Utf8),
            Some(encoding) if encoding != REPLACEMENT => Ok(Self::Label(encoding)),
            _ => Err(ToolError::validation("encoding", format!("unknown encoding `{label}`"))
                .hint("use utf-8, base64, or a name such as latin-1, cp1252, utf-16le, shift_jis")),
        }
    }

    /// Decodes `bytes`. If the file continues after them (`cut`), only whole lines are decoded,
    /// unless the first line is incomplete. `start` means that the bytes begin the file.
    pub(crate) fn decode(self, bytes: Vec<u8>, start: bool, cut: bool) -> Conversion {
        match self {
            Self::Base64 => base64(&bytes),
            Self::Utf8 => utf8(bytes, cut),
            Self::Label(encoding) => labelled(encoding, &bytes, start, cut),
        }
    }

    /// Returns the form of line ends.
    pub(crate) fn line_ends(self) -> LineEnds {
        match self {
            Self::Label(encoding) if encoding == UTF_16LE => LineEnds::Pairs([b'\n', 0]),
            Self::Label(encoding) if encoding == UTF_16BE => LineEnds::Pairs([0, b'\n']),
            _ => LineEnds::Bytes,
        }
    }
}

/// Returns the encoding for a WHATWG label, or for a Python name (`codecs`, "Standard Encodings")
/// of one of these encodings.
fn encoding_named(label: &str) -> Option<&'static Encoding> {
    let known = |label: &str| Encoding::for_label_no_replacement(label.as_bytes());
    // Python treats hyphens, underscores and spaces alike, and no two encodings have labels that
    // differ only in these.
    let small = label.trim().to_ascii_lowercase();
    let bare: String = small.chars().filter(char::is_ascii_alphanumeric).collect();
    let hyphens = small.replace(['_', ' '], "-");
    known(&small).or_else(|| known(&hyphens)).or_else(|| known(&bare)).or_else(|| known(of_python(&bare)?))
}

/// Returns the label for a Python name, given without separators.
fn of_python(bare: &str) -> Option<&'static str> {
    Some(match bare {
        "utf8sig" | "utf8bom" | "u8" | "utf" | "cp65001" | "utf8mb4" => "utf-8",
        "utf16" | "u16" | "utf16le" => "utf-16le",
        "utf16be" => "utf-16be",
        "8859" | "iso88591" | "cp819" | "latin" | "latin1" | "l1" | "cp1252" | "1252" | "windows1252"
        | "646" => "windows-1252",
        "iso88592" | "latin2" | "l2" => "iso-8859-2",
        "iso88593" | "latin3" | "l3" => "iso-8859-3",
        "iso88594" | "latin4" | "l4" => "iso-8859-4",
        "iso88595" | "cyrillic" => "iso-8859-5",
        "iso88596" | "arabic" => "iso-8859-6",
        "iso88597" | "greek" | "greek8" => "iso-8859-7",
        "iso88598" | "hebrew" => "iso-8859-8",
        "iso88599" | "latin5" | "l5" | "1254" | "windows1254" => "windows-1254",
        "iso885910" | "latin6" | "l6" => "iso-8859-10",
        "iso885911" | "thai" | "tis620" | "tis6200" | "cp874" => "windows-874",
        "iso885913" | "latin7" | "l7" => "iso-8859-13",
        "iso885914" | "latin8" | "l8" | "isoceltic" => "iso-8859-14",
        "iso885915" | "latin9" | "l9" => "iso-8859-15",
        "iso885916" | "latin10" | "l10" => "iso-8859-16",
        "1250" | "windows1250" => "windows-1250",
        "1251" | "windows1251" => "windows-1251",
        "1253" | "windows1253" => "windows-1253",
        "1255" | "windows1255" => "windows-1255",
        "1256" | "windows1256" => "windows-1256",
        "1257" | "windows1257" => "windows-1257",
        "1258" | "windows1258" => "windows-1258",
        "866" | "ibm866" => "ibm866",
        "koi8r" => "koi8-r",
        "koi8u" => "koi8-u",
        "macroman" | "macintosh" => "macintosh",
        "maccyrillic" => "x-mac-cyrillic",
        "932" | "cp932" | "ms932" | "mskanji" | "windows31j" | "shiftjis" | "sjis" | "csshiftjis" => {
            "shift_jis"
        }
        "eucjp" | "ujis" => "euc-jp",
        "iso2022jp" | "csiso2022jp" => "iso-2022-jp",
        "949" | "cp949" | "ms949" | "uhc" | "euckr" | "korean" | "ksc5601" | "ksc56011987" | "ksx1001" => {
            "euc-kr"
        }
        "936" | "cp936" | "ms936" | "gb2312" | "euccn" | "chinese" | "eucgb2312cn" | "gb23121980" => "gbk",
        "gb180302000" => "gb18030",
        "950" | "cp950" | "ms950" | "big5tw" | "csbig5" | "big5hkscs" | "hkscs" => "big5",
        _ => return None,
    })
}

fn base64(bytes: &[u8]) -> Conversion {
    Conversion {
        text: STANDARD.encode(bytes),
        used: bytes.len(),
        encoding: "base64".to_owned(),
        replaced: false,
        shortened: false,
        likely: None,
    }
}

/// Returns Base64 of bytes that are not UTF-8, with a guess of their encoding.
fn no_utf8(bytes: &[u8]) -> Conversion {
    let is_control = |byte: &u8| *byte < b' ' && !b"\t\n\x0c\r\x1b".contains(byte);
    let likely = match bytes {
        [0xff, 0xfe, ..] => Some("utf-16le"),
        [0xfe, 0xff, ..] => Some("utf-16be"),
        _ if !bytes.iter().any(is_control) => Some("latin-1"),
        _ => utf16_without_mark(bytes),
    };
    Conversion { likely, ..base64(bytes) }
}

/// Returns the byte order of UTF-16 without a byte order mark: one byte of most pairs is zero, and
/// the other bytes are text.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static str> {
    let is_text = |byte: u8| byte >= b' ' || b"\t\n\x0c\r".contains(&byte);
    let pairs = bytes.len() / 2;
    [("utf-16le", 1), ("utf-16be", 0)].into_iter().find_map(|(name, high)| {
        let (high, low) = bytes.chunks_exact(2).fold((0, 0), |(zeros, texts), pair| {
            (zeros + usize::from(pair[high] == 0), texts + usize::from(is_text(pair[1 - high])))
        });
        (pairs > 1 && low == pairs && high * 4 >= pairs * 3).then_some(name)
    })
}

fn utf8(bytes: Vec<u8>, cut: bool) -> Conversion {
    // NUL is a valid character, but text does not contain it.
    if memchr::memchr(0, &bytes).is_some() {
        return no_utf8(&bytes);
    }
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let fault = error.utf8_error();
            let mut bytes = error.into_bytes();
            if !cut || fault.error_len().is_some() || fault.valid_up_to() == 0 {
                return no_utf8(&bytes);
            }
            bytes.truncate(fault.valid_up_to());
            String::from_utf8(bytes).unwrap_or_default()
        }
    };
    if cut && let Some(newline) = text.rfind('\n') {
        text.truncate(newline + 1);
    }
    Conversion {
        used: text.len(),
        text,
        encoding: "utf-8".to_owned(),
        replaced: false,
        shortened: false,
        likely: None,
    }
}

fn labelled(encoding: &'static Encoding, bytes: &[u8], start: bool, cut: bool) -> Conversion {
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
    // A truncated character looks like an error, which disappears without its first bytes.
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
    Conversion {
        text,
        used,
        encoding: encoding.name().to_lowercase(),
        replaced,
        shortened: false,
        likely: None,
    }
}

/// Form of line ends in the bytes of an encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineEnds {
    /// Each byte 0x0A.
    Bytes,
    /// Each pair of these bytes at an even position.
    Pairs([u8; 2]),
}

impl LineEnds {
    /// Counts the line ends of a chunk, which begins at an even position.
    pub(crate) fn count(self, chunk: &[u8]) -> u64 {
        let count = match self {
            Self::Bytes => memchr::memchr_iter(b'\n', chunk).count(),
            Self::Pairs(pair) => chunk.chunks_exact(2).filter(|found| *found == pair).count(),
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Returns the position after line end number `number` of a chunk, counted from 1.
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

    /// Returns the position after the last line end of a chunk, which begins at an even position.
    pub(crate) fn last(self, chunk: &[u8]) -> Option<usize> {
        match self {
            Self::Bytes => memchr::memrchr(b'\n', chunk).map(|at| at + 1),
            Self::Pairs(pair) => chunk.chunks_exact(2).rposition(|found| found == pair).map(|at| at * 2 + 2),
        }
    }

    /// Returns true if a chunk ends with a line end.
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
        let Conversion { text, used, encoding, replaced, .. } =
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
    fn names_of_python_are_known_in_every_spelling() {
        for (names, expected) in [
            (
                "latin-1 latin_1 Latin1 iso8859-1 ISO_8859_1 8859 cp819 L1 cp1252 windows-1252 1252 us-ascii ascii",
                "windows-1252",
            ),
            ("utf-8 utf_8 U8 UTF cp65001 utf-8-sig utf_8_sig", "utf-8"),
            ("utf_16_le UTF-16LE utf-16-le utf_16", "utf-16le"),
            ("utf_16_be UTF-16BE utf-16-be", "utf-16be"),
            ("latin-2 iso8859_2 iso-8859-2", "iso-8859-2"),
            ("latin-9 latin9 iso8859-15 L9", "iso-8859-15"),
            ("latin10 iso8859-16", "iso-8859-16"),
            ("cp932 ms-kanji shift_jis shift-jis sjis windows-31j", "shift_jis"),
            ("euc_jp eucjp ujis u-jis", "euc-jp"),
            ("cp949 euc_kr uhc ks_c-5601", "euc-kr"),
            ("gb2312 cp936 gbk euc-cn", "gbk"),
            ("gb18030 gb18030-2000", "gb18030"),
            ("big5 big5hkscs big5-hkscs cp950", "big5"),
            ("koi8_r KOI8-R", "koi8-r"),
            ("mac_roman macroman", "macintosh"),
            ("cp1251 windows_1251 1251", "windows-1251"),
            ("tis_620 iso8859-11", "windows-874"),
            ("iso2022_jp", "iso-2022-jp"),
        ] {
            for name in names.split(' ') {
                let named = encoding_named(name).map(|encoding| encoding.name().to_lowercase());
                assert_eq!(named.as_deref(), Some(expected), "{name}");
            }
        }
        for name in ["", "klingon", "cp037", "utf-32", "latin-11", "hz", "rot13"] {
            assert!(Decoding::of(name).is_err(), "{name}");
        }
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
