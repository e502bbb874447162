//! Tests for the rendering of every page and question, and for the effect of each key.

use std::time::Duration;

use engine::{Approval, Offer, PatternKind, Scope, StoredQuestion};
use policy::List;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use ratatui::text::Span;
use store_api::{ApprovalState, Lease, LeaseKind};
use tool::{CallId, Level};

use super::draw::draw;
use super::state::{Action, Content, Entry, State};
use crate::moment::Present;

fn waiting(asked: Vec<StoredQuestion>) -> Content {
    Content { asked, ..Content::default() }
}

fn asked(id: &str) -> StoredQuestion {
    let at = jiff::Timestamp::constant(1_767_225_600, 0);
    let offer = |scope, covers: &str, seconds| Offer {
        scope,
        pattern: None,
        covers: covers.to_owned(),
        seconds,
        past: None,
    };
    StoredQuestion {
        question: Approval {
            id: id.to_owned(),
            call: CallId("c1".to_owned()),
            tool: "file_edit".to_owned(),
            level: Level::Moderate,
            effects: vec![format!("write {id}.txt")],
            preview: Some("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n 一二\n-\ttwo\u{202e}\n+\t2\n".to_owned()),
            preview_more_lines: 0,
            reason: "in mode smart_auto, calls of level moderate are asked about".to_owned(),
            rule: "mode: smart_auto".to_owned(),
            once_only: false,
            patterns_in_the_cell: false,
            terminal_only: false,
            offers: vec![offer(Scope::Project, "exactly this, in this workspace", 30 * 86_400)],
            pattern_kind: Some(PatternKind::Write),
            suggestion: None,
            digest: String::new(),
            effects_digest: String::new(),
            bound: Vec::new(),
            connections: Vec::new(),
            every_host: false,
            program: engine::Program::default(),
        },
        state: ApprovalState::Waiting,
        workspace: "/w".into(),
        session: "s1".to_owned(),
        door: "mcp".to_owned(),
        asked_at: at,
        expires_at: at + Duration::from_hours(24),
        scope: None,
        answered_at: None,
        answered_by: None,
        message: None,
        changes: None,
        caller_waits: true,
    }
}

fn lease() -> Lease {
    let at = jiff::Timestamp::constant(1_767_225_600, 0);
    Lease {
        id: "l1".to_owned(),
        approval: None,
        scope: "project".to_owned(),
        session: None,
        workspace: Some("/w".into()),
        kind: LeaseKind::Exact,
        tool: "file_edit".to_owned(),
        pattern: String::new(),
        covers: "exactly this, in this workspace".to_owned(),
        granted_by: "the user".to_owned(),
        granted_at: at,
        expires_at: at + Duration::from_hours(1),
        revoked_at: None,
        uses: 2,
        used_at: None,
    }
}

fn entry() -> Entry {
    Entry { list: List::DenyExecCommand, text: "git push".to_owned() }
}

#[test]
fn answered_questions_are_on_a_page_of_their_own_with_their_details() {
    let mut screen = Screen::new((80, 24), Vec::new());
    let answered = StoredQuestion {
        state: ApprovalState::Denied,
        answered_at: Some("2026-01-01T00:01:00Z".parse().unwrap()),
        answered_by: Some("ann".to_owned()),
        message: Some("not now".to_owned()),
        ..asked("b")
    };
    screen.state.renew(Content { earlier: vec![answered], ..Content::default() });
    for _ in 0..3 {
        screen.press(KeyCode::Tab);
    }
    let shown = screen.shown();
    assert!(shown.contains("2026-01-01 00:01:00 UTC  denied    write b.txt"), "{shown}");
    assert!(shown.contains("answered by ann: not now") && shown.contains("+→   2"), "{shown}");
    // A question of the history is answered by no key.
    for key in ['y', 'n', 'p'] {
        assert_eq!(screen.press(KeyCode::Char(key)), None);
    }
}

#[test]
fn a_difference_has_colours_where_they_are_wanted_and_a_new_question_rings() {
    let colour_of = |screen: &mut Screen, sign: &str| {
        screen.shown();
        let buffer = screen.terminal.backend().buffer();
        let mut rows =
            (0..buffer.area.height).map(|y| (buffer.cell((4, y)).unwrap(), buffer.cell((5, y)).unwrap()));
        rows.find(|(first, next)| first.symbol() == sign && next.symbol() == "→").unwrap().0.fg
    };
    let mut screen = Screen::new((80, 24), vec![asked("a")]);
    assert_eq!(colour_of(&mut screen, "+"), Color::Reset);
    screen.state.has_colours = true;
    assert_eq!((colour_of(&mut screen, "+"), colour_of(&mut screen, "-")), (Color::Green, Color::Red));

    assert!(!screen.state.renew(waiting(vec![asked("a")])));
    assert!(screen.state.renew(waiting(vec![asked("b"), asked("a")])));
    let gone = StoredQuestion { caller_waits: false, ..asked("c") };
    assert!(!screen.state.renew(waiting(vec![gone, asked("b"), asked("a")])), "nobody waits for this answer");
}

