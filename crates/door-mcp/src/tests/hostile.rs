//! Tests of messages that no client should send.

use serde_json::{Value, json};

use crate::fake::{Client, Fake, modern_meta};

/// Checks that the connection still works.
async fn still_answers(client: &mut Client) {
    assert_eq!(client.ask(json!("still"), "ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn every_unreadable_line_is_answered_and_the_connection_goes_on() {
    let mut client = Client::of(&Fake::new());
    for (line, code) in [
        (&b"{"[..], -32700),
        (b"{\"a\":\"\xff\"}", -32700),
        (b"\0\0", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", -32700),
        (b"[]", -32600),
        (b"\"ping\"", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
    ] {
        client.raw(line).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{answer}");
        still_answers(&mut client).await;
    }
    for ignored in ["", "\r", "  \t"] {
        client.raw(ignored).await;
        still_answers(&mut client).await;
    }
    client.raw("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\r").await;
    assert_eq!(client.next().await["id"], 9);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_text_that_is_none_is_answered_under_its_own_id() {
    let mut client = Client::of(&Fake::new());
    let deep = [&b"["[..]; 200].concat();
    for (text, hint) in [
        (&br#""\ud800""#[..], "surrogate"),
        (b"\"\xff\"", "in UTF-8"),
        (b"\"a\tb\"", "RFC 8259"),
        (b"1e999", "RFC 8259"),
        (b"NaN", "NaN"),
        (&[&deep, &b"]".repeat(200)[..]].concat(), "at most 127"),
    ] {
        let message = |method: &[u8], params: &[u8]| {
            [br#"{"method":""#, method, br#"","params":{"#, params, text, br#"},"jsonrpc":"2.0","id":5}"#]
                .concat()
        };
        client.raw(message(b"tools/call", br#""name":"record","arguments":"#)).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(5), &json!(true)), "{answer}");
        assert_eq!(answer["result"]["_meta"]["handfast/error"]["code"], "EVALIDATION");
        let recorded = &answer["result"]["_meta"]["handfast/meta"]["call_id"];
        assert_eq!(recorded, "refused record", "the engine records it");
        let shown = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(shown.split_once("Hint: ").unwrap().1.contains(hint), "{shown}");
        client.raw(message(b"ping", br#""x":"#)).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32700)), "{answer}");
        still_answers(&mut client).await;
    }
    // The id of a response is that of a server request, so it is not used in an error.
    client.raw(br#"{"jsonrpc":"2.0","id":5,"result":{"x":"\ud800"}}"#).await;
    assert_eq!(client.next().await["id"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn two_requests_with_one_id_get_an_answer_each() {
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    client.shake_hands("2025-11-25", json!({})).await;
    client.start(json!(1), "gate", json!({})).await;
    client.start(json!(1), "record", json!({})).await;
    assert!(client.next().await["result"]["structuredContent"].get("echo").is_some());
    fake.gate.notify_one();
    assert_eq!(client.next().await["result"]["structuredContent"]["passed"], true);
    assert_eq!(fake.outstanding(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_beyond_the_limit_is_an_error_that_names_it_and_one_at_the_limit_works() {
    let fake = Fake::new();
    let limit = 10_000;
    let call = |size: usize| {
        // The form of the official clients, with the id at the end.
        let line = |content: &str| {
            format!(
                r#"{{"method":"tools/call","params":{{"name":"record","arguments":{{"content":"{content}"}}}},"jsonrpc":"2.0","id":5}}"#
            )
        };
        line(&"x".repeat(size - line("").len()))
    };
    let mut client = Client::with(&fake, |options| options.message_limit = limit);
    client.raw(call(limit)).await;
    assert_eq!(client.next().await["result"]["isError"], false);
    for size in [limit + 1, 50 * limit] {
        client.raw(call(size)).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(5), &json!(true)), "{answer}");
        let error = &answer["result"]["_meta"]["handfast/error"];
        assert_eq!(error["code"], "EVALIDATION");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("EVALIDATION: the message is longer than 10000 bytes"), "{text}");
        assert_eq!(
            answer["result"]["_meta"]["handfast/meta"]["call_id"], "refused record",
            "the engine records it"
        );
        assert!(answer["result"].get("resultType").is_none());
    }
    still_answers(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_beyond_the_limit_that_is_no_call_is_a_protocol_error() {
    let mut client = Client::with(&Fake::new(), |options| options.message_limit = 1000);
    let long = "x".repeat(100_000);
    for (line, id) in [
        (json!({"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"x": long}}).to_string(), json!(3)),
        (
            json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": long}}).to_string(),
            Value::Null,
        ),
        (long.clone(), Value::Null),
    ] {
        client.raw(line).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32600)), "{answer}");
        still_answers(&mut client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_refused_in_its_own_shape() {
    let mut client = Client::with(&Fake::new(), |options| options.message_limit = 1000);
    client.ask(json!(1), "tools/list", json!({"_meta": modern_meta(&json!({}))})).await;
    client.start(json!(2), "record", json!({"content": "x".repeat(5000)})).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(answer["result"]["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_too_many_values_is_not_parsed() {
    let mut client = Client::of(&Fake::new());
    let call = |values: usize| {
        let list = vec!["1"; values].join(",");
        format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{{"name":"wait_not","arguments":{{"list":[{list}]}}}}}}"#
        )
    };
    client.raw(call(1_100_000)).await;
    let answer = client.next().await;
    assert!(
        answer["result"]["content"][0]["text"].as_str().unwrap().contains("1000000 JSON values"),
        "{answer}"
    );
    client.raw(call(900_000)).await;
    assert_eq!(client.next().await["error"]["code"], -32602, "it was parsed, and there is no such tool");
}

#[tokio::test(start_paused = true)]
async fn a_text_of_many_commas_is_not_taken_for_many_values() {
    let mut client = Client::of(&Fake::new());
    client.shake_hands("2025-11-25", json!({})).await;
    client.start(json!(1), "record", json!({"content": ",".repeat(5_000_000)})).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["structuredContent"]["echo"]["content"].as_str().unwrap().len(), 5_000_000);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_no_object_are_a_result_that_says_so() {
    let mut client = Client::of(&Fake::new());
    client.shake_hands("2025-11-25", json!({})).await;
    client.start(json!(1), "record", json!(["a"])).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["_meta"]["handfast/error"]["code"], "EVALIDATION");
    assert_eq!(answer["result"]["content"][0]["text"], "EVALIDATION: `arguments`: must be an object");
    client.start(json!(2), "record", Value::Null).await;
    assert_eq!(client.next().await["result"]["structuredContent"], json!({"echo": {}}));
}

#[tokio::test(start_paused = true)]
async fn known_methods_with_wrong_parameters_are_told_apart_from_unknown_ones() {
    let mut client = Client::of(&Fake::new());
    for (method, params, code) in [
        ("initialize", json!({}), -32602),
        ("initialize", json!({"protocolVersion": 7, "capabilities": {}, "clientInfo": {}}), -32602),
        ("tools/list", json!([]), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/cal", json!({}), -32601),
        ("sampling/createMessage", json!({}), -32601),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
        ("logging/setLevel", json!({}), -32602),
        ("resources/read", json!({"uri": "file:///etc/passwd"}), -32002),
        ("resources/read", json!({"uri": ["handfast://calls"]}), -32602),
        ("resources/templates/list", json!({"cursor": "AAAA"}), -32602),
        ("prompts/get", json!({"name": "a"}), -32602),
        ("completion/complete", json!({"ref": {"type": "ref/prompt"}}), -32602),
        ("subscriptions/listen", json!({"notifications": {}}), -32601),
        ("tasks/get", json!({"taskId": "a"}), -32601),
        ("tools/list", json!({"cursor": 7}), -32602),
        ("tools/list", json!({"cursor": ""}), -32602),
    ] {
        let answer = client.ask(json!(1), method, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_to_questions_that_were_never_asked_change_nothing() {
    let mut client = Client::of(&Fake::new());
    for line in [
        json!({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {"decision": "allow once"}}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}}),
        json!({"jsonrpc": "2.0", "id": null, "result": {}}),
    ] {
        client.send(line).await;
        still_answers(&mut client).await;
    }
}
