//! `handfast chat` on a terminal: the screen of a conversation with an agent.
//!
//! The screen runs in one thread with the turn of the agent. It takes keys and events every 25 ms, and draws at
//! most every 50 ms. It decides nothing about calls: it shows the engine's questions, and hands the answers back.

mod display;
mod draw;
mod events;
mod facts;
mod input;
mod panel;
mod questions;
mod state;
#[cfg(test)]
mod tests;
mod transcript;
mod wrap;

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event as TerminalEvent, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior};

pub(crate) use events::{Events, Queue};
pub(crate) use facts::{Facts, Spent};
pub(crate) use questions::Questions;
pub(crate) use state::{State, Wish};

use crate::host_environment::HostEnvironment;
use crate::signals::Signals;
use crate::terminal::forget_typed;
use display::{Display, HUNG_UP, is_gone, ring, watch_for_the_end};

/// Interval between checks for keys and events.
const LOOK: Duration = Duration::from_millis(25);
/// Minimum interval between two drawings for events.
const DRAW: Duration = Duration::from_millis(50);
/// Interval between two drawings while a time is shown.
const TIME: Duration = Duration::from_secs(1);

/// Something that the program must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// A wish of the user.
    Wish(Wish),
    /// A signal, or the end of the terminal: end with this exit code.
    Ended(u8),
}

/// The open screen.
pub(crate) struct Screen {
    display: Display,
    pub(crate) state: State,
    events: Arc<Events>,
    signals: Signals,
    gone: Arc<Notify>,
    look: Interval,
    drawn_at: Option<Instant>,
}

impl Screen {
    /// Takes the terminal, and shows the state.
    pub(crate) fn open(state: State, events: Arc<Events>) -> io::Result<Self> {
        let signals = Signals::listen()?;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Input typed before anything was visible is for no field of it.
        forget_typed(io::stdin())?;
        let gone = watch_for_the_end()?;
        let display = Display::open()?;
        Ok(Self { display, state, events, signals, gone, look, drawn_at: None })
    }

    /// Keeps the screen alive until the program must do something. Can be dropped and called again.
    pub(crate) async fn next(&mut self) -> io::Result<Need> {
        loop {
            tokio::select! {
                code = self.signals.next() => return Ok(Need::Ended(code)),
                () = self.gone.notified() => return Ok(Need::Ended(HUNG_UP)),
                _ = self.look.tick() => {}
            }
            match self.look_around() {
                Ok(None) => {}
                Ok(Some(wish)) => return Ok(Need::Wish(wish)),
                // A drawing can fail before the signal comes.
                Err(_) if is_gone() => return Ok(Need::Ended(HUNG_UP)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes events and keys, and draws if something has changed.
    fn look_around(&mut self) -> io::Result<Option<Wish>> {
        self.take_events();
        let mut wish = None;
        while wish.is_none() && event::poll(Duration::ZERO)? {
            let now = Instant::now();
            match event::read()? {
                TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => {
                    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                    if is_control && key.code == KeyCode::Char('l') {
                        self.display.begin_anew()?;
                    }
                    wish = self.state.key(key, now);
                }
                TerminalEvent::Paste(text) => self.state.paste(&text, now),
                TerminalEvent::Resize(..) => self.state.is_stale = true,
                _ => {}
            }
        }
        // Keys that wait could answer a question that they were not typed for.
        if wish.is_none() {
            self.state.look_at_questions(Instant::now());
        }
        self.draw()?;
        Ok(wish)
    }

    /// Shows what has happened so far.
    pub(crate) fn take_events(&mut self) {
        let now = Instant::now();
        for event in self.events.take_all() {
            self.state.take(event, now);
        }
        for line in self.display.written() {
            self.state.note(&line);
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let since = self.drawn_at.map(|drawn| now.saturating_duration_since(drawn));
        let is_due = |interval: Duration| since.is_none_or(|since| since >= interval);
        let is_wanted = self.state.is_stale && is_due(DRAW) || self.state.shows_time() && is_due(TIME);
        if !is_wanted {
            return Ok(());
        }
        self.display.terminal.draw(|frame| draw::draw(frame, &mut self.state, now))?;
        (self.drawn_at, self.state.is_stale) = (Some(now), false);
        if std::mem::take(&mut self.state.rings) {
            ring()?;
        }
        Ok(())
    }
}

/// Returns true if the user wants colours: <https://no-color.org>.
pub(crate) fn has_colours(environment: &HostEnvironment) -> bool {
    environment.passed_on.get(OsStr::new("NO_COLOR")).is_none_or(|value| value.is_empty())
}
