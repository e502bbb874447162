//! Selectors: the ways to say which element is meant.

use std::fmt;

use serde_json::{Value, json};

use crate::elements::Reference;
use crate::page_error::PageError;

/// Maximum length of a selector, in bytes.
const LONGEST: usize = 10_000;

/// A way to say which element is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// A reference of a snapshot: `e12`, `f2e5`.
    Reference(Reference),
    /// A CSS selector, bare or after `css:`.
    Css(String),
    /// An `XPath` expression after `xpath:`.
    XPath(String),
}

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// [`PageError::Selector`] if the text is empty or too long. The browser alone knows whether
    /// CSS and `XPath` are valid.
    pub fn parse(text: &str) -> Result<Self, PageError> {
        let invalid =
            |reason: &str| PageError::Selector { selector: shortened(text), reason: reason.to_owned() };
        let trimmed = text.trim();
        if trimmed.len() > LONGEST {
            return Err(invalid("it is longer than 10,000 bytes"));
        }
        let selector = if let Ok(reference) = trimmed.parse() {
            Self::Reference(reference)
        } else if let Some(css) = trimmed.strip_prefix("css:") {
            Self::Css(css.trim().to_owned())
        } else if let Some(path) = trimmed.strip_prefix("xpath:") {
            Self::XPath(path.trim().to_owned())
        } else {
            Self::Css(trimmed.to_owned())
        };
        match &selector {
            Self::Css(text) | Self::XPath(text) if text.is_empty() => Err(invalid("it is empty")),
            _ => Ok(selector),
        }
    }

    /// Returns the selector as the script in the page takes it.
    pub(crate) fn for_script(&self) -> Value {
        match self {
            Self::Reference(reference) => json!({ "number": reference.number }),
            Self::Css(css) => json!({ "css": css }),
            Self::XPath(path) => json!({ "xpath": path }),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(reference) => reference.fmt(formatter),
            Self::Css(css) => formatter.write_str(&shortened(css)),
            Self::XPath(path) => write!(formatter, "xpath:{}", shortened(path)),
        }
    }
}

/// Returns the beginning of a text, for a message.
fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    if text.chars().nth(200).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_by_its_beginning() {
        let css = |text: &str| Selector::Css(text.to_owned());
        assert_eq!(Selector::parse("e12").unwrap(), Selector::Reference(Reference { frame: 0, number: 12 }));
        assert_eq!(
            Selector::parse(" f2e5 ").unwrap(),
            Selector::Reference(Reference { frame: 2, number: 5 })
        );
        assert_eq!(Selector::parse("css: e12").unwrap(), css("e12"));
        assert_eq!(Selector::parse("#save > button").unwrap(), css("#save > button"));
        assert_eq!(Selector::parse("xpath://button").unwrap(), Selector::XPath("//button".to_owned()));
    }

    #[test]
    fn an_empty_or_endless_selector_is_refused() {
        for text in ["", "  ", "css:", "xpath: ", &"a".repeat(10_001)] {
            assert!(matches!(Selector::parse(text), Err(PageError::Selector { .. })), "{}", text.len());
        }
    }
}
