//! Errors of reading a page and of acting on it.

use std::time::Duration;

use crate::elements::Reference;
use crate::error::BrowserError;
use crate::keys::UnknownKey;

/// Reason why a page was not read, or an action did not happen.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The selector is not valid.
    #[error("selector {selector}: {reason}")]
    Selector {
        /// The selector, cut.
        selector: String,
        /// Fault of the selector.
        reason: String,
    },
    /// The page has no match of the selector.
    #[error("{selector} matches 0 elements{nearest}")]
    NoMatch {
        /// The selector, cut.
        selector: String,
        /// Elements that come near, as the end of the sentence.
        nearest: String,
    },
    /// Several elements match the selector, and not exactly one of them is visible.
    #[error(
        "{selector} matches {count} elements, of which {visible} are visible, and an action takes one; first: {shown}"
    )]
    ManyMatches {
        /// The selector, cut.
        selector: String,
        /// Number of matches.
        count: usize,
        /// Number of visible matches.
        visible: usize,
        /// The first of them, with their references.
        shown: String,
    },
    /// The reference belongs to no element that is there.
    #[error("{reference} {reason}")]
    Reference {
        /// The reference.
        reference: Reference,
        /// Fate of its element, and advice.
        reason: String,
    },
    /// The element could not be acted on in time.
    #[error("{selector} could not be acted on within {} ms: {reason}", waited.as_millis())]
    NotReady {
        /// The selector, cut.
        selector: String,
        /// Time that was waited.
        waited: Duration,
        /// Obstacle at the end.
        reason: String,
    },
    /// The element does not fit the action or its value.
    #[error("{selector}: {reason}")]
    Unfit {
        /// The selector, cut.
        selector: String,
        /// Part that does not fit, and what would.
        reason: String,
    },
    /// The form was not submitted, because fields of it are invalid.
    #[error("the form was not submitted; the page says of {fields}")]
    InvalidForm {
        /// The fields with their messages.
        fields: String,
    },
    /// The condition did not come to hold.
    #[error("{condition}: not within {} ms", waited.as_millis())]
    Wait {
        /// Condition that was waited for.
        condition: String,
        /// Time that was waited.
        waited: Duration,
    },
    /// The text names no key.
    #[error(transparent)]
    Key(#[from] UnknownKey),
    /// The script in the page answered in a shape that is not expected.
    #[error("the script in the page failed in {function}: {reason}")]
    Script {
        /// Function of the script.
        function: &'static str,
        /// Fault of its answer.
        reason: String,
    },
    /// The browser failed.
    #[error(transparent)]
    Browser(#[from] BrowserError),
}
