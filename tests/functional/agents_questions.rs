//! Questions of agents to the agents above them, through the real program with a scripted server.

use serde_json::{Value, json};

use super::agents::{answer, events};
use super::agents_below::{thinking, whole};
use crate::harness::Fixture;

#[test]
fn an_agent_answers_the_question_of_the_agent_below_where_the_profile_permits_it_and_it_could_do_so_itself() {
    let server = thinking(|last, messages| match last {
        "Begin." => answer(
            "",
            &[(
                "create_agent",
                json!({"task_description": "Write d.", "sandbox_config": {"undoable": "table"}}),
            )],
        ),
        "Write d." => answer("", &[("file_write", json!({"path": "d", "content": "approved"}))]),
        _ if whole(messages).contains("Write d.") && !whole(messages).contains("Begin.") => {
            answer(&format!("told: {last:.40}"), &[])
        }
        last if last.contains("approval_request") => {
            let id = last.split("agent ").nth(1).unwrap().split(']').next().unwrap().to_owned();
            let envelope = r#"{"type": "approval_response", "approved": true, "reason": "as planned"}"#;
            answer("", &[("ask_agent", json!({"agent_id": id, "message": envelope}))])
        }
        last if last.contains("task_result") => answer("All is done.", &[]),
        _ => answer("I wait.", &[]),
    });
    for permitted in [true, false] {
        let fixture = Fixture::new();
        let key = if permitted { ", parent_may_answer: moderate" } else { "" };
        fixture.configure(&format!(
            "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}}}\n\
             catalogue: full\nsandbox_config: {{normal: {{allowed_hosts: [localhost]{key}}}}}\n",
            server.url("")
        ));
        let run = fixture.run(&["run", "--json", "Begin."]);
        let events = events(&run.stdout);
        let asked = events.iter().find(|event| {
            event["type"] == "message" && event["text"].as_str().unwrap().contains("approval_request")
        });
        assert_eq!(asked.is_some(), permitted, "{}{}", run.stdout, run.stderr);
        assert_eq!(fixture.workspace().join("d").exists(), permitted, "{}", run.stdout);
        assert_eq!(events.last().unwrap()["text"], "All is done.");
        if let Some(asked) = asked {
            let body = asked["text"].as_str().unwrap().split_once('\n').unwrap().1;
            let envelope: Value = serde_json::from_str(body).unwrap();
            assert_eq!(
                (&envelope["type"], &envelope["action"]),
                (&json!("approval_request"), &json!("file_write"))
            );
            assert_eq!(envelope["params"], json!({"path": "d", "content": "approved"}));
            let written = fixture.recorded().into_iter().find(|row| row["tool"] == "file_write").unwrap();
            assert_eq!(written["approved_by"], "agent 0", "{written}");
        }
    }
}

