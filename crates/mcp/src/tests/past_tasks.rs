//! Long calls as tasks, as the revision of 2025-11-25 has them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::fake::{Client, Fake, settle};

const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn client(fake: &Arc<Fake>) -> Client {
    let mut client = Client::of(fake);
    client.shake_hands("2025-11-25", json!({})).await;
    client
}

async fn ask(client: &mut Client, method: &str, params: Value) -> Value {
    client.ask(json!(method), method, params).await
}

/// Begins a call as a task: its name.
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
    // Meanwhile everything else is answered.
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
    // Nobody waits for the answer to 7, so the connection ends at once.
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
    // What was kept for long enough is forgotten, and there is room again.
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
