//! `handfast chat` on a terminal, with a scripted server of chat completions.

use std::sync::mpsc;

use nix::sys::signal::Signal;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::web::{Reply, Server};

use super::agents::{answer, messages, script};
use super::models::configure;
use super::screen::Terminal;
use crate::harness::{Fixture, eventually};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

/// Begins an answer with this text, and never ends it.
fn unfinished(text: &str) -> Reply {
    let delta = json!({"role": "assistant", "content": text});
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null});
    Reply::hanging(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {chunk}\n\n"))
}

fn write(path: &str) -> (&'static str, Value) {
    ("file_write", json!({"path": path, "content": "new\n", "backup": false}))
}

/// Starts a chat, and waits until it can be used.
fn start(fixture: &Fixture, arguments: &[&str]) -> Terminal {
    let terminal = Terminal::start(fixture, (30, 100), &[&["chat"], arguments].concat());
    terminal.shows("idle");
    terminal
}

/// Waits until the agent has answered with this text.
#[track_caller]
fn answered(chat: &Terminal, text: &str) -> String {
    chat.until(text, |shown| shown.contains(text) && shown.contains("| idle"))
}

/// Lets the time pass after which another process may continue an agent.
fn end_leases(fixture: &Fixture) {
    let state = rusqlite::Connection::open(fixture.state().join("handfast.db")).unwrap();
    assert_eq!(state.execute("UPDATE agents SET held_until_us = 0", []).unwrap(), 1);
}

/// Ends a chat with this key.
#[track_caller]
fn close(mut chat: Terminal, key: &str) {
    chat.press(key);
    let shown = chat.shows("chat --continue` goes on; ");
    assert!(!shown.contains("| idle"), "the screen is left: {shown}");
    assert_eq!(chat.ends(), 0);
}

#[test]
fn a_message_is_answered_on_the_screen_with_its_calls_and_what_they_were_decided() {
    let server = script([
        answer(
            "I look.",
            &[("file_read", json!({"path": "a.txt"})), ("shell_execute", json!({"command": "rm -rf /"}))],
        ),
        answer("It says\u{1b}[2J hello.", &[]),
    ]);
    let fixture = Fixture::with_files(&[("a.txt", "hello\n")]);
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("What does a.txt say?\r");
    let shown = answered(&chat, "It says\\u{1b}[2J hello.");
    for part in [
        "> What does a.txt say?",
        "  I look.",
        "✓ file_read path=\"a.txt\"  pass, ",
        "✗ shell_execute command=\"rm -rf /\"  deny, ",
        ": EPERMISSION: ",
        "local/small",
        "200 tokens in, 40 out",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    close(chat, CTRL_D);
}

#[test]
fn an_answer_is_shown_while_it_comes_and_ctrl_c_stops_it() {
    let server = script([unfinished("Hel"), answer("Back.", &[])]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("Say hello.\r");
    chat.until("the begin of the answer", |shown| shown.contains("  Hel") && shown.contains("answering"));
    chat.press(CTRL_C);
    answered(&chat, "stopped");
    chat.press("And now?\r");
    answered(&chat, "Back.");
    let texts = messages(&server.seen()[1]);
    assert!(texts.last().unwrap().to_string().contains("And now?"), "{texts:#?}");
    chat.press(CTRL_C);
    chat.shows("Ctrl-C once more ends the chat");
    close(chat, CTRL_C);
}

#[test]
fn a_question_is_answered_by_a_key_and_by_nothing_that_was_typed_or_pasted_before() {
    let server = script([
        answer("", &[write("a.txt")]),
        answer("", &[("shell_execute", json!({"command": "sh -c \"$X\""}))]),
        answer("", &[write("b.txt")]),
        answer("Done.", &[]),
    ]);
    let fixture = Fixture::new();
    fixture.configure(&format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost], undoable: table}}}}\n",
        server.url("")
    ));
    let mut chat = start(&fixture, &[]);
    // Keys that come before the question, or as a paste, are for the input.
    chat.press("Write.\ry");
    chat.until("the question with its keys", |shown| {
        ["file_write asks for approval", "write a.txt", "[y] yes, once", "[p] project", "+new"]
            .iter()
            .all(|text| shown.contains(text))
    });
    chat.press("\u{1b}[200~y\r\u{1b}[201~");
    chat.shows("> yy");
    assert!(!fixture.workspace().join("a.txt").exists());
    chat.press("y");
    // The keys are the last line of a question, and differ, so that what is shown is whole.
    chat.until("the second question", |shown| {
        shown.contains("run in .: sh -c \"$X\"") && shown.contains("[y] yes, once  [n] no")
    });
    chat.press("n");
    chat.until("the third question", |shown| shown.contains("write b.txt") && shown.contains("[s] session"));
    chat.press("s");
    chat.shows("[s] or [Enter] confirms");
    chat.press("s");
    let shown = answered(&chat, "Done.");
    assert_eq!((fixture.read("a.txt"), fixture.read("b.txt")), ("new\n".to_owned(), "new\n".to_owned()));
    for part in ["✓ file_write", "  check, ", "✗ shell_execute", "said no"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let rows = fixture.recorded();
    assert!(rows.iter().any(|row| row.to_string().contains("the user, in the chat")), "{rows:#?}");
    chat.press(CTRL_C);
    close(chat, CTRL_D);
}