/// A screen of a fixed size with questions.
struct Screen {
    terminal: Terminal<TestBackend>,
    state: State,
}

impl Screen {
    fn new(size: (u16, u16), asked: Vec<StoredQuestion>) -> Self {
        let mut state =
            State::new("profile normal in /home/ann/.config/handfast/config.yaml".to_owned(), false);
        state.renew(Content { asked, leases: vec![lease()], entries: vec![entry()], ..Content::default() });
        let mut screen = Self { terminal: Terminal::new(TestBackend::new(size.0, size.1)).unwrap(), state };
        screen.shown();
        screen
    }

    /// Draws the screen, and returns its lines without trailing spaces.
    fn shown(&mut self) -> String {
        let mut details = (0, 0);
        let present = Present::at("2026-01-01T00:02:00Z".parse().unwrap());
        self.terminal.draw(|frame| details = draw(frame, &self.state, &present)).unwrap();
        self.state.is_drawn(details.0, details.1);
        let buffer = self.terminal.backend().buffer();
        let row = |y: u16| {
            let (mut row, mut x) = (String::new(), 0);
            while let Some(cell) = buffer.cell((x, y)) {
                row.push_str(cell.symbol());
                // A wide character also covers the next cell.
                x += u16::try_from(Span::raw(cell.symbol()).width()).unwrap().max(1);
            }
            row.trim_end().to_owned()
        };
        (0..buffer.area.height).map(row).collect::<Vec<_>>().join("\n")
    }

    fn press(&mut self, key: KeyCode) -> Option<Action> {
        self.state.key(KeyEvent::new(key, KeyModifiers::NONE))
    }

    fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            assert_eq!(self.press(KeyCode::Char(letter)), None, "{letter}");
        }
    }
}

