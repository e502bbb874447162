//! Snapshots: a page as a compact tree of lines, with references to what can be acted on.

pub(crate) mod budget;
pub(crate) mod diff;
pub(crate) mod fold;
pub(crate) mod line;
mod query;
mod render;

use std::time::Duration;

use cdp::FrameId;
use serde::Deserialize;
use serde_json::json;

use crate::elements::Reference;
use crate::locate::Location;
use crate::page::{NumberedFrame, Page, Previous};
use crate::page_error::PageError;
use crate::selector::Selector;
use crate::snapshot::budget::TOKEN_BUDGET;
use crate::snapshot::line::Line;
use render::Rendering;

/// Maximum number of frames that a snapshot goes into.
const FRAMES: usize = 50;
/// Time that the page gets: a large one is laid out before it can be read.
const PAGE_TIME: Duration = Duration::from_secs(20);
/// Time that a frame inside the page gets for its part. A frame that does not answer is left out.
const FRAME_TIME: Duration = Duration::from_secs(3);

/// Choice of what a snapshot shows.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// Words: only lines that have all of them are shown.
    pub query: Option<String>,
    /// Element: only lines inside of it are shown.
    pub scope: Option<Selector>,
    /// True if only the differences to the last snapshot of the whole page are shown.
    pub diff: bool,
    /// Line to read on from. Nothing is folded then.
    pub offset: Option<usize>,
    /// Maximum number of tokens.
    pub budget: usize,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { query: None, scope: None, diff: false, offset: None, budget: TOKEN_BUDGET }
    }
}

/// A snapshot of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The lines, and at the end what was left out.
    pub text: String,
    /// Number of tokens that the text counts as.
    pub tokens: usize,
    /// Number of lines that the page or the scope has.
    pub lines: usize,
    /// Content of the text.
    pub kind: SnapshotKind,
    /// True if lines are left out because of the budget, by folding or by a cut.
    pub is_shortened: bool,
    /// Title of the page.
    pub title: String,
    /// URL of the page.
    pub url: String,
    /// Pixels that the page is scrolled down, its height, and the height of the viewport.
    pub scroll: (i64, i64, i64),
    /// Time that the script took in the main frame.
    pub in_page: Duration,
}

/// Content of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// The lines of the page, or of the scope.
    Lines,
    /// The lines that match the query.
    Matches,
    /// The differences to the snapshot before.
    Differences,
}

/// Part of a snapshot that one frame gives.
#[derive(Debug, Deserialize)]
struct FramePart {
    #[serde(default)]
    lines: Vec<RawLine>,
    #[serde(default)]
    stopped: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    document: f64,
    #[serde(default)]
    scrolled: i64,
    #[serde(default)]
    height: i64,
    #[serde(default)]
    viewport: i64,
    #[serde(default)]
    elapsed: f64,
    problem: Option<String>,
    #[serde(default)]
    detail: String,
}

/// Line as the script writes it: depth, number, role, name, states, value.
#[derive(Debug, Deserialize)]
struct RawLine(usize, u32, String, String, String, Option<String>);

impl RawLine {
    fn into_line(self, frame: &NumberedFrame, depth: usize) -> Line {
        let Self(own_depth, number, role, name, states, value) = self;
        let reference = (number > 0).then(|| frame.reference(number));
        Line { depth: depth + own_depth, reference, role, name, states, value }
    }
}