#[test]
fn a_message_that_is_sent_while_the_agent_works_is_delivered_between_two_steps() {
    let (release, released) = mpsc::channel::<()>();
    let (released, first) = (Mutex::new(released), Mutex::new(true));
    let server = Server::http(move |_| {
        if std::mem::take(&mut *first.lock()) {
            released.lock().recv().unwrap();
            return answer("", &[("file_list", json!({"path": "."}))]);
        }
        answer("Both.", &[])
    });
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("One.\r");
    chat.shows("thinking");
    chat.press("Two.\r");
    chat.shows("queued: Two.");
    release.send(()).unwrap();
    let shown = answered(&chat, "Both.");
    assert!(shown.contains("> Two.") && !shown.contains("queued"), "{shown}");
    assert_eq!(server.seen().len(), 2, "one turn has both");
    let last = messages(&server.seen()[1]);
    assert!(last.last().unwrap().to_string().contains("Two."), "{last:#?}");
    close(chat, CTRL_D);
}

#[test]
fn a_conversation_goes_on_where_it_was_and_a_chat_without_a_message_leaves_nothing() {
    let server = script([answer("First.", &[]), answer("Second.", &[])]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("What is it?\r");
    answered(&chat, "First.");
    close(chat, CTRL_D);
    let mut empty = start(&fixture, &[]);
    empty.press("/quit\r");
    assert_eq!(empty.ends(), 0);
    let mut chat = start(&fixture, &["--continue"]);
    let shown = chat.shows("the conversation goes on");
    assert!(shown.contains("> What is it?") && shown.contains("  First."), "{shown}");
    chat.press("And?\r");
    answered(&chat, "Second.");
    let last = messages(&server.seen()[1]);
    let texts: Vec<&str> = last.iter().skip(1).filter_map(|message| message["content"].as_str()).collect();
    assert_eq!(texts, ["What is it?", "First.", "And?"], "{last:#?}");
    close(chat, CTRL_D);
}

#[test]
fn a_killed_chat_loses_no_message_and_a_signal_leaves_the_terminal_as_it_was() {
    let server = script([unfinished("Hm"), unfinished("Hm"), answer("Yes.", &[])]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("Remember me.\r");
    chat.shows("  Hm");
    chat.signal(Signal::SIGKILL);
    assert_eq!(chat.ends(), -1);
    end_leases(&fixture);
    let mut chat = start(&fixture, &["--continue"]);
    chat.shows("> Remember me.");
    chat.press("And me.\r");
    chat.shows("  Hm");
    chat.signal(Signal::SIGTERM);
    chat.until("the terminal as it was", |shown| !shown.contains("Hm") && shown.contains("goes on; "));
    assert_eq!(chat.ends(), 143);
    // The lease has ended with the chat.
    let mut chat = start(&fixture, &["--continue"]);
    let shown = chat.shows("> And me.");
    assert!(shown.contains("> Remember me."), "{shown}");
    chat.press("Well?\r");
    answered(&chat, "Yes.");
    close(chat, CTRL_D);
}

#[test]
fn a_chat_whose_terminal_is_gone_ends_and_its_conversation_can_go_on() {
    let server = script([answer("First.", &[]), unfinished("Hm")]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("Remember me.\r");
    answered(&chat, "First.");
    chat.press("And me.\r");
    chat.shows("  Hm");
    assert_eq!(chat.closes(), 129);
    let chat = start(&fixture, &["--continue"]);
    chat.until("both messages", |shown| shown.contains("> Remember me.") && shown.contains("> And me."));
    close(chat, CTRL_D);
}

#[test]
fn what_an_agent_below_reports_is_part_of_the_chat_without_a_further_message() {
    let server = Server::http(|request| {
        let all = messages(request);
        let has = |text: &str| all.iter().any(|message| message["content"].to_string().contains(text));
        match all.get(1).map(|first| first["content"].to_string()).unwrap_or_default() {
            task if task.contains("Count the files.") => answer("There are 7.", &[]),
            _ if has("There are 7.") => answer("Seven it is.", &[]),
            _ if all.len() > 2 => answer("I wait.", &[]),
            _ => answer("", &[("create_agent", json!({"task_description": "Count the files."}))]),
        }
    });
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    fixture.configure("catalogue: full\n");
    let mut chat = start(&fixture, &[]);
    chat.press("How many files?\r");
    let shown = answered(&chat, "Seven it is.");
    assert!(shown.contains("· [Message from agent a"), "{shown}");
    close(chat, CTRL_D);
}

#[test]
fn commands_switch_the_model_and_undo_the_newest_change() {
    let server = script([answer("", &[write("a.txt")]), answer("Done.", &[]), answer("I see.", &[])]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut chat = start(&fixture, &[]);
    chat.press("Write.\r");
    answered(&chat, "Done.");
    assert_eq!(fixture.read("a.txt"), "new\n");
    chat.press("/undo\r");
    chat.shows("undone: write a.txt");
    assert!(!fixture.workspace().join("a.txt").exists());
    chat.press("/model local/\r");
    chat.shows("local/ is no PROVIDER/MODEL");
    chat.press("/model local/other\r");
    chat.shows("local/other is asked from now on");
    chat.press("And?\r");
    answered(&chat, "I see.");
    let body: Value = serde_json::from_slice(&server.seen()[2].body).unwrap();
    assert_eq!(body["model"], "other");
    assert!(
        body["messages"].to_string().contains("The user has undone this change: write a.txt"),
        "{body:#}"
    );
    close(chat, CTRL_D);
}

#[test]
fn what_cannot_be_a_chat_says_so_before_the_screen() {
    let server = script([Reply::of(401, &[], r#"{"error": {"message": "wrong key"}}"#), answer("Ok.", &[])]);
    let fixture = Fixture::new();
    let none = fixture.run(&["chat"]);
    assert!(
        none.code == 2 && none.stderr.contains(" run` for a task without one"),
        "{} {}",
        none.code,
        none.stderr
    );
    let without_model = Terminal::start(&fixture, (24, 100), &["chat"]);
    without_model.shows("docs/MODELS.md");
    assert_eq!(without_model.ends(), 2);
    configure(&fixture, &server, "");
    let nothing = Terminal::start(&fixture, (24, 100), &["chat", "--continue"]);
    nothing.shows("no earlier run");
    assert_eq!(nothing.ends(), 2);
    // A request that fails does not end the chat.
    let mut chat = start(&fixture, &[]);
    chat.press("Hello.\r");
    answered(&chat, "✗ EPERMISSION: ");
    chat.press("Again.\r");
    answered(&chat, "Ok.");
    eventually("two requests", || server.seen().len() == 2);
    close(chat, CTRL_D);
}
