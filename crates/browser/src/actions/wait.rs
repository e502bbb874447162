//! Waiting for something to be there, or to be gone.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::actions::ActionOutcome;
use crate::error::BrowserError;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

/// Something to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// An element that matches is visible.
    Visible(Selector),
    /// No element that matches is visible.
    Hidden(Selector),
    /// The text is visible; case and spaces do not matter.
    Text(String),
    /// The text is not visible.
    TextGone(String),
    /// The URL has this in it, or matches it as a whole if it has a `*`.
    Url(String),
    /// The time has passed.
    Time(Duration),
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |text: &str| text.chars().take(200).collect::<String>();
        match self {
            Self::Visible(selector) => write!(formatter, "{selector} visible"),
            Self::Hidden(selector) => write!(formatter, "{selector} hidden"),
            Self::Text(text) => write!(formatter, "text \"{}\"", cut(text)),
            Self::TextGone(text) => write!(formatter, "text \"{}\" gone", cut(text)),
            Self::Url(pattern) => write!(formatter, "URL {}", cut(pattern)),
            Self::Time(time) => write!(formatter, "{} ms", time.as_millis()),
        }
    }
}

#[derive(Debug, Deserialize)]
struct State {
    #[serde(default)]
    holds: bool,
    problem: Option<String>,
    #[serde(default)]
    detail: String,
}

impl Page {
    /// Waits until a condition holds, at most `limit`.
    ///
    /// # Errors
    /// [`PageError::Wait`] if it does not come to hold in time.
    pub async fn wait(&self, condition: &Condition, limit: Duration) -> Result<ActionOutcome, PageError> {
        let started = Instant::now();
        let deadline = started + limit;
        if let Condition::Time(time) = condition {
            tokio::time::sleep((*time).min(limit)).await;
            return Ok(ActionOutcome::default());
        }
        loop {
            if self.holds(condition).await? {
                return Ok(ActionOutcome::default());
            }
            if Instant::now() >= deadline {
                return Err(PageError::Wait { condition: condition.to_string(), waited: started.elapsed() });
            }
            self.pause(deadline).await?;
        }
    }

    async fn holds(&self, condition: &Condition) -> Result<bool, PageError> {
        match condition {
            Condition::Visible(selector) => self.is_shown(selector).await,
            Condition::Hidden(selector) => Ok(!self.is_shown(selector).await?),
            Condition::Text(text) => self.in_any_frame(&json!({ "text": text }), None).await,
            Condition::TextGone(text) => Ok(!self.in_any_frame(&json!({ "text": text }), None).await?),
            Condition::Url(pattern) => Ok(matches_url(pattern, &self.tab().url())),
            Condition::Time(_) => Ok(true),
        }
    }

    async fn is_shown(&self, selector: &Selector) -> Result<bool, PageError> {
        let frame = match selector {
            Selector::Reference(reference) => Some(reference.frame),
            Selector::Css(_) | Selector::XPath(_) => None,
        };
        let shown = self.in_any_frame(&json!({ "selector": selector.for_script() }), frame).await;
        shown.map_err(|error| match error {
            PageError::Selector { reason, .. } => {
                PageError::Selector { selector: selector.to_string(), reason }
            }
            other => other,
        })
    }

    /// Returns whether a condition holds in one of the frames, or in the one of this number.
    async fn in_any_frame(&self, condition: &Value, number: Option<u32>) -> Result<bool, PageError> {
        for frame in
            self.frames().into_iter().filter(|frame| number.is_none_or(|number| frame.number == number))
        {
            match self.call::<State>(&frame, "state", [condition.clone()]).await {
                Ok(State { problem: Some(problem), detail, .. }) if problem == "invalid" => {
                    return Err(PageError::Selector { selector: String::new(), reason: detail });
                }
                Ok(state) if state.holds => return Ok(true),
                Err(error)
                    if frame.number == 0 && !matches!(error, PageError::Browser(BrowserError::FrameGone)) =>
                {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(false)
    }
}

/// Returns true if a URL has the text in it, or matches it as a whole if it has a `*`.
fn matches_url(pattern: &str, url: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else { return url.contains(pattern) };
    let Some(mut rest) = url.strip_prefix(first) else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_contains_a_text_or_matches_a_pattern() {
        let url = "https://shop.test/cart?step=2";
        for pattern in
            ["/cart", "https://*", "*step=2", "https://*/cart*", "*", "https://shop.test/cart?step=2*"]
        {
            assert!(matches_url(pattern, url), "{pattern}");
        }
        for pattern in ["/basket", "http://*", "*step=3", "https://*/basket*", "*cart"] {
            assert!(!matches_url(pattern, url), "{pattern}");
        }
    }
}
