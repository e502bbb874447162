//! Tests for the chat's input, its conversation, and the effect of keys and events.

mod questions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agents::{TurnEnd, TurnReport};
use llm::{Message, Part, Role, ToolCall, ToolResult, Usage, Usd};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use ratatui::text::Span;

use super::draw::draw;
use super::events::{Event, Queue};
use super::facts::Facts;
use super::input::Input;
use super::questions::Questions;
use super::state::{State, Wish};
use super::transcript::{Kind, Transcript};
use super::wrap::{cut, wrapped};

/// The chat's screen, on a terminal of a fixed size.
struct Screen {
    terminal: Terminal<TestBackend>,
    state: State,
    queue: Arc<Queue>,
    questions: Arc<Questions>,
    now: Instant,
}

impl Screen {
    fn new(columns: u16, rows: u16) -> Self {
        let (queue, questions) = (Arc::new(Queue::default()), Arc::new(Questions::default()));
        let facts = Facts { model: "local/small".to_owned(), ..Facts::default() };
        let state = State::new(facts, questions.clone(), queue.clone(), false);
        let terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        Self { terminal, state, queue, questions, now: Instant::now() }
    }

    /// Draws the screen, and returns its lines without trailing spaces.
    fn shown(&mut self) -> String {
        self.terminal.draw(|frame| draw(frame, &mut self.state, self.now)).unwrap();
        let buffer = self.terminal.backend().buffer();
        let row = |y: u16| {
            let (mut row, mut x) = (String::new(), 0);
            while let Some(cell) = buffer.cell((x, y)) {
                row.push_str(cell.symbol());
                x += u16::try_from(Span::raw(cell.symbol()).width()).unwrap().max(1);
            }
            row.trim_end().to_owned()
        };
        (0..buffer.area.height).map(row).collect::<Vec<_>>().join("\n")
    }

