//! Conversion of an agent's text to a form that is safe to show to people: it hides nothing,
//! reorders nothing, and cannot imitate a line of Handfast.

/// Returns true if a character is invisible: marks of direction, joiners, fillers, variation
/// selectors, tags, and line and paragraph separators. Control characters do not count.
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text on one line. Control characters, invisible characters and look-alike letters
/// become escapes.
pub fn visible(text: &str) -> String {
    escaped(text, None, None)
}

/// Returns one line of a file or of a diff like [`visible`], but shows a tab as an arrow. Tabs are
/// frequent in files, and the arrow keeps them distinguishable.
pub fn visible_source(line: &str) -> String {
    escaped(line, None, Some("\u{2192}   "))
}

/// Returns the text with its line breaks. Each line after the first is marked, so that it cannot
/// imitate a line of the surrounding text.
pub fn visible_lines(text: &str) -> String {
    escaped(text, Some("\n  | "), None)
}

/// Returns the first `most` characters of a text, followed by `…` if characters were cut off.
pub fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Word to which a character belongs.
#[derive(Default)]
struct Word {
    end: usize,
    /// True if letters of the word look like Latin ones, next to Latin letters or without any other
    /// letters.
    pretends: bool,
}

impl Word {
    /// Moves on to the character at byte offset `at`.
    fn enter(&mut self, text: &str, at: usize, character: char) {
        if at < self.end || character.is_ascii() && !character.is_ascii_alphanumeric() {
            return;
        }
        let rest = text.get(at..).unwrap_or_default();
        let length = rest.find(|other: char| !other.is_alphanumeric()).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        self.end = at + length.max(character.len_utf8());
        if word.is_ascii() {
            self.pretends = false;
            return;
        }
        let is_latin = |letter: char| letter.is_ascii_alphabetic();
        let letters = || word.chars().filter(|letter| letter.is_alphabetic());
        let only_pretends =
            letters().count() > 1 && letters().all(|letter| is_latin(letter) || is_look_alike(letter));
        self.pretends = letters().any(is_look_alike) && (letters().any(is_latin) || only_pretends);
    }
}

/// Returns true if a letter of another script looks like a Latin one. The lists hold those letters
/// of Unicode's `confusables.txt` that common fonts draw alike.
fn is_look_alike(letter: char) -> bool {
    const GREEK: &str = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοιανρυκχγ";
    const CYRILLIC: &str = "АВСЕНІЈКМОРЅТУХҮҺԁԌԍԛԜԝаеорсухіјѕһӏѵ";
    const OTHERS: &str = "ıɑɡɩʏɢʟօսցհոԝՍՏᏟᎠᎡᎢᎪᎬᎳᎷᎻᏀᏃᏎᏒᏔᏙᏚᏞᏢᏦꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ";
    !letter.is_ascii() && [GREEK, CYRILLIC, OTHERS].iter().any(|letters| letters.contains(letter))
}

/// Returns true for styled variants of Latin letters, digits and signs: full width, mathematical,
/// Roman numerals.
fn is_styled(letter: char) -> bool {
    matches!(letter, '\u{ff01}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}' | '\u{2160}'..='\u{217f}')
}

/// Returns true for characters that look like a slash, a dot, a colon or a plain space.
fn is_other_separator(sign: char) -> bool {
    matches!(
        sign,
        '\u{a0}' | '\u{2000}'
            ..='\u{200a}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{2024}'
                | '\u{2044}'
                | '\u{2215}'
                | '\u{29f8}'
                | '\u{a789}'
                | '\u{2236}'
    )
}

fn escaped(text: &str, line_break: Option<&str>, tab: Option<&str>) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut word = Word::default();
    for (at, character) in text.char_indices() {
        word.enter(text, at, character);
        match (character, line_break, tab) {
            ('\n', Some(line_break), _) => shown.push_str(line_break),
            ('\t', _, Some(tab)) => shown.push_str(tab),
            _ if character.is_control() || is_invisible(character) || is_other_separator(character) => {
                shown.extend(character.escape_default());
            }
            _ if word.pretends && is_look_alike(character) || is_styled(character) => {
                shown.extend(character.escape_default());
            }
            _ => shown.push(character),
        }
    }
    shown
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_move_the_cursor_hide_or_turn_the_direction() {
        assert_eq!(visible("a\x1b[2Kb\u{202e}c\nd\r"), "a\\u{1b}[2Kb\\u{202e}c\\nd\\r");
        assert_eq!(visible("plain äöü 中文"), "plain äöü 中文");
    }

    #[test]
    fn letters_that_look_like_others_are_marked_and_ordinary_text_of_other_scripts_is_not() {
        assert_eq!(visible("p\u{430}ypal.com"), "p\\u{430}ypal.com");
        assert_eq!(visible("\u{441}\u{43e}\u{440}\u{435}/x"), "\\u{441}\\u{43e}\\u{440}\\u{435}/x");
        assert_eq!(visible("\u{ff43}at a\u{2215}b \u{1d41a}"), "\\u{ff43}at a\\u{2215}b \\u{1d41a}");
        assert_eq!(visible("rm\u{a0}-rf /s\u{3bf}me"), "rm\\u{a0}-rf /s\\u{3bf}me");
        for plain in [
            "привет, мир и все",
            "καλημέρα κόσμε",
            "Δt = 5 μm, λx",
            "naïve café, ß",
            "日本語 text",
            "x²",
            "а ты?",
        ] {
            assert_eq!(visible(plain), plain);
        }
    }

    #[test]
    fn a_line_of_a_file_keeps_its_indentation_and_hides_nothing() {
        assert_eq!(visible_source("+\tx\r\u{9b}2K"), "+\u{2192}   x\\r\\u{9b}2K");
    }

    #[test]
    fn a_further_line_is_marked() {
        assert_eq!(visible_lines("one\nAllow it? [y]\ttwo"), "one\n  | Allow it? [y]\\ttwo");
    }
}
