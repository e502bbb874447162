//! Repair of JSON whose strings contain half a surrogate pair.
//!
//! Strings of JavaScript are UTF-16 and may contain such halves; the browser writes them as
//! `\ud83d`. Rust's strings cannot hold them, so a parser refuses the whole message.

/// Replacement character as an escape: as long as the escape that it replaces.
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

/// Replaces every escape of half a surrogate pair by that of U+FFFD, in place.
pub(crate) fn repair(json: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let start = at + found;
        at = match unit(json, start) {
            None => start + 2,
            Some(0xD800..=0xDBFF) if matches!(unit(json, start + 6), Some(0xDC00..=0xDFFF)) => start + 12,
            Some(0xD800..=0xDFFF) => {
                if let Some(escape) = json.get_mut(start..start + 6) {
                    escape.copy_from_slice(REPLACEMENT);
                }
                start + 6
            }
            Some(_) => start + 6,
        };
    }
}

/// Returns the code unit whose escape starts here; `None` if something else does.
fn unit(json: &[u8], start: usize) -> Option<u16> {
    let digits = json.get(start..start + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |value, digit| {
        let digit = u16::try_from(char::from(*digit).to_digit(16)?).ok()?;
        Some(value << 4 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(json: &str) -> String {
        let mut bytes = json.as_bytes().to_vec();
        repair(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_stays() {
        assert_eq!(repaired(r#""a\ud83db""#), r#""a\ufffdb""#);
        assert_eq!(repaired(r#""\uDE00""#), r#""\ufffd""#);
        assert_eq!(repaired(r#""\ud83d\ude00""#), r#""\ud83d\ude00""#);
        assert_eq!(repaired(r#""\ud83d\ud83d\ude00""#), r#""\ufffd\ud83d\ude00""#);
        assert_eq!(repaired(r#""\ud83d\n\ude00""#), r#""\ufffd\n\ufffd""#);
    }

    #[test]
    fn an_escaped_backslash_starts_no_escape() {
        for json in [r#""\\ud83d""#, r#""\u00e4\"\\""#, r#""\u""#, "\"\\", "\\u12"] {
            assert_eq!(repaired(json), json);
        }
        assert_eq!(repaired(r#""\\\ud83d""#), r#""\\\ufffd""#);
    }
}
