//! Location of the one element that a selector means, over all frames of a page.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::elements::Reference;
use crate::error::BrowserError;
use crate::page::{NumberedFrame, Page};
use crate::page_error::PageError;
use crate::selector::Selector;
use crate::snapshot::line::quoted;

/// Time between two searches for something that is not there yet, unless the page changes earlier.
const PAUSE: Duration = Duration::from_millis(100);

/// Place of an element.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) frame: NumberedFrame,
    /// Number of the element in its frame.
    pub(crate) number: u32,
    /// True if the reference passed to another element, because its own has left the page.
    pub(crate) is_new: bool,
}

/// Answer of the script to a search in one frame.
#[derive(Debug, Deserialize)]
struct Search {
    count: usize,
    visible: usize,
    #[serde(default)]
    number: u32,
    #[serde(default, rename = "isNew")]
    is_new: bool,
    problem: Option<String>,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    shown: Vec<Candidate>,
}

/// Element as an error shows it.
#[derive(Debug, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) number: u32,
    pub(crate) role: String,
    pub(crate) name: String,
}

impl Candidate {
    pub(crate) fn shown(&self, frame: &NumberedFrame) -> String {
        format!("{} {} {}", self.role, quoted(&self.name), frame.reference(self.number))
    }
}

/// Elements that come near to a selector.
#[derive(Debug, Deserialize)]
struct Nearest {
    prefix: Option<Prefix>,
    shown: Vec<Candidate>,
}

/// Beginning of a selector that matches.
#[derive(Debug, Deserialize)]
struct Prefix {
    text: String,
    count: usize,
}

impl Page {
    /// Finds the element of a selector, and waits for it until the deadline.
    pub(crate) async fn locate(&self, selector: &Selector, deadline: Instant) -> Result<Location, PageError> {
        loop {
            let error = match self.locate_now(selector).await {
                Err(error @ (PageError::NoMatch { .. } | PageError::Browser(BrowserError::FrameGone))) => {
                    error
                }
                result => return result,
            };
            if Instant::now() >= deadline {
                return Err(error);
            }
            self.pause(deadline).await?;
        }
    }

    /// Finds the element of a selector.
    pub(crate) async fn locate_now(&self, selector: &Selector) -> Result<Location, PageError> {
        match selector {
            Selector::Reference(reference) => self.locate_reference(*reference).await,
            Selector::Css(_) | Selector::XPath(_) => self.locate_match(selector).await,
        }
    }

    async fn locate_reference(&self, reference: Reference) -> Result<Location, PageError> {
        let frames = self.frames();
        let Some(frame) = frames.into_iter().find(|frame| frame.number == reference.frame) else {
            let reason = format!(
                "is in a frame f{} that the page does not have (any more). Read the page again.",
                reference.frame
            );
            return Err(PageError::Reference { reference, reason });
        };
        let search: Search = self.call(&frame, "find", [json!({ "number": reference.number })]).await?;
        match search.problem {
            Some(_) => Err(PageError::Reference { reference, reason: search.detail }),
            None => Ok(Location { frame, number: search.number, is_new: search.is_new }),
        }
    }

    async fn locate_match(&self, selector: &Selector) -> Result<Location, PageError> {
        let mut found: Vec<(NumberedFrame, Search)> = Vec::new();
        let frames = self.frames();
        for frame in &frames {
            let search = self.call::<Search>(frame, "find", [selector.for_script()]).await;
            match search {
                Ok(search) if search.problem.as_deref() == Some("invalid") => {
                    return Err(PageError::Selector {
                        selector: selector.to_string(),
                        reason: search.detail,
                    });
                }
                Ok(search) if search.count > 0 => found.push((frame.clone(), search)),
                Err(error) if frame.number == 0 => return Err(error),
                // A frame that is gone or does not answer has no say.
                Ok(_) | Err(_) => {}
            }
        }
        let count: usize = found.iter().map(|(_, search)| search.count).sum();
        let visible: usize = found.iter().map(|(_, search)| search.visible).sum();
        if count == 0 {
            return Err(self.no_match(selector, &frames).await);
        }
        let mut fit =
            found.iter().filter(|(_, search)| search.number > 0 && (count == 1 || search.visible == 1));
        match (fit.next(), count == 1 || visible == 1) {
            (Some((frame, search)), true) => {
                Ok(Location { frame: frame.clone(), number: search.number, is_new: search.is_new })
            }
            _ => {
                let shown = found
                    .iter()
                    .flat_map(|(frame, search)| search.shown.iter().map(|candidate| candidate.shown(frame)));
                let shown = shown.take(5).collect::<Vec<_>>().join(", ");
                Err(PageError::ManyMatches { selector: selector.to_string(), count, visible, shown })
            }
        }
    }

    async fn no_match(&self, selector: &Selector, frames: &[NumberedFrame]) -> PageError {
        let mut nearest = String::new();
        if let Some(frame) = frames.first()
            && let Ok(found) = self.call::<Nearest>(frame, "nearestTo", [selector.for_script()]).await
        {
            if let Some(Prefix { text, count }) = found.prefix {
                nearest.push_str(&format!("; its beginning {text} matches {count}"));
            }
            let shown: Vec<String> = found.shown.iter().map(|candidate| candidate.shown(frame)).collect();
            if !shown.is_empty() {
                nearest.push_str(&format!("; similar: {}", shown.join(", ")));
            }
        }
        PageError::NoMatch { selector: selector.to_string(), nearest }
    }

    /// Waits until the main document changes, a short time has passed, or the deadline is there.
    pub(crate) async fn pause(&self, deadline: Instant) -> Result<(), PageError> {
        let limit = PAUSE.min(deadline.saturating_duration_since(Instant::now()));
        let paused = self.call::<Value>(&self.main_frame(), "pause", [json!(limit.as_millis())]).await;
        match paused {
            // The document goes while the pause lasts: that is a change.
            Ok(_) | Err(PageError::Browser(BrowserError::FrameGone)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
