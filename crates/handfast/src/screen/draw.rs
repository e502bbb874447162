//! How the screen looks. It reads the state and changes nothing.

use engine::Scope;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, List as Rows, ListItem, ListState, Paragraph, Wrap};
use tool::visible;

use super::state::{Action, Mode, Page, State, key_of};
use crate::commands::approval_text;
use crate::terminal::span;

/// Below this height the details take the place of the list, one question at a time.
const SMALL: u16 = 14;

/// Draws all of it. Nothing is told by colour: bold and reversed text are seen on every terminal.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let bottom = bottom(state);
    let height =
        u16::try_from(bottom.lines.len()).unwrap_or(1).clamp(1, frame.area().height.saturating_sub(4).max(1));
    // Long lines of the bottom are wrapped, and must be seen whole: they say what a key will do.
    let width = usize::from(frame.area().width.max(1));
    let wrapped: usize = bottom.lines.iter().map(|line| line.width().div_ceil(width).max(1)).sum();
    let height =
        u16::try_from(wrapped).unwrap_or(height).clamp(1, frame.area().height.saturating_sub(3).max(1));
    let [top, middle, last] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(height)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(tabs(state)), top);
    match state.page {
        Page::Waiting => waiting(frame, middle, state),
        Page::Leases | Page::Lists => rows(frame, middle, state),
    }
    frame.render_widget(Paragraph::new(bottom).wrap(Wrap { trim: false }), last);
}

fn tabs(state: &State) -> Line<'static> {
    let mut spans = vec![Span::styled("handfast  ", Modifier::BOLD)];
    for page in Page::ALL {
        let count = match page {
            Page::Waiting => state.asked.len(),
            Page::Leases => state.leases.len(),
            Page::Lists => state.entries.len(),
        };
        let style =
            if page == state.page { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!(" {} ({count}) ", page.title()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn waiting(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(current) = state.current() else {
        let text = "Nothing waits for an approval. What agents ask will appear here.";
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
        return;
    };
    let details = if area.height < SMALL {
        area
    } else {
        let most = area.height / 3;
        let wanted = u16::try_from(state.asked.len()).unwrap_or(most).min(most).max(1);
        let [list, details] = Layout::vertical([Constraint::Length(wanted), Constraint::Min(1)]).areas(area);
        rows(frame, list, state);
        details
    };
    let title = format!(" {} of {} ", state.selected + 1, state.asked.len());
    let block = Block::new().borders(Borders::TOP).title(title);
    let text = approval_text(current);
    frame.render_widget(
        Paragraph::new(text).block(block).wrap(Wrap { trim: false }).scroll((state.scrolled, 0)),
        details,
    );
}

fn rows(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let items: Vec<ListItem<'_>> = match state.page {
        Page::Waiting => state
            .asked
            .iter()
            .map(|asked| {
                let effects = asked.question.effects.join("; ");
                let time = asked.asked_at.strftime("%H:%M:%S");
                ListItem::new(format!("{time}  {}  {}", visible(&asked.question.tool), visible(&effects)))
            })
            .collect(),
        Page::Leases => state
            .leases
            .iter()
            .map(|lease| {
                let until = lease.expires_at.strftime("%Y-%m-%d %H:%M");
                ListItem::new(format!("until {until}, used {} times: {}", lease.uses, visible(&lease.covers)))
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
            Page::Leases => "Nothing is allowed for a time.",
            _ => "Your configuration names no list; what is built in holds. [+] adds an entry.",
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
        return;
    }
    let mut selected = ListState::default().with_selected(Some(state.selected));
    let list = Rows::new(items).highlight_style(Modifier::REVERSED);
    frame.render_stateful_widget(list, area, &mut selected);
}

fn bottom(state: &State) -> Text<'static> {
    let mut lines = Vec::new();
    match &state.mode {
        Mode::Browse => {
            if !state.said.is_empty() {
                lines.push(Line::styled(visible(&state.said), Modifier::BOLD));
            }
            lines.push(Line::raw(keys(state)));
        }
        Mode::Confirm(action) => {
            lines.push(Line::styled(what(state, action), Modifier::BOLD));
            let key = match action {
                Action::Allow { scope, .. } => key_of(*scope),
                _ => 'x',
            };
            lines.push(Line::raw(format!("[{key}] again or [Enter] does it   any other key: back")));
        }
        Mode::Message { text, .. } => {
            lines.push(Line::styled(format!("No. A word for the agent: {}_", visible(text)), Modifier::BOLD));
            lines.push(Line::raw("[Enter] denies   [Esc] back"));
        }
        Mode::Entry { list, text } => {
            lines.push(Line::styled(format!("Add to {}: {}_", list.key(), visible(text)), Modifier::BOLD));
            lines.push(Line::raw("[Tab] another list   [Enter] adds it   [Esc] back"));
        }
    }
    Text::from(lines)
}

/// What a second key would do.
fn what(state: &State, action: &Action) -> String {
    match action {
        Action::Allow { id, scope } => match state.offered(id, *scope) {
            Some(offer) => format!("Allow for {}: {}", span(offer.seconds), visible(&offer.covers)),
            None => format!("Allow {scope}"),
        },
        Action::Revoke { id } => format!("Take back {id}"),
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
        Page::Leases => "[x] take back  [Tab] page  [q] quit".to_owned(),
        Page::Lists => "[+] add  [x] remove  [Tab] page  [q] quit".to_owned(),
    }
}
