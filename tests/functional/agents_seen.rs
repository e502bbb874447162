//! View of agents at work, for users and programs: logs, progress, events, metrics and traces.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use super::agents::answer;
use super::agents_below::thinking;
use super::models::configure;
use crate::collector::{Collector, Manner, text};
use crate::harness::Fixture;
use crate::http::{Up, bearer};
use crate::server::Server;

/// Starts a model whose agents read a file and then answer.
fn model() -> testkit::web::Server {
    thinking(|last, _| match last {
        "Look." => answer("", &[("file_read", json!({"path": "a.txt"}))]),
        _ => answer("Looked.", &[]),
    })
}

/// Asserts that these events tell the life of the agent in order, and nothing about another one.
#[track_caller]
fn assert_life(events: &[Value], id: &str) {
    assert!(events.iter().all(|event| event["agent"] == id), "{events:#?}");
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["started", "answered", "call", "result", "answered", "state"], "{events:#?}");
    assert_eq!((&events[2]["tool"], &events[3]["ok"]), (&json!("file_read"), &json!(true)), "{events:#?}");
    assert_eq!((&events[1]["tokens"], &events[5]["state"]), (&json!(120), &json!("idle")), "{events:#?}");
    assert!(!events.iter().any(|event| event.to_string().contains("a.txt")), "{events:#?}");
}

#[test]
fn a_client_gets_the_log_of_its_agents_and_their_work_as_the_progress_of_a_wait() {
    let model = model();
    let fixture = Fixture::with_files(&[("a.txt", "text\n")]);
    configure(&fixture, &model, "");
    let mut client = Server::start(&fixture, &["--catalogue", "full"]);
    client.ask("logging/setLevel", json!({"level": "info"}));
    let created = client.data("create_agent", json!({"task_description": "Look."}));
    let id = created["agent_id"].as_str().unwrap().to_owned();
    let wait =
        json!({"name": "agent_list", "arguments": {"wait_seconds": 60}, "_meta": {"progressToken": "p"}});
    let listed = client.ask("tools/call", wait);
    assert!(listed.to_string().contains("Looked."), "{listed}");
    let of = |method: &str| -> Vec<Value> {
        let told = client.notifications.iter().filter(|told| told["method"] == method);
        told.map(|told| told["params"].clone()).collect()
    };
    let logged: Vec<Value> = of("notifications/message")
        .into_iter()
        .filter(|said| said["logger"] == "agent")
        .map(|said| said["data"].clone())
        .collect();
    assert_life(&logged, &id);
    // Progress is sent at most so often, so not every event is part of it.
    let progress = of("notifications/progress");
    let tells = |told: &Value| {
        told["message"].as_str().is_some_and(|line| line.starts_with(&format!("agent {id}: ")))
    };
    assert!(progress.iter().any(|told| told["progressToken"] == "p" && tells(told)), "{progress:#?}");
    client.end();
    // A client that has set no level gets no log.
    let mut quiet = Server::start(&fixture, &["--catalogue", "full"]);
    quiet.data("create_agent", json!({"task_description": "Look."}));
    quiet.data("agent_list", json!({"wait_seconds": 60}));
    let logs = quiet.notifications.iter().filter(|told| told["method"] == "notifications/message").count();
    assert_eq!(logs, 0, "{:#?}", quiet.notifications);
    quiet.end();
}

