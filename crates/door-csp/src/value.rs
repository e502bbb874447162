//! Values: plain text, or a JSON string.

use std::fmt::Write as _;

/// Returns true if the character may appear in a value without quotes.
pub(crate) fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_./:-".contains(character)
}

/// Formats a value for an answer: unchanged if every character is plain, otherwise as a JSON string.
pub(crate) fn token(value: &str) -> String {
    if !value.is_empty() && value.chars().all(is_plain) { value.to_owned() } else { quoted(value) }
}

/// Formats a text that ends its line. Printable ASCII that does not look like a JSON string stays
/// unchanged. Any other text becomes a JSON string.
pub(crate) fn rest_of_line(text: &str) -> String {
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_plain = is_printable && !text.is_empty() && !text.starts_with('"') && text.trim() == text;
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// Formats a JSON string. All control characters, line separators and invisible characters are
/// escaped, even those that JSON permits unescaped, because terminals and line readers may
/// interpret them.
pub(crate) fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if character.is_control() || tool::is_invisible(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            _ => text.push(character),
        }
    }
    text.push('"');
    text
}

/// Cuts a text to at most `most` characters. A longer text ends in `...`.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_is_plain_or_a_json_string() {
        assert_eq!(token("http://a.b/c_d-1"), "http://a.b/c_d-1");
        assert_eq!(token(""), "\"\"");
        assert_eq!(token("npm test"), "\"npm test\"");
        assert_eq!(rest_of_line("npm test"), "npm test");
        assert_eq!(rest_of_line("echo \"a\" 'b' > c\\d"), "echo \"a\" 'b' > c\\d");
        for text in ["a\nSTATUS OK", "\"a\"", " a", "a ", "", "ä", "a\u{2028}b", "a\tb"] {
            assert_eq!(rest_of_line(text), quoted(text));
        }
        assert_eq!(token("a\nSTATUS OK"), "\"a\\nSTATUS OK\"");
        assert_eq!(
            quoted("\u{1b}\u{7f}\u{9b}\u{2028}\u{202e}\u{e0041}"),
            r#""\u001b\u007f\u009b\u2028\u202e\udb40\udc41""#
        );
        assert_eq!(bounded("abcdef", 6), "abcdef");
        assert_eq!(bounded("abcdefg", 6), "abc...");
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_one_line_and_reads_back_as_it_was(text in any::<String>()) {
            for token in [token(&text), rest_of_line(&text)] {
                prop_assert!(!token.chars().any(|c| c.is_control() || tool::is_invisible(c)), "{token:?}");
                let read = if token.starts_with('"') { serde_json::from_str(&token).unwrap() } else { token };
                prop_assert_eq!(&read, &text);
            }
        }
    }
}
