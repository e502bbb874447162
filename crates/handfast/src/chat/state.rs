//! State of the chat's screen, and the effect of keys and events on it. Without input or output: a key results
//! in a [`Wish`] at most.

use std::sync::Arc;
use std::time::Instant;

use agents::{TurnEnd, TurnReport};
use llm::{Message, Part, Role};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::events::{Event, Queue, call_text};
use super::facts::{Facts, Spent};
use super::input::{Input, Toward};
use super::panel::{Panel, PanelKey};
use super::questions::Questions;
use super::transcript::{Kind, Transcript};
use super::wrap::cut;
use crate::report::covered;

/// Something that a key asks the program to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Send a message to the agent.
    Send(String),
    /// Stop the turn.
    Stop,
    /// End the program.
    End,
    /// Ask another model from now on.
    Model(String),
    /// Undo the newest change.
    Undo,
}

/// Turn that runs.
#[derive(Debug)]
pub(super) struct Work {
    /// Begin of what happens now.
    pub(super) since: Instant,
    /// Calls that run: id and tool.
    pub(super) calls: Vec<(String, String)>,
    pub(super) is_stopping: bool,
    /// True if text of the present answer has come.
    pub(super) has_text: bool,
    /// True if the agent waits for agents below it.
    pub(super) is_waiting: bool,
}

/// State of the whole screen.
pub(crate) struct State {
    pub(super) facts: Facts,
    pub(super) transcript: Transcript,
    pub(super) input: Input,
    pub(super) queue: Arc<Queue>,
    questions: Arc<Questions>,
    pub(super) work: Option<Work>,
    pub(super) panel: Option<Panel>,
    /// Spending of the turns that have ended, and of the one that runs.
    spent: (Spent, Spent),
    /// True if the last key was a Ctrl-C that does something only with a second one.
    is_armed: bool,
    /// Line about the last key.
    pub(super) said: String,
    /// Height of the conversation, as last drawn.
    pub(super) page: usize,
    pub(super) has_colours: bool,
    /// True if the screen must be drawn again.
    pub(super) is_stale: bool,
    /// True if a question has come since the last drawing.
    pub(super) rings: bool,
}

/// Maximum number of characters of another agent's message that are shown.
const LONGEST_MAIL: usize = 400;

const HELP: &[&str] = &[
    "Enter sends; Alt-Enter or Ctrl-J begins a new line; Up and Down go to earlier messages",
    "PgUp and PgDn scroll; Ctrl-C stops the agent, clears the input, and twice ends; Ctrl-D ends; Ctrl-L draws anew",
    "what you send while the agent works is delivered before its next step",
    "/model PROVIDER/MODEL asks another model from now on",
    "/undo undoes the newest change in the workspace, as `handfast undo --last` does",
    "/quit ends; `handfast chat --continue` goes on later",
];

impl State {
    pub(crate) fn new(facts: Facts, questions: Arc<Questions>, queue: Arc<Queue>, has_colours: bool) -> Self {
        Self {
            facts,
            transcript: Transcript::new(|text| covered(text).into_owned()),
            input: Input::default(),
            queue,
            questions,
            work: None,
            panel: None,
            spent: (Spent::default(), Spent::default()),
            is_armed: false,
            said: String::new(),
            page: 1,
            has_colours,
            is_stale: true,
            rings: false,
        }
    }

    /// Shows an earlier conversation.
    pub(crate) fn restore(&mut self, messages: &[Message]) {
        for message in messages {
            for part in &message.parts {
                match (part, message.role) {
                    (Part::Text(text), Role::User) => {
                        self.transcript.user(text);
                        self.input.remember(text);
                    }
                    (Part::Text(text), _) => {
                        self.transcript.text(text);
                        self.transcript.finish();
                    }
                    (Part::ToolCall(call), _) => {
                        let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
                        self.transcript.call_begins(&call.id, call_text(&call.name, &arguments));
                    }
                    (Part::ToolResult(result), _) => {
                        let first = covered(result.text.lines().next().unwrap_or_default()).into_owned();
                        let outcome = if result.is_error {
                            cut(&tool::visible(&first), 120)
                        } else {
                            "done".to_owned()
                        };
                        self.transcript.call_ends(
                            &result.call_id,
                            &tool::visible(&result.name),
                            &outcome,
                            !result.is_error,
                        );
                    }
                    (Part::Image(_) | Part::Thinking(_), _) => {}
                }
            }
        }
        self.transcript.end_calls();
        self.is_stale = true;
    }

