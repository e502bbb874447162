//! The conversation above the input: a bounded number of rows, of which the newest are kept.
//!
//! Everything here has come from a model, a tool or a file. It is made visible and covered before it becomes a
//! line, and every line begins with two columns that only Handfast writes, so that no text can imitate a line
//! of Handfast.

use std::collections::VecDeque;
use std::ops::Range;

use tool::{visible, visible_source};

use super::wrap::rows;

/// Maximum number of rows that are kept.
const MOST_ROWS: usize = 5_000;
/// Maximum number of bytes of a line. A longer one continues as the next line.
const LONGEST_LINE: usize = 16 * 1024;
/// Number of bytes of an unfinished answer from which its beginning is settled, and of those that stay open.
const OPEN: (usize, usize) = (64 * 1024, 16 * 1024);
/// Maximum number of characters of a thought that are shown, and that are kept for it.
const LONGEST_THOUGHT: (usize, usize) = (200, 4_000);
/// Number of columns before each row.
pub(super) const MARGIN: usize = 2;

/// Kind of a line, which decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Message of the user.
    User,
    /// Text of the model.
    Model,
    /// Thoughts of the model.
    Thought,
    /// Call that runs.
    Running,
    /// Call that has succeeded.
    Passed,
    /// Call that has failed.
    Failed,
    /// Line of Handfast.
    Note,
    /// Error, of Handfast.
    Error,
}

impl Kind {
    /// Returns the two columns before the first row of a line.
    fn mark(self) -> &'static str {
        match self {
            Self::User => "> ",
            Self::Model | Self::Thought => "  ",
            Self::Running => "• ",
            Self::Passed => "✓ ",
            Self::Failed | Self::Error => "✗ ",
            Self::Note => "· ",
        }
    }
}

/// One line, and its rows at the present width.
#[derive(Debug)]
struct Line {
    kind: Kind,
    text: String,
    rows: Vec<Range<usize>>,
}

/// One row of the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) kind: Kind,
    pub(super) mark: &'static str,
    pub(super) text: &'a str,
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Transcript {
    /// Function that covers secrets.
    covered: fn(&str) -> String,
    width: usize,
    lines: VecDeque<Line>,
    /// Number of lines that were dropped at the beginning.
    dropped: usize,
    /// Number of rows of all lines.
    rows: usize,
    /// Text of an unfinished answer that has not become lines, as it came.
    open: String,
    /// Lines of the open text.
    tail: Vec<Line>,
    is_stale: bool,
    /// Number of the first line of the unfinished answer.
    answer: Option<usize>,
    /// Unfinished thought.
    thought: String,
    /// Calls that run, with the numbers of their lines.
    calls: Vec<(String, usize)>,
    /// Number of rows below the visible ones.
    scrolled: usize,
}

impl Transcript {
    pub(super) fn new(covered: fn(&str) -> String) -> Self {
        Self {
            covered,
            width: 80,
            lines: VecDeque::new(),
            dropped: 0,
            rows: 0,
            open: String::new(),
            tail: Vec::new(),
            is_stale: false,
            answer: None,
            thought: String::new(),
            calls: Vec::new(),
            scrolled: 0,
        }
    }

    /// Returns the number of the next line.
    fn next(&self) -> usize {
        self.dropped + self.lines.len()
    }

    fn line(&self, kind: Kind, text: String) -> Line {
        let rows = rows(&text, self.width.saturating_sub(MARGIN));
        Line { kind, text, rows }
    }

    fn push(&mut self, kind: Kind, text: String) {
        let line = self.line(kind, text);
        self.grown(line.rows.len());
        self.rows += line.rows.len();
        self.lines.push_back(line);
        while self.rows > MOST_ROWS
            && self.lines.len() > 1
            && let Some(line) = self.lines.pop_front()
        {
            self.rows -= line.rows.len();
            self.dropped += 1;
        }
        self.scrolled = self.scrolled.min(self.all_rows());
    }

    /// Keeps the visible rows in place while rows are added below them.
    fn grown(&mut self, by: usize) {
        if self.scrolled > 0 {
            self.scrolled += by;
        }
    }

