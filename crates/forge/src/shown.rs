//! Text of a request, as a description shows it.

/// Returns the text in printable ASCII, with other characters escaped, cut after `most` characters.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (at, letter) in text.chars().enumerate() {
        if at == most {
            out.push_str("...");
            break;
        }
        // A backtick would end the quotation in which a description shows a name.
        if matches!(letter, ' '..='~') && letter != '`' {
            out.push(letter);
        } else {
            out.extend(letter.escape_unicode());
        }
    }
    out
}

/// Returns the names as a list, of which at most `most` are written out.
pub(crate) fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let mut listed: Vec<String> = names.take(most).map(str::to_owned).collect();
    if more > 0 {
        listed.push(format!("{more} more"));
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_is_escaped_and_the_rest_is_cut() {
        assert_eq!(shown("agent/fix-login", 100), "agent/fix-login");
        assert_eq!(shown("m\u{430}in\u{202e}`\n", 100), "m\\u{430}in\\u{202e}\\u{60}\\u{a}");
        assert_eq!(shown(&"a".repeat(11), 10), format!("{}...", "a".repeat(10)));
        assert_eq!(list(["a", "b", "c"].into_iter(), 2), "a, b, 1 more");
        assert_eq!(list(["a", "b"].into_iter(), 2), "a, b");
    }
}
