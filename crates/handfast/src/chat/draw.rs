//! Rendering of the chat: the conversation, a question, the input and the status.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::panel::Panel;
use super::state::State;
use super::transcript::{Kind, Row};
use super::wrap::{cut, wrapped};
use crate::report::covered;

/// Height below which the screen has only what is needed.
const SMALL: u16 = 10;
/// Maximum number of queued messages that are shown.
const MOST_QUEUED: usize = 3;
/// Characters before the input.
const PROMPT: &str = "> ";

/// Draws the whole screen. No information depends on colour.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, now: Instant) {
    let area = frame.area();
    let width = usize::from(area.width);
    state.transcript.settle(width);
    let is_small = area.height < SMALL;
    let (rows, cursor) = state.input.layout(width.saturating_sub(PROMPT.len()).max(1));
    let input = length(rows.len()).min((area.height / 3).max(1));
    let queued = if is_small { 0 } else { state.queue.waiting().len().min(MOST_QUEUED) };
    let (rule, hints) = (u16::from(area.height > 3), u16::from(!is_small || !state.said.is_empty()));
    let fixed = input + rule + hints + 1 + length(queued);
    let free = area.height.saturating_sub(fixed);
    let panel = state.panel.as_ref().map_or(0, |panel| wanted(panel, width).min(free - free / 4));
    let [above, question, waiting, line, below, status, keys] = Layout::vertical([
        Constraint::Min(0),
        Constraint::Length(panel),
        Constraint::Length(length(queued)),
        Constraint::Length(rule),
        Constraint::Length(input),
        Constraint::Length(1),
        Constraint::Length(hints),
    ])
    .areas(area);
    state.page = usize::from(above.height).max(1);
    let visible = state.transcript.visible(usize::from(above.height));
    let shown: Vec<Line<'_>> = visible.iter().map(|row| styled(row, state.has_colours)).collect();
    // A short conversation begins at the top.
    frame.render_widget(Paragraph::new(shown), above);
    let messages = state.queue.waiting().into_iter().take(queued);
    let messages: Vec<Line<'_>> = messages
        .map(|text| {
            let text = tool::visible(covered(&text).trim());
            Line::styled(cut(&format!("queued: {text}"), width), Modifier::DIM)
        })
        .collect();
    frame.render_widget(Paragraph::new(messages), waiting);
    draw_rule(frame, line, state.transcript.below());
    draw_input(frame, below, &rows, cursor, state.panel.is_none());
    let words = cut(&status_of(state, now), width);
    frame.render_widget(Paragraph::new(words).style(Modifier::REVERSED), status);
    let (words, style) =
        if state.said.is_empty() { (keys_of(state), Modifier::DIM) } else { (&*state.said, Modifier::BOLD) };
    frame.render_widget(Paragraph::new(Line::styled(cut(words, width), style)), keys);
    if let Some(shown) = &mut state.panel {
        draw_panel(frame, question, shown, now);
    }
}

fn length(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn styled<'a>(row: &Row<'a>, has_colours: bool) -> Line<'a> {
    let coloured = |colour: Color| if has_colours { Style::new().fg(colour) } else { Style::new() };
    let (mark, text) = match row.kind {
        Kind::User => (Modifier::BOLD.into(), Modifier::BOLD.into()),
        Kind::Model => (Style::new(), Style::new()),
        Kind::Thought => (Modifier::DIM.into(), Style::new().add_modifier(Modifier::DIM | Modifier::ITALIC)),
        Kind::Running => (coloured(Color::Yellow), Style::new()),
        Kind::Passed => (coloured(Color::Green), Modifier::DIM.into()),
        Kind::Failed => (coloured(Color::Red), Style::new()),
        Kind::Note => (Modifier::DIM.into(), Modifier::DIM.into()),
        Kind::Error => (coloured(Color::Red), coloured(Color::Red).add_modifier(Modifier::BOLD)),
    };
    Line::from(vec![Span::styled(row.mark, mark), Span::styled(row.text, text)])
}

/// Returns the height that a question would like to have.
fn wanted(panel: &Panel, width: usize) -> u16 {
    let (_, count) = panel.lines(width, 0);
    length(count + wrapped(&panel.keys(), width).len() + 1)
}