#[test]
fn a_yes_counts_only_for_a_question_that_its_author_has_read() {
    let (release, released) = std::sync::mpsc::channel();
    let released = std::sync::Mutex::new(released);
    let server = thinking(move |last, messages| match messages.len() {
        2 => answer("", &[("file_write", json!({"path": "first", "content": "1"}))]),
        4 => {
            // The next question comes when the answer to the first one has been given.
            released.lock().unwrap().recv().unwrap();
            answer("", &[("file_write", json!({"path": "second", "content": "2"}))])
        }
        _ => answer(&format!("told: {last:.40}"), &[]),
    });
    let fixture = Fixture::new();
    fixture.configure(&format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost], parent_may_answer: moderate}}}}\n",
        server.url("")
    ));
    let mut client = crate::server::Server::start(&fixture, &["--catalogue", "full"]);
    let created = client.data(
        "create_agent",
        json!({"task_description": "Write both.", "sandbox_config": {"undoable": "table"}}),
    );
    let id = created["agent_id"].as_str().unwrap().to_owned();
    let told = client.data("agent_list", json!({"wait_seconds": 60})).to_string();
    assert!(told.contains("approval_request") && told.contains("first"), "{told}");
    let yes = json!({"agent_id": id, "message": r#"{"type": "approval_response", "approved": true}"#});
    assert_eq!(client.data("ask_agent", yes.clone())["status"], "approved");
    release.send(()).unwrap();
    // This yes came late for the first question.
    let mut late = json!({});
    crate::harness::eventually("the second question", || {
        late = crate::shown::error_of(&client.call("ask_agent", yes.clone()));
        late["code"] != "ENOTFOUND"
    });
    assert_eq!(late["code"], "ECONFLICT", "{late}");
    assert!(fixture.workspace().join("first").exists() && !fixture.workspace().join("second").exists());
    let told = client.data("agent_list", json!({"wait_seconds": 60})).to_string();
    assert!(told.contains("approval_request") && told.contains("second"), "{told}");
    let no = json!({"agent_id": id, "message": r#"{"type": "approval_response", "approved": false, "reason": "enough"}"#});
    assert_eq!(client.data("ask_agent", no)["status"], "denied");
    let told = client.data("agent_list", json!({"wait_seconds": 60})).to_string();
    assert!(told.contains("task_result") && told.contains("enough"), "{told}");
    assert!(!fixture.workspace().join("second").exists());
    client.end();
}

#[test]
fn only_the_agent_directly_above_answers_a_question() {
    let yes = r#"{"type": "approval_response", "approved": true}"#;
    let (asked, was_asked) = std::sync::mpsc::channel();
    let asked = std::sync::Mutex::new(asked);
    let server = thinking(move |last, messages| match last {
        _ if last.contains("approval_request") && last.contains("two") => {
            // The test may have ended.
            let _ = asked.lock().unwrap().send(());
            answer("I decide later.", &[])
        }
        _ if last.starts_with("Write ") => {
            let path = last.trim_start_matches("Write ");
            answer("", &[("file_write", json!({"path": path, "content": "x"}))])
        }
        _ if last.starts_with("Approve ") => {
            let id = last.trim_start_matches("Approve ");
            answer("", &[("ask_agent", json!({"agent_id": id, "message": yes}))])
        }
        "Delegate." => answer(
            "",
            &[(
                "create_agent",
                json!({"task_description": "Write two", "sandbox_config": {"undoable": "table"}}),
            )],
        ),
        _ if messages.len() > 2 && whole(messages).contains("Approve ") => {
            answer(&format!("told: {last:.200}"), &[])
        }
        _ => answer("I wait.", &[]),
    });
    let fixture = Fixture::new();
    fixture.configure(&format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost], parent_may_answer: moderate}}}}\n",
        server.url("")
    ));
    let mut client = crate::server::Server::start(&fixture, &["--catalogue", "full"]);
    let wait = || json!({"wait_seconds": 60});
    let asks = json!({"task_description": "Write one", "sandbox_config": {"undoable": "table"}});
    let one = client.data("create_agent", asks)["agent_id"].as_str().unwrap().to_owned();
    let told = client.data("agent_list", wait()).to_string();
    assert!(told.contains("approval_request"), "{told}");
    // An agent beside it says yes.
    client.data("create_agent", json!({"task_description": format!("Approve {one}")}));
    let told = client.data("agent_list", wait()).to_string();
    assert!(told.contains("no open approval_request"), "{told}");
    assert!(!fixture.workspace().join("one").exists());
    // The client says yes to an agent two levels below.
    client.data("create_agent", json!({"task_description": "Delegate."}));
    was_asked.recv_timeout(std::time::Duration::from_mins(1)).expect("no question to the agent above");
    let agents = client.data("agent_list", json!({}));
    let two = agents["agents"].as_array().unwrap().iter().find(|agent| agent["task"] == "Write two");
    let two = two.unwrap()["agent_id"].clone();
    let of_two = json!({"agent_id": two, "message": yes});
    let refused = crate::shown::error_of(&client.call("ask_agent", of_two));
    assert_eq!(refused["code"], "ENOTFOUND", "{refused}");
    assert!(!fixture.workspace().join("two").exists());
    // The answer of the agent directly above counts.
    assert_eq!(client.data("ask_agent", json!({"agent_id": one, "message": yes}))["status"], "approved");
    crate::harness::eventually("the file", || fixture.workspace().join("one").exists());
    client.end();
}
