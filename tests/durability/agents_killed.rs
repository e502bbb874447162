//! Runs that are killed while their agents write to each other. Whoever goes on has each message once.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::web::Server;

use crate::functional::agents::{answer, messages};
use crate::functional::models::configure;
use crate::harness::Fixture;

/// Number of agents below the main one.
const BELOW: usize = 3;

/// Returns the number of kills: 200 if `HANDFAST_EVERY_POINT` is set, else few.
fn kills() -> u64 {
    if std::env::var_os("HANDFAST_EVERY_POINT").is_some() { 200 } else { 8 }
}

/// Returns all texts of a conversation.
fn texts(messages: &[Value]) -> Vec<String> {
    let parts = messages.iter().flat_map(|message| match &message["content"] {
        Value::Array(parts) => {
            parts.iter().map(|part| part["text"].as_str().unwrap_or_default().to_owned()).collect()
        }
        content => vec![content.as_str().unwrap_or_default().to_owned()],
    });
    parts.collect()
}

/// Starts a model: the main agent starts others, each of which sends two notes and its result.
fn model() -> Server {
    Server::http(|request| {
        let messages = messages(request);
        let texts = texts(&messages);
        let is_main = texts.iter().any(|text| text == "Lead.");
        let calls = messages.iter().filter(|message| message["role"] == "tool").count();
        if is_main {
            let start =
                |number: usize| ("create_agent", json!({"task_description": format!("Work {number}.")}));
            let starts: Vec<(&str, Value)> = (0..BELOW).map(start).collect();
            return if calls == 0 { answer("", &starts) } else { answer("I wait.", &[]) };
        }
        let task = texts.iter().find(|text| text.starts_with("Work ")).cloned().unwrap_or_default();
        match calls {
            0 | 1 => answer(
                "",
                &[("ask_agent", json!({"agent_id": "0", "message": format!("note {calls} of {task}")}))],
            ),
            _ => answer(&format!("Did: {task}"), &[]),
        }
    })
}

/// Returns the messages in the conversation of the main agent, by their senders and in their order.
fn received(state: &Connection, main: &str) -> BTreeMap<String, Vec<String>> {
    let sql =
        "SELECT json FROM agent_entries WHERE agent = (SELECT number FROM agents WHERE id = ?) ORDER BY seq";
    let mut statement = state.prepare(sql).unwrap();
    let entries: Vec<String> =
        statement.query_map([main], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut received: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in entries {
        let entry: Value = serde_json::from_str(&entry).unwrap();
        for part in entry["message"]["parts"].as_array().unwrap() {
            let Some(message) =
                part["text"].as_str().and_then(|text| text.strip_prefix("[Message from agent "))
            else {
                continue;
            };
            let (sender, text) = message.split_once("]\n").unwrap();
            received.entry(sender.to_owned()).or_default().push(text.to_owned());
        }
    }
    received
}

/// Asserts that the main agent has each message that was sent to it, once and in order. Returns their number.
fn check(state: &Connection, main: &str) -> usize {
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut statement =
        state.prepare("SELECT sender, body, state FROM mail WHERE receiver = ? ORDER BY id").unwrap();
    let rows = statement.query_map([main], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    for row in rows {
        let (sender, body, state): (String, String, String) = row.unwrap();
        assert_eq!(state, "delivered", "{sender}: {body}");
        sent.entry(sender).or_default().push(body);
    }
    assert_eq!(received(state, main), sent);
    sent.values().map(Vec::len).sum()
}

#[test]
fn a_run_that_is_killed_goes_on_at_once_with_each_message_of_its_agents_once() {
    let model = model();
    let (mut all, mut cut) = (0, 0);
    for kill in 0..kills() {
        let fixture = Fixture::new();
        configure(&fixture, &model, "");
        fixture.configure("catalogue: full\n");
        let mut run = fixture.command();
        run.args(["run", "--json", "Lead."]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = run.spawn().unwrap();
        // The kills spread over the whole life of a run, which takes less than half a second here.
        std::thread::park_timeout(Duration::from_millis(20 + 60 * (kill % 8)));
        process.kill().unwrap();
        let was_over = process.wait().unwrap().success();
        let state = Connection::open(fixture.state().join("handfast.db")).unwrap();
        state.busy_timeout(Duration::from_secs(30)).unwrap();
        let main: Result<String, _> =
            state.query_row("SELECT id FROM agents WHERE parent IS NULL", [], |row| row.get(0));
        // A run that was killed before it was stored has nothing to go on with.
        let Ok(main) = main else { continue };
        let again = fixture.run(&["run", "--continue", "--json", "Go on."]);
        assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
        let messages = check(&state, &main);
        all += messages;
        cut += usize::from(!was_over);
        // No agent below the killed one is shown as if it worked.
        let listed = fixture.run(&["agents", "--all", "--json"]).json();
        for agent in listed["agents"].as_array().unwrap() {
            assert!(!["running", "idle"].contains(&agent["state"].as_str().unwrap()), "{listed:#}");
        }
    }
    assert!(all > 0 && cut > 0, "the control: {all} messages, {cut} runs were killed");
}

#[test]
fn an_agent_that_lives_keeps_its_conversation_though_a_clock_has_jumped() {
    let model = Server::http(|_| {
        testkit::web::Reply::hanging("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    });
    let fixture = Fixture::new();
    configure(&fixture, &model, "");
    let mut run = fixture.command();
    run.args(["run", "--json", "Wait."]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = run.spawn().unwrap();
    crate::harness::eventually("the request", || !model.seen().is_empty());
    // A clock that jumps by an hour ends every lease.
    let state = Connection::open(fixture.state().join("handfast.db")).unwrap();
    state.busy_timeout(Duration::from_secs(30)).unwrap();
    state.execute("UPDATE agents SET held_until_us = 0", []).unwrap();
    let states = || {
        let listed = fixture.run(&["agents", "--all", "--json"]).json();
        let agents = listed["agents"].as_array().unwrap().iter();
        agents.map(|agent| agent["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(), ["running"]);
    let other = fixture.run(&["run", "--continue", "Me too."]);
    assert!(other.code != 0 && other.stderr.contains("runs the agent"), "{}{}", other.stdout, other.stderr);
    assert!(process.try_wait().unwrap().is_none(), "the run goes on");
    // A lease that a clock has moved into the future holds nothing once its process is dead.
    state.execute("UPDATE agents SET held_until_us = 9000000000000000", []).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(states(), ["interrupted"]);
}
