//! Rendering of the screen. Reads the state and changes nothing.

use engine::Scope;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, List as Rows, ListItem, ListState, Paragraph, Wrap};
use tool::visible;

use super::state::{Action, Mode, Page, State, key_of};
use crate::commands::approval_text;
use crate::moment::Present;
use crate::terminal::span;

/// Height in lines below which the details replace the list, one question at a time.
const SMALL: u16 = 14;

/// Draws the whole screen. Returns the number of visible lines of the details, and the number of
/// all their lines. No information depends on colour: bold and reversed text are visible on every
/// terminal.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, present: &Present) -> (usize, usize) {
    let area = frame.area();
    let bottom = Text::from(wrapped_lines(bottom(state), usize::from(area.width)));
    // Long lines at the bottom must be visible completely, because they describe what a key will do.
    let height = u16::try_from(bottom.lines.len()).unwrap_or(u16::MAX);
    let height = height.clamp(1, area.height.saturating_sub(3).max(1));
    let [top, middle, last] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(height)]).areas(area);
    frame.render_widget(Paragraph::new(tabs(state)), top);
    let seen = match state.page {
        Page::Waiting | Page::History => questions(frame, middle, state, present),
        Page::Leases => {
            leases(frame, middle, state, present);
            (0, 0)
        }
        Page::Lists => {
            rows(frame, middle, state, present);
            (0, 0)
        }
    };
    frame.render_widget(Paragraph::new(bottom), last);
    seen
}

/// Wraps the text at this number of columns. A line breaks after a word that ends in its second
/// half, else where it is full, as in a terminal. Commands and files have long words, and their
/// ends should be visible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut row = String::new();
        for character in line.chars() {
            row.push(character);
            if Span::raw(row.as_str()).width() <= width || row.chars().nth(1).is_none() {
                continue;
            }
            let full = row.len() - character.len_utf8();
            let word = row.get(..full).and_then(|row| row.rfind(' ')).map(|space| space + 1);
            let at = word.filter(|at| *at > width / 2).unwrap_or(full);
            let rest = row.split_off(at);
            lines.push(std::mem::replace(&mut row, rest));
        }
        lines.push(row);
    }
    lines
}

/// Wraps lines that have a style each.
fn wrapped_lines(lines: Vec<(String, Modifier)>, width: usize) -> Vec<Line<'static>> {
    let styled = |(text, style): (String, Modifier)| {
        wrapped(&text, width).into_iter().map(move |row| Line::styled(row, style))
    };
    lines.into_iter().flat_map(styled).collect()
}

