//! Tests of long calls as tasks, as in revision 2025-11-25.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::apart;
use crate::endpoint::PostOutcome;
use crate::fake::{Client, Fake, settle};

const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn client(fake: &Arc<Fake>) -> Client {
    able(fake, json!({})).await
}

/// Connects a client with these capabilities.
async fn able(fake: &Arc<Fake>, capabilities: Value) -> Client {
    let mut client = Client::of(fake);
    client.shake_hands("2025-11-25", capabilities).await;
    client
}

async fn ask(client: &mut Client, method: &str, params: Value) -> Value {
    client.ask(json!(method), method, params).await
}

/// Begins a call as a task and returns its id.
async fn begin(client: &mut Client, tool: &str) -> String {
    let answer = ask(client, "tools/call", json!({"name": tool, "arguments": {}, "task": {"ttl": 5}})).await;
    let task = &answer["result"]["task"];
    assert_eq!(task["status"], "working", "{answer}");
    for (field, is_there) in [
        ("createdAt", task["createdAt"].is_string()),
        ("lastUpdatedAt", task["lastUpdatedAt"].is_string()),
        ("ttl", task["ttl"].is_u64()),
        ("pollInterval", task["pollInterval"].is_u64()),
    ] {
        assert!(is_there, "{field}: {answer}");
    }
    assert_eq!(answer["result"]["resultType"], Value::Null, "that is of the next revision: {answer}");
    task["taskId"].as_str().unwrap().to_owned()
}

async fn status(client: &mut Client, task: &str) -> Value {
    ask(client, "tasks/get", json!({"taskId": task})).await["result"]["status"].take()
}

