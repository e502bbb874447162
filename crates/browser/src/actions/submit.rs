//! Submission of forms.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::actionability::Need;
use crate::actions::ActionOutcome;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;
use crate::snapshot::line::quoted;

#[derive(Debug, Deserialize)]
struct Submission {
    invalid: Vec<InvalidField>,
}

#[derive(Debug, Deserialize)]
struct InvalidField {
    number: u32,
    role: String,
    name: String,
    message: String,
}

impl Page {
    /// Submits the form of an element, as its button would.
    ///
    /// # Errors
    /// [`PageError::InvalidForm`] if the form does not accept its fields, [`PageError::Unfit`] if
    /// there is no form.
    pub async fn submit(&self, selector: &Selector, limit: Duration) -> Result<ActionOutcome, PageError> {
        let element = self.ready(selector, Need::Presence, Instant::now() + limit).await?;
        let submission: Submission =
            self.call_on(&element.frame, "submit", [json!(element.number)], selector).await?;
        if submission.invalid.is_empty() {
            return Ok(ActionOutcome::new(element.frame.reference(element.number), element.is_new));
        }
        let fields = submission.invalid.iter().map(|field| {
            let reference = element.frame.reference(field.number);
            format!("{} {} {reference}: {}", field.role, quoted(&field.name), field.message)
        });
        Err(PageError::InvalidForm { fields: fields.collect::<Vec<_>>().join("; ") })
    }
}
