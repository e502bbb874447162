//! Cleaning of text that a foreign server wrote.
//!
//! Names, descriptions and results come from a stranger and are read by models and people. Cleaning bounds
//! their length, and takes away whatever a reader cannot see: a person must see the text that a model reads.
//! It says nothing about the meaning of a text, so the caller still labels it as a stranger's.

/// Maximum length of a tool's description, in bytes. Clients cut off more than 2 to 4 KiB themselves.
pub const LONGEST_DESCRIPTION: usize = 4 * 1024;

/// Maximum length of a title, of a name for people, or of one line of a log, in bytes.
pub const LONGEST_TITLE: usize = 256;

/// Mark at the end of a text that was cut.
const CUT: &str = "…";

/// Treatment of characters that a reader cannot see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invisible {
    /// Removes them: no description needs them.
    Remove,
    /// Writes them as escapes such as `\u{202e}`: a result may be the content of a file, which shows what it has.
    Escape,
}

/// Text of a foreign server after cleaning, and the account of what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanText {
    /// Text. Its only control characters are line feeds and tabs.
    pub text: String,
    /// Number of characters that were removed or escaped.
    pub hidden: usize,
    /// True if the end of the text was cut off.
    pub is_cut: bool,
}

/// Cleans a text of at most `longest` bytes afterwards, line breaks included.
pub fn clean(text: &str, longest: usize, invisible: Invisible) -> CleanText {
    let mut clean = CleanText::default();
    let room = longest.saturating_sub(CUT.len());
    // Length up to which the text may still be cut.
    let mut cut_at = 0;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let before = clean.text.len();
        match character {
            '\n' | '\t' => clean.text.push(character),
            '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' => {
                if !(character == '\r' && characters.peek() == Some(&'\n')) {
                    clean.text.push('\n');
                }
            }
            _ if is_hidden(character) => {
                clean.hidden += 1;
                if invisible == Invisible::Escape {
                    clean.text.extend(character.escape_default());
                }
            }
            _ => clean.text.push(character),
        }
        if clean.text.len() <= room {
            cut_at = clean.text.len();
        } else if clean.text.len() > longest {
            clean.text.truncate(cut_at.min(before));
            if longest >= CUT.len() {
                clean.text.push_str(CUT);
            }
            clean.is_cut = true;
            break;
        }
    }
    clean
}

/// Cleans a text to one line: line breaks and tabs become spaces.
pub fn clean_line(text: &str, longest: usize) -> String {
    let text = clean(text, longest, Invisible::Remove).text;
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Cleans a description for a model: invisible characters are removed, and space at both ends too.
pub fn clean_description(text: &str) -> CleanText {
    let mut clean = clean(text, LONGEST_DESCRIPTION, Invisible::Remove);
    let trimmed = clean.text.trim();
    if trimmed.len() < clean.text.len() {
        clean.text = trimmed.to_owned();
    }
    clean
}

/// Returns true for control characters and characters without a shape: marks of direction, joiners,
/// fillers, variation selectors and tags.
///
/// U+FE0F is kept: it only chooses the picture of an emoji, and most emoji are written with it.
fn is_hidden(character: char) -> bool {
    character != '\u{fe0f}' && (character.is_control() || tool::is_invisible(character))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_a_reader_cannot_see_is_removed_or_escaped() {
        let tags: String =
            "ignore".bytes().map(|byte| char::from_u32(0xe0000 + u32::from(byte)).unwrap()).collect();
        let hostile = format!("Adds\u{200b} two\u{202e} numbers.{tags}\x1b[8mhidden\x1b[0m\u{7f}");
        let clean = clean_description(&hostile);
        assert_eq!(clean.text, "Adds two numbers.[8mhidden[0m");
        assert_eq!(clean.hidden, 11);
        let escaped = super::clean("a\u{202e}b\0", 100, Invisible::Escape);
        assert_eq!(escaped.text, "a\\u{202e}b\\u{0}");
        assert_eq!(escaped.hidden, 2);
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "Zeile 1\n\tnaïve 中文 ❤️ 😀 — done";
        let clean = super::clean(text, 1_000, Invisible::Escape);
        assert_eq!(clean, CleanText { text: text.to_owned(), hidden: 0, is_cut: false });
    }

    #[test]
    fn line_breaks_have_one_spelling() {
        assert_eq!(clean("a\r\nb\rc\u{2028}d\u{85}e", 100, Invisible::Remove).text, "a\nb\nc\nd\ne");
        assert_eq!(clean_line(" a\r\n\tb  c ", 100), "a b c");
    }

    #[test]
    fn a_long_text_is_cut_within_its_bound() {
        let clean = super::clean(&"ä".repeat(100), 20, Invisible::Remove);
        assert!(clean.is_cut);
        assert_eq!(clean.text, format!("{}…", "ä".repeat(8)));
        assert!(!super::clean("12345678901234567890", 20, Invisible::Remove).is_cut);
    }

    proptest! {
        #[test]
        fn a_clean_text_is_bounded_visible_and_clean_again(text in any::<String>(), longest in 0_usize..60) {
            for invisible in [Invisible::Remove, Invisible::Escape] {
                let first = clean(&text, longest, invisible);
                prop_assert!(first.text.len() <= longest);
                prop_assert!(!first.text.chars().any(|c| is_hidden(c) && !"\n\t".contains(c)));
                let second = clean(&first.text, longest, invisible);
                prop_assert_eq!(second.text, first.text);
            }
        }
    }
}
