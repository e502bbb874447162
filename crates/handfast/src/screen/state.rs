//! State of the approvals screen, and the effect of keys on it. Without input or output: a key
//! results in an [`Action`] at most.

use engine::{Offer, Scope, StoredQuestion};
use policy::List;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use store_api::Lease;

/// The pages, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// Questions that wait for an answer.
    Waiting,
    /// Leases.
    Leases,
    /// Allow and deny lists of the user's configuration.
    Lists,
    /// Questions that were answered or have expired.
    History,
}

impl Page {
    pub(super) const ALL: [Self; 4] = [Self::Waiting, Self::Leases, Self::Lists, Self::History];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Leases => "Leases",
            Self::History => "History",
            Self::Lists => "Lists",
        }
    }
}

/// One entry of a list in the user's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) list: List,
    pub(crate) text: String,
}

/// The mode of the screen's bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Browsing, without input in progress.
    Browse,
    /// An approval beyond the call, or a removal, waits for a second key.
    Confirm(Action),
    /// A message for the agent is being typed.
    Message { id: String, text: String },
    /// An entry of a list is being typed.
    Entry { list: List, text: String },
}

/// An action to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Allow { id: String, scope: Scope },
    Deny { id: String, message: Option<String> },
    Revoke { id: String },
    Add(Entry),
    Remove(Entry),
}

/// The state of the whole screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) page: Page,
    pub(super) mode: Mode,
    pub(super) asked: Vec<StoredQuestion>,
    /// Questions that wait no longer, the newest first.
    pub(super) earlier: Vec<StoredQuestion>,
    pub(super) leases: Vec<Lease>,
    pub(super) entries: Vec<Entry>,
    /// Profile and file of the entries, or the reason why they are unknown.
    pub(super) lists_of: String,
    pub(super) selected: usize,
    /// Number of lines by which the details are scrolled.
    pub(super) scrolled: usize,
    /// Number of visible lines of the details, and maximum scroll position, as last drawn.
    page_lines: usize,
    most_scrolled: usize,
    /// Id of the question on the screen, as last drawn.
    drawn: Option<String>,
    /// True if another question has replaced the one that the user was looking at.
    replaced: bool,
    /// True if differences are shown in colours.
    pub(super) has_colours: bool,
    /// Outcome of the last action.
    pub(super) said: String,
}

/// Content of the pages.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) asked: Vec<StoredQuestion>,
    pub(super) earlier: Vec<StoredQuestion>,
    pub(super) leases: Vec<Lease>,
    pub(super) entries: Vec<Entry>,
}

impl State {
    pub(super) fn new(lists_of: String, has_colours: bool) -> Self {
        Self {
            page: Page::Waiting,
            mode: Mode::Browse,
            asked: Vec::new(),
            earlier: Vec::new(),
            has_colours,
            leases: Vec::new(),
            entries: Vec::new(),
            lists_of,
            selected: 0,
            scrolled: 0,
            page_lines: 1,
            most_scrolled: 0,
            drawn: None,
            replaced: false,
            said: String::new(),
        }
    }

    /// Records what is on the screen now: the numbers of visible lines and of all lines of the details.
    pub(super) fn is_drawn(&mut self, seen: usize, lines: usize) {
        self.page_lines = seen.max(1);
        self.most_scrolled = lines.saturating_sub(seen);
        self.scrolled = self.scrolled.min(self.most_scrolled);
        self.drawn = self.current().map(|asked| asked.question.id.clone());
    }

    /// Replaces the content with the current one. The selection stays if the item still exists. A
    /// pending second key is cancelled if its question is gone. Returns true if a question has come
    /// whose call waits.
    pub(super) fn renew(&mut self, content: Content) -> bool {
        let before = self.current().map(|asked| asked.question.id.clone());
        let Content { asked, earlier, leases, entries } = content;
        let is_known = |id: &str| self.asked.iter().any(|known| known.question.id == id);
        let has_new = asked.iter().any(|asked| asked.caller_waits && !is_known(&asked.question.id));
        self.asked = asked;
        self.earlier = earlier;
        self.leases = leases;
        self.entries = entries;
        if self.page == Page::Waiting {
            let same = self.asked.iter().position(|asked| Some(&asked.question.id) == before.as_ref());
            let about = match &self.mode {
                Mode::Confirm(Action::Allow { id, .. }) | Mode::Message { id, .. } => Some(id),
                _ => None,
            };
            if about.is_some_and(|id| !self.asked.iter().any(|asked| asked.question.id == *id)) {
                self.mode = Mode::Browse;
                "somebody else has answered, or the question is gone".clone_into(&mut self.said);
            }
            match same {
                Some(same) => self.selected = same,
                None => self.scrolled = 0,
            }
            self.selected = self.selected.min(self.rows().saturating_sub(1));
            if before.is_some() && same.is_none() && self.current().is_some() {
                self.replaced = true;
            }
        }
        self.selected = self.selected.min(self.rows().saturating_sub(1));
        has_new
    }

    /// Returns the question whose details are shown: the selected one that waits, or the selected one of
    /// the history.
    pub(super) fn shown(&self) -> Option<&StoredQuestion> {
        match self.page {
            Page::Waiting => self.current(),
            Page::History => self.earlier.get(self.selected),
            Page::Leases | Page::Lists => None,
        }
    }

    /// Returns the selected question that waits.
    pub(super) fn current(&self) -> Option<&StoredQuestion> {
        self.asked.get(self.selected).filter(|_| self.page == Page::Waiting)
    }

    pub(super) fn rows(&self) -> usize {
        match self.page {
            Page::Waiting => self.asked.len(),
            Page::Leases => self.leases.len(),
            Page::History => self.earlier.len(),
            Page::Lists => self.entries.len(),
        }
    }