    fn all_rows(&self) -> usize {
        self.rows + self.tail.iter().map(|line| line.rows.len()).sum::<usize>()
    }

    /// Adds an empty line, if the last one is not.
    fn gap(&mut self) {
        if self.lines.back().is_some_and(|line| !line.text.is_empty()) {
            self.push(Kind::Model, String::new());
        }
    }

    /// Adds a message of the user.
    pub(super) fn user(&mut self, text: &str) {
        self.finish();
        self.gap();
        for line in lines_of(&(self.covered)(text)) {
            self.push(Kind::User, line);
        }
    }

    /// Adds a line of Handfast.
    pub(super) fn note(&mut self, kind: Kind, text: &str) {
        self.finish();
        for line in (self.covered)(text).lines() {
            self.push(kind, visible(line));
        }
    }

    /// Adds a piece of the model's answer.
    pub(super) fn text(&mut self, text: &str) {
        self.end_thought();
        let text = if self.answer.is_none() { text.trim_start_matches(['\n', '\r']) } else { text };
        if text.is_empty() {
            return;
        }
        if self.answer.is_none() {
            self.gap();
            self.answer = Some(self.next());
        }
        self.open.push_str(text);
        self.is_stale = true;
    }

    /// Adds a piece of the model's thoughts, of which only the beginning is shown.
    pub(super) fn thought(&mut self, text: &str) {
        // The part that is kept and not shown lets a secret be found at its end.
        let left = LONGEST_THOUGHT.1.saturating_sub(self.thought.chars().count());
        self.thought.extend(text.chars().take(left));
        self.is_stale |= left > 0;
    }

    fn end_thought(&mut self) {
        let thought = std::mem::take(&mut self.thought);
        if !thought.trim().is_empty() {
            self.gap();
            self.push(Kind::Thought, shown_thought(&(self.covered)(&thought)));
        }
    }

    /// Removes the unfinished answer.
    pub(super) fn discard(&mut self) {
        self.thought.clear();
        self.open.clear();
        self.tail.clear();
        if let Some(answer) = self.answer.take() {
            while self.next() > answer
                && let Some(line) = self.lines.pop_back()
            {
                self.rows -= line.rows.len();
            }
        }
        self.scrolled = self.scrolled.min(self.all_rows());
    }

    /// Ends an answer.
    pub(super) fn finish(&mut self) {
        self.end_thought();
        self.answer = None;
        self.tail.clear();
        let open = std::mem::take(&mut self.open);
        for line in lines_of((self.covered)(&open).trim_end()) {
            self.push(Kind::Model, line);
        }
    }

    /// Adds a call that begins.
    pub(super) fn call_begins(&mut self, id: &str, text: String) {
        self.finish();
        self.calls.push((id.to_owned(), self.next()));
        self.push(Kind::Running, text);
    }

    /// Adds the outcome of a call to its line. `text` is for a call that has no line.
    pub(super) fn call_ends(&mut self, id: &str, text: &str, outcome: &str, is_ok: bool) {
        let kind = if is_ok { Kind::Passed } else { Kind::Failed };
        let found = self.calls.iter().rposition(|(known, _)| known == id);
        let Some((_, number)) = found.map(|place| self.calls.swap_remove(place)) else {
            self.push(kind, format!("{text}  {outcome}"));
            return;
        };
        let width = self.width.saturating_sub(MARGIN);
        // A line that was dropped needs no outcome.
        if let Some(line) = number.checked_sub(self.dropped).and_then(|place| self.lines.get_mut(place)) {
            self.rows -= line.rows.len();
            line.kind = kind;
            line.text.push_str(&format!("  {outcome}"));
            line.rows = rows(&line.text, width);
            self.rows += line.rows.len();
        }
    }

    /// Ends calls without an outcome, because the turn has ended.
    pub(super) fn end_calls(&mut self) {
        for (id, _) in std::mem::take(&mut self.calls) {
            self.call_ends(&id, "", "stopped", false);
        }
        self.calls.clear();
    }

