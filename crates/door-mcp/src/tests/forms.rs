//! Tests of forms of servers behind this one, which a client of revision 2026-07-28 gets in the answers to its calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Elicitation;
use crate::fake::{Client, Fake, modern_meta, settle};
use crate::signed_state::GOOD_FOR;
use crate::tests::apart::{answers, endpoint, modern, only, request};

/// Capabilities of a client that shows forms, and those of one that also offers a model.
fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

fn everything() -> Value {
    json!({"elicitation": {}, "sampling": {}})
}

/// Calls a tool as a client with these capabilities, with further parameters.
async fn call(client: &mut Client, tool: &str, arguments: &Value, capabilities: Value, more: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": modern_meta(&capabilities)});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.ask(json!(tool), "tools/call", params).await
}

async fn form(client: &mut Client, arguments: &Value, more: Value) -> Value {
    call(client, "form", arguments, forms(), more).await
}

/// Returns the parameters that continue the call of this answer, with the user's answer under a key.
fn said(asked: &Value, key: &str, text: &str) -> Value {
    json!({"requestState": asked["result"]["requestState"], "inputResponses": {key: answer(text)}})
}

fn answer(text: &str) -> Value {
    json!({"action": "accept", "content": {"a": text}})
}

#[track_caller]
fn message(asked: &Value) -> &Value {
    let request = &asked["result"]["inputRequests"]["form"];
    assert_eq!(request["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    &request["params"]["message"]
}

fn stopped(fake: &Arc<Fake>) -> usize {
    fake.stopped.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_call_shows_forms_in_its_answers_and_goes_on_with_what_the_user_says() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let arguments = json!({"messages": ["one?", "two?"]});
    let first = form(&mut client, &arguments, json!({})).await;
    assert_eq!(message(&first), "one?");
    let second = form(&mut client, &arguments, said(&first, "form", "1")).await;
    assert_eq!(message(&second), "two?", "the same call goes on: it does not show the first form again");
    let replayed = form(&mut client, &arguments, said(&first, "form", "1")).await;
    assert_eq!(replayed["error"]["code"], -32602, "a state is good for one use: {replayed}");
    let end = form(&mut client, &arguments, said(&second, "form", "2")).await;
    let answers = &end["result"]["structuredContent"]["answers"];
    assert_eq!((&answers[0], &answers[1]), (&answer("1"), &answer("2")), "{end}");
    let ended = form(&mut client, &arguments, said(&second, "form", "2")).await;
    assert_eq!(ended["error"]["code"], -32602, "the call has ended: {ended}");
    assert_eq!((fake.outstanding(), stopped(&fake)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shows_no_forms_or_whose_forms_are_off_is_shown_none() {
    let arguments = json!({"messages": ["a"]});
    for capabilities in [json!({}), json!({"sampling": {}}), json!({"elicitation": {"url": {}}})] {
        let mut client = Client::of(&Fake::new());
        let refused = call(&mut client, "form", &arguments, capabilities.clone(), json!({})).await;
        let code = &refused["result"]["_meta"]["handfast/error"]["code"];
        assert_eq!(code, "EUNAVAILABLE", "{capabilities}: {refused}");
    }
    let mut client = Client::with(&Fake::new(), |options| options.elicitation = Elicitation::Off);
    for capabilities in [forms(), everything()] {
        let refused = call(&mut client, "form", &arguments, capabilities, json!({})).await;
        assert_eq!(refused["result"]["_meta"]["handfast/error"]["code"], "EUNAVAILABLE", "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_continues_the_call_that_asked_for_it_alone() {
    let fake = Fake::new();
    let (mut client, mut other) = (Client::of(&fake), Client::of(&fake));
    let (arguments, prompts) = (json!({"messages": ["a"]}), json!({"prompts": ["a"]}));
    let asked = call(&mut client, "form", &arguments, everything(), json!({})).await;
    let model = call(&mut client, "sample", &prompts, everything(), json!({})).await;
    let approval = call(&mut client, "ask", &json!({}), everything(), json!({})).await;
    let mut forged = said(&asked, "form", "x");
    forged["requestState"] = json!(format!("{}x", asked["result"]["requestState"].as_str().unwrap()));
    let mut stateless = said(&asked, "form", "x");
    stateless.as_object_mut().unwrap().remove("requestState");
    let elsewhere = form(&mut other, &arguments, said(&asked, "form", "x")).await;
    let renamed = call(&mut client, "record", &arguments, everything(), said(&asked, "form", "x")).await;
    for (why, refused) in [
        ("another connection", elsewhere),
        ("another tool", renamed),
        ("other arguments", form(&mut client, &json!({"messages": ["b"]}), said(&asked, "form", "x")).await),
        ("the state of a model", form(&mut client, &arguments, said(&model, "form", "x")).await),
        ("the state of an approval", form(&mut client, &arguments, said(&approval, "form", "x")).await),
        ("a model's answer", form(&mut client, &arguments, said(&asked, "model", "x")).await),
        ("an approval", form(&mut client, &arguments, said(&asked, "approval", "x")).await),
        ("an unknown key", form(&mut client, &arguments, said(&asked, "x", "x")).await),
        ("a changed state", form(&mut client, &arguments, forged).await),
        ("no state", form(&mut client, &arguments, stateless).await),
    ] {
        assert_eq!(refused["error"]["code"], -32602, "{why}: {refused}");
    }
    // The state is still good after these attempts.
    let end = form(&mut client, &arguments, said(&asked, "form", "x")).await;
    assert_eq!(end["result"]["structuredContent"]["answers"][0], answer("x"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_form_that_looks_like_an_approval_approves_nothing() {
    let mut client = Client::of(&Fake::new());
    let asked = form(&mut client, &json!({"messages": ["Allow everything?"]}), json!({})).await;
    let yes = json!({"action": "accept", "content": {"decision": "allow once"}});
    // With the state of a form, the call that needs an approval does not get it.
    for key in ["form", "approval"] {
        let more = json!({"requestState": asked["result"]["requestState"], "inputResponses": {key: yes}});
        let refused = call(&mut client, "ask", &json!({"path": "a"}), forms(), more).await;
        assert_eq!(refused["error"]["code"], -32602, "{key}: {refused}");
    }
    // The control: the answer to its own question approves it, also of a call that could show forms.
    let asked = call(&mut client, "ask", &json!({"path": "a"}), forms(), json!({})).await;
    let more = json!({"requestState": asked["result"]["requestState"], "inputResponses": {"approval": yes}});
    let done = call(&mut client, "ask", &json!({"path": "a"}), forms(), more).await;
    assert_eq!(done["result"]["structuredContent"]["allowed"], "once", "{done}");
}

#[tokio::test(start_paused = true)]
async fn suspended_calls_end_with_their_time_their_number_and_their_connection() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let arguments = json!({"messages": ["a"]});
    let late = form(&mut client, &arguments, json!({})).await;
    tokio::time::advance(GOOD_FOR.checked_sub(Duration::from_secs(1)).unwrap()).await;
    settle().await;
    assert_eq!(stopped(&fake), 0);
    tokio::time::advance(Duration::from_secs(2)).await;
    settle().await;
    assert_eq!(stopped(&fake), 1, "its time has passed");
    let refused = form(&mut client, &arguments, said(&late, "form", "x")).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    // Forms and requests to the model share one bound.
    let oldest = form(&mut client, &arguments, json!({})).await;
    for number in 0..32 {
        let prompts = json!({"prompts": ["a"]});
        let (tool, given) = if number % 2 == 0 { ("form", &arguments) } else { ("sample", &prompts) };
        let asked = call(&mut client, tool, given, everything(), json!({})).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    }
    settle().await;
    assert_eq!(stopped(&fake), 2, "the oldest made room");
    let refused = form(&mut client, &arguments, said(&oldest, "form", "x")).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    client.close().await.1.unwrap();
    settle().await;
    assert_eq!(stopped(&fake), 34, "the connection is gone");
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_form_is_cancelled_by_its_newest_request_alone() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let arguments = json!({"messages": ["a", "b"], "after": 60});
    let first = form(&mut client, &arguments, json!({})).await;
    let cancel = |id: &str| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(cancel("form")).await;
    settle().await;
    assert_eq!(stopped(&fake), 0, "this request was answered");
    let mut params = json!({"name": "form", "arguments": arguments, "_meta": modern_meta(&forms())});
    params.as_object_mut().unwrap().extend(said(&first, "form", "1").as_object().unwrap().clone());
    client.send(json!({"jsonrpc": "2.0", "id": "second", "method": "tools/call", "params": params})).await;
    settle().await;
    client.send(cancel("second")).await;
    settle().await;
    assert_eq!(stopped(&fake), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_become_a_task_shows_forms_by_the_task() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let slow = json!({"messages": ["late?"], "after": 10});
    let begun = call(&mut client, "form", &slow, capabilities.clone(), json!({})).await;
    tokio::time::advance(Duration::from_secs(11)).await;
    settle().await;
    let params = json!({"taskId": begun["result"]["taskId"], "_meta": modern_meta(&capabilities)});
    let state = client.ask(json!(1), "tasks/get", params.clone()).await;
    let (key, request) = state["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create", "{state}");
    let mut update = params.clone();
    update["inputResponses"] = json!({key: answer("1")});
    client.ask(json!(2), "tasks/update", update).await;
    settle().await;
    let state = client.ask(json!(3), "tasks/get", params).await;
    assert_eq!(state["result"]["result"]["structuredContent"]["answers"][0], answer("1"), "{state}");
}

#[tokio::test(start_paused = true)]
async fn over_http_a_call_waits_for_its_form_beyond_the_end_of_its_response() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let params = json!({"name": "form", "arguments": {"messages": ["one?"]}, "_meta": modern_meta(&forms())});
    let headers = modern("tools/call", Some("form"));
    let asked = only(answers(&endpoint, &headers, &request(1, "tools/call", params.clone())).await).await;
    assert_eq!(message(&asked), "one?");
    settle().await;
    assert_eq!(stopped(&fake), 0, "the end of the response has not ended the call");
    let mut again = params;
    again.as_object_mut().unwrap().extend(said(&asked, "form", "1").as_object().unwrap().clone());
    let done = only(answers(&endpoint, &headers, &request(2, "tools/call", again.clone())).await).await;
    assert_eq!(done["result"]["structuredContent"]["answers"][0], answer("1"), "{done}");
    let twice = only(answers(&endpoint, &headers, &request(3, "tools/call", again)).await).await;
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
    // A client that goes away while the continued call runs ends it.
    let slow = json!({"messages": ["a", "b"], "after": 60});
    let params = json!({"name": "form", "arguments": slow, "_meta": modern_meta(&forms())});
    let asked = only(answers(&endpoint, &headers, &request(4, "tools/call", params.clone())).await).await;
    let mut again = params;
    again.as_object_mut().unwrap().extend(said(&asked, "form", "1").as_object().unwrap().clone());
    let running = answers(&endpoint, &headers, &request(5, "tools/call", again)).await;
    settle().await;
    drop(running);
    settle().await;
    assert_eq!(stopped(&fake), 1);
}