    /// Returns the action of a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(key.code),
            Mode::Confirm(action) => self.confirm(key.code, action),
            Mode::Message { id, text } => self.type_message(key.code, id, text),
            Mode::Entry { list, text } => self.type_entry(key.code, list, text),
        }
    }

    fn browse(&mut self, key: KeyCode) -> Option<Action> {
        self.said.clear();
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Page::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::PageDown | KeyCode::Char(' ') => {
                self.scrolled = (self.scrolled + self.page_lines).min(self.most_scrolled);
            }
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(self.page_lines),
            KeyCode::Char(letter) => return self.letter(letter),
            _ => {}
        }
        None
    }

    fn letter(&mut self, letter: char) -> Option<Action> {
        match self.page {
            Page::Waiting => self.answer(letter),
            Page::Leases if letter == 'x' => {
                let id = self.leases.get(self.selected)?.id.clone();
                self.mode = Mode::Confirm(Action::Revoke { id });
                None
            }
            Page::Lists if letter == 'x' => {
                let entry = self.entries.get(self.selected)?.clone();
                self.mode = Mode::Confirm(Action::Remove(entry));
                None
            }
            Page::Lists if letter == '+' => {
                let list =
                    self.entries.get(self.selected).map_or(List::AllowedExecCommand, |entry| entry.list);
                self.mode = Mode::Entry { list, text: String::new() };
                None
            }
            _ => None,
        }
    }

    fn answer(&mut self, letter: char) -> Option<Action> {
        let id = self.current()?.question.id.clone();
        // The key was meant for a question that another one has replaced by now.
        if std::mem::take(&mut self.replaced) || self.drawn.as_ref() != Some(&id) {
            "another question is shown here now; nothing was answered".clone_into(&mut self.said);
            return None;
        }
        match letter {
            'y' => return Some(Action::Allow { id, scope: Scope::Once }),
            'n' => self.mode = Mode::Message { id, text: String::new() },
            letter => {
                let scope = self
                    .current()?
                    .question
                    .offers
                    .iter()
                    .map(|offer| offer.scope)
                    .find(|scope| key_of(*scope) == letter)?;
                self.mode = Mode::Confirm(Action::Allow { id, scope });
            }
        }
        None
    }

    fn confirm(&mut self, key: KeyCode, action: Action) -> Option<Action> {
        let again = match &action {
            Action::Allow { scope, .. } => key_of(*scope),
            _ => 'x',
        };
        match key {
            KeyCode::Enter => Some(action),
            KeyCode::Char(letter) if letter == again => Some(action),
            _ => {
                "nothing was done".clone_into(&mut self.said);
                None
            }
        }
    }

    fn type_message(&mut self, key: KeyCode, id: String, text: String) -> Option<Action> {
        match typed(key, text) {
            Typed::More(text) => self.mode = Mode::Message { id, text },
            Typed::Done(text) => {
                let message = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
                return Some(Action::Deny { id, message });
            }
            Typed::GivenUp => "nothing was answered".clone_into(&mut self.said),
        }
        None
    }

    fn type_entry(&mut self, key: KeyCode, list: List, text: String) -> Option<Action> {
        if matches!(key, KeyCode::Tab | KeyCode::BackTab) {
            let at = List::ALL.iter().position(|one| *one == list).unwrap_or_default();
            let step = if key == KeyCode::Tab { 1 } else { List::ALL.len() - 1 };
            let list = List::ALL.get((at + step) % List::ALL.len()).copied().unwrap_or(list);
            self.mode = Mode::Entry { list, text };
            return None;
        }
        match typed(key, text) {
            Typed::More(text) => self.mode = Mode::Entry { list, text },
            Typed::Done(text) if text.trim().is_empty() => "nothing was added".clone_into(&mut self.said),
            Typed::Done(text) => return Some(Action::Add(Entry { list, text: text.trim().to_owned() })),
            Typed::GivenUp => "nothing was added".clone_into(&mut self.said),
        }
        None
    }

    fn turn(&mut self, by: usize) {
        let at = Page::ALL.iter().position(|page| *page == self.page).unwrap_or_default();
        self.page = Page::ALL.get((at + by) % Page::ALL.len()).copied().unwrap_or(Page::Waiting);
        (self.selected, self.scrolled, self.replaced) = (0, 0, false);
    }

    fn select(&mut self, row: usize) {
        let row = row.min(self.rows().saturating_sub(1));
        if row != self.selected {
            (self.selected, self.scrolled, self.replaced) = (row, 0, false);
        }
    }

    /// Returns the offer that waits for a second key.
    pub(super) fn offered(&self, id: &str, scope: Scope) -> Option<&Offer> {
        let asked = self.asked.iter().find(|asked| asked.question.id == id)?;
        asked.question.offers.iter().find(|offer| offer.scope == scope)
    }
}

/// Returns the key for an approval of this scope.
pub(super) fn key_of(scope: Scope) -> char {
    match scope {
        Scope::Once => 'y',
        Scope::Session => 's',
        Scope::Project => 'p',
        Scope::Always => 'a',
    }
}

enum Typed {
    More(String),
    Done(String),
    GivenUp,
}

/// Maximum number of characters in one line of input.
const LONGEST_TEXT: usize = 500;

fn typed(key: KeyCode, mut text: String) -> Typed {
    match key {
        KeyCode::Enter => return Typed::Done(text),
        KeyCode::Esc => return Typed::GivenUp,
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char(letter) if text.chars().count() < LONGEST_TEXT => text.push(letter),
        _ => {}
    }
    Typed::More(text)
}
