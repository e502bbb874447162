//! The panel of a question: what would run, and the keys that answer.

use std::time::{Duration, Instant};

use engine::{Approval, Offer, Scope};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::questions::Reply;
use super::wrap::rows;
use crate::report::covered;
use crate::terminal::{offer_key, question, span};

/// Time without a key after which keys answer a question. Whoever types when it appears has not read it.
const QUIET: Duration = Duration::from_millis(500);

/// A question on the screen.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) number: u64,
    /// Number of all questions that wait.
    pub(super) count: usize,
    approval: Approval,
    text: String,
    /// Time of the last key, or of the first drawing; `None` before it.
    quiet_since: Option<Instant>,
    is_ready: bool,
    /// Offer that waits for a second key.
    confirmed: Option<Offer>,
    scrolled: usize,
    /// Number of visible lines, and of all lines, as last drawn.
    seen: (usize, usize),
}

/// Effect of a key on a question.
#[derive(Debug, PartialEq)]
pub(super) enum PanelKey {
    /// The key is for the input.
    NotMine,
    /// The key has moved something, or has no meaning.
    Taken,
    /// The key answers.
    Answers(Reply),
}

impl Panel {
    pub(super) fn new(number: u64, count: usize, approval: Approval) -> Self {
        let text = covered(question(&approval).trim()).into_owned();
        Self {
            number,
            count,
            approval,
            text,
            quiet_since: None,
            is_ready: false,
            confirmed: None,
            scrolled: 0,
            seen: (1, 1),
        }
    }

    /// Records that the question is on the screen, with its visible lines and all its lines.
    pub(super) fn is_drawn(&mut self, seen: (usize, usize), now: Instant) {
        self.seen = seen;
        self.scrolled = self.scrolled.min(seen.1.saturating_sub(seen.0));
        self.quiet_since.get_or_insert(now);
    }

    /// Lets keys answer if the user had time to read. Called after all keys that were typed have been read.
    /// Returns true if that is new.
    pub(super) fn time_passes(&mut self, now: Instant) -> bool {
        let is_quiet = |since: Instant| now.saturating_duration_since(since) >= QUIET;
        if self.is_ready || !self.quiet_since.is_some_and(is_quiet) {
            return false;
        }
        self.is_ready = true;
        true
    }

    /// Returns the lines of the question that are visible at this size, and the number of all.
    pub(super) fn lines(&self, width: usize, height: usize) -> (Vec<String>, usize) {
        let mut all = Vec::new();
        for line in self.text.lines() {
            // A later row is further in, so that it cannot look like a line of its own.
            let first = rows(line, width);
            let rest = first.first().map_or(0, |row| row.end);
            all.push(line.get(..rest).unwrap_or_default().to_owned());
            let rest = line.get(rest..).unwrap_or_default();
            if !rest.is_empty() {
                let indent = " ".repeat(INDENT.min(width / 4));
                let more = rows(rest, width.saturating_sub(indent.len()));
                all.extend(
                    more.into_iter().map(|row| format!("{indent}{}", rest.get(row).unwrap_or_default())),
                );
            }
        }
        let count = all.len();
        let first = self.scrolled.min(count.saturating_sub(height));
        (all.into_iter().skip(first).take(height).collect(), count)
    }

    /// Returns the number of the first visible line, from 0.
    pub(super) fn first(&self) -> usize {
        self.scrolled
    }

    /// Returns what the keys do.
    pub(super) fn keys(&self) -> String {
        if !self.is_ready {
            return "Allow it?  Keys answer in a moment".to_owned();
        }
        if let Some(offer) = &self.confirmed {
            let key = offer_key(offer.scope);
            return format!(
                "Allow for {}: {}  [{key}] or [Enter] confirms  other key: back",
                span(offer.seconds),
                tool::visible(&offer.description())
            );
        }
        let offers = self.approval.offers.iter().filter(|offer| offer.scope != Scope::Once);
        let offers: String =
            offers.map(|offer| format!("  [{}] {}", offer_key(offer.scope), offer.scope)).collect();
        let more = if self.seen.0 < self.seen.1 { "  [PgDn] more" } else { "" };
        format!("Allow it?  [y] yes, once{offers}  [n] no{more}")
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent, now: Instant) -> PanelKey {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return PanelKey::NotMine;
        }
        match key.code {
            KeyCode::PageDown => {
                let most = self.seen.1.saturating_sub(self.seen.0);
                self.scrolled = (self.scrolled + self.seen.0).min(most);
                return PanelKey::Taken;
            }
            KeyCode::PageUp => {
                self.scrolled = self.scrolled.saturating_sub(self.seen.0);
                return PanelKey::Taken;
            }
            _ => {}
        }
        if !self.is_ready {
            self.typed(now);
            return PanelKey::NotMine;
        }
        if let Some(offer) = self.confirmed.take() {
            let again = KeyCode::Char(offer_key(offer.scope));
            return match key.code {
                code if code == KeyCode::Enter || code == again => PanelKey::Answers(Reply::Lease(offer)),
                _ => PanelKey::Taken,
            };
        }
        match key.code {
            KeyCode::Char('y' | 'Y') => return PanelKey::Answers(Reply::Once),
            KeyCode::Char('n' | 'N') | KeyCode::Esc => return PanelKey::Answers(Reply::No),
            KeyCode::Char(letter) => {
                let mut offers = self.approval.offers.iter();
                self.confirmed = offers
                    .find(|offer| offer.scope != Scope::Once && offer_key(offer.scope) == letter)
                    .cloned();
            }
            _ => {}
        }
        PanelKey::Taken
    }

    /// Records input that is no answer. A question that is not ready waits until it ends.
    pub(super) fn typed(&mut self, now: Instant) {
        if let Some(since) = &mut self.quiet_since {
            *since = now;
        }
    }
}

/// Number of columns before the later rows of a line.
const INDENT: usize = 6;
