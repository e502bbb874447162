//! A line of a snapshot: one element, or one run of text.

use std::fmt::Write as _;

use crate::elements::Reference;

/// A line of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Number of lines that it is inside of.
    pub(crate) depth: usize,
    /// Reference, unless the line is text or a heading.
    pub(crate) reference: Option<Reference>,
    /// Role; empty for text.
    pub(crate) role: String,
    /// Accessible name, or the text.
    pub(crate) name: String,
    /// States in words, separated by commas.
    pub(crate) states: String,
    /// Value of a field.
    pub(crate) value: Option<String>,
}

impl Line {
    /// Returns the line as a reader sees it, without its indentation.
    pub(crate) fn shown(&self) -> String {
        let mut shown = self.role.clone();
        if !self.name.is_empty() {
            push_word(&mut shown, &quoted(&self.name));
        }
        if let Some(reference) = self.reference {
            push_word(&mut shown, &reference.to_string());
        }
        push_word(&mut shown, &self.details());
        shown
    }

    /// Returns the states and the value.
    pub(crate) fn details(&self) -> String {
        let mut shown = self.states.clone();
        if let Some(value) = &self.value {
            push_word(&mut shown, &format!("value={}", quoted(value)));
        }
        shown
    }

    /// Adds the line with its indentation to a text.
    pub(crate) fn write(&self, least_depth: usize, text: &mut String) {
        let indentation = self.depth.saturating_sub(least_depth);
        let _ = writeln!(text, "{:indentation$}{}", "", self.shown());
    }
}

/// Returns a text in quotation marks that it cannot end itself: a name that imitates the end of a
/// line stays a name.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn push_word(text: &mut String, word: &str) {
    if !word.is_empty() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: &str, name: &str, number: u32, states: &str, value: Option<&str>) -> Line {
        Line {
            depth: 2,
            reference: (number > 0).then(|| Reference::in_main_frame(number)),
            role: role.into(),
            name: name.into(),
            states: states.into(),
            value: value.map(Into::into),
        }
    }

    #[test]
    fn a_line_has_role_name_reference_states_and_value() {
        let shown = line("textbox", "Email", 7, "required", Some("a@b")).shown();
        assert_eq!(shown, r#"textbox "Email" e7 required value="a@b""#);
        assert_eq!(line("", "Some text", 0, "", None).shown(), r#""Some text""#);
        assert_eq!(line("list", "", 3, "", None).shown(), "list e3");
    }

    #[test]
    fn a_name_cannot_imitate_the_end_of_its_line() {
        let shown = line("link", r#"Pay" e5 "\"#, 9, "", None).shown();
        assert_eq!(shown, r#"link "Pay\" e5 \"\\" e9"#);
    }

    #[test]
    fn the_indentation_is_that_within_what_is_shown() {
        let mut text = String::new();
        line("link", "A", 1, "", None).write(1, &mut text);
        assert_eq!(text, " link \"A\" e1\n");
    }
}