fn tabs(state: &State) -> Line<'static> {
    let mut spans = vec![Span::styled("handfast  ", Modifier::BOLD)];
    for page in Page::ALL {
        let count = match page {
            Page::Waiting => state.asked.len(),
            Page::Leases => state.leases.len(),
            Page::History => state.earlier.len(),
            Page::Lists => state.entries.len(),
        };
        let style =
            if page == state.page { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!(" {} ({count}) ", page.title()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

/// Draws the list of the questions of a page and, below it, the details of the selected one.
fn questions(frame: &mut Frame<'_>, area: Rect, state: &State, present: &Present) -> (usize, usize) {
    let Some(current) = state.shown() else {
        let text = match state.page {
            Page::History => "No question was answered yet. Answered and expired questions appear here.",
            _ => "Nothing waits for an approval. Questions appear here.",
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
        return (0, 0);
    };
    let details = if area.height < SMALL {
        area
    } else {
        let most = area.height / 3;
        let wanted = u16::try_from(state.rows()).unwrap_or(most).min(most).max(1);
        let [list, details] = Layout::vertical([Constraint::Length(wanted), Constraint::Min(1)]).areas(area);
        rows(frame, list, state, present);
        details
    };
    let lines = wrapped(&approval_text(current, present), usize::from(details.width));
    let seen = usize::from(details.height.saturating_sub(1));
    let first = state.scrolled.min(lines.len().saturating_sub(seen));
    let last = (first + seen).min(lines.len());
    let part = if last - first < lines.len() {
        format!(" lines {}-{last} of {} ", first + 1, lines.len())
    } else {
        String::new()
    };
    let title = format!(" {} of {} ", state.selected + 1, state.rows());
    let block = Block::new().borders(Borders::TOP).title(title).title(Line::from(part).right_aligned());
    let styled = |line| Line::styled(line, difference_style(line, state.has_colours));
    let shown: Vec<Line<'_>> =
        lines.iter().skip(first).take(seen).map(|line| styled(line.as_str())).collect();
    frame.render_widget(Paragraph::new(shown).block(block), details);
    (seen, lines.len())
}

/// Indentation of a preview in the details of a question.
const PREVIEW: &str = "    ";

/// Returns the style of a line of the details: lines of a difference have the usual colours.
fn difference_style(line: &str, has_colours: bool) -> Style {
    let Some(line) = line.strip_prefix(PREVIEW).filter(|_| has_colours) else { return Style::new() };
    match line {
        head if head.starts_with("+++ ") || head.starts_with("--- ") => Modifier::BOLD.into(),
        added if added.starts_with('+') => Color::Green.into(),
        removed if removed.starts_with('-') => Color::Red.into(),
        hunk if hunk.starts_with("@@ ") => Color::Cyan.into(),
        _ => Style::new(),
    }
}

/// Draws the list, and below it the full text of the selected lease, for which a row of the list
/// may be too short.
fn leases(frame: &mut Frame<'_>, area: Rect, state: &State, present: &Present) {
    let Some(lease) = state.leases.get(state.selected) else { return rows(frame, area, state, present) };
    let whole = wrapped(&format!("{}: {}", lease.id, visible(&lease.covers)), usize::from(area.width));
    let wanted = u16::try_from(whole.len() + 1).unwrap_or(u16::MAX).min(area.height / 2);
    let [list, details] = Layout::vertical([Constraint::Min(1), Constraint::Length(wanted)]).areas(area);
    rows(frame, list, state, present);
    let lines: Vec<Line<'_>> = whole.iter().map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::TOP)), details);
}

fn rows(frame: &mut Frame<'_>, area: Rect, state: &State, present: &Present) {
    let items: Vec<ListItem<'_>> = match state.page {
        Page::Waiting => state
            .asked
            .iter()
            .map(|asked| {
                let effects = asked.question.effects.join("; ");
                let time = present.time_of_day(asked.asked_at);
                let gone = if asked.caller_waits { "" } else { "(call ended)  " };
                let tool = visible(&asked.question.tool);
                ListItem::new(format!("{time}  {gone}{tool}  {}", visible(&effects)))
            })
            .collect(),
        Page::Leases => state
            .leases
            .iter()
            .map(|lease| {
                let until = present.local(lease.expires_at);
                ListItem::new(format!("until {until}, used {} times: {}", lease.uses, visible(&lease.covers)))
            })
            .collect(),
        Page::History => state
            .earlier
            .iter()
            .map(|asked| {
                let time = present.local(asked.answered_at.unwrap_or(asked.asked_at));
                let headline = visible(&asked.question.headline());
                ListItem::new(format!("{time}  {:<9} {headline}", asked.state_name()))
            })
            .collect(),
        Page::Lists => state
            .entries
            .iter()
            .map(|entry| ListItem::new(format!("{:<28}{}", entry.list.key(), visible(&entry.text))))
            .collect(),
    };
    if items.is_empty() {
        let text = match state.page {
            Page::Leases => "No lease is in force.",
            _ => "The file has no lists; the built-in ones apply. [+] adds an entry.",
        };
        let text = match state.page {
            Page::Lists => format!("{}\n\n{text}", visible(&state.lists_of)),
            _ => text.to_owned(),
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
        return;
    }
    let area = if state.page == Page::Lists {
        let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
        frame.render_widget(Paragraph::new(visible(&state.lists_of)), head);
        rest
    } else {
        area
    };
    let mut selected = ListState::default().with_selected(Some(state.selected));
    let list = Rows::new(items).highlight_style(Modifier::REVERSED);
    frame.render_stateful_widget(list, area, &mut selected);
}

/// Returns the last lines of the screen: the current action, and the keys.
fn bottom(state: &State) -> Vec<(String, Modifier)> {
    let bold = |text: String| (text, Modifier::BOLD);
    let plain = |text: String| (text, Modifier::empty());
    match &state.mode {
        Mode::Browse => {
            let said = Some(visible(&state.said)).filter(|said| !said.is_empty());
            said.into_iter().map(bold).chain([plain(keys(state))]).collect()
        }
        Mode::Confirm(action) => {
            let key = match action {
                Action::Allow { scope, .. } => key_of(*scope),
                _ => 'x',
            };
            let keys = format!("[{key}] or [Enter] confirms   any other key: back");
            vec![bold(what(state, action)), plain(keys)]
        }
        Mode::Message { text, .. } => vec![
            bold(format!("Deny. Message to the agent: {}_", visible(text))),
            plain("[Enter] denies   [Esc] back".to_owned()),
        ],
        Mode::Entry { list, text } => vec![
            bold(format!("Add to {}: {}_", list.key(), visible(text))),
            plain("[Tab] another list   [Enter] adds it   [Esc] back".to_owned()),
        ],
    }
}

/// Describes what a second key would do.
fn what(state: &State, action: &Action) -> String {
    match action {
        Action::Allow { id, scope } => match state.offered(id, *scope) {
            Some(offer) => format!("Allow for {}: {}", span(offer.seconds), visible(&offer.description())),
            None => format!("Allow {scope}"),
        },
        Action::Revoke { id } => {
            let covers =
                state.leases.iter().find(|lease| lease.id == *id).map(|lease| visible(&lease.covers));
            format!("Revoke {id}: {}", covers.unwrap_or_default())
        }
        Action::Remove(entry) => {
            format!("Remove {} from {} of {}", visible(&entry.text), entry.list.key(), state.lists_of)
        }
        _ => String::new(),
    }
}

fn keys(state: &State) -> String {
    match state.page {
        Page::Waiting => {
            let mut keys = String::new();
            if let Some(asked) = state.current() {
                keys.push_str("[y] once");
                for offer in &asked.question.offers {
                    let name = match offer.scope {
                        Scope::Once => continue,
                        Scope::Session => "session",
                        Scope::Project => "project",
                        Scope::Always => "always",
                    };
                    keys.push_str(&format!("  [{}] {name}", key_of(offer.scope)));
                }
                keys.push_str("  [n] no  [PgDn] more  ");
            }
            keys + "[Tab] page  [q] quit"
        }
        Page::Leases => "[x] revoke  [Tab] page  [q] quit".to_owned(),
        Page::History => "[PgDn] more  [Tab] page  [q] quit".to_owned(),
        Page::Lists => "[+] add  [x] remove  [Tab] page  [q] quit".to_owned(),
    }
}
