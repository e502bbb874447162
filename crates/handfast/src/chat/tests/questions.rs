//! Tests for questions: which keys answer them, and when.

use engine::{Answer, Approval, Asker, Offer, PatternKind, Scope};
use ratatui::crossterm::event::KeyCode;
use tool::{CallId, Level};

use super::Screen;

fn approval() -> Approval {
    let offer = |scope, seconds| Offer {
        scope,
        pattern: None,
        covers: "exactly this, in this workspace".to_owned(),
        seconds,
        past: None,
    };
    Approval {
        id: "a1".to_owned(),
        call: CallId("c1".to_owned()),
        tool: "file_write".to_owned(),
        level: Level::Moderate,
        effects: vec!["write a.txt\u{1b}[2J".to_owned()],
        preview: Some("+new\n".to_owned()),
        preview_more_lines: 0,
        reason: "calls of level moderate are asked about".to_owned(),
        rule: "mode: smart_auto".to_owned(),
        once_only: false,
        patterns_in_the_cell: false,
        terminal_only: false,
        offers: vec![offer(Scope::Session, 3_600), offer(Scope::Project, 30 * 86_400)],
        pattern_kind: Some(PatternKind::Write),
        suggestion: None,
        digest: String::new(),
        effects_digest: String::new(),
        bound: Vec::new(),
        connections: Vec::new(),
        every_host: false,
        program: engine::Program::default(),
    }
}

/// Puts the question to the user of the screen. Returns its answer when it is there.
fn ask(screen: &mut Screen, approval: Approval) -> tokio::task::JoinHandle<Answer> {
    let questions = screen.questions.clone();
    tokio::spawn(async move { questions.ask(&approval).await })
}

#[tokio::test]
async fn keys_answer_a_question_only_after_it_was_seen_and_the_user_has_stopped_typing() {
    let mut screen = Screen::new(70, 24);
    screen.begin("Write.");
    let asked = ask(&mut screen, approval());
    tokio::task::yield_now().await;
    screen.passes(0);
    screen.passes(10_000);
    assert_eq!(screen.press(KeyCode::Char('y')), None, "it was not drawn");
    assert!(screen.shown().contains("Keys answer in a moment"));
    screen.passes(400);
    screen.type_text("y");
    screen.state.paste("y\n", screen.now);
    screen.passes(400);
    screen.type_text("y");
    assert_eq!(screen.state.input.text(), "yyy\ny");
    screen.passes(499);
    assert!(screen.shown().contains("Keys answer in a moment"));
    screen.passes(1);
    insta::assert_snapshot!(screen.shown(), @r"
    > Write.










     question ────────────────────────────────────────────────────────────
    file_write asks for approval (moderate)
      write a.txt\u{1b}[2J
        +new
    because calls of level moderate are asked about
      [s] for 1 hour: exactly this, in this workspace
      [p] for 30 days: exactly this, in this workspace
    Allow it?  [y] yes, once  [s] session  [p] project  [n] no
    ──────────────────────────────────────────────────────────────────────
    > yyy
      y
     local/small | waits for your answer
     Ctrl-C stops the agent
    ");
    screen.state.paste("y", screen.now);
    screen.press(KeyCode::Enter);
    assert!(!asked.is_finished() && screen.queue.waiting().is_empty());
    screen.press(KeyCode::Char('y'));
    assert!(matches!(asked.await.unwrap(), Answer::Once { by } if by == "the user, in the chat"));
    screen.passes(0);
    assert!(screen.state.panel.is_none());
}

/// Returns the answer to these keys, once keys count.
async fn answer_of(keys: &[KeyCode]) -> Answer {
    let mut screen = Screen::new(70, 24);
    screen.begin("Write.");
    let asked = ask(&mut screen, approval());
    tokio::task::yield_now().await;
    screen.passes(0);
    screen.shown();
    screen.passes(500);
    for key in keys {
        screen.press(*key);
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(asked.is_finished(), "{keys:?} do not answer");
    asked.await.unwrap()
}

#[tokio::test]
async fn a_wider_yes_takes_a_second_key_and_escape_is_a_no() {
    let letter = KeyCode::Char;
    let project = answer_of(&[letter('p'), letter('p')]).await;
    assert!(matches!(project, Answer::Lease { offer, .. } if offer.scope == Scope::Project));
    let session = answer_of(&[letter('p'), letter('x'), letter('a'), letter('s'), KeyCode::Enter]).await;
    assert!(matches!(session, Answer::Lease { offer, .. } if offer.scope == Scope::Session));
    for key in [letter('n'), KeyCode::Esc] {
        assert!(matches!(answer_of(&[key]).await, Answer::Denied { .. }));
    }
}

#[tokio::test]
async fn a_question_that_is_withdrawn_goes_and_the_next_one_waits_for_its_own_keys() {
    let mut screen = Screen::new(70, 24);
    screen.begin("Write.");
    let first = ask(&mut screen, approval());
    let second = ask(&mut screen, Approval { tool: "file_move".to_owned(), ..approval() });
    tokio::task::yield_now().await;
    screen.passes(0);
    assert!(screen.shown().contains("question 1 of 2"));
    screen.passes(500);
    first.abort();
    assert!(first.await.is_err());
    screen.passes(0);
    assert!(screen.shown().contains("file_move asks"));
    screen.type_text("y");
    assert!(!second.is_finished());
    screen.passes(500);
    screen.press(KeyCode::Char('y'));
    assert!(matches!(second.await.unwrap(), Answer::Once { .. }));
}