    /// Returns what all turns have used.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = self.spent.0;
        let now = self.spent.1;
        spent.add(now.usage, Some(now.cost), now.steps, now.calls);
        spent.is_partial |= now.is_partial;
        spent
    }

    /// Changes the name of the model.
    pub(crate) fn set_model(&mut self, model: String) {
        self.note(&format!("{model} is asked from now on"));
        self.facts.model = model;
    }

    /// Adds a line of Handfast to the conversation.
    pub(crate) fn note(&mut self, text: &str) {
        self.transcript.note(Kind::Note, text);
        self.is_stale = true;
    }

    /// Adds an error to the conversation.
    pub(crate) fn error(&mut self, text: &str) {
        self.transcript.note(Kind::Error, text);
        self.is_stale = true;
    }

    /// Shows that a turn begins with this message.
    pub(crate) fn turn_begins(&mut self, message: &str, now: Instant) {
        self.transcript.user(message);
        self.work = Some(Work {
            since: now,
            calls: Vec::new(),
            is_stopping: false,
            has_text: false,
            is_waiting: false,
        });
        self.is_stale = true;
    }

    /// Shows the end of a turn. Returns the messages that the agent has not taken, if a turn should follow.
    pub(crate) fn turn_ends(&mut self, report: &TurnReport) -> Option<String> {
        self.transcript.finish();
        self.transcript.end_calls();
        self.work = None;
        self.is_armed = false;
        self.said.clear();
        self.is_stale = true;
        self.spent.1 = Spent::default();
        let cost = (!report.cost_is_partial).then_some(report.cost);
        self.spent.0.add(report.usage, cost, report.steps, report.calls);
        if cost.is_none() {
            self.spent.0.cost = self.spent.0.cost.saturating_add(report.cost);
        }
        let left = self.queue.drain().join("\n\n");
        match &report.end {
            TurnEnd::Answer(_) if !left.is_empty() => return Some(left),
            TurnEnd::Answer(_) => {}
            TurnEnd::Stopped(_) => self.note("stopped"),
            TurnEnd::Limit(why) => self.error(&format!("{why}; a further message goes on")),
            TurnEnd::Failed(why) => self.error(why),
        }
        // The user decides whether to send it after what has happened.
        if !left.is_empty() {
            let typed = self.input.text().to_owned();
            let parts = [left, typed].into_iter().filter(|part| !part.is_empty());
            self.input.set(parts.collect::<Vec<_>>().join("\n\n"));
        }
        None
    }

    /// Takes an event of the turn.
    pub(super) fn take(&mut self, event: Event, now: Instant) {
        self.is_stale = true;
        if let Some(work) = &mut self.work {
            work.is_waiting = false;
        }
        match event {
            Event::Text(text) => {
                self.transcript.text(&text);
                if !self.set_has_text(true) {
                    self.began(now);
                }
            }
            Event::Thought(text) => self.transcript.thought(&text),
            Event::Discarded => {
                self.transcript.discard();
                self.note("the model did not finish; it is asked again");
                self.set_has_text(false);
                self.began(now);
            }
            Event::Answered { text, model, usage, cost, tried } => {
                // A server need not send its answer in pieces.
                if !self.set_has_text(false) {
                    self.transcript.text(&text);
                }
                self.transcript.finish();
                for attempt in tried {
                    self.note(&format!("not asked in the end: {attempt}"));
                }
                self.facts.model = model;
                self.spent.1.add(usage, cost, 1, 0);
                self.began(now);
            }
            Event::CallBegins { id, name, text } => {
                self.transcript.call_begins(&id, text);
                if let Some(work) = &mut self.work {
                    work.calls.push((id, name));
                }
                self.began(now);
            }
            Event::CallEnds { id, name, outcome, is_ok } => {
                self.transcript.call_ends(&id, &tool::visible(&name), &outcome, is_ok);
                self.spent.1.calls += 1;
                if let Some(work) = &mut self.work {
                    work.calls.retain(|(known, _)| *known != id);
                }
                self.began(now);
            }
            Event::Received(text) if self.queue.has_written(&text) => self.transcript.user(&text),
            // A message of another agent, which can be long.
            Event::Received(text) => self.note(&tool::beginning(&covered(&text), LONGEST_MAIL)),
            Event::Waits => {
                self.began(now);
                if let Some(work) = &mut self.work {
                    work.is_waiting = true;
                }
            }
            Event::Summarised(messages) => {
                self.note(&format!("the {messages} oldest messages were summarised for the model"));
            }
        }
    }

    /// Records whether text of the present answer has come. Returns what was recorded before.
    fn set_has_text(&mut self, has_text: bool) -> bool {
        self.work.as_mut().is_some_and(|work| std::mem::replace(&mut work.has_text, has_text))
    }

    fn began(&mut self, now: Instant) {
        if let Some(work) = &mut self.work {
            work.since = now;
        }
    }

    /// Returns true if the screen shows a time that has changed since its last drawing.
    pub(super) fn shows_time(&self) -> bool {
        self.work.is_some()
    }

    /// Shows the oldest question that waits, and lets keys answer it when the user had time to read it. Called
    /// after all keys that were typed have been read.
    pub(super) fn look_at_questions(&mut self, now: Instant) {
        let first = self.questions.first_number();
        let known =
            self.panel.as_mut().filter(|panel| first.is_some_and(|(number, _)| panel.number == number));
        match (first, known) {
            (None, _) => {
                self.is_stale |= self.panel.take().is_some();
            }
            (Some((_, count)), Some(panel)) => {
                self.is_stale |= panel.time_passes(now) || panel.count != count;
                panel.count = count;
            }
            (Some(_), None) => {
                let first = self.questions.first();
                self.panel = first.map(|(number, approval, count)| Panel::new(number, count, approval));
                (self.is_stale, self.rings) = (true, true);
            }
        }
    }

    /// Takes pasted text, which is no answer and sends nothing.
    pub(super) fn paste(&mut self, text: &str, now: Instant) {
        self.is_stale = true;
        self.is_armed = false;
        self.said.clear();
        if let Some(panel) = &mut self.panel {
            panel.typed(now);
        }
        if !self.input.paste(text) {
            "this is too long for a message; put it into a file".clone_into(&mut self.said);
        }
    }

    /// Returns the wish of a key.
    pub(super) fn key(&mut self, key: KeyEvent, now: Instant) -> Option<Wish> {
        self.is_stale = true;
        self.said.clear();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        self.is_armed = false;
        if let Some(panel) = &mut self.panel {
            match panel.key(key, now) {
                PanelKey::NotMine => {}
                PanelKey::Taken => return None,
                PanelKey::Answers(reply) => {
                    self.questions.answer(panel.number, reply);
                    self.panel = None;
                    return None;
                }
            }
        }
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if alt || shift => self.insert("\n"),
            KeyCode::Enter => return self.submit(),
            KeyCode::Char(letter) if control => return self.control(letter),
            KeyCode::Char('b') if alt => self.input.go_by_word(Toward::Begin),
            KeyCode::Char('f') if alt => self.input.go_by_word(Toward::End),
            KeyCode::Char('d') if alt => self.input.delete_word(Toward::End),
            KeyCode::Backspace if alt => self.input.delete_word(Toward::Begin),
            KeyCode::Char(letter) if !alt => self.insert(letter.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.input.delete(Toward::Begin),
            KeyCode::Delete => self.input.delete(Toward::End),
            KeyCode::Left if control || alt => self.input.go_by_word(Toward::Begin),
            KeyCode::Right if control || alt => self.input.go_by_word(Toward::End),
            KeyCode::Left => self.input.go(Toward::Begin),
            KeyCode::Right => self.input.go(Toward::End),
            KeyCode::Home => self.input.go_in_line(Toward::Begin),
            KeyCode::End => self.input.go_in_line(Toward::End),
            KeyCode::Up => self.input.go_vertically(Toward::Begin),
            KeyCode::Down => self.input.go_vertically(Toward::End),
            // One row stays, so that the eye finds its place.
            KeyCode::PageUp => self.transcript.scroll(self.page.saturating_sub(1).max(1), true, self.page),
            KeyCode::PageDown => self.transcript.scroll(self.page.saturating_sub(1).max(1), false, self.page),
            _ => {}
        }
        None
    }

    fn insert(&mut self, text: &str) {
        if !self.input.insert(text) {
            "the message has its greatest length".clone_into(&mut self.said);
        }
    }

    fn control(&mut self, letter: char) -> Option<Wish> {
        match letter {
            'd' if self.input.is_empty() => return Some(Wish::End),
            'd' => self.input.delete(Toward::End),
            'j' => self.insert("\n"),
            'w' => self.input.delete_word(Toward::Begin),
            'u' => self.input.delete_line(Toward::Begin),
            'k' => self.input.delete_line(Toward::End),
            'a' => self.input.go_in_line(Toward::Begin),
            'e' => self.input.go_in_line(Toward::End),
            'b' => self.input.go(Toward::Begin),
            'f' => self.input.go(Toward::End),
            'p' => self.input.go_vertically(Toward::Begin),
            'n' => self.input.go_vertically(Toward::End),
            'h' => self.input.delete(Toward::Begin),
            _ => {}
        }
        None
    }

    /// Takes Ctrl-C.
    fn interrupt(&mut self) -> Option<Wish> {
        let was_armed = std::mem::take(&mut self.is_armed);
        match &mut self.work {
            Some(work) if !work.is_stopping => {
                work.is_stopping = true;
                return Some(Wish::Stop);
            }
            Some(_) if was_armed => return Some(Wish::End),
            Some(_) => {
                self.is_armed = true;
                "the agent stops; Ctrl-C once more ends the chat".clone_into(&mut self.said);
            }
            None if !self.input.is_empty() => self.input.clear(),
            None if was_armed => return Some(Wish::End),
            None => {
                self.is_armed = true;
                "Ctrl-C once more ends the chat".clone_into(&mut self.said);
            }
        }
        None
    }

    /// Takes Enter: a command, or a message.
    fn submit(&mut self) -> Option<Wish> {
        let text = self.input.text().trim_end().to_owned();
        if text.trim().is_empty() {
            return None;
        }
        self.transcript.scroll_to_end();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((&*text, ""));
        // A path begins with `/` too, but goes on with another one.
        if let Some(command) = word.strip_prefix('/').filter(|word| !word.contains('/')) {
            return self.command(command, rest.trim());
        }
        let message = self.input.take().trim().to_owned();
        if self.work.is_some() {
            self.queue.push(covered(&message).into_owned());
            return None;
        }
        Some(Wish::Send(message))
    }

    fn command(&mut self, command: &str, rest: &str) -> Option<Wish> {
        let wish = match command {
            "help" => {
                for line in HELP {
                    self.note(line);
                }
                None
            }
            "quit" | "exit" => Some(Wish::End),
            "model" if rest.is_empty() => {
                self.note(&format!(
                    "{} is asked; /model PROVIDER/MODEL changes it",
                    self.facts.model.clone()
                ));
                None
            }
            "model" => Some(Wish::Model(rest.to_owned())),
            "undo" if self.work.is_some() => {
                "the agent works; Ctrl-C stops it, then /undo".clone_into(&mut self.said);
                return None;
            }
            "undo" => Some(Wish::Undo),
            other => {
                self.said = format!(
                    "there is no command /{}; /help lists them; a space before it sends it as a message",
                    tool::visible(other)
                );
                return None;
            }
        };
        self.input.take();
        wish
    }
}