fn draw_panel(frame: &mut Frame<'_>, area: Rect, panel: &mut Panel, now: Instant) {
    let width = usize::from(area.width);
    let keys = wrapped(&panel.keys(), width);
    // The keys are visible in any case, because they describe what a key would do.
    let [top, bottom] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(length(keys.len()))]).areas(area);
    let height = usize::from(top.height.saturating_sub(1));
    let (lines, count) = panel.lines(width, height);
    let title = match panel.count {
        1 => " question ".to_owned(),
        more => format!(" question 1 of {more} "),
    };
    let part = if lines.len() < count {
        format!(" lines {}-{} of {count} ", panel.first() + 1, panel.first() + lines.len())
    } else {
        String::new()
    };
    let block = Block::new().borders(Borders::TOP).title(title).title(Line::from(part).right_aligned());
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines).block(block), top);
    let keys: Vec<Line<'_>> = keys.into_iter().map(|row| Line::styled(row, Modifier::BOLD)).collect();
    frame.render_widget(Paragraph::new(keys), bottom);
    panel.is_drawn((height, count), now);
}

fn draw_rule(frame: &mut Frame<'_>, area: Rect, below: usize) {
    let part = if below > 0 { format!(" {below} more rows below, PgDn ") } else { String::new() };
    let block = Block::new().borders(Borders::TOP).title(Line::from(part).right_aligned());
    frame.render_widget(block, area);
}

fn draw_input(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: &[String],
    (row, column): (usize, usize),
    has_cursor: bool,
) {
    let height = usize::from(area.height);
    let first = (row + 1).saturating_sub(height);
    let lines = rows.iter().enumerate().skip(first).take(height).map(|(place, text)| {
        let prompt = if place == 0 { PROMPT } else { "  " };
        Line::from(vec![Span::styled(prompt, Modifier::BOLD), Span::raw(text.as_str())])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
    if has_cursor && area.height > 0 {
        let column = area.x.saturating_add(length(PROMPT.len() + column)).min(area.right().saturating_sub(1));
        frame.set_cursor_position((column, area.y.saturating_add(length(row - first))));
    }
}

/// Returns the status line: the model, the agent, what happens, and what it has cost.
fn status_of(state: &State, now: Instant) -> String {
    let mut parts = vec![tool::visible(&state.facts.model)];
    if !state.facts.agent.is_empty() {
        parts.push(format!("agent {}", tool::visible(&state.facts.agent)));
    }
    parts.push(doing(state, now));
    let spent = state.spent();
    if spent.steps > 0 {
        parts.push(format!("{} tokens in, {} out", spent.usage.input, spent.usage.output));
    }
    if spent.cost > llm::Usd::ZERO {
        let least = if spent.is_partial { "at least " } else { "" };
        parts.push(format!("{least}{:.4} USD", spent.cost.dollars()));
    }
    if !state.facts.budget.is_empty() {
        parts.push(format!("budget {}", state.facts.budget));
    }
    format!(" {} ", parts.join(" | "))
}

fn doing(state: &State, now: Instant) -> String {
    let Some(work) = &state.work else { return "idle".to_owned() };
    let seconds = now.saturating_duration_since(work.since).as_secs();
    if work.is_stopping {
        return "stopping".to_owned();
    }
    if state.panel.is_some() {
        return "waits for your answer".to_owned();
    }
    match work.calls.as_slice() {
        [] if work.is_waiting => format!("waits for other agents {seconds} s"),
        [] if work.has_text => format!("answering {seconds} s"),
        [] => format!("thinking {seconds} s"),
        [(_, only)] => format!("{} {seconds} s", tool::visible(only)),
        [(_, first), more @ ..] => format!("{} and {} more {seconds} s", tool::visible(first), more.len()),
    }
}

fn keys_of(state: &State) -> &'static str {
    match (&state.work, &state.panel) {
        (_, Some(_)) => " Ctrl-C stops the agent",
        (Some(_), None) => " Enter queues a message  Ctrl-C stops the agent  PgUp scrolls",
        (None, None) => " Enter sends  Alt-Enter new line  PgUp scrolls  /help  Ctrl-D ends",
    }
}
