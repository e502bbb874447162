//! The model of an MCP client, which calls use without any configured provider.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::server::Server;
use crate::shown::{data_of, error_of};

fn client(fixture: &Fixture, sampling: Value) -> Server {
    Server::for_client(fixture.command(), json!({"sampling": sampling}))
}

/// Returns the answer of a client's model: a text or a call.
fn said(content: Value, reason: &str) -> Value {
    json!({"role": "assistant", "model": "client-model-1", "stopReason": reason, "content": content})
}

#[test]
fn a_call_asks_the_model_of_the_client_if_no_provider_is_configured() {
    let fixture = Fixture::new();
    fixture.configure("catalogue: full\n");
    let mut server = client(&fixture, json!({}));
    let mut asked = Vec::new();
    let arguments = json!({"prompt": "Say hello.", "system_prompt": "Be brief.", "max_tokens": 50});
    let result = server.call_answering("llm_call", arguments.clone(), |method, params| {
        asked.push((method.to_owned(), params.clone()));
        Ok(said(json!({"type": "text", "text": "Hello."}), "endTurn"))
    });
    let data = data_of("llm_call", &result);
    assert_eq!(data["response"], "Hello.", "{result:#}");
    assert_eq!((&data["model_used"], &data["cost_estimate"]), (&json!("client/any"), &json!(0.0)), "{data}");
    let [(method, params)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(method, "sampling/createMessage");
    let message = json!({"role": "user", "content": [{"type": "text", "text": "Say hello."}]});
    assert_eq!(params["messages"], json!([message]));
    assert_eq!((&params["systemPrompt"], &params["maxTokens"]), (&json!("Be brief."), &json!(50)));
    // The user of the client refuses: nobody is asked again.
    let mut refusals = 0;
    let refused = server.call_answering("llm_call", arguments.clone(), |_, _| {
        refusals += 1;
        Err(json!({"code": -1, "message": "User rejected sampling request"}))
    });
    let error = error_of(&refused);
    assert!(error["message"].as_str().unwrap().contains("User rejected"), "{error}");
    assert_eq!(refusals, 1);
    let nonsense = server.call_answering("llm_call", arguments, |_, _| Ok(json!({"content": 7})));
    assert_eq!(error_of(&nonsense)["code"], "ERUNTIME", "{nonsense:#}");
    server.end();
    // A client that offers no model is told what to do.
    let mut plain = Server::start(&fixture, &[]);
    let error = error_of(&plain.call("llm_call", json!({"prompt": "a"})));
    assert_eq!(error["code"], "EUNAVAILABLE", "{error}");
    plain.end();
}

#[test]
fn an_agent_of_a_client_works_with_the_model_of_the_client_under_the_rules_of_the_client() {
    let fixture = Fixture::with_files(&[("notes.txt", "the answer is 42\n"), ("secret/key", "PRIVATE\n")]);
    fixture.configure("catalogue: full\nsandbox_config: {normal: {deny_read_paths: [\"secret/**\"]}}\n");
    let mut server = client(&fixture, json!({"tools": {}}));
    let call = |id: &str, path: &str| json!({"type": "tool_use", "id": id, "name": "file_read", "input": {"path": path}});
    let mut turns = 0;
    let mut results = Vec::new();
    let mut model = |method: &str, params: &Value| {
        assert_eq!(method, "sampling/createMessage");
        turns += 1;
        assert!(
            params["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "file_read"),
            "{params}"
        );
        Ok(match turns {
            1 => said(json!([call("u1", "notes.txt"), call("u2", "secret/key")]), "toolUse"),
            _ => {
                results.push(params["messages"].as_array().unwrap().last().unwrap().clone());
                said(json!({"type": "text", "text": "It is 42."}), "endTurn")
            }
        })
    };
    let created =
        server.call_answering("create_agent", json!({"task_description": "Read the notes."}), &mut model);
    let created = data_of("create_agent", &created);
    assert_eq!(created["model_name"], "client/any", "{created}");
    let listed = server.call_answering("agent_list", json!({"wait_seconds": 30}), &mut model);
    let listed = data_of("agent_list", &listed).to_string();
    assert!(listed.contains("It is 42."), "{listed}");
    let [results] = &results[..] else { panic!("{results:?}") };
    let blocks = results["content"].as_array().unwrap();
    let ids: Vec<&Value> = blocks.iter().map(|block| &block["toolUseId"]).collect();
    assert_eq!(ids, ["u1", "u2"], "{results:#}");
    assert!(blocks[0].to_string().contains("the answer is 42"), "{results:#}");
    assert!(blocks[1]["isError"] == true && !blocks[1].to_string().contains("PRIVATE"), "{results:#}");
    server.end();
    // A client whose model calls no tools has no agents.
    let mut plain = client(&fixture, json!({}));
    let refused = plain.call("create_agent", json!({"task_description": "Read the notes."}));
    let error = error_of(&refused);
    assert!(error["message"].as_str().unwrap().contains("tools"), "{error}");
    plain.end();
}

#[test]
fn a_client_of_the_newest_revision_is_asked_in_the_responses_to_its_calls() {
    let fixture = Fixture::with_files(&[("notes.txt", "the answer is 42\n")]);
    fixture.configure("catalogue: full\n");
    let mut server = Server::start(&fixture, &[]);
    let mut prompts = Vec::new();
    let arguments = json!({"prompt": "Say hello.", "max_tokens": 50});
    let result = server.call_repeating("llm_call", arguments, json!({"sampling": {}}), |method, params| {
        prompts.push((method.to_owned(), params["messages"][0]["content"][0]["text"].clone()));
        said(json!({"type": "text", "text": "Hello."}), "endTurn")
    });
    assert_eq!(data_of("llm_call", &result)["response"], "Hello.", "{result:#}");
    assert_eq!(prompts, [("sampling/createMessage".to_owned(), json!("Say hello."))]);
    // An agent goes on after the call that created it, and asks by the next call.
    let calls_tools = json!({"sampling": {"tools": {}}});
    let read = json!({"type": "tool_use", "id": "u1", "name": "file_read", "input": {"path": "notes.txt"}});
    let mut results = Vec::new();
    let mut model = |_: &str, params: &Value| {
        let last = params["messages"].as_array().unwrap().last().unwrap().clone();
        results.push(last.to_string());
        match results.len() {
            1 => said(json!([read.clone()]), "toolUse"),
            _ => said(json!({"type": "text", "text": "It is 42."}), "endTurn"),
        }
    };
    let task = json!({"task_description": "Read the notes."});
    let created = server.call_repeating("create_agent", task, calls_tools.clone(), &mut model);
    assert_eq!(data_of("create_agent", &created)["model_name"], "client/any", "{created:#}");
    let wait = json!({"wait_seconds": 30});
    let listed = server.call_repeating("agent_list", wait, calls_tools, &mut model);
    assert!(data_of("agent_list", &listed).to_string().contains("It is 42."), "{listed:#}");
    assert!(results[1].contains("the answer is 42"), "{results:#?}");
    server.end();
}
