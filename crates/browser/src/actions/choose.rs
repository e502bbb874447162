//! Options of lists.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::actionability::Need;
use crate::actions::{ActionOutcome, parsed};
use crate::limits;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

#[derive(Debug, Deserialize)]
struct Choice {
    chosen: Vec<String>,
}

impl Page {
    /// Chooses options of a `select`, each by its value, its label or its position from 0. Options
    /// that are not named are no longer chosen. Waits for options that are not there yet.
    ///
    /// # Errors
    /// [`PageError::Unfit`] names the options that there are.
    pub async fn select(
        &self,
        selector: &Selector,
        options: &[&str],
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let deadline = Instant::now() + limit;
        let (element, chosen) = loop {
            let element = self.ready(selector, Need::Select, deadline).await?;
            let rest = deadline.saturating_duration_since(Instant::now());
            let values = [json!(element.number), json!(options), json!(rest.as_millis())];
            let answer: Value =
                self.call_within(&element.frame, "choose", values, rest + limits::SCRIPT).await?;
            match parsed(answer, "choose", selector) {
                Ok(Choice { chosen }) => break (element, chosen),
                // The page has rendered the list again since it was ready.
                Err(PageError::NotReady { .. }) if Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        };
        Ok(ActionOutcome {
            chosen,
            ..ActionOutcome::new(element.frame.reference(element.number), element.is_new)
        })
    }
}
