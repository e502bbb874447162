//! Tests of requests to the client's model in revision 2026-07-28, where a server asks in its answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fake::{Client, Fake, modern_meta, settle};
use crate::signed_state::GOOD_FOR;

/// Calls a tool as a client with these capabilities, with further parameters.
async fn call(client: &mut Client, tool: &str, arguments: &Value, capabilities: Value, more: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": modern_meta(&capabilities)});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.ask(json!(tool), "tools/call", params).await
}

async fn sample(client: &mut Client, arguments: &Value, more: Value) -> Value {
    call(client, "sample", arguments, json!({"sampling": {}}), more).await
}

/// Returns the parameters that continue the call of this answer, with what the model says.
fn said(asked: &Value, text: &str) -> Value {
    json!({"requestState": asked["result"]["requestState"], "inputResponses": {"model": answer(text)}})
}

fn answer(text: &str) -> Value {
    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}})
}

fn prompt(asked: &Value) -> &Value {
    let request = &asked["result"]["inputRequests"]["model"];
    assert_eq!(request["method"], "sampling/createMessage", "{asked}");
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    &request["params"]["messages"][0]["content"]["text"]
}

fn stopped(fake: &Arc<Fake>) -> usize {
    fake.stopped.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_the_clients_model_in_its_answers_and_goes_on_with_what_the_model_says() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let arguments = json!({"prompts": ["one?", "two?"]});
    let first = sample(&mut client, &arguments, json!({})).await;
    assert_eq!(prompt(&first), "one?");
    let second = sample(&mut client, &arguments, said(&first, "1")).await;
    assert_eq!(prompt(&second), "two?", "the same call goes on: it does not ask the first question again");
    let replayed = sample(&mut client, &arguments, said(&first, "1")).await;
    assert_eq!(replayed["error"]["code"], -32602, "a state is good for one use: {replayed}");
    let end = sample(&mut client, &arguments, said(&second, "2")).await;
    let answers = &end["result"]["structuredContent"]["answers"];
    assert_eq!((&answers[0], &answers[1]), (&answer("1"), &answer("2")), "{end}");
    assert_eq!((fake.outstanding(), stopped(&fake)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_sampling_offers_no_model() {
    let mut client = Client::of(&Fake::new());
    let refused = call(&mut client, "sample", &json!({"prompts": ["a"]}), json!({}), json!({})).await;
    assert_eq!(refused["result"]["_meta"]["handfast/error"]["code"], "EUNAVAILABLE", "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_state_continues_its_own_call_alone() {
    let fake = Fake::new();
    let (mut client, mut other) = (Client::of(&fake), Client::of(&fake));
    let arguments = json!({"prompts": ["a"]});
    let asked = sample(&mut client, &arguments, json!({})).await;
    let form = call(&mut client, "ask", &json!({}), json!({"elicitation": {}}), json!({})).await;
    let elsewhere = sample(&mut other, &arguments, said(&asked, "x")).await;
    let renamed = call(&mut client, "record", &arguments, json!({"sampling": {}}), said(&asked, "x")).await;
    let changed = sample(&mut client, &json!({"prompts": ["b"]}), said(&asked, "x")).await;
    let of_a_form = sample(&mut client, &arguments, said(&form, "x")).await;
    let mut forged = said(&asked, "x");
    forged["requestState"] = json!(format!("{}x", asked["result"]["requestState"].as_str().unwrap()));
    let forged = sample(&mut client, &arguments, forged).await;
    let as_form = json!({"requestState": asked["result"]["requestState"],
        "inputResponses": {"approval": {"action": "accept", "content": {"decision": "allow once"}}}});
    let as_form = sample(&mut client, &arguments, as_form).await;
    for refused in [elsewhere, renamed, changed, of_a_form, forged, as_form] {
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let end = sample(&mut client, &arguments, said(&asked, "x")).await;
    assert_eq!(end["result"]["structuredContent"]["answers"][0], answer("x"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_continues_is_cancelled() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let arguments = json!({"prompts": ["a"]});
    let late = sample(&mut client, &arguments, json!({})).await;
    tokio::time::advance(GOOD_FOR.checked_sub(Duration::from_secs(1)).unwrap()).await;
    settle().await;
    assert_eq!(stopped(&fake), 0);
    tokio::time::advance(Duration::from_secs(2)).await;
    settle().await;
    assert_eq!(stopped(&fake), 1, "its time has passed");
    let refused = sample(&mut client, &arguments, said(&late, "x")).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    let oldest = sample(&mut client, &arguments, json!({})).await;
    for _ in 0..32 {
        prompt(&sample(&mut client, &arguments, json!({})).await);
    }
    settle().await;
    assert_eq!(stopped(&fake), 2, "the oldest made room");
    let refused = sample(&mut client, &arguments, said(&oldest, "x")).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    client.close().await.1.unwrap();
    settle().await;
    assert_eq!(stopped(&fake), 34, "the connection is gone");
}

#[tokio::test(start_paused = true)]
async fn the_newest_request_of_a_call_cancels_it_and_an_older_one_does_not() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let arguments = json!({"prompts": ["a", "b"], "after": 60});
    let first = sample(&mut client, &arguments, json!({})).await;
    let cancel = |id: &str| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(cancel("sample")).await;
    settle().await;
    assert_eq!(stopped(&fake), 0, "this request was answered");
    let mut params =
        json!({"name": "sample", "arguments": arguments, "_meta": modern_meta(&json!({"sampling": {}}))});
    params.as_object_mut().unwrap().extend(said(&first, "1").as_object().unwrap().clone());
    client.send(json!({"jsonrpc": "2.0", "id": "second", "method": "tools/call", "params": params})).await;
    settle().await;
    client.send(cancel("second")).await;
    settle().await;
    assert_eq!(stopped(&fake), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_become_a_task_asks_by_the_task() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let capabilities = json!({"sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let arguments = json!({"prompts": ["soon?"]});
    let soon = call(&mut client, "sample", &arguments, capabilities.clone(), json!({})).await;
    assert_eq!(prompt(&soon), "soon?", "a call that asks at once is no task");
    let end = call(&mut client, "sample", &arguments, capabilities.clone(), said(&soon, "yes")).await;
    assert_eq!(end["result"]["structuredContent"]["answers"][0], answer("yes"), "{end}");

    let slow = json!({"prompts": ["late?", "later?"], "after": 10});
    let begun = call(&mut client, "sample", &slow, capabilities.clone(), json!({})).await;
    let task = begun["result"]["taskId"].clone();
    for text in ["1", "2"] {
        tokio::time::advance(Duration::from_secs(11)).await;
        settle().await;
        let params = json!({"taskId": task, "_meta": modern_meta(&capabilities)});
        let state = client.ask(json!(1), "tasks/get", params.clone()).await;
        let (key, request) = state["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["method"], "sampling/createMessage", "{state}");
        let mut update = params;
        update["inputResponses"] = json!({key: answer(text)});
        client.ask(json!(2), "tasks/update", update).await;
        settle().await;
    }
    let params = json!({"taskId": task, "_meta": modern_meta(&capabilities)});
    let state = client.ask(json!(3), "tasks/get", params).await;
    assert_eq!(state["result"]["result"]["structuredContent"]["answers"][1], answer("2"), "{state}");
}

#[tokio::test(start_paused = true)]
async fn work_that_outlives_its_call_asks_by_another_call_of_the_connection() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let capabilities = json!({"sampling": {}});
    let left =
        call(&mut client, "leave", &json!({"prompts": ["left?"]}), capabilities.clone(), json!({})).await;
    assert_eq!(left["result"]["structuredContent"]["left"], true, "{left}");
    // Without an open call, the question waits.
    settle().await;
    fake.gate.notify_one();
    settle().await;
    assert!(fake.left.lock().is_none());
    let asked = call(&mut client, "gate", &json!({}), capabilities.clone(), json!({})).await;
    assert_eq!(prompt(&asked), "left?");
    let more = said(&asked, "here");
    let params = json!({"name": "gate", "arguments": {}, "_meta": modern_meta(&capabilities),
        "requestState": more["requestState"], "inputResponses": more["inputResponses"]});
    client.send(json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})).await;
    settle().await;
    assert_eq!(fake.left.lock().take().unwrap().unwrap()["answers"][0], answer("here"));
    fake.gate.notify_one();
    assert_eq!(client.next().await["result"]["structuredContent"]["passed"], true, "the call itself goes on");
}