impl Page {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// [`PageError`], if the scope is no element, or the page does not answer.
    pub async fn snapshot(&self, options: &SnapshotOptions) -> Result<Snapshot, PageError> {
        let (frame, number) = match &options.scope {
            None => (self.main_frame(), 0),
            Some(selector) => {
                let Location { frame, number, .. } = self.locate_now(selector).await?;
                (frame, number)
            }
        };
        let part: FramePart = self.call_within(&frame, "snapshot", [json!(number)], PAGE_TIME).await?;
        if part.problem.is_some() {
            return Err(PageError::Reference { reference: frame.reference(number), reason: part.detail });
        }
        let mut notes = Vec::new();
        let (title, url, document) = (part.title.clone(), part.url.clone(), part.document);
        let scroll = (part.scrolled, part.height, part.viewport);
        let in_page = Duration::try_from_secs_f64(part.elapsed / 1000.0).unwrap_or_default();
        let lines = self.with_frames(frame, part, &mut notes).await;
        let previous = self.previous();
        let rendering = match &previous {
            Some(previous)
                if options.diff
                    && options.scope.is_none()
                    && options.query.is_none()
                    && previous.is_of(document) =>
            {
                Rendering::of_differences(&previous.lines, &lines, options.budget)
            }
            _ => match &options.query {
                Some(query) => Rendering::of_matches(&lines, query, options.budget),
                None => Rendering::of_lines(&lines, options.offset, options.budget),
            },
        };
        let mut text = rendering.text;
        for note in notes {
            text.push_str(&note);
            text.push('\n');
        }
        let snapshot = Snapshot {
            tokens: budget::tokens(&text),
            text,
            lines: lines.len(),
            kind: rendering.kind,
            is_shortened: rendering.is_shortened,
            title,
            url,
            scroll,
            in_page,
        };
        if options.scope.is_none() {
            self.set_previous(Previous { document, lines });
        }
        Ok(snapshot)
    }

    /// Returns the lines of a frame's part with those of the frames inside it.
    async fn with_frames(&self, frame: NumberedFrame, part: FramePart, notes: &mut Vec<String>) -> Vec<Line> {
        let all = self.frames();
        let mut lines = Vec::new();
        // Parts that are not finished, the innermost last: each with its frame, its depth and what is left of it.
        let mut open = vec![self.begin(frame, part, 0, notes, &all).await];
        let mut visited = 1;
        while let Some(top) = open.last_mut() {
            let Some(raw) = top.rest.next() else {
                open.pop();
                continue;
            };
            let inner =
                (raw.2 == "iframe").then(|| top.inner.iter().find(|(number, _)| *number == raw.1)).flatten();
            let inner = inner.and_then(|(_, id)| all.iter().find(|other| other.handle.id() == id)).cloned();
            let line = raw.into_line(&top.frame, top.depth);
            let (depth, reference) = (line.depth + 1, line.reference);
            lines.push(line);
            let Some(inner) = inner else { continue };
            visited += 1;
            if visited > FRAMES {
                notes.push(format!("… frames beyond the first {FRAMES} are left out"));
                continue;
            }
            match self.call_within::<FramePart>(&inner, "snapshot", [json!(0)], FRAME_TIME).await {
                Ok(part) => {
                    let begun = self.begin(inner, part, depth, notes, &all).await;
                    open.push(begun);
                }
                Err(error) => notes.push(format!("… the frame {} is left out: {error}", shown(reference))),
            }
        }
        lines
    }

    async fn begin(
        &self,
        frame: NumberedFrame,
        part: FramePart,
        depth: usize,
        notes: &mut Vec<String>,
        all: &[NumberedFrame],
    ) -> OpenPart {
        if !part.stopped.is_empty() {
            let place = if frame.number > 0 { format!(" of frame f{}", frame.number) } else { String::new() };
            notes.push(format!("… the page is larger than what is read at once: the reading{place} ended {}; read on with scope", part.stopped));
        }
        let contains_frames = part.lines.iter().any(|line| line.2 == "iframe");
        let is_parent = all
            .iter()
            .any(|other| other.handle.parent().is_some_and(|parent| parent.id() == frame.handle.id()));
        let inner = if contains_frames && is_parent {
            self.frames_inside(&frame).await.unwrap_or_default().into_iter().collect()
        } else {
            Vec::new()
        };
        OpenPart { frame, depth, inner, rest: part.lines.into_iter() }
    }
}

/// Part of a snapshot whose lines are being taken over.
struct OpenPart {
    frame: NumberedFrame,
    depth: usize,
    /// Frames inside, by the numbers of their elements.
    inner: Vec<(u32, FrameId)>,
    rest: std::vec::IntoIter<RawLine>,
}

fn shown(reference: Option<Reference>) -> String {
    reference.map_or_else(String::new, |reference| reference.to_string())
}
