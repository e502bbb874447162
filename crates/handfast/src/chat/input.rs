//! The input below the conversation: a text of several lines with a cursor, and the earlier messages.

use super::wrap::{columns, rows};

/// Maximum number of bytes of a message.
const LONGEST: usize = 256 * 1024;
/// Maximum number of earlier messages.
const EARLIER: usize = 200;

/// The input.
#[derive(Debug, Default)]
pub(super) struct Input {
    text: String,
    /// Byte offset of the cursor, on the boundary of a character.
    cursor: usize,
    earlier: Vec<String>,
    /// Index of the shown earlier message, and the text that was typed before.
    shown: Option<(usize, String)>,
}

/// Direction of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    Begin,
    End,
}

impl Input {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Inserts a text at the cursor. Returns false if the message would be too long.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        if self.text.len() + text.len() > LONGEST {
            return false;
        }
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        true
    }

    /// Inserts a pasted text. Terminals send line breaks in it as carriage returns.
    pub(super) fn paste(&mut self, text: &str) -> bool {
        self.insert(&text.replace("\r\n", "\n").replace('\r', "\n"))
    }

    /// Replaces the whole text.
    pub(super) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    pub(super) fn clear(&mut self) {
        self.set(String::new());
        self.shown = None;
    }

    /// Takes the text as a message, which the history keeps.
    pub(super) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.clear();
        self.remember(&text);
        text
    }

    /// Adds a message to the history.
    pub(super) fn remember(&mut self, text: &str) {
        if self.earlier.last().is_none_or(|last| last != text) {
            self.earlier.push(text.to_owned());
        }
        if self.earlier.len() > EARLIER {
            self.earlier.remove(0);
        }
    }

    fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// Returns the cursor's place after one step. A combining mark moves with its letter.
    fn step(&self, toward: Toward) -> usize {
        let is_joined = |character: &char| columns(*character) == 0 && !tool::is_invisible(*character);
        match toward {
            Toward::Begin => {
                let back = self.before().char_indices().rev().find(|(_, character)| !is_joined(character));
                back.map_or(0, |(at, _)| at)
            }
            Toward::End => {
                let next = self.after().char_indices().skip(1).find(|(_, character)| !is_joined(character));
                next.map_or(self.text.len(), |(at, _)| self.cursor + at)
            }
        }
    }

    /// Returns the begin of the word before the cursor, or the end of the one after it.
    fn word(&self, toward: Toward) -> usize {
        let is_space = |character: char| character.is_whitespace();
        match toward {
            Toward::Begin => {
                let head = self.before().trim_end_matches(is_space);
                head.char_indices()
                    .rev()
                    .find(|(_, letter)| is_space(*letter))
                    .map_or(0, |(at, space)| at + space.len_utf8())
            }
            Toward::End => {
                let rest = self.after();
                let spaces = rest.len() - rest.trim_start_matches(is_space).len();
                let tail = rest.get(spaces..).unwrap_or_default();
                self.cursor + spaces + tail.find(is_space).unwrap_or(tail.len())
            }
        }
    }

    /// Returns the begin or the end of the cursor's line.
    fn line(&self, toward: Toward) -> usize {
        match toward {
            Toward::Begin => self.before().rfind('\n').map_or(0, |at| at + 1),
            Toward::End => self.after().find('\n').map_or(self.text.len(), |at| self.cursor + at),
        }
    }

    pub(super) fn go(&mut self, toward: Toward) {
        self.cursor = self.step(toward);
    }

    pub(super) fn go_by_word(&mut self, toward: Toward) {
        self.cursor = self.word(toward);
    }

    pub(super) fn go_in_line(&mut self, toward: Toward) {
        self.cursor = self.line(toward);
    }

    pub(super) fn delete(&mut self, toward: Toward) {
        self.remove_to(self.step(toward));
    }

    pub(super) fn delete_word(&mut self, toward: Toward) {
        self.remove_to(self.word(toward));
    }

    pub(super) fn delete_line(&mut self, toward: Toward) {
        self.remove_to(self.line(toward));
    }

    fn remove_to(&mut self, place: usize) {
        let (from, to) = (place.min(self.cursor), place.max(self.cursor));
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    /// Goes to the line above or below, or beyond the first and last one to an earlier or later message.
    pub(super) fn go_vertically(&mut self, toward: Toward) {
        let begin = self.line(Toward::Begin);
        let column = self.text.get(begin..self.cursor).unwrap_or_default().chars().count();
        let other = match toward {
            Toward::Begin if begin > 0 => {
                let head = self.text.get(..begin - 1).unwrap_or_default();
                Some(head.rfind('\n').map_or(0, |at| at + 1))
            }
            Toward::End => Some(self.line(Toward::End) + 1).filter(|at| *at <= self.text.len()),
            Toward::Begin => None,
        };
        let Some(other) = other else { return self.recall(toward) };
        let line = self.text.get(other..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        self.cursor = other + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    }

    fn recall(&mut self, toward: Toward) {
        let index = self.shown.as_ref().map_or(self.earlier.len(), |(index, _)| *index);
        let index = match toward {
            Toward::Begin => index.checked_sub(1),
            Toward::End => Some(index + 1).filter(|index| *index <= self.earlier.len()),
        };
        let Some(index) = index else { return };
        let typed = self.shown.take().map_or_else(|| self.text.clone(), |(_, typed)| typed);
        match self.earlier.get(index).cloned() {
            Some(message) => {
                self.shown = Some((index, typed));
                self.set(message);
            }
            None => self.set(typed),
        }
    }

    /// Returns the rows at this width, and the row and column of the cursor.
    pub(super) fn layout(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        let (mut all, mut at) = (Vec::new(), (0, 0));
        let mut begin = 0;
        for line in self.text.split('\n') {
            let end = begin + line.len();
            let shown = visible_piece(line);
            let ranges = rows(&shown, width);
            if (begin..=end).contains(&self.cursor) {
                let before = visible_piece(self.text.get(begin..self.cursor).unwrap_or_default()).len();
                let last = ranges.len().saturating_sub(1);
                let place = ranges.iter().position(|row| before < row.end).unwrap_or(last);
                let from = ranges.get(place).map_or(0, |row| row.start);
                let column = shown.get(from..before).unwrap_or_default().chars().map(columns).sum();
                at = (all.len() + place, column);
                // The cursor behind a full row is on the next one.
                if column >= width {
                    at = (at.0 + 1, 0);
                }
            }
            all.extend(ranges.into_iter().map(|row| shown.get(row).unwrap_or_default().to_owned()));
            if at.0 == all.len() {
                all.push(String::new());
            }
            begin = end + 1;
        }
        (all, at)
    }
}

/// Returns a piece of the input as it is shown. Each character is shown for itself, so that the cursor's place
/// is that of the text before it.
fn visible_piece(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => shown.push_str("→   "),
            other if other.is_control() || tool::is_invisible(other) => shown.extend(other.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}
