//! Actionability: waiting until an element can take an action, through all frames around it.
//!
//! The checks themselves run in the page on every animation frame (`page_script/actionability.js`).

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::error::BrowserError;
use crate::limits;
use crate::locate::Location;
use crate::page::{NumberedFrame, Page};
use crate::page_error::PageError;
use crate::selector::Selector;

/// Time that an action waits for its element, unless the caller chooses another.
pub const ACTION_TIME: Duration = Duration::from_secs(5);

/// Kind of an action, which decides what its element must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Visible, stable, enabled, and hit by the pointer.
    Click,
    /// Visible, stable, and hit by the pointer.
    Hover,
    /// Visible, enabled and editable.
    Type,
    /// Visible and enabled.
    Select,
    /// Enabled: file inputs are often hidden.
    Files,
    /// Being there.
    Presence,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Self::Click => "click",
            Self::Hover => "hover",
            Self::Type => "type",
            Self::Select => "select",
            Self::Files => "files",
            Self::Presence => "submit",
        }
    }

    fn has_point(self) -> bool {
        matches!(self, Self::Click | Self::Hover)
    }
}

/// Element that can take an action now.
#[derive(Debug, Clone)]
pub(crate) struct ReadyElement {
    pub(crate) frame: NumberedFrame,
    pub(crate) number: u32,
    /// Point at which the pointer hits it, in the viewport of the page.
    pub(crate) point: (f64, f64),
    /// True if the reference passed to another element on the way.
    pub(crate) is_new: bool,
}

/// Answer of the script.
#[derive(Debug, Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    number: u32,
    #[serde(default)]
    x: f64,
    #[serde(default)]
    y: f64,
    #[serde(default, rename = "isNew")]
    is_new: bool,
    #[serde(default)]
    problem: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    detail: String,
}

/// Reason why a point of a frame is not reached from outside; empty if it is.
#[derive(Debug, Deserialize)]
struct Cover {
    reason: String,
}

impl Page {
    /// Waits until the element of a selector can take an action, at most until the deadline.
    pub(crate) async fn ready(
        &self,
        selector: &Selector,
        need: Need,
        deadline: Instant,
    ) -> Result<ReadyElement, PageError> {
        let started = Instant::now();
        loop {
            let reason = match self.ready_once(selector, need, deadline).await {
                Ok(Ok(element)) => return Ok(element),
                Ok(Err(reason)) => reason,
                // The document has gone, and the next one may have the element.
                Err(PageError::Browser(BrowserError::FrameGone)) => {
                    "its document has left the page".to_owned()
                }
                Err(error) => return Err(error),
            };
            if Instant::now() >= deadline {
                return Err(PageError::NotReady {
                    selector: selector.to_string(),
                    waited: started.elapsed(),
                    reason,
                });
            }
            self.pause(deadline).await?;
        }
    }

    /// Returns the element, or the reason why it is not ready.
    async fn ready_once(
        &self,
        selector: &Selector,
        need: Need,
        deadline: Instant,
    ) -> Result<Result<ReadyElement, String>, PageError> {
        let Location { frame, is_new, .. } = self.locate(selector, deadline).await?;
        let rest = deadline.saturating_duration_since(Instant::now());
        let values = [selector.for_script(), json!(need.name()), json!(rest.as_millis())];
        let answer: Answer = self.call_within(&frame, "ready", values, rest + limits::SCRIPT).await?;
        let is_new = is_new || answer.is_new;
        if answer.ok {
            let mut element =
                ReadyElement { number: answer.number, point: (answer.x, answer.y), is_new, frame };
            if need.has_point()
                && element.frame.number > 0
                && let Some(reason) = self.move_point_outwards(&mut element).await?
            {
                return Ok(Err(reason));
            }
            return Ok(Ok(element));
        }
        match (answer.problem.as_str(), selector) {
            ("unknown" | "gone", Selector::Reference(reference)) => {
                Err(PageError::Reference { reference: *reference, reason: answer.detail })
            }
            // The frame has several matches now, so the whole page is asked once more.
            ("many", _) => self.locate_now(selector).await.map(|_| Err("it had several matches".to_owned())),
            _ => Ok(Err(answer.reason)),
        }
    }

    /// Turns a point of a frame into one of the page. Returns the reason if something in a frame
    /// around it covers the point.
    async fn move_point_outwards(&self, element: &mut ReadyElement) -> Result<Option<String>, PageError> {
        let all = self.frames();
        let (x, y) = element.frame.handle.offset_in_page().await?;
        let point = (element.point.0 + x, element.point.1 + y);
        let mut inner = element.frame.clone();
        for _ in 0..limits::FRAMES {
            let Some(parent) = inner.handle.parent() else { break };
            let Some(parent) = all.iter().find(|frame| frame.handle.id() == parent.id()) else {
                return Err(BrowserError::FrameGone.into());
            };
            let (x, y) = parent.handle.offset_in_page().await?;
            let inside = self.frames_inside(parent).await?;
            let owner = inside.iter().find(|(_, id)| *id == inner.handle.id()).map(|(number, _)| *number);
            let owner = owner.ok_or(BrowserError::FrameGone)?;
            let values = [json!(owner), json!(point.0 - x), json!(point.1 - y)];
            let cover: Cover = self.call(parent, "frameCover", values).await?;
            if !cover.reason.is_empty() {
                return Ok(Some(cover.reason));
            }
            inner = parent.clone();
        }
        element.point = point;
        Ok(None)
    }
}
