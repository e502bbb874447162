//! Agents that flood, die or wait for the dead.

use serde_json::{Value, json};
use testkit::web::Reply;

use super::agents::answer;
use super::agents_below::thinking;
use super::models::configure;
use crate::harness::{Fixture, eventually};
use crate::server::Server;
use crate::shown::error_of;

/// Returns the results of tools in a conversation.
fn results(messages: &[Value]) -> Vec<String> {
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn an_agent_that_floods_its_main_agent_is_told_so_and_nobody_else_is_slower() {
    const MESSAGES: usize = 60;
    let model = thinking(|last, messages| {
        let results = results(messages);
        match last {
            "Work." => answer("Worked.", &[]),
            // One answer has at most 32 calls.
            _ if results.len() < MESSAGES => {
                let message = |number: usize| {
                    ("ask_agent", json!({"agent_id": "0", "message": format!("flood {number}")}))
                };
                let next = results.len()..(results.len() + 30);
                answer("", &next.map(message).collect::<Vec<_>>())
            }
            _ => {
                let refused = results.iter().filter(|result| result.contains("EQUOTA")).count();
                answer(&format!("{} sent, {refused} refused", results.len() - refused), &[])
            }
        }
    });
    let fixture = Fixture::new();
    configure(&fixture, &model, "");
    let mut client = Server::start(&fixture, &["--catalogue", "full"]);
    let create = |client: &mut Server, task: &str| {
        let created = client.data("create_agent", json!({"task_description": task}));
        created["agent_id"].as_str().unwrap().to_owned()
    };
    let flooding = create(&mut client, "Flood.");
    // The client reads nothing meanwhile. The list without a wait would take the messages.
    eventually("the end of the flood", || {
        let listed = fixture.run(&["agents", "--json"]).json();
        let agents = listed["agents"].as_array().unwrap();
        agents.iter().any(|agent| agent["id"] == flooding.as_str() && agent["state"] == "idle")
    });
    let working = create(&mut client, "Work.");
    eventually("the other result", || {
        let listed = fixture.run(&["agents", "--json"]).json();
        listed["agents"].as_array().unwrap().iter().all(|agent| agent["state"] == "idle")
    });
    let listed = client.data("agent_list", json!({}));
    let agents = listed["agents"].as_array().unwrap();
    let of_flood = agents.iter().find(|agent| agent["agent_id"] == flooding.as_str()).unwrap();
    assert_eq!(of_flood["outcome"], "50 sent, 10 refused", "{listed:#}");
    let messages = listed["messages"].as_array().unwrap();
    let from = |id: &str| messages.iter().filter(move |message| message["from"] == id).collect::<Vec<_>>();
    let texts: Vec<&str> =
        from(&flooding).iter().map(|message| message["message"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..50).map(|number| format!("flood {number}")).collect();
    let (last, flood) = texts.split_last().unwrap();
    assert_eq!(flood, expected, "in order, and as many as one sender may have waiting");
    assert!(
        last.contains("task_result") && last.contains("10 refused"),
        "there is room for the result: {last}"
    );
    let [other] = from(&working)[..] else { panic!("{listed:#}") };
    assert!(other["message"].as_str().unwrap().contains("Worked."), "{other}");
    client.end();
}

#[test]
fn a_child_that_waits_for_its_parent_ends_with_it_and_so_does_its_question() {
    // The model of the parent fails when a child has begun to wait for the parent.
    let (waits, waiting) = std::sync::mpsc::channel();
    let waiting = std::sync::Mutex::new(waiting);
    let model = thinking(move |last, messages| {
        let is_parent = messages.iter().any(|message| message["content"] == "Lead.");
        match last {
            "Lead." => answer(
                "",
                &[
                    ("create_agent", json!({"task_description": "Ask."})),
                    (
                        "create_agent",
                        json!({"task_description": "Write.", "sandbox_config": {"undoable": "table"}}),
                    ),
                ],
            ),
            "Ask." => {
                // The address of the parent stands in the list of agents.
                answer("", &[("agent_list", json!({}))])
            }
            "Write." => answer("", &[("file_write", json!({"path": "written", "content": ""}))]),
            _ if is_parent => {
                waiting.lock().unwrap().recv().unwrap();
                Reply::of(400, &[], r#"{"error": {"message": "no"}}"#)
            }
            last => {
                let parent = last.split("\"parent\":\"").nth(1).and_then(|rest| rest.split('"').next());
                let parent = parent.unwrap_or("0").to_owned();
                waits.send(()).unwrap();
                answer("", &[("ask_agent", json!({"agent_id": parent, "message": "Which file?"}))])
            }
        }
    });
    let fixture = Fixture::new();
    fixture.configure(&format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost], parent_may_answer: moderate}}}}\n",
        model.url("")
    ));
    let mut client = Server::start(&fixture, &["--catalogue", "full"]);
    let created = client.data("create_agent", json!({"task_description": "Lead."}));
    let lead = created["agent_id"].as_str().unwrap().to_owned();
    let mut listed = Value::Null;
    eventually("the end of all", || {
        listed = client.data("agent_list", json!({}));
        let agents = listed["agents"].as_array().unwrap();
        agents.len() == 3
            && agents.iter().all(|agent| ["failed", "stopped"].contains(&agent["state"].as_str().unwrap()))
    });
    let agents = listed["agents"].as_array().unwrap();
    let state = |is_lead: bool| {
        let of = agents.iter().filter(|agent| (agent["agent_id"] == lead.as_str()) == is_lead);
        of.map(|agent| agent["state"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((state(true), state(false)), (vec!["failed"], vec!["stopped", "stopped"]), "{listed:#}");
    assert!(!fixture.workspace().join("written").exists());
    // Whoever asks the dead is told so at once.
    let error = error_of(&client.call("ask_agent", json!({"agent_id": lead, "message": "Are you there?"})));
    assert!(error["message"].as_str().unwrap().contains("has ended"), "{error}");
    client.end();
}
