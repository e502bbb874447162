//! The stateless era, over streams.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{
    Abilities, Client, ClientError, FirstContact, Notice, Refusal, Revision, ServerRequests, ToolCall,
};
use serde_json::{Value, json};
use tool::BoxFuture;

use crate::fake::{Seen, Server, call, limits, options, says, start, text};

async fn connect<S>(seen: &Seen, script: impl FnOnce(Server) -> S + Send + 'static) -> Client
where
    S: Future<Output = ()> + Send + 'static,
{
    let streams = start(seen, |mut server| async move {
        server.discovery().await;
        script(server).await;
    });
    Client::over_streams(streams, options(seen, FirstContact::Discover)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_request_carries_the_revision_and_the_abilities() {
    let seen = Seen::able(Abilities { forms: true, ..Abilities::default() });
    let client = connect(&seen, |mut server| async move {
        let request = server.expect("tools/call").await;
        let meta = &request["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "tests");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({"elicitation": {}}));
        server
            .answer(&request, json!({"resultType": "complete", "content": [{"type": "text", "text": "ok"}]}))
            .await;
        server.until_closed().await;
    })
    .await;
    assert_eq!(client.facts().revision, Revision::V20260728);
    assert_eq!(client.facts().instructions.as_deref(), Some("Be careful."));
    assert_eq!(text(&client.call_tool(call("t")).await), "ok");
    assert!(matches!(client.ping().await, Err(ClientError::NotInRevision { revision: "2026-07-28", .. })));
}

fn needs(requests: &Value, state: &str) -> Value {
    json!({"resultType": "input_required", "inputRequests": requests, "requestState": state})
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_input_is_asked_again_with_it() {
    let seen = Seen::able(Abilities { forms: true, ..Abilities::default() });
    let client = connect(&seen, |mut server| async move {
        let first = server.expect("tools/call").await;
        let form = json!({"who": {"method": "elicitation/create", "params": {"message": "Who?"}}});
        server.answer(&first, needs(&form, "sealed")).await;
        let second = server.expect("tools/call").await;
        assert_ne!(first["id"], second["id"]);
        assert_eq!(second["params"]["requestState"], "sealed");
        let name = second["params"]["inputResponses"]["who"]["content"]["name"].clone();
        server.answer(&second, says(name.as_str().unwrap())).await;
        server.until_closed().await;
    })
    .await;
    assert_eq!(text(&client.call_tool(call("t")).await), "Ada");
    assert_eq!(seen.requests(), ["elicitation"]);
}

#[tokio::test(start_paused = true)]
async fn input_that_nobody_declared_fails_the_call() {
    let seen = Seen::default();
    let client = connect(&seen, |mut server| async move {
        let request = server.expect("tools/call").await;
        server.answer(&request, needs(&json!({"s": {"method": "sampling/createMessage"}}), "x")).await;
        let request = server.expect("tools/call").await;
        server.answer(&request, json!({"resultType": "task", "taskId": "1"})).await;
        server.until_closed().await;
    })
    .await;
    let error = client.call_tool(call("t")).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused { code: -32601, message, .. } if message.contains("sampling")),
        "{error}"
    );
    let error = client.call_tool(call("t")).await.unwrap_err();
    assert!(matches!(error, ClientError::InvalidAnswer { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rounds_and_requests_for_input_have_bounds() {
    let seen = Seen::able(Abilities { forms: true, ..Abilities::default() });
    let client = connect(&seen, |mut server| async move {
        for _ in 0..=limits().rounds {
            let request = server.expect("tools/call").await;
            server.answer(&request, json!({"resultType": "input_required", "requestState": "again"})).await;
        }
        let request = server.expect("tools/call").await;
        let many: serde_json::Map<String, Value> =
            (0..1_000).map(|index| (index.to_string(), json!({"method": "elicitation/create"}))).collect();
        server.answer(&request, needs(&Value::Object(many), "x")).await;
        let request = server.expect("tools/call").await;
        server.answer(&request, needs(&json!({}), &"x".repeat(100_000))).await;
        let request = server.expect("tools/call").await;
        server.answer(&request, json!({"resultType": "input_required"})).await;
        server.until_closed().await;
    })
    .await;
    let error = client.call_tool(call("t")).await.unwrap_err();
    assert_eq!(
        error,
        ClientError::TooManyRounds { method: "tools/call".to_owned(), rounds: limits().rounds }
    );
    for unit in ["requests of the server", "bytes of state"] {
        let error = client.call_tool(call("t")).await.unwrap_err();
        assert!(matches!(error, ClientError::TooMuch { unit: found, .. } if found == unit), "{error}");
    }
    assert!(matches!(client.call_tool(call("t")).await, Err(ClientError::InvalidAnswer { .. })));
    assert_eq!(seen.requests(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn notices_come_on_a_stream_that_is_opened_again() {
    let seen = Seen::default();
    let (told, hears) = tokio::sync::oneshot::channel();
    let client = connect(&seen, |mut server| async move {
        for _ in 0..2 {
            let listen = server.expect("subscriptions/listen").await;
            assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged": true}));
            server
                .send(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}))
                .await;
            server.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
            server.answer(&listen, json!({"resultType": "complete"})).await;
        }
        told.send(()).unwrap();
        server.until_closed().await;
    })
    .await;
    hears.await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(seen.notices(), [Notice::ToolsChanged, Notice::ToolsChanged]);
    assert_eq!(client.server_use().running, 0, "the stream is no call");
}

#[tokio::test(start_paused = true)]
async fn servers_of_unknown_revisions_are_named() {
    for (answer, expected) in [
        (json!({"result": {"supportedVersions": ["2030-01-01"], "capabilities": {}}}), "[\"2030-01-01\"]"),
        (
            json!({"error": {"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"]}}}),
            "[\"2031-01-01\"]",
        ),
    ] {
        let seen = Seen::default();
        let streams = start(&seen, |mut server| async move {
            let request = server.expect("server/discover").await;
            let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
            message.as_object_mut().unwrap().append(answer.clone().as_object_mut().unwrap());
            server.send(message).await;
            server.until_closed().await;
        });
        let error =
            Client::over_streams(streams, options(&seen, FirstContact::Discover)).await.err().unwrap();
        assert_eq!(error, ClientError::NoCommonRevision { offered: expected.to_owned() });
    }
    let seen = Seen::default();
    let streams = start(&seen, |mut server| async move {
        let request = server.expect("server/discover").await;
        server.answer(&request, json!({"supportedVersions": ["2025-11-25", "2025-06-18"]})).await;
        server.handshake().await;
        server.until_closed().await;
    });
    let client = Client::over_streams(streams, options(&seen, FirstContact::Discover)).await.unwrap();
    assert_eq!(client.facts().revision, Revision::V20251125);
}

#[tokio::test(start_paused = true)]
async fn all_rounds_together_have_the_time_of_the_call() {
    let seen = Seen::default();
    let client = connect(&seen, |mut server| async move {
        while let Some(request) = server.next().await {
            tokio::time::timeout(Duration::from_secs(4), std::future::pending::<()>()).await.unwrap_err();
            server.answer(&request, json!({"resultType": "input_required", "requestState": "more"})).await;
        }
    })
    .await;
    let before = tokio::time::Instant::now();
    let limited = ToolCall { timeout: Some(Duration::from_secs(10)), ..call("t") };
    let error = client.call_tool(limited).await.unwrap_err();
    assert_eq!(
        error,
        ClientError::Timeout { method: "tools/call".to_owned(), after: Duration::from_secs(10) }
    );
    assert_eq!(before.elapsed(), Duration::from_secs(10));
}

/// User of one call, who gives a name.
struct Named(&'static str);

impl ServerRequests for Named {
    fn abilities(&self) -> Abilities {
        Abilities { forms: true, ..Abilities::default() }
    }

    fn elicit(&self, _: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(std::future::ready(Ok(json!({"action": "accept", "content": {"name": self.0}}))))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_result_asks_for_is_answered_by_its_own_call() {
    let seen = Seen::able(Abilities { forms: true, ..Abilities::default() });
    let client = connect(&seen, |mut server| async move {
        let form = json!({"who": {"method": "elicitation/create", "params": {"message": "Who?"}}});
        for _ in 0..2 {
            let request = server.expect("tools/call").await;
            let state = request["params"]["name"].clone();
            server.answer(&request, needs(&form, state.as_str().unwrap())).await;
        }
        for _ in 0..2 {
            let again = server.expect("tools/call").await;
            let name = again["params"]["inputResponses"]["who"]["content"]["name"].as_str().unwrap();
            let state = again["params"]["requestState"].as_str().unwrap();
            server.answer(&again, says(&format!("{state} {name}"))).await;
        }
        server.until_closed().await;
    })
    .await;
    let of = |tool: &'static str, name: &'static str| {
        client.call_tool(ToolCall { requests: Some(Arc::new(Named(name))), ..call(tool) })
    };
    let (one, two) = tokio::join!(of("one", "Ann"), of("two", "Bob"));
    assert_eq!((text(&one), text(&two)), ("one Ann".to_owned(), "two Bob".to_owned()));
    assert!(seen.requests().is_empty(), "nobody else was asked: {:?}", seen.requests());
}
