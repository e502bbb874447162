//! Tests of long calls as tasks.

use serde_json::{Value, json};

use crate::fake::{Client, Fake, modern_meta, settle};

fn takes_tasks() -> Value {
    modern_meta(&json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

async fn ask(client: &mut Client, method: &str, mut params: Value) -> Value {
    params["_meta"] = takes_tasks();
    client.ask(json!(method), method, params).await
}

/// Calls a tool that does not end, and returns the id of its task.
async fn begin(client: &mut Client, tool: &str) -> String {
    let answer = ask(client, "tools/call", json!({"name": tool})).await;
    assert_eq!(
        (&answer["result"]["resultType"], &answer["result"]["status"]),
        (&json!("task"), &json!("working"))
    );
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_long_is_a_task_that_ends_with_its_result() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let quick = ask(&mut client, "tools/call", json!({"name": "record"})).await;
    assert_eq!(quick["result"]["structuredContent"], json!({"echo": {}}), "what ends soon is answered");
    let task = begin(&mut client, "gate").await;
    let state = ask(&mut client, "tasks/get", json!({"taskId": task})).await;
    assert_eq!(state["result"]["status"], "working", "{state}");
    fake.gate.notify_one();
    settle().await;
    let state = ask(&mut client, "tasks/get", json!({"taskId": task})).await;
    assert_eq!(state["result"]["status"], "completed", "{state}");
    assert_eq!(state["result"]["result"]["structuredContent"], json!({"passed": true}));
    client.close().await.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_is_given_up_by_its_name_and_ends_with_its_connection() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let stopped = || fake.stopped.load(std::sync::atomic::Ordering::SeqCst);
    let task = begin(&mut client, "wait").await;
    let left = begin(&mut client, "wait").await;
    assert_eq!(stopped(), 0);
    let acknowledged = ask(&mut client, "tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(acknowledged["result"]["resultType"], "complete", "{acknowledged}");
    settle().await;
    assert_eq!(ask(&mut client, "tasks/get", json!({"taskId": task})).await["result"]["status"], "cancelled");
    assert_eq!(
        (stopped(), &ask(&mut client, "tasks/get", json!({"taskId": left})).await["result"]["status"]),
        (1, &json!("working"))
    );
    client.close().await.1.unwrap();
    settle().await;
    assert_eq!(stopped(), 2, "the connection is gone");
}

#[tokio::test(start_paused = true)]
async fn nobody_else_knows_a_task_and_who_takes_none_gets_none() {
    let fake = Fake::new();
    let (mut client, mut other) = (Client::of(&fake), Client::of(&fake));
    let task = begin(&mut client, "gate").await;
    for method in ["tasks/get", "tasks/cancel"] {
        for unknown in [json!(task), json!(""), json!("a"), json!(7), Value::Null] {
            let answer = ask(&mut other, method, json!({"taskId": unknown})).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {unknown}: {answer}");
            assert!(!answer.to_string().contains(&task), "{answer}");
        }
    }
    let update = json!({"taskId": task, "inputResponses": {"approval": {"action": "accept"}}});
    assert_eq!(ask(&mut other, "tasks/update", update).await["error"]["code"], -32602);
    let meta = modern_meta(&json!({}));
    let answer = client.ask(json!(1), "tasks/get", json!({"taskId": task, "_meta": meta})).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let meta = modern_meta(&json!({}));
    client.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "gate", "_meta": meta}})).await;
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    fake.gate.notify_waiters();
    assert_eq!(client.next().await["result"]["structuredContent"], json!({"passed": true}));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_when_it_is_a_task_goes_on_with_the_answer() {
    let meta = modern_meta(&json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let fake = Fake::new();
    for (answer, allowed) in [
        (json!({"action": "accept", "content": {"decision": "allow once"}}), json!("once")),
        (json!({"action": "decline"}), Value::Null),
    ] {
        let mut client = Client::of(&fake);
        let call = json!({"name": "ask", "arguments": {"after": 10}, "_meta": meta});
        let begun = client.ask(json!(1), "tools/call", call).await;
        let task = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        let named = json!({"taskId": task, "_meta": meta});
        let state = client.ask(json!(2), "tasks/get", named.clone()).await;
        assert_eq!(state["result"]["status"], "input_required", "{state}");
        let (key, asked) = state["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert!(asked["params"]["message"].as_str().unwrap().contains("? Asked because "), "{state}");
        let update = json!({"taskId": task, "inputResponses": {key: answer}, "_meta": meta});
        assert!(client.ask(json!(3), "tasks/update", update).await["error"].is_null());
        settle().await;
        let state = client.ask(json!(4), "tasks/get", named).await;
        assert_eq!(state["result"]["status"], "completed", "{state}");
        assert_eq!(state["result"]["result"]["structuredContent"]["allowed"], allowed, "{state}");
        assert_eq!(state["result"]["result"]["isError"], allowed.is_null(), "{state}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_2025_11_25_that_requests_a_task_gets_the_ordinary_answer() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let greeting = client.shake_hands("2025-11-25", json!({"tasks": {"list": {}, "cancel": {}}})).await;
    assert_eq!(greeting["result"]["capabilities"]["tasks"], Value::Null, "{greeting}");
    let list = client.ask(json!(1), "tools/list", json!({})).await;
    assert!(!list.to_string().contains("taskSupport"), "{list}");
    for task in [json!({"ttl": 60_000}), json!("yes")] {
        let call = json!({"name": "record", "arguments": {"a": 1}, "task": task});
        let answer = client.ask(json!(2), "tools/call", call).await;
        assert_eq!(answer["result"]["structuredContent"], json!({"echo": {"a": 1}}), "{answer}");
    }
    for method in ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"] {
        let answer = client.ask(json!(3), method, json!({"taskId": "a"})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}
