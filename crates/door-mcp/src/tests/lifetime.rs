//! Tests of concurrency, progress, cancellation, memory and the end of a connection.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::fake::{Client, Fake, settle};

#[tokio::test(start_paused = true)]
async fn a_slow_call_does_not_block_a_quick_one() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    client.start(json!(1), "gate", json!({})).await;
    client.start(json!(2), "record", json!({})).await;
    assert_eq!(client.next().await["id"], 2);
    fake.gate.notify_one();
    assert_eq!(client.next().await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_stopped_and_gets_no_answer() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    client.start(json!("a"), "wait", json!({})).await;
    client.start(json!("b"), "wait", json!({})).await;
    settle().await;
    assert_eq!((fake.waiting.load(Ordering::SeqCst), fake.stopped.load(Ordering::SeqCst)), (2, 0));
    for id in ["a", "unknown"] {
        let params = json!({"requestId": id, "reason": "no longer needed"});
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
    }
    assert_eq!(client.ask(json!("c"), "ping", json!({})).await["id"], "c");
    settle().await;
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 1);
    assert_eq!(fake.outstanding(), 0, "what the unsent answer held is given back");
    let (rest, _) = client.close().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains(r#""id":"b""#) && rest[0].contains("ECANCELLED"), "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_input_stops_every_call_and_ends_the_server() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    for id in 0..3 {
        client.start(json!(id), "wait", json!({})).await;
    }
    settle().await;
    let (_, ended) = client.close().await;
    ended.unwrap();
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 3);
    assert_eq!(fake.shut_down.load(Ordering::SeqCst), 1);
    assert_eq!(fake.outstanding(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_before_the_end_of_the_input_are_answered() {
    let mut client = Client::of(&Fake::new());
    client.start(json!(1), "record", json!({})).await;
    client.start(json!(2), "text", json!({"size": 1_000_000})).await;
    let (rest, ended) = client.close().await;
    assert_eq!(rest.len(), 2, "{}", rest.len());
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_takes_its_calls_along() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    client.start(json!(1), "wait", json!({})).await;
    settle().await;
    client.vanish().await.unwrap();
    assert_eq!((fake.stopped.load(Ordering::SeqCst), fake.shut_down.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_only_its_reading_side_ends_the_server() {
    let fake = Fake::new();
    let (client, input) = tokio::io::duplex(1024);
    let (output, unread) = tokio::io::duplex(1024);
    let options = crate::Options::new("handfast", "1", tool::SessionId("s".to_owned()));
    let server = tokio::spawn(crate::serve::connect(fake.clone(), options, input, output));
    drop(unread);
    let mut client = client;
    tokio::io::AsyncWriteExt::write_all(
        &mut client,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\"}}\n\
          {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n",
    )
    .await
    .unwrap();
    server.await.unwrap().unwrap();
    assert_eq!((fake.stopped.load(Ordering::SeqCst), fake.shut_down.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_occupies_is_given_back_only_when_it_is_written() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    for id in 0..8 {
        client.start(json!(id), "text", json!({"size": 1_000_000})).await;
    }
    settle().await;
    assert_eq!(fake.outstanding(), 8, "the client reads nothing");
    for written in 1..=8 {
        client.next().await;
        settle().await;
        // The pipe has room for a small part of the next response.
        assert_eq!(fake.outstanding(), 8 - written);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pipelined_requests_are_each_answered_once() {
    let mut client = Client::of(&Fake::new());
    client.shake_hands("2025-11-25", json!({})).await;
    let requests: Vec<String> = (0..1000)
        .map(|id| {
            let params = json!({"name": "record", "arguments": {"id": id}});
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
        })
        .collect();
    client.raw(requests.join("\n")).await;
    let mut seen = vec![false; 1000];
    for _ in 0..1000 {
        let answer = client.next().await;
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["echo"]["id"], id);
        assert!(!std::mem::replace(&mut seen[id], true), "{id} was answered twice");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_goes_out_before_the_answer_and_only_where_it_was_asked_for() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let call = |token: Option<&str>| {
        let meta = token.map_or(json!({}), |token| json!({"progressToken": token}));
        json!({"name": "steps", "_meta": meta})
    };
    let mut line = client.ask(json!(1), "tools/call", call(Some("t"))).await;
    let mut progress = Vec::new();
    while line.get("id").is_none() {
        assert_eq!(line["params"]["progressToken"], "t");
        progress.push((line["params"]["progress"].take(), line["params"]["total"].take()));
        line = client.next().await;
    }
    assert_eq!(progress, [1.0, 2.0, 3.0].map(|step| (json!(step), json!(3))));
    assert_eq!(line["id"], 1);
    assert_eq!(client.ask(json!(2), "tools/call", call(None)).await["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_with_a_progress_token_says_that_it_runs() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let call = json!({"name": "gate", "_meta": {"progressToken": 7}});
    let first = client.ask(json!(1), "tools/call", call).await;
    assert_eq!(first["params"], json!({"progressToken": 7, "progress": 5.0, "message": "running for 5 s"}));
    assert_eq!(client.next().await["params"]["progress"], 10.0);
    fake.gate.notify_one();
    assert_eq!(client.next().await["id"], 1);
    let (rest, _) = client.close().await;
    assert_eq!(rest, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_handler_panics_is_answered_and_the_connection_goes_on() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    client.start(json!(1), "panic", json!({})).await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)), "{answer}");
    assert_eq!(client.ask(json!(2), "ping", json!({})).await["result"], json!({}));
    client.close().await.1.unwrap();
}
