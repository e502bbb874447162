//! Actions on elements. Pointer and keyboard are those of the browser, so pages see trusted events.
//!
//! Each action waits until its element can take it. What comes of it in the page is not waited for
//! here: [`crate::Tab::settle`] and [`crate::Tab::report`] tell that.

mod choose;
mod click;
mod files;
mod press;
mod scroll;
mod submit;
mod type_text;
mod wait;

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::elements::Reference;
use crate::page::{NumberedFrame, Page};
use crate::page_error::PageError;
use crate::selector::Selector;
use crate::target::passed_on;

pub use click::{ClickOptions, Modifiers};
pub use scroll::{ScrollPosition, ScrollTo};
pub use type_text::{Typing, TypingMode};
pub use wait::Condition;

pub use cdp::protocol::input::MouseButton;

/// Outcome of an action.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActionOutcome {
    /// Reference of the element, if the action had one.
    pub reference: Option<Reference>,
    /// Value that a field holds now. `None` for fields for secrets, and for what is no field.
    pub value: Option<String>,
    /// Labels of the options that were chosen.
    pub chosen: Vec<String>,
    /// Position after scrolling.
    pub scroll: Option<ScrollPosition>,
    /// Sentences that the reader should know of.
    pub notes: Vec<String>,
}

impl ActionOutcome {
    fn new(reference: Reference, is_new: bool) -> Self {
        let notes = if is_new { vec![passed_on(reference)] } else { Vec::new() };
        Self { reference: Some(reference), notes, ..Self::default() }
    }
}

/// Problem that the script found instead of its answer.
#[derive(Debug, Deserialize)]
struct Problem {
    #[serde(default)]
    problem: String,
    #[serde(default)]
    detail: String,
}

/// State of a field after something was typed into it.
#[derive(Debug, Deserialize)]
struct FieldState {
    value: Option<String>,
    length: usize,
    max_length: Option<usize>,
    message: String,
    checked: bool,
    is_secret: bool,
}

impl Page {
    /// Calls a function of the script that may answer with a problem of the element.
    async fn call_on<T: DeserializeOwned>(
        &self,
        frame: &NumberedFrame,
        function: &'static str,
        values: impl IntoIterator<Item = Value>,
        selector: &Selector,
    ) -> Result<T, PageError> {
        let answer: Value = self.call(frame, function, values).await?;
        parsed(answer, function, selector)
    }
}

/// Reads an answer, or the problem in its place.
fn parsed<T: DeserializeOwned>(
    answer: Value,
    function: &'static str,
    selector: &Selector,
) -> Result<T, PageError> {
    if answer.get("problem").is_some_and(|problem| !problem.is_null()) {
        let Problem { problem, detail } = serde_json::from_value(answer)
            .unwrap_or_else(|error| Problem { problem: "shape".to_owned(), detail: error.to_string() });
        if problem == "gone" {
            return Err(PageError::NotReady {
                selector: selector.to_string(),
                waited: Duration::ZERO,
                reason: detail,
            });
        }
        let reason = if detail.is_empty() { problem } else { detail };
        return Err(PageError::Unfit { selector: selector.to_string(), reason });
    }
    serde_json::from_value(answer).map_err(|error| PageError::Script { function, reason: error.to_string() })
}