#[tokio::test(start_paused = true)]
async fn what_can_be_a_task_is_said_to_clients_of_this_revision_alone() {
    for (revision, has_tasks) in [("2025-11-25", true), ("2025-06-18", false)] {
        let mut client = Client::of(&Fake::new());
        let answer = client.shake_hands(revision, json!({})).await;
        let expected = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        let said = &answer["result"]["capabilities"]["tasks"];
        assert_eq!(*said, if has_tasks { expected } else { Value::Null }, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "handfast", "{answer}");
        let list = ask(&mut client, "tools/list", json!({})).await;
        let support = |name: &str| {
            let tools = list["result"]["tools"].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).unwrap()["execution"]["taskSupport"].clone()
        };
        let long = if has_tasks { json!("optional") } else { Value::Null };
        assert_eq!((support("wait"), support("record")), (long, Value::Null), "{list}");
        if has_tasks {
            continue;
        }
        for method in ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"] {
            let answer = ask(&mut client, method, json!({"taskId": "a"})).await;
            assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
        }
        let call = ask(&mut client, "tools/call", json!({"name": "fail", "task": {}})).await;
        assert_eq!(call["result"]["isError"], true, "a call like any other: {call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_waited_for_and_its_result_is_that_of_the_call() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let task = begin(&mut client, "gate").await;
    assert_eq!(status(&mut client, &task).await, "working");
    client
        .send(json!({"jsonrpc": "2.0", "id": 7, "method": "tasks/result", "params": {"taskId": task}}))
        .await;
    // All other requests are answered meanwhile.
    assert_eq!(status(&mut client, &task).await, "working");
    fake.gate.notify_one();
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["structuredContent"]),
        (&json!(7), &json!({"passed": true}))
    );
    assert_eq!(answer["result"]["_meta"][RELATED], json!({"taskId": task}));
    assert_eq!(status(&mut client, &task).await, "completed");
    let again = ask(&mut client, "tasks/result", json!({"taskId": task})).await;
    assert_eq!(again["result"], answer["result"]);

    let failed = begin(&mut client, "fail").await;
    settle().await;
    assert_eq!(status(&mut client, &failed).await, "failed");
    let task = ask(&mut client, "tasks/result", json!({"taskId": failed})).await;
    let mut call = ask(&mut client, "tools/call", json!({"name": "fail", "arguments": {}})).await;
    call["result"]["_meta"][RELATED] = json!({"taskId": failed});
    for answer in [&mut call, &mut task.clone()] {
        answer["result"]["_meta"]["handfast/meta"].take();
        assert_eq!(
            (&answer["result"]["isError"], &answer["result"]["content"]),
            (&json!(true), &task["result"]["content"])
        );
    }
    client.close().await.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_is_given_up_once_and_the_rest_end_with_the_connection() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let (task, _left) = (begin(&mut client, "wait").await, begin(&mut client, "wait").await);
    settle().await;
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 0);
    let cancelled = ask(&mut client, "tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(
        (&cancelled["result"]["status"], &cancelled["result"]["taskId"]),
        (&json!("cancelled"), &json!(task))
    );
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 1);
    let again = ask(&mut client, "tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(again["error"]["code"], -32602, "{again}");
    let result = ask(&mut client, "tasks/result", json!({"taskId": task})).await;
    assert_eq!(result["result"]["isError"], true, "{result}");
    client.close().await.1.unwrap();
    settle().await;
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_result_can_stop_waiting_and_the_task_goes_on() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let task = begin(&mut client, "gate").await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 7, "method": "tasks/result", "params": {"taskId": task}}))
        .await;
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}))
        .await;
    assert_eq!(status(&mut client, &task).await, "working");
    fake.gate.notify_one();
    settle().await;
    assert_eq!(status(&mut client, &task).await, "completed");
    // Request 7 was cancelled, so the connection ends at once.
    assert_eq!(client.close().await.0, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_by_pages_to_their_own_client_alone_and_bounded_in_number() {
    let fake = Fake::new();
    let (mut client, mut other) = (client(&fake).await, client(&fake).await);
    let mut begun = Vec::new();
    for _ in 0..256 {
        begun.push(begin(&mut client, "wait").await);
    }
    let more = ask(&mut client, "tools/call", json!({"name": "wait", "task": {}})).await;
    assert_eq!(more["error"]["code"], -32600, "{more}");
    let (mut listed, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..3 {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let mut page = ask(&mut client, "tasks/list", params).await;
        listed.extend(
            page["result"]["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["taskId"].as_str().unwrap().to_owned()),
        );
        cursor = page["result"]["nextCursor"].take();
    }
    assert_eq!((listed, cursor), (begun.clone(), Value::Null));
    let bad = ask(&mut client, "tasks/list", json!({"cursor": "1"})).await;
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    assert_eq!(ask(&mut other, "tasks/list", json!({})).await["result"]["tasks"], json!([]));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for task in [json!(begun[0]), json!(""), json!(7), Value::Null] {
            let answer = ask(&mut other, method, json!({"taskId": task})).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {task}: {answer}");
            assert!(!answer.to_string().contains(&begun[0]), "{answer}");
        }
    }
    // Expired tasks are dropped, so there is room again.
    tokio::time::advance(std::time::Duration::from_hours(3)).await;
    let gone = ask(&mut client, "tasks/get", json!({"taskId": begun[0]})).await;
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    begin(&mut client, "wait").await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_a_task_is_refused_as_one() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    for (call, code) in [
        (json!({"name": "record", "task": {}}), -32601),
        (json!({"name": "nothing", "task": {}}), -32602),
        (json!({"name": "wait", "task": "yes"}), -32602),
    ] {
        let answer = ask(&mut client, "tools/call", call.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{call}: {answer}");
    }
    assert_eq!(fake.waiting.load(Ordering::SeqCst), 0);
}

/// Waits for the result of a task, as request 7, and returns the question that arrives meanwhile.
async fn asked(client: &mut Client, task: &str) -> Value {
    client
        .send(json!({"jsonrpc": "2.0", "id": 7, "method": "tasks/result", "params": {"taskId": task}}))
        .await;
    let question = client.next().await;
    assert_eq!(
        (&question["method"], &question["params"]["_meta"][RELATED]),
        (&json!("elicitation/create"), &json!({"taskId": task})),
        "{question}"
    );
    question
}

fn allow(question: &Value) -> Value {
    let result = json!({"action": "accept", "content": {"decision": "allow once"}});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

#[tokio::test(start_paused = true)]
async fn a_question_is_put_to_who_waits_for_the_result() {
    let fake = Fake::new();
    let mut client = able(&fake, json!({"elicitation": {}})).await;
    let task = begin(&mut client, "ask").await;
    settle().await;
    // No question is sent before the client waits for the task's result.
    let shown = ask(&mut client, "tasks/get", json!({"taskId": task})).await;
    assert_eq!(shown["result"]["status"], "input_required", "{shown}");
    assert!(shown["result"]["statusMessage"].as_str().unwrap().contains("tasks/result"), "{shown}");
    let question = asked(&mut client, &task).await;
    assert!(question["params"]["message"].as_str().unwrap().contains("? Asked because "), "{question}");
    assert_eq!(status(&mut client, &task).await, "input_required");
    client.send(allow(&question)).await;
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["structuredContent"]["allowed"]),
        (&json!(7), &json!("once")),
        "{answer}"
    );
    assert_eq!(answer["result"]["structuredContent"]["by"], "the user of tester 9", "{answer}");
    let ended = ask(&mut client, "tasks/get", json!({"taskId": task})).await;
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["statusMessage"], Value::Null, "{ended}");
    assert_eq!(client.close().await.0, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_hears_any_more_is_put_to_the_next_and_only_once_at_a_time() {
    let fake = Fake::new();
    let mut client = able(&fake, json!({"elicitation": {}})).await;
    let task = begin(&mut client, "ask").await;
    let first = asked(&mut client, &task).await;
    // A second request waits as well, and gets no question while the first one waits.
    client
        .send(json!({"jsonrpc": "2.0", "id": 8, "method": "tasks/result", "params": {"taskId": task}}))
        .await;
    assert_eq!(status(&mut client, &task).await, "input_required");
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}))
        .await;
    let (one, other) = (client.next().await, client.next().await);
    let (taken_back, second) = if one["params"]["requestId"].is_null() { (other, one) } else { (one, other) };
    assert_eq!(taken_back["params"]["requestId"], first["id"], "{taken_back}");
    assert_eq!(second["params"]["_meta"][RELATED], json!({"taskId": task}), "{second}");
    // An answer to a withdrawn question has no effect.
    client.send(allow(&first)).await;
    assert_eq!(status(&mut client, &task).await, "input_required");
    client.send(allow(&second)).await;
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["structuredContent"]["allowed"]),
        (&json!(8), &json!("once")),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_where_nobody_answers_or_can_be_asked_and_where_it_is_given_up() {
    let fake = Fake::new();
    for (capabilities, hint) in
        [(json!({"elicitation": {}}), "did not answer within"), (json!({}), "does not support forms")]
    {
        let mut client = able(&fake, capabilities).await;
        let task = begin(&mut client, "ask").await;
        let result = ask(&mut client, "tasks/result", json!({"taskId": task})).await;
        let (result, taken_back) = if result["method"].is_null() {
            (result, Value::Null)
        } else {
            let taken_back = client.next().await;
            (client.next().await, taken_back)
        };
        let error = &result["result"]["_meta"]["handfast/error"];
        assert_eq!(error["code"], "EAPPROVAL", "{result}");
        assert!(result["result"]["content"][0]["text"].as_str().unwrap().contains(hint), "{result}");
        assert_eq!(taken_back.is_null(), hint.contains("forms"), "{taken_back}");
        assert_eq!(status(&mut client, &task).await, "failed");
    }
    let mut client = able(&fake, json!({"elicitation": {}})).await;
    let task = begin(&mut client, "ask").await;
    let question = asked(&mut client, &task).await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/cancel", "params": {"taskId": task}}))
        .await;
    let mut said = Vec::new();
    for _ in 0..3 {
        said.push(client.next().await);
    }
    let of = |id: Value| said.iter().find(|message| message["id"] == id).unwrap();
    assert_eq!(of(json!(9))["result"]["status"], "cancelled", "{said:?}");
    assert_eq!(of(json!(7))["result"]["isError"], true, "{said:?}");
    assert!(said.iter().any(|message| message["params"]["requestId"] == question["id"]), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn over_http_a_question_comes_on_the_stream_of_who_waits() {
    let fake = Fake::new();
    let endpoint = apart::endpoint(&fake);
    let session = apart::open(&endpoint, json!({"elicitation": {}})).await;
    let here = apart::within(&session);
    let call = apart::request(2, "tools/call", json!({"name": "ask", "arguments": {}, "task": {}}));
    let begun = apart::only(apart::answers(&endpoint, &here, &call).await).await;
    let task = begun["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let wait = apart::request(3, "tasks/result", json!({"taskId": task}));
    // A client that disconnects for good is not asked again.
    let mut gone = apart::answers(&endpoint, &here, &wait).await;
    assert_eq!(apart::said(&gone.next().await.unwrap())["method"], "elicitation/create");
    drop(gone);
    let mut waits = apart::answers(&endpoint, &here, &wait).await;
    let question = apart::said(&waits.next().await.unwrap());
    assert_eq!(question["params"]["_meta"][RELATED], json!({"taskId": task}), "{question}");
    let answered = endpoint.post(&here, allow(&question).to_string().as_bytes()).await;
    assert!(matches!(answered, PostOutcome::Accepted));
    let answer = apart::only(waits).await;
    assert_eq!(answer["result"]["structuredContent"]["allowed"], "once", "{answer}");
}