#[test]
fn a_question_is_shown_with_its_difference_on_a_screen_of_any_size() {
    let mut screen = Screen::new((80, 24), vec![asked("b"), asked("a")]);
    insta::assert_snapshot!(screen.shown(), @r"
    handfast   Waiting (2)   Leases (1)   Lists (1)   History (0)
    00:00:00  file_edit  write b.txt
    00:00:00  file_edit  write a.txt
     1 of 2 ────────────────────────────────────────────────────────────────────────
    file_edit (moderate)  waiting
    in /w, asked 2026-01-01 00:00:00 UTC (2 min ago) by session s1

      write b.txt
    because in mode smart_auto, calls of level moderate are asked about
    rule mode: smart_auto

        --- a/f
        +++ b/f
        @@ -1,2 +1,2 @@
         一二
        -→   two\u{202e}
        +→   2

    the call waits, and continues after an approval
    the approval can be for
      once: this call only
      project, for 30 days: exactly this, in this workspace

    [y] once  [p] project  [n] no  [PgDn] more  [Tab] page  [q] quit
    ");
    let mut small = Screen::new((30, 12), vec![asked("b"), asked("a")]);
    insta::assert_snapshot!(small.shown(), @r"
    handfast   Waiting (2)   Lease
     1 of 2 ───── lines 1-7 of 25
    file_edit (moderate)  waiting
    in /w, asked 2026-01-01
    00:00:00 UTC (2 min ago) by
    session s1

      write b.txt
    because in mode smart_auto,
    [y] once  [p] project  [n] no
     [PgDn] more  [Tab] page  [q]
    quit
    ");
    small.press(KeyCode::PageDown);
    insta::assert_snapshot!(small.shown(), @r"
    handfast   Waiting (2)   Lease
     1 of 2 ──── lines 8-14 of 25
    calls of level moderate are
    asked about
    rule mode: smart_auto

        --- a/f
        +++ b/f
        @@ -1,2 +1,2 @@
    [y] once  [p] project  [n] no
     [PgDn] more  [Tab] page  [q]
    quit
    ");
    for size in [(1, 1), (2, 3), (8, 2), (200, 50)] {
        Screen::new(size, vec![asked("a")]).shown();
    }
}

#[test]
fn scrolling_ends_at_the_last_line_and_comes_back_at_once() {
    let mut long = asked("a");
    long.question.preview = Some((0..100).map(|line| format!("+{line}\n")).collect());
    let mut screen = Screen::new((40, 20), vec![long]);
    for _ in 0..50 {
        screen.press(KeyCode::PageDown);
        screen.shown();
    }
    let end = screen.shown();
    assert!(end.contains("+99") && end.contains("of 1"), "{end}");
    screen.press(KeyCode::PageUp);
    assert!(!screen.shown().contains("+99"), "one key goes back");
}

#[test]
fn every_answer_that_reaches_far_says_so_before_the_second_key() {
    let mut screen = Screen::new((60, 16), vec![asked("a")]);
    screen.press(KeyCode::Char('p'));
    let lines = |shown: String| shown.lines().rev().take(3).map(str::to_owned).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(lines(screen.shown()), @r"
    [p] or [Enter] confirms   any other key: back
    Allow for 30 days: exactly this, in this workspace
        @@ -1,2 +1,2 @@
    ");
    let action = screen.press(KeyCode::Char('p'));
    assert_eq!(action, Some(Action::Allow { id: "a".to_owned(), scope: Scope::Project }));
    screen.press(KeyCode::Char('n'));
    screen.type_text("use b");
    insta::assert_snapshot!(lines(screen.shown()), @r"
    [Enter] denies   [Esc] back
    Deny. Message to the agent: use b_
        @@ -1,2 +1,2 @@
    ");
    let denied = Action::Deny { id: "a".to_owned(), message: Some("use b".to_owned()) };
    assert_eq!(screen.press(KeyCode::Enter), Some(denied));
    assert_eq!(
        screen.press(KeyCode::Char('y')),
        Some(Action::Allow { id: "a".to_owned(), scope: Scope::Once })
    );
}

#[test]
fn leases_and_lists_have_pages_of_their_own() {
    let mut screen = Screen::new((60, 8), Vec::new());
    insta::assert_snapshot!(screen.shown(), @r"
    handfast   Waiting (0)   Leases (1)   Lists (1)   History (0
    Nothing waits for an approval. Questions appear here.





    [Tab] page  [q] quit
    ");
    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Char('x'));
    insta::assert_snapshot!(screen.shown(), @r"
    handfast   Waiting (0)   Leases (1)   Lists (1)   History (0
    until 2026-01-01 01:00:00 UTC, used 2 times: exactly this, i


    ────────────────────────────────────────────────────────────
    l1: exactly this, in this workspace
    Revoke l1: exactly this, in this workspace
    [x] or [Enter] confirms   any other key: back
    ");
    assert_eq!(screen.press(KeyCode::Enter), Some(Action::Revoke { id: "l1".to_owned() }));
    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Char('+'));
    screen.type_text("npm");
    insta::assert_snapshot!(screen.shown(), @r"
    handfast   Waiting (0)   Leases (1)   Lists (1)   History (0
    profile normal in /home/ann/.config/handfast/config.yaml
    deny_exec_command           git push



    Add to deny_exec_command: npm_
    [Tab] another list   [Enter] adds it   [Esc] back
    ");
    let added = Entry { list: List::DenyExecCommand, text: "npm".to_owned() };
    assert_eq!(screen.press(KeyCode::Enter), Some(Action::Add(added)));
    screen.press(KeyCode::Char('x'));
    insta::assert_snapshot!(screen.shown(), @r"
    handfast   Waiting (0)   Leases (1)   Lists (1)   History (0
    profile normal in /home/ann/.config/handfast/config.yaml
    deny_exec_command           git push


    Remove git push from deny_exec_command of profile normal in
    /home/ann/.config/handfast/config.yaml
    [x] or [Enter] confirms   any other key: back
    ");
    assert_eq!(screen.press(KeyCode::Char('x')), Some(Action::Remove(entry())));
}

#[test]
fn a_key_answers_no_question_that_was_not_on_the_screen() {
    let mut screen = Screen::new((60, 16), vec![asked("b"), asked("a")]);
    // Another process answers the visible question. The key arrives before the next drawing, or
    // right after it.
    for drawn in [false, true] {
        screen.state.renew(waiting(vec![asked("b"), asked("a")]));
        screen.press(KeyCode::Home);
        screen.shown();
        screen.state.renew(waiting(vec![asked("a")]));
        if drawn {
            screen.shown();
        }
        assert_eq!(screen.press(KeyCode::Char('y')), None);
        assert!(screen.shown().contains("another question is shown here now"));
        let allowed = Action::Allow { id: "a".to_owned(), scope: Scope::Once };
        assert_eq!(screen.press(KeyCode::Char('y')), Some(allowed), "the control");
    }
    // A question appears on an empty screen.
    screen.state.renew(waiting(Vec::new()));
    screen.shown();
    screen.state.renew(waiting(vec![asked("c")]));
    assert_eq!(screen.press(KeyCode::Char('y')), None);
    screen.shown();
    assert!(screen.press(KeyCode::Char('y')).is_some(), "the control");
    // New questions above the selected one leave it in place.
    screen.state.renew(waiting(vec![asked("d"), asked("c")]));
    let allowed = Action::Allow { id: "c".to_owned(), scope: Scope::Once };
    assert_eq!(screen.press(KeyCode::Char('y')), Some(allowed));
}
