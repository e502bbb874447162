//! Tests of independent messages, as over HTTP.

#![expect(clippy::needless_pass_by_value, reason = "values are made where they are handed in")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tool::SessionId;

use crate::answers::{Answers, PostOutcome};
use crate::endpoint::Sessions;
use crate::engine_server::EngineServer;
use crate::fake::{Fake, modern_meta, settle};
use crate::headers::{Headers, SingleHeader};
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::resumable_stream::StreamMessage;
use crate::server_backend::ServerBackend;

pub(super) const NONE: Headers<'static> = Headers {
    session: SingleHeader::Absent,
    version: SingleHeader::Absent,
    method: SingleHeader::Absent,
    name: SingleHeader::Absent,
    carrier: None,
};

pub(super) fn endpoint(fake: &Arc<Fake>) -> Sessions {
    let mut options = Options::new("handfast", "1.2.3", SessionId("s".to_owned()));
    options.catalogue = dialects::CatalogueKind::Full;
    let fake = fake.clone();
    let make = move |options: Arc<Options>, notices: &Arc<Notices>| {
        let server = EngineServer::new(fake.clone(), options, notices.clone())?;
        Ok::<Arc<dyn ServerBackend>, McpError>(Arc::new(server))
    };
    Sessions::new(Arc::new(make), options).unwrap()
}

pub(super) fn request(id: u32, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(tool: &str, arguments: Value) -> String {
    request(7, "tools/call", json!({"name": tool, "arguments": arguments}))
}

pub(super) async fn answers(endpoint: &Sessions, headers: &Headers<'_>, body: &str) -> Answers {
    match endpoint.post(headers, body.as_bytes()).await {
        PostOutcome::Answers(answers) => answers,
        PostOutcome::Accepted => panic!("{body} was only accepted"),
        PostOutcome::Refused(refused) => panic!("{body}: {}", String::from_utf8_lossy(&refused.text)),
    }
}

async fn refusal(endpoint: &Sessions, headers: &Headers<'_>, body: &str) -> (u16, i64) {
    match endpoint.post(headers, body.as_bytes()).await {
        PostOutcome::Refused(refused) => {
            let message: Value = serde_json::from_slice(&refused.text).unwrap();
            (refused.status, message["error"]["code"].as_i64().unwrap())
        }
        PostOutcome::Accepted => panic!("{body} was accepted"),
        PostOutcome::Answers(mut answers) => {
            let saying = answers.next().await.unwrap();
            let message = said(&saying);
            (saying.status, message["error"]["code"].as_i64().unwrap_or_default())
        }
    }
}

pub(super) fn said(saying: &StreamMessage) -> Value {
    serde_json::from_slice(&saying.text).unwrap()
}

/// Returns the response, which must be the first message.
pub(super) async fn only(mut answers: Answers) -> Value {
    let saying = answers.next().await.unwrap();
    assert!(saying.is_answer, "{}", said(&saying));
    said(&saying)
}

/// Opens a session of this revision and returns its id.
pub(super) async fn open(endpoint: &Sessions, capabilities: Value) -> String {
    let hello = request(
        1,
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "tester", "version": "9"}}),
    );
    let answers = answers(endpoint, &NONE, &hello).await;
    let name = answers.opened.clone().unwrap();
    assert_eq!(only(answers).await["result"]["protocolVersion"], "2025-11-25");
    name
}

pub(super) fn within(session: &str) -> Headers<'_> {
    Headers { session: SingleHeader::Is(session), ..NONE }
}

pub(super) fn modern<'a>(method: &'a str, name: Option<&'a str>) -> Headers<'a> {
    Headers {
        session: SingleHeader::Absent,
        version: SingleHeader::Is("2026-07-28"),
        method: SingleHeader::Is(method),
        name: name.map_or(SingleHeader::Absent, SingleHeader::Is),
        carrier: None,
    }
}

fn modern_call(tool: &str, arguments: Value) -> String {
    let meta = modern_meta(&json!({"elicitation": {}}));
    request(7, "tools/call", json!({"_meta": meta, "name": tool, "arguments": arguments}))
}

