//! Scrolling.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::actionability::Need;
use crate::actions::{ActionOutcome, parsed};
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

/// Aim of scrolling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScrollTo {
    /// The element comes into view.
    View,
    /// The beginning.
    Top,
    /// The end.
    Bottom,
    /// Number of pages down, or up if negative. A page is nine tenths of what is visible.
    Pages(f64),
    /// Number of pages to the right, or to the left if negative.
    PagesRight(f64),
    /// Number of pixels down, or up if negative.
    Pixels(f64),
}

impl ScrollTo {
    /// Reads an aim: `view`, `top`, `bottom`, `down`, `up`, `left`, `right`, a number of pages, or
    /// pixels as in `300px`.
    pub fn parse(text: &str) -> Option<Self> {
        let amount = |text: &str| text.trim().parse::<f64>().ok().filter(|amount| amount.abs() < 1e7);
        Some(match text.trim() {
            "view" => Self::View,
            "top" => Self::Top,
            "bottom" => Self::Bottom,
            "down" => Self::Pages(1.0),
            "up" => Self::Pages(-1.0),
            "right" => Self::PagesRight(1.0),
            "left" => Self::PagesRight(-1.0),
            other => match other.strip_suffix("px") {
                Some(pixels) => Self::Pixels(amount(pixels)?),
                None => Self::Pages(amount(other)?),
            },
        })
    }

    fn for_script(self) -> [Value; 2] {
        match self {
            Self::View => [json!("view"), json!(0)],
            Self::Top => [json!("top"), json!(0)],
            Self::Bottom => [json!("bottom"), json!(0)],
            Self::Pages(pages) => [json!("pages"), json!(pages)],
            Self::PagesRight(pages) => [json!("pages_right"), json!(pages)],
            Self::Pixels(pixels) => [json!("pixels"), json!(pixels)],
        }
    }
}

/// Position after scrolling, in CSS pixels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScrollPosition {
    /// Pixels above what is visible.
    pub top: f64,
    /// Pixels to the left of what is visible.
    pub left: f64,
    /// Height of the content.
    pub height: f64,
    /// Height of what is visible.
    pub viewport: f64,
    /// True if something moved.
    pub has_moved: bool,
    /// True if the end is visible.
    pub is_at_end: bool,
    /// Element that was scrolled, or "the page".
    pub of: String,
}

impl Page {
    /// Scrolls the page, or the scrolling element at or around an element.
    ///
    /// # Errors
    /// [`PageError`].
    pub async fn scroll(
        &self,
        selector: Option<&Selector>,
        to: ScrollTo,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let [aim, amount] = to.for_script();
        let Some(selector) = selector else {
            let position: ScrollPosition =
                self.call(&self.main_frame(), "scroll", [json!(0), aim, amount]).await?;
            return Ok(ActionOutcome { scroll: Some(position), ..ActionOutcome::default() });
        };
        let element = self.ready(selector, Need::Presence, Instant::now() + limit).await?;
        let answer: Value = self.call(&element.frame, "scroll", [json!(element.number), aim, amount]).await?;
        let position = parsed(answer, "scroll", selector)?;
        let outcome = ActionOutcome::new(element.frame.reference(element.number), element.is_new);
        Ok(ActionOutcome { scroll: Some(position), ..outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aims_are_words_pages_and_pixels() {
        assert_eq!(ScrollTo::parse("down"), Some(ScrollTo::Pages(1.0)));
        assert_eq!(ScrollTo::parse("-2"), Some(ScrollTo::Pages(-2.0)));
        assert_eq!(ScrollTo::parse("300px"), Some(ScrollTo::Pixels(300.0)));
        assert_eq!(ScrollTo::parse(" bottom "), Some(ScrollTo::Bottom));
        for text in ["", "sideways", "px", "NaN", "inf", "1e9"] {
            assert_eq!(ScrollTo::parse(text), None, "{text}");
        }
    }
}
