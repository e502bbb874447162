//! Reading: a page or an element as text or as HTML, in bounded parts.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::page::{NumberedFrame, Page};
use crate::page_error::PageError;
use crate::selector::Selector;

/// Number of characters of a part, unless the caller chooses another.
pub const PART: usize = 40_000;
/// Maximum number of characters of a part.
pub const LONGEST_PART: usize = 1_000_000;

/// Time that the page gets: a large one is laid out before it can be read.
const READ_TIME: Duration = Duration::from_secs(20);

/// Choice of the part of a page to read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Element to read; `None` for the page.
    pub scope: Option<Selector>,
    /// True if links are shown as `text (url)`.
    pub links: bool,
    /// Number of characters to leave out before the part.
    pub offset: usize,
    /// Maximum number of characters, at most [`LONGEST_PART`].
    pub limit: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { scope: None, links: false, offset: 0, limit: PART }
    }
}

/// A part of a page. Lengths are counted as JavaScript counts them, in units of UTF-16.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PagePart {
    /// The text.
    pub text: String,
    /// Offset of the next part; `None` if nothing follows.
    pub next: Option<usize>,
    /// Length of the whole, if its end was reached.
    pub total: Option<usize>,
    /// Reason why the reading ended before the page did; empty if it did not.
    pub stopped: String,
}

#[derive(Debug, Deserialize)]
struct RawPart {
    #[serde(default)]
    text: String,
    next: Option<usize>,
    total: Option<usize>,
    #[serde(default)]
    stopped: String,
    problem: Option<String>,
    #[serde(default)]
    detail: String,
}

impl Page {
    /// Reads the text: blocks on lines of their own, cells of a row separated, nothing hidden. The
    /// text of frames follows that of the page.
    ///
    /// # Errors
    /// [`PageError`], if the scope is no element, or the page does not answer.
    pub async fn read_text(&self, options: &ReadOptions) -> Result<PagePart, PageError> {
        let (scope, number) = self.scope(options).await?;
        let limit = options.limit.min(LONGEST_PART);
        let frames = if options.scope.is_some() { vec![scope] } else { self.frames() };
        let mut whole = PagePart { total: Some(0), ..PagePart::default() };
        let (mut before, mut rest) = (options.offset, limit);
        for frame in frames {
            let is_inner = frame.number > 0 && options.scope.is_none();
            let heading = is_inner.then(|| {
                format!("\n\n[frame f{}: {}]\n", frame.number, frame.handle.url().unwrap_or_default())
            });
            let values =
                json!({ "links": options.links, "offset": before, "limit": rest, "heading": heading });
            let read = self.part(&frame, "text", number, values).await;
            let part = match read {
                Ok(part) => part,
                Err(error) if !is_inner => return Err(error),
                Err(_) => continue,
            };
            whole.text.push_str(&part.text);
            if !part.stopped.is_empty() {
                whole.stopped = part.stopped;
            }
            let Some(total) = part.total else {
                whole.total = None;
                whole.next = Some(options.offset + limit);
                return Ok(whole);
            };
            whole.total = whole.total.map(|sum| sum + total);
            rest -= total.saturating_sub(before).min(rest);
            before = before.saturating_sub(total);
        }
        Ok(whole)
    }

    /// Reads the HTML, without contents of scripts and styles, handlers, data URLs, and values of
    /// fields for secrets. Frames are not part of it; a scope reads inside one.
    ///
    /// # Errors
    /// [`PageError`], if the scope is no element, or the page does not answer.
    pub async fn read_html(&self, options: &ReadOptions) -> Result<PagePart, PageError> {
        let (frame, number) = self.scope(options).await?;
        let values = json!({ "offset": options.offset, "limit": options.limit.min(LONGEST_PART) });
        self.part(&frame, "html", number, values).await
    }

    async fn scope(&self, options: &ReadOptions) -> Result<(NumberedFrame, u32), PageError> {
        match &options.scope {
            None => Ok((self.main_frame(), 0)),
            Some(selector) => {
                let location = self.locate_now(selector).await?;
                Ok((location.frame, location.number))
            }
        }
    }

    async fn part(
        &self,
        frame: &NumberedFrame,
        function: &'static str,
        number: u32,
        values: serde_json::Value,
    ) -> Result<PagePart, PageError> {
        let raw: RawPart = self.call_within(frame, function, [json!(number), values], READ_TIME).await?;
        if raw.problem.is_some() {
            return Err(PageError::Reference { reference: frame.reference(number), reason: raw.detail });
        }
        let RawPart { text, next, total, stopped, .. } = raw;
        Ok(PagePart { text, next, total, stopped })
    }
}