/// Follows the events of a server until one of this kind has come, and returns their data.
fn follow(up: &Up, token: &str, last: &str) -> std::thread::JoinHandle<Vec<(String, Value)>> {
    let mut stream = up.connect();
    let head = format!("GET /v1/agents/events HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", bearer(token));
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    // The head has come before the server follows anything else.
    assert!(lines.next().unwrap().unwrap().contains("200"));
    let last = last.to_owned();
    std::thread::spawn(move || {
        let (mut events, mut name) = (Vec::new(), String::new());
        for line in lines {
            let line = line.unwrap();
            if let Some(named) = line.strip_prefix("event: ") {
                named.clone_into(&mut name);
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data: Value = serde_json::from_str(data).unwrap();
            let is_last = data["event"] == last.as_str();
            events.push((name.clone(), data));
            if is_last {
                return events;
            }
        }
        events
    })
}

#[test]
fn a_server_shows_agents_to_the_user_and_to_their_caller_with_events_and_metrics() {
    let model = model();
    let fixture = Fixture::with_files(&[("a.txt", "text\n")]);
    configure(&fixture, &model, "");
    let up = Up::start(&fixture, &["--catalogue", "full"]);
    let followers = [&up.user, &up.agent].map(|token| follow(&up, token, "state"));
    let created = up.call("create_agent", json!({"task_description": "Look."}));
    let id = created["data"]["agent_id"].as_str().unwrap_or_else(|| panic!("{created:#}")).to_owned();
    for follower in followers {
        let events = follower.join().unwrap();
        assert!(events.iter().all(|(name, _)| name == "event"), "{events:?}");
        assert_life(&events.into_iter().map(|(_, event)| event).collect::<Vec<_>>(), &id);
    }
    for (token, tokens) in [(&up.user, 240), (&up.agent, 360)] {
        let listed = up.get(token, "/v1/agents").json();
        let [agent] = &listed["agents"].as_array().unwrap()[..] else { panic!("{listed:#}") };
        assert_eq!(
            (&agent["id"], &agent["state"], &agent["parent"]),
            (&json!(id), &json!("idle"), &json!("0"))
        );
        assert_eq!((&agent["tokens"], &agent["outcome"]), (&json!(tokens), &json!("Looked.")), "{agent:#}");
        // Whoever follows later is told the present state first.
        let later = follow(&up, token, "answered");
        up.call("ask_agent", json!({"agent_id": id, "message": "And?"}));
        let later = later.join().unwrap();
        assert_eq!((later[0].0.as_str(), &later[0].1["id"]), ("agent", &json!(id)), "{later:?}");
    }
    let metrics = up.get(&up.user, "/metrics").body;
    for line in [
        "handfast_agents{state=\"idle\"} 1".to_owned(),
        format!("handfast_agent_tokens{{agent=\"{id}\"}} 480"),
    ] {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    assert_eq!(up.get("wrong", "/v1/agents").status, 401);
    up.end();
}

#[test]
fn the_traces_of_an_agents_calls_bear_its_id_and_the_call_that_started_it() {
    let (model, collector) = (model(), Collector::start(Manner::Takes));
    let fixture = Fixture::with_files(&[("a.txt", "text\n")]);
    configure(&fixture, &model, "");
    let mut command = fixture.command();
    command.envs(collector.variables()).args(["--catalogue", "full"]);
    let mut client = Server::of(command);
    let created = client.call("create_agent", json!({"task_description": "Look."}));
    let data = crate::shown::data_of("create_agent", &created);
    let id = data["agent_id"].as_str().unwrap();
    client.data("agent_list", json!({"wait_seconds": 60}));
    let spans = collector.until("execute_tool file_read");
    client.end();
    let of_agent: Vec<_> =
        spans.iter().filter(|span| text(&span.attributes, "gen_ai.agent.id") == Some(id)).collect();
    let names: Vec<&str> = of_agent.iter().map(|span| span.name.as_str()).collect();
    assert!(
        names.contains(&"execute_tool file_read") && names.contains(&"execute_tool model_turn"),
        "{names:?}"
    );
    let parent = text(&of_agent[0].attributes, "handfast.parent").unwrap();
    let creating = spans.iter().find(|span| text(&span.attributes, "handfast.call") == Some(parent)).unwrap();
    assert_eq!(text(&creating.attributes, "handfast.tool"), Some("create_agent"));
    assert!(text(&creating.attributes, "gen_ai.agent.id").is_none());
}
