//! Tests of request ids and progress tokens, which are returned with their original spelling.

use std::sync::atomic::Ordering;

use serde_json::json;

use super::apart::{NONE, answers, endpoint, open, within};
use crate::answers::PostOutcome;
use crate::endpoint::Sessions;
use crate::fake::{Client, Fake, modern_meta, settle};

/// Ids as clients may write them. Several spell one number in different ways.
const IDS: [&str; 22] = [
    "0",
    "-0",
    "-1",
    "1.0",
    "1.50",
    "1e2",
    "1E+2",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "12345678901234567890123",
    "0.1000000000000000055511151231257827",
    "1e400",
    "-1e-400",
    "1e99999999999999999999",
    r#""""#,
    r#""18446744073709551616""#,
    r#""a/b\n""#,
    r#""ä\u0000\"""#,
    r#""😀""#,
    r#""{\"id\":1}""#,
];

/// Builds a message with this id at the end, like the official clients.
fn message(method: &str, params: &str, id: &str) -> String {
    format!(r#"{{"method":"{method}","params":{params},"jsonrpc":"2.0","id":{id}}}"#)
}

fn has(text: &str, field: &str, id: &str) -> bool {
    [",", "}"].iter().any(|end| text.contains(&format!(r#""{field}":{id}{end}"#)))
}

/// Returns requests for every kind of response, as (method, parameters, part of the response).
fn asked() -> [(&'static str, String, &'static str); 5] {
    let surrogate = r#"{"name":"record","arguments":{"x":"\ud800"}}"#.to_owned();
    let many = format!(r#"{{"name":"record","arguments":{{"x":[{}1]}}}}"#, "1,".repeat(1_000_001));
    [
        ("tools/call", r#"{"name":"record"}"#.to_owned(), r#""isError":false"#),
        ("tools/call", "[]".to_owned(), "-32602"),
        ("nothing/such", "{}".to_owned(), "-32601"),
        ("tools/call", surrogate, "surrogate"),
        ("tools/call", many, "more than"),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_id_comes_back_as_it_was_written() {
    let mut client = Client::of(&Fake::new());
    client.shake_hands("2025-11-25", json!({})).await;
    for id in IDS {
        for (method, params, part) in asked() {
            client.raw(message(method, &params, id)).await;
            let answer = client.line().await.unwrap();
            assert!(has(&answer, "id", id) && answer.contains(part), "{id} {method}: {answer:.300}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_id_comes_back_over_http() {
    let endpoint = endpoint(&Fake::new());
    let session = open(&endpoint, json!({})).await;
    for id in IDS {
        for (method, params, part) in asked() {
            let body = message(method, &params, id);
            let saying = answers(&endpoint, &within(&session), &body).await.next().await.unwrap();
            let answer = String::from_utf8(saying.text).unwrap();
            assert!(has(&answer, "id", id) && answer.contains(part), "{id} {method}: {answer:.300}");
        }
        // A message without a session is refused before it is processed.
        let PostOutcome::Refused(refused) = endpoint.post(&NONE, message("ping", "{}", id).as_bytes()).await
        else {
            panic!("{id} was taken without a session");
        };
        let answer = String::from_utf8(refused.text).unwrap();
        assert!(has(&answer, "id", id), "{id}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_cancelled_by_its_id_however_the_id_is_written() {
    let pairs = [
        ("18446744073709551616", "18446744073709551616"),
        ("1e400", "10.0E+399"),
        ("-0", "0.000e7"),
        ("100", "1.00e2"),
        ("1e99999999999999999999", "1e99999999999999999999"),
        (r#""\u0061""#, r#""a""#),
    ];
    let others = ["18446744073709551617", "1e401", r#""100""#, r#""-0""#, "null", "[100]", "-100", "0.1"];
    let fake = Fake::new();
    let mut client = Client::of(&fake);
    let cancel = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    };
    for (stopped, (id, cancelled)) in pairs.iter().enumerate() {
        client.raw(message("tools/call", r#"{"name":"wait"}"#, id)).await;
        settle().await;
        for other in others {
            client.raw(cancel(other)).await;
        }
        settle().await;
        assert_eq!(fake.stopped.load(Ordering::SeqCst), stopped, "{id} is cancelled by another id");
        client.raw(cancel(cancelled)).await;
        settle().await;
        assert_eq!(fake.stopped.load(Ordering::SeqCst), stopped + 1, "{id} by {cancelled}");
    }
    let (rest, _) = client.close().await;
    assert_eq!(rest, Vec::<String>::new(), "what was cancelled gets no answer");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_neither_a_string_nor_a_number_is_refused() {
    let mut client = Client::of(&Fake::new());
    let unusable = ["{}", r#"{"id":1}"#, "[1]", "[18446744073709551616]", "true", "false", "null"];
    for id in unusable {
        client.raw(message("ping", "{}", id)).await;
        let answer = client.line().await.unwrap();
        assert!(has(&answer, "id", "null") && answer.contains("-32600"), "{id}: {answer}");
    }
    // Texts that are not JSON.
    for id in ["01", "1.", "+1", ".5", "0x10", "NaN", "1e", r#""\ud800""#] {
        client.raw(message("ping", "{}", id)).await;
        let answer = client.line().await.unwrap();
        assert!(has(&answer, "id", "null") && answer.contains("-32700"), "{id}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_progress_token_comes_back_as_it_was_written() {
    let mut client = Client::of(&Fake::new());
    for token in IDS {
        let params = format!(r#"{{"_meta":{{"progressToken":{token}}},"name":"steps"}}"#);
        client.raw(message("tools/call", &params, "7")).await;
        for _ in 0..3 {
            let progress = client.line().await.unwrap();
            assert!(has(&progress, "progressToken", token), "{token}: {progress}");
        }
        assert!(has(&client.line().await.unwrap(), "id", "7"));
    }
    for unusable in ["null", "{}", "[1]", "true"] {
        let params = format!(r#"{{"_meta":{{"progressToken":{unusable}}},"name":"steps"}}"#);
        client.raw(message("tools/call", &params, "7")).await;
        assert!(has(&client.line().await.unwrap(), "id", "7"), "{unusable} asks for progress");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_named_by_the_id_of_its_request() {
    let meta = modern_meta(&json!({}));
    let watched = crate::address::CHECKPOINTS;
    let params = format!(r#"{{"_meta":{meta},"notifications":{{"resourceSubscriptions":["{watched}"]}}}}"#);
    let change = message("tools/call", &format!(r#"{{"_meta":{meta},"name":"change"}}"#), "7");
    let key = "io.modelcontextprotocol/subscriptionId";
    for id in IDS {
        let mut client = Client::of(&Fake::new());
        client.raw(message("subscriptions/listen", &params, id)).await;
        let begun = client.line().await.unwrap();
        assert!(begun.contains("acknowledged") && has(&begun, key, id), "{id}: {begun}");
        client.raw(&change).await;
        let told = [client.line().await.unwrap(), client.line().await.unwrap()];
        let notice = told.iter().find(|line| line.contains("notifications/resources/updated")).unwrap();
        assert!(has(notice, key, id) && notice.contains(watched), "{id}: {notice}");
        let (rest, _) = client.close().await;
        let [end] = &rest[..] else { panic!("{id}: {rest:?}") };
        assert!(has(end, "id", id) && has(end, key, id) && end.contains("result"), "{id}: {end}");
    }
}

/// Tests that a client may respond to a question with another spelling of its number.
#[tokio::test(start_paused = true)]
async fn an_answer_to_a_question_has_the_number_of_the_question_in_any_spelling() {
    let fake = Fake::new();
    let endpoint: Sessions = endpoint(&fake);
    let session = open(&endpoint, json!({"elicitation": {}})).await;
    for spelling in [".0", "e0", ".00E-0"] {
        let call = message("tools/call", r#"{"name":"ask"}"#, "1e400");
        let mut asking = answers(&endpoint, &within(&session), &call).await;
        let question = asking.next().await.unwrap();
        let question: serde_json::Value = serde_json::from_slice(&question.text).unwrap();
        let result = json!({"action": "accept", "content": {"decision": "allow once"}});
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{}{spelling},"result":{result}}}"#, question["id"]);
        assert!(matches!(endpoint.post(&within(&session), answer.as_bytes()).await, PostOutcome::Accepted));
        let answered = String::from_utf8(asking.next().await.unwrap().text).unwrap();
        assert!(has(&answered, "id", "1e400") && answered.contains(r#""allowed":"once""#), "{answered}");
    }
}