#[tokio::test(start_paused = true)]
async fn a_session_is_opened_used_and_ended() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let here = within(&session);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert!(matches!(endpoint.post(&here, initialized.as_bytes()).await, PostOutcome::Accepted));
    let list = only(answers(&endpoint, &here, &request(2, "tools/list", json!({}))).await).await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 11);
    assert!(list["result"].get("resultType").is_none(), "an earlier revision: {list}");
    let record = only(answers(&endpoint, &here, &call("record", json!({"a": 1}))).await).await;
    assert_eq!((&record["id"], &record["result"]["structuredContent"]["echo"]["a"]), (&json!(7), &json!(1)));
    assert!(endpoint.end(&session).await);
    assert!(!endpoint.end(&session).await);
    assert_eq!(*fake.ended.lock(), ["s.1"], "what it left running is ended");
    assert_eq!(refusal(&endpoint, &here, &call("record", json!({}))).await, (404, -32600));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_for_a_day_ends_with_what_it_left_running() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let forgotten = open(&endpoint, json!({})).await;
    tokio::time::advance(Duration::from_hours(20)).await;
    let used = open(&endpoint, json!({})).await;
    assert!(fake.ended.lock().is_empty());
    tokio::time::advance(Duration::from_hours(5)).await;
    open(&endpoint, json!({})).await;
    assert_eq!(*fake.ended.lock(), ["s.1"]);
    assert_eq!(refusal(&endpoint, &within(&forgotten), &call("record", json!({}))).await, (404, -32600));
    only(answers(&endpoint, &within(&used), &call("record", json!({"a": 1}))).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_session_is_refused_unless_it_opens_one_or_needs_none() {
    let endpoint = endpoint(&Fake::new());
    assert_eq!(refusal(&endpoint, &NONE, &call("record", json!({}))).await, (400, -32600));
    assert_eq!(refusal(&endpoint, &NONE, "{").await, (400, -32700));
    assert_eq!(refusal(&endpoint, &NONE, "[]").await, (400, -32600));
    let twice = Headers { session: SingleHeader::Several, ..NONE };
    assert_eq!(refusal(&endpoint, &twice, &call("record", json!({}))).await.0, 400);
    let unknown = Headers { version: SingleHeader::Is("1999-01-01"), ..NONE };
    let hello = request(
        1,
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(refusal(&endpoint, &unknown, &hello).await, (400, -32600));
}

#[tokio::test(start_paused = true)]
async fn a_message_of_too_many_values_is_answered_without_being_parsed() {
    let endpoint = endpoint(&Fake::new());
    let many = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"record","arguments":{{"a":[{}1]}}}}}}"#,
        "1,".repeat(1_100_000)
    );
    assert_eq!(refusal(&endpoint, &NONE, &many).await, (400, -32600));
    let session = open(&endpoint, json!({})).await;
    let answer = only(answers(&endpoint, &within(&session), &many).await).await;
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(7), &json!(true)),
        "{:.300}",
        answer.to_string()
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_of_2026_07_28_stands_for_itself() {
    let endpoint = endpoint(&Fake::new());
    let headers = modern("tools/call", Some("record"));
    let record = only(answers(&endpoint, &headers, &modern_call("record", json!({}))).await).await;
    assert_eq!(record["result"]["resultType"], "complete", "{record}");
    let encoded = modern("tools/call", Some("=?base64?cmVjb3Jk?="));
    only(answers(&endpoint, &encoded, &modern_call("record", json!({}))).await).await;
    let discover = request(1, "server/discover", json!({"_meta": modern_meta(&json!({}))}));
    let found = only(answers(&endpoint, &modern("server/discover", None), &discover).await).await;
    assert_eq!(found["result"]["supportedVersions"].as_array().unwrap().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn headers_that_do_not_say_what_the_body_says_are_refused() {
    let endpoint = endpoint(&Fake::new());
    let body = modern_call("record", json!({}));
    let right = modern("tools/call", Some("record"));
    for headers in [
        Headers { version: SingleHeader::Absent, ..right },
        Headers { version: SingleHeader::Is("2025-11-25"), ..right },
        Headers { method: SingleHeader::Absent, ..right },
        Headers { method: SingleHeader::Is("tools/list"), ..right },
        Headers { method: SingleHeader::Several, ..right },
        Headers { name: SingleHeader::Absent, ..right },
        Headers { name: SingleHeader::Is("file_read"), ..right },
        Headers { name: SingleHeader::Is("=?base64?!?="), ..right },
    ] {
        assert_eq!(refusal(&endpoint, &headers, &body).await, (400, -32020), "{headers:?}");
    }
    let bare = call("record", json!({}));
    assert_eq!(refusal(&endpoint, &right, &bare).await, (400, -32602), "the body does not say its revision");
    let list = |version: &str| {
        let mut meta = modern_meta(&json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!(version);
        request(1, "tools/list", json!({"_meta": meta}))
    };
    let unknown = Headers { version: SingleHeader::Is("2031-01-01"), ..modern("tools/list", None) };
    assert_eq!(refusal(&endpoint, &unknown, &list("2031-01-01")).await, (400, -32022));
    let method = request(1, "no/such", json!({"_meta": modern_meta(&json!({}))}));
    assert_eq!(refusal(&endpoint, &modern("no/such", None), &method).await, (404, -32601));
    let session = open(&endpoint, json!({})).await;
    assert_eq!(refusal(&endpoint, &within(&session), &request(1, "no/such", json!({}))).await, (200, -32601));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_ends_its_call_in_either_era() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let sessionless = modern("tools/call", Some("wait"));
    let old = answers(&endpoint, &within(&session), &call("wait", json!({}))).await;
    let new = answers(&endpoint, &sessionless, &modern_call("wait", json!({}))).await;
    settle().await;
    assert_eq!(fake.waiting.load(Ordering::SeqCst), 2);
    drop(old);
    settle().await;
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 1);
    drop(new);
    settle().await;
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 2);
    assert_eq!(fake.outstanding(), 0, "what an answer that nobody takes holds is given back");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_within_its_session_and_from_nowhere_else() {
    let fake = Fake::new();
    let endpoint = endpoint(&fake);
    let session = open(&endpoint, json!({})).await;
    let other = open(&endpoint, json!({})).await;
    let waiting = answers(&endpoint, &within(&session), &call("wait", json!({}))).await;
    let alone = modern("tools/call", Some("wait"));
    let apart = answers(&endpoint, &alone, &modern_call("wait", json!({}))).await;
    settle().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let cancel = cancel.to_string();
    for elsewhere in [within(&other), modern("notifications/cancelled", None)] {
        assert!(matches!(endpoint.post(&elsewhere, cancel.as_bytes()).await, PostOutcome::Accepted));
        settle().await;
        assert_eq!(fake.stopped.load(Ordering::SeqCst), 0, "{elsewhere:?}");
    }
    assert!(matches!(endpoint.post(&within(&session), cancel.as_bytes()).await, PostOutcome::Accepted));
    settle().await;
    assert_eq!(fake.stopped.load(Ordering::SeqCst), 1);
    drop((waiting, apart));
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_to_the_stream_of_its_call_and_its_answer_comes_by_itself() {
    let endpoint = endpoint(&Fake::new());
    let session = open(&endpoint, json!({"elicitation": {}})).await;
    let here = within(&session);
    let mut asking = answers(&endpoint, &here, &call("ask", json!({"path": "a"}))).await;
    let question = asking.next().await.unwrap();
    assert!(!question.is_answer);
    let question = said(&question);
    assert_eq!(question["method"], "elicitation/create");
    let yes = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"decision": "allow once"}}})
    .to_string();
    let other = open(&endpoint, json!({"elicitation": {}})).await;
    assert!(matches!(endpoint.post(&within(&other), yes.as_bytes()).await, PostOutcome::Accepted));
    settle().await;
    let apart = modern("x", None);
    assert_eq!(refusal(&endpoint, &apart, &yes).await, (400, -32600));
    assert!(matches!(endpoint.post(&here, yes.as_bytes()).await, PostOutcome::Accepted));
    assert_eq!(only(asking).await["result"]["structuredContent"]["allowed"], "once");
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_answer_on_the_same_stream() {
    let endpoint = endpoint(&Fake::new());
    let session = open(&endpoint, json!({})).await;
    let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": "t"}});
    let mut stream = answers(&endpoint, &within(&session), &request(3, "tools/call", params)).await;
    let mut said_before = Vec::new();
    loop {
        let saying = stream.next().await.unwrap();
        if saying.is_answer {
            break;
        }
        said_before.push(said(&saying)["params"]["progress"].clone());
    }
    assert_eq!(said_before, [json!(1.0), json!(2.0), json!(3.0)]);
    assert!(stream.next().await.is_none());
}