    fn press_with(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Option<Wish> {
        self.state.key(KeyEvent::new(key, modifiers), self.now)
    }

    fn press(&mut self, key: KeyCode) -> Option<Wish> {
        self.press_with(key, KeyModifiers::NONE)
    }

    fn control(&mut self, letter: char) -> Option<Wish> {
        self.press_with(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            assert_eq!(self.press(KeyCode::Char(letter)), None, "{letter}");
        }
    }

    fn send(&mut self, text: &str) -> Option<Wish> {
        self.type_text(text);
        self.press(KeyCode::Enter)
    }

    fn take(&mut self, event: Event) {
        self.state.take(event, self.now);
    }

    fn begin(&mut self, message: &str) {
        self.state.turn_begins(message, self.now);
    }

    fn end(&mut self, end: TurnEnd) -> Option<String> {
        self.state.turn_ends(&report(end))
    }

    fn passes(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.state.look_at_questions(self.now);
    }
}

fn report(end: TurnEnd) -> TurnReport {
    let usage = Usage { input: 100, output: 20, ..Usage::default() };
    TurnReport { end, usage, cost: Usd::ZERO, cost_is_partial: false, steps: 1, calls: 1 }
}

fn text(text: &str) -> Event {
    Event::Text(text.to_owned())
}

fn begins(id: &str, text: &str) -> Event {
    Event::CallBegins { id: id.to_owned(), name: "file_read".to_owned(), text: text.to_owned() }
}

fn ends(id: &str, outcome: &str, is_ok: bool) -> Event {
    Event::CallEnds { id: id.to_owned(), name: "file_read".to_owned(), outcome: outcome.to_owned(), is_ok }
}

fn edited(keys: &[(KeyCode, KeyModifiers)]) -> String {
    let mut screen = Screen::new(40, 12);
    for (key, modifiers) in keys {
        assert_eq!(screen.press_with(*key, *modifiers), None);
    }
    screen.state.input.text().to_owned()
}

#[test]
fn the_input_is_edited_as_in_every_shell() {
    let none = KeyModifiers::NONE;
    let letters = |text: &str| text.chars().map(|letter| (KeyCode::Char(letter), none)).collect::<Vec<_>>();
    let control = |letter| (KeyCode::Char(letter), KeyModifiers::CONTROL);
    for (keys, wanted) in [
        (vec![(KeyCode::Left, none), (KeyCode::Backspace, none)], "one to"),
        (vec![control('w')], "one "),
        (vec![control('u')], ""),
        (vec![(KeyCode::Home, none), (KeyCode::Delete, none)], "ne two"),
        (vec![control('a'), control('k')], ""),
        (vec![(KeyCode::Left, KeyModifiers::CONTROL), control('k')], "one "),
        (vec![(KeyCode::Enter, KeyModifiers::ALT), control('j')], "one two\n\n"),
        (vec![control('j'), control('u'), (KeyCode::Backspace, none)], "one two"),
    ] {
        assert_eq!(edited(&[letters("one two"), keys].concat()), wanted);
    }
}

#[test]
fn up_and_down_go_through_lines_and_then_through_earlier_messages() {
    let mut screen = Screen::new(40, 12);
    assert_eq!(screen.send("first"), Some(Wish::Send("first".to_owned())));
    assert_eq!(screen.send("second"), Some(Wish::Send("second".to_owned())));
    screen.type_text("ab");
    screen.control('j');
    screen.type_text("c");
    screen.press(KeyCode::Up);
    screen.type_text("X");
    assert_eq!(screen.state.input.text(), "aXb\nc");
    screen.press(KeyCode::Up);
    assert_eq!(screen.state.input.text(), "second");
    screen.press(KeyCode::Up);
    screen.press(KeyCode::Up);
    assert_eq!(screen.state.input.text(), "first");
    for _ in 0..3 {
        screen.press(KeyCode::Down);
    }
    assert_eq!(screen.state.input.text(), "aXb\nc", "what was typed comes back");
}

#[test]
fn pasted_text_is_entered_and_never_sent() {
    let mut screen = Screen::new(40, 12);
    screen.state.paste("one\r\ntwo\rthree\u{1b}[2J", screen.now);
    assert_eq!(screen.state.input.text(), "one\ntwo\nthree\u{1b}[2J");
    let shown = screen.shown();
    assert!(shown.contains("> one\n  two\n  three\\u{1b}[2J"), "{shown}");
    screen.state.paste(&"x".repeat(300_000), screen.now);
    assert!(screen.shown().contains("too long for a message"));
}

#[test]
fn the_cursor_is_where_the_next_letter_appears() {
    let mut input = Input::default();
    assert_eq!(input.layout(4), (vec![String::new()], (0, 0)));
    for (typed, wanted) in
        [("", (0, 0)), ("abc", (0, 3)), ("d", (1, 0)), ("\n", (1, 0)), ("中e\u{301}", (1, 3)), ("\t", (2, 2))]
    {
        assert!(input.insert(typed));
        let (rows, at) = input.layout(4);
        assert_eq!(at, wanted, "{typed:?} {rows:?}");
        assert!(at.0 < rows.len(), "{typed:?} {rows:?}");
    }
}

#[test]
fn lines_break_after_words_and_within_long_ones_and_lose_nothing() {
    assert_eq!(wrapped("one two three", 8), ["one two ", "three"]);
    assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    assert_eq!(wrapped("中文中文", 5), ["中文", "中文"]);
    assert_eq!(wrapped("", 5), [""]);
    assert_eq!(wrapped("a中", 1), ["a", "中"]);
    for width in 0..12 {
        let line = "a  few words, 中文 and e\u{301}averylongwordwithoutend  ";
        assert_eq!(wrapped(line, width).concat(), line, "{width}");
    }
    assert_eq!((cut("abc", 3), cut("abcd", 3), cut("中文", 3)), ("abc".into(), "ab…".into(), "中…".into()));
}

fn plain(transcript: &Transcript, height: usize) -> Vec<String> {
    transcript.visible(height).into_iter().map(|row| format!("{}{}", row.mark, row.text)).collect()
}

#[test]
fn hostile_text_is_visible_and_looks_like_no_line_of_handfast() {
    let mut transcript = Transcript::new(|text| text.replace("SECRET", "[covered]"));
    transcript.text("hi\u{1b}]0;x\u{7}\r\n> yes\n✓ file_read  pass\n\u{202e}SEC");
    transcript.text("RET");
    transcript.settle(60);
    let shown = plain(&transcript, 20);
    let wanted = ["  hi\\u{1b}]0;x\\u{7}", "  > yes", "  ✓ file_read  pass", "  \\u{202e}[covered]"];
    assert_eq!(shown, wanted);
    transcript.finish();
    transcript.settle(60);
    assert_eq!(plain(&transcript, 20), wanted);
}

#[test]
fn two_megabytes_stay_a_bounded_number_of_rows_and_cover_a_secret_anywhere() {
    fn covered(text: &str) -> String {
        text.replace("SECRET", "[]")
    }
    let mut transcript = Transcript::new(covered);
    let piece = "a line with a SECRET in it\nand the next one ";
    for number in 0..2_000_000 / piece.len() {
        transcript.text(piece);
        if number % 1_000 == 0 {
            transcript.settle(40);
        }
    }
    transcript.settle(40);
    let all = plain(&transcript, 1_000_000);
    assert!((4_900..6_000).contains(&all.len()), "{}", all.len());
    assert!(all.iter().all(|row| !row.contains("SEC") && !row.contains("CRET")));
    // One line without an end is bounded too.
    let mut transcript = Transcript::new(covered);
    for _ in 0..30 {
        transcript.text(&"SECRETx中文".repeat(5_000));
        transcript.settle(40);
    }
    let all = plain(&transcript, 1_000_000);
    assert!(all.len() < 8_000 && all.iter().all(|row| !row.contains("SEC")), "{}", all.len());
}

#[test]
fn scrolling_back_stays_in_place_while_the_answer_grows() {
    let mut transcript = Transcript::new(str::to_owned);
    for number in 0..20 {
        transcript.note(Kind::Note, &format!("line {number}"));
    }
    transcript.settle(40);
    transcript.scroll(5, true, 10);
    let before = plain(&transcript, 10);
    assert_eq!((before.last().unwrap().as_str(), transcript.below()), ("· line 14", 5));
    transcript.text("more\nand\nmore");
    transcript.settle(40);
    assert_eq!(plain(&transcript, 10), before);
    transcript.scroll(1_000, true, 10);
    assert_eq!(plain(&transcript, 10)[0], "· line 0");
    transcript.scroll_to_end();
    assert_eq!(plain(&transcript, 1), ["  more"]);
}

#[test]
fn an_answer_is_shown_as_it_comes_with_its_calls_and_their_outcomes() {
    let mut screen = Screen::new(72, 22);
    screen.begin("Fix the check.");
    screen.take(Event::Thought("I should look\nat the file.".to_owned()));
    screen.take(text("\n\nI look."));
    screen.take(begins("1", "file_read path=\"a\""));
    screen.take(begins("2", "file_read path=\"b\""));
    screen.now += Duration::from_secs(3);
    let shown = screen.shown();
    assert!(shown.contains("| file_read and 1 more 3 s"), "{shown}");
    screen.take(ends("1", "pass, 3 ms", true));
    screen.take(ends("2", "deny, 1 ms: EPERMISSION: no", false));
    screen.take(Event::Answered {
        text: "I look.".to_owned(),
        model: "local/small".to_owned(),
        usage: Usage { input: 100, output: 20, ..Usage::default() },
        cost: Usd::parse("0.01"),
        tried: Vec::new(),
    });
    screen.take(text("Wrong"));
    screen.take(Event::Discarded);
    screen.take(text("Done."));
    screen.queue.push("and\nthen?".to_owned());
    insta::assert_snapshot!(screen.shown(), @r#"
    > Fix the check.

      I should look at the file.

      I look.
    ✓ file_read path="a"  pass, 3 ms
    ✗ file_read path="b"  deny, 1 ms: EPERMISSION: no

    · the model did not finish; it is asked again

      Done.






    queued: and\nthen?
    ────────────────────────────────────────────────────────────────────────
    >
     local/small | answering 0 s | 100 tokens in, 20 out | 0.0100 USD
     Enter queues a message  Ctrl-C stops the agent  PgUp scrolls
    "#);
}

#[test]
fn what_is_typed_while_the_agent_works_is_queued_and_comes_back_if_it_fails() {
    let mut screen = Screen::new(60, 16);
    screen.begin("One.");
    assert_eq!(screen.send("Two."), None);
    assert!(screen.shown().contains("queued: Two."));
    assert_eq!(screen.end(TurnEnd::Answer("a".to_owned())), Some("Two.".to_owned()));
    screen.begin("Two.");
    screen.send("Three.");
    screen.type_text("dra");
    assert_eq!(screen.end(TurnEnd::Failed("no network".to_owned())), None);
    let shown = screen.shown();
    assert!(shown.contains("✗ no network") && shown.contains("> Three.\n\n  dra"), "{shown}");
    assert!(screen.queue.waiting().is_empty());
}

#[test]
fn control_c_stops_then_clears_then_ends() {
    let mut screen = Screen::new(60, 16);
    screen.begin("One.");
    assert_eq!(screen.control('c'), Some(Wish::Stop));
    assert!(screen.shown().contains("stopping"));
    assert_eq!(screen.control('c'), None);
    assert_eq!(screen.control('c'), Some(Wish::End), "the agent does not stop");
    screen.end(TurnEnd::Stopped(tool::StopReason::Cancelled));
    screen.type_text("x");
    assert_eq!((screen.control('c'), screen.state.input.text()), (None, ""));
    assert_eq!(screen.control('c'), None);
    screen.type_text("y");
    screen.press(KeyCode::Backspace);
    assert_eq!(screen.control('c'), None, "another key was between");
    assert_eq!(screen.control('c'), Some(Wish::End));
    assert_eq!(screen.control('d'), Some(Wish::End));
    screen.type_text("x");
    assert_eq!(screen.control('d'), None);
}

#[test]
fn commands_are_no_messages_and_paths_are() {
    let mut screen = Screen::new(100, 20);
    assert_eq!(screen.send("/model a/b"), Some(Wish::Model("a/b".to_owned())));
    assert_eq!((screen.send("/undo"), screen.send("/quit")), (Some(Wish::Undo), Some(Wish::End)));
    assert_eq!(screen.send("/help"), None);
    assert!(screen.shown().contains("/undo undoes the newest change"));
    assert_eq!(screen.send("/etc/hosts has what?"), Some(Wish::Send("/etc/hosts has what?".to_owned())));
    assert_eq!(screen.send("/nothing"), None);
    assert!(screen.shown().contains("there is no command /nothing"));
    screen.control('u');
    assert_eq!(screen.send(" /nothing"), Some(Wish::Send("/nothing".to_owned())));
    screen.begin("One.");
    assert_eq!(screen.send("/undo"), None);
    assert!(screen.shown().contains("Ctrl-C stops it, then /undo"));
}

#[test]
fn an_earlier_conversation_is_shown_with_its_calls() {
    let mut screen = Screen::new(60, 20);
    let call = |id: &str| {
        let (id, name) = (id.to_owned(), "file_read".to_owned());
        let arguments = r#"{"path": "a"}"#.to_owned();
        Part::ToolCall(ToolCall { id, name, arguments, signature: None, model: String::new() })
    };
    let result = |id: &str, text: &str, is_error| {
        let (call_id, name, text) = (id.to_owned(), "file_read".to_owned(), text.to_owned());
        Part::ToolResult(ToolResult { call_id, name, text, images: Vec::new(), is_error })
    };
    screen.state.restore(&[
        Message::user("Read."),
        Message {
            role: Role::Assistant,
            parts: vec![Part::Text("I read.".to_owned()), call("1"), call("2")],
        },
        Message { role: Role::User, parts: vec![result("1", "x", false), result("2", "ENOTFOUND: a", true)] },
        Message { role: Role::Assistant, parts: vec![Part::Text("Done.".to_owned())] },
    ]);
    insta::assert_snapshot!(screen.shown(), @r#"
    > Read.

      I read.
    ✓ file_read path="a"  done
    ✗ file_read path="a"  ENOTFOUND: a

      Done.









    ────────────────────────────────────────────────────────────
    >
     local/small | idle
     Enter sends  Alt-Enter new line  PgUp scrolls  /help  Ctrl…
    "#);
    screen.press(KeyCode::Up);
    assert_eq!(screen.state.input.text(), "Read.");
}

#[test]
fn the_screen_fits_every_size_and_has_colours_only_if_they_are_wanted() {
    for (columns, rows) in [(1, 1), (2, 3), (8, 2), (20, 6), (200, 60)] {
        let mut screen = Screen::new(columns, rows);
        screen.begin("a long message that does not fit");
        screen.take(text("words and words\nand words"));
        screen.state.paste("one\ntwo\nthree\nfour", screen.now);
        screen.shown();
    }
    let colours = |has_colours| {
        let mut screen = Screen::new(40, 12);
        screen.state.has_colours = has_colours;
        screen.state.error("no");
        screen.shown();
        let buffer = screen.terminal.backend().buffer();
        buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert_eq!((colours(false), colours(true)), (false, true));
}
