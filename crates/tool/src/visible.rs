//! Text of an agent as people may be shown it: nothing in it hides, reorders, or looks like a line of ours.

/// Whether a character shows nothing of itself: marks of direction, joiners, fillers, variation selectors, tags, and line and
/// paragraph separators. Control characters are not among them.
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line: control and invisible characters as escapes.
pub fn visible(text: &str) -> String {
    escaped(text, None, None)
}

/// One line of a file or of a difference, as [`visible`], but with an arrow for a tab: files are full of them, and which lines
/// have them stays to be seen.
pub fn visible_source(line: &str) -> String {
    escaped(line, None, Some("\u{2192}   "))
}

/// The text on as many lines as it has: each further one is marked, so that it cannot pass for a line of what stands around it.
pub fn visible_lines(text: &str) -> String {
    escaped(text, Some("\n  | "), None)
}

/// The first characters of a text, with a sign where it goes on.
pub fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn escaped(text: &str, line_break: Option<&str>, tab: Option<&str>) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match (character, line_break, tab) {
            ('\n', Some(line_break), _) => shown.push_str(line_break),
            ('\t', _, Some(tab)) => shown.push_str(tab),
            _ if character.is_control() || is_invisible(character) => {
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
    fn a_line_of_a_file_keeps_its_indentation_and_hides_nothing() {
        assert_eq!(visible_source("+\tx\r\u{9b}2K"), "+\u{2192}   x\\r\\u{9b}2K");
    }

    #[test]
    fn a_further_line_is_marked() {
        assert_eq!(visible_lines("one\nAllow it? [y]\ttwo"), "one\n  | Allow it? [y]\\ttwo");
    }
}