    /// Makes lines of what has come, at this width.
    pub(super) fn settle(&mut self, width: usize) {
        if self.width != width {
            self.width = width;
            let inner = width.saturating_sub(MARGIN);
            for line in &mut self.lines {
                line.rows = rows(&line.text, inner);
            }
            self.rows = self.lines.iter().map(|line| line.rows.len()).sum();
            self.is_stale = true;
        }
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let before = self.all_rows();
        while self.open.len() > OPEN.0
            && let Some(end) = self.boundary()
        {
            let rest = self.open.split_off(end);
            let done = std::mem::replace(&mut self.open, rest);
            self.tail.clear();
            for line in lines_of(&(self.covered)(&done)) {
                self.push(Kind::Model, line);
            }
        }
        let mut tail: Vec<Line> = lines_of((self.covered)(&self.open).trim_end_matches('\n'))
            .into_iter()
            .map(|line| self.line(Kind::Model, line))
            .collect();
        if !self.thought.trim().is_empty() {
            if self.lines.back().is_some_and(|line| !line.text.is_empty()) {
                tail.push(self.line(Kind::Model, String::new()));
            }
            tail.push(self.line(Kind::Thought, shown_thought(&(self.covered)(&self.thought))));
        }
        self.tail = tail;
        let after = self.all_rows();
        self.grown(after.saturating_sub(before));
        self.scrolled = self.scrolled.min(after);
    }

    /// Returns a place in the open text before which nothing will change any more: the end of a line, through
    /// which no secret goes.
    fn boundary(&self) -> Option<usize> {
        let most = self.open.floor_char_boundary(self.open.len().saturating_sub(OPEN.1));
        let whole = (self.covered)(&self.open);
        let (head, _) = self.open.split_at_checked(most)?;
        let ends = head.rmatch_indices('\n').map(|(at, _)| at + 1).take(4);
        ends.chain([most]).find(|end| {
            self.open
                .split_at_checked(*end)
                .is_some_and(|(head, rest)| *end > 0 && (self.covered)(head) + &(self.covered)(rest) == whole)
        })
    }

    /// Scrolls by rows, towards the beginning if `back`.
    pub(super) fn scroll(&mut self, by: usize, back: bool, height: usize) {
        let most = self.all_rows().saturating_sub(height);
        self.scrolled = if back { self.scrolled + by } else { self.scrolled.saturating_sub(by) };
        self.scrolled = self.scrolled.min(most);
    }

    /// Goes to the newest row.
    pub(super) fn scroll_to_end(&mut self) {
        self.scrolled = 0;
    }

    /// Returns the number of rows below the visible ones.
    pub(super) fn below(&self) -> usize {
        self.scrolled
    }

    /// Returns the visible rows.
    pub(super) fn visible(&self, height: usize) -> Vec<Row<'_>> {
        let skipped = self.scrolled.min(self.all_rows().saturating_sub(height));
        let mut rows: Vec<Row<'_>> = Vec::new();
        let all = self.lines.iter().chain(&self.tail).rev();
        let mut below = 0;
        for line in all {
            for (place, row) in line.rows.iter().enumerate().rev() {
                below += 1;
                if below <= skipped {
                    continue;
                }
                if rows.len() >= height {
                    rows.reverse();
                    return rows;
                }
                let mark = if place == 0 || line.kind == Kind::User { line.kind.mark() } else { "  " };
                let text = line.text.get(row.clone()).unwrap_or_default();
                rows.push(Row { kind: line.kind, mark, text });
            }
        }
        rows.reverse();
        rows
    }
}

fn shown_thought(thought: &str) -> String {
    let words: Vec<&str> = thought.split_whitespace().collect();
    tool::beginning(&visible(&words.join(" ")), LONGEST_THOUGHT.0)
}

/// Returns the lines of a text, so that nothing in them is hidden or moves the cursor.
fn lines_of(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while rest.len() > LONGEST_LINE {
            let (head, later) = rest.split_at(rest.floor_char_boundary(LONGEST_LINE));
            lines.push(visible_source(head));
            rest = later;
        }
        lines.push(visible_source(rest));
    }
    lines
}
