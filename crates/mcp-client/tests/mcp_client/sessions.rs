//! The era of sessions, over streams.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::content::{Content, ResourceData};
use mcp_client::{
    Client, CloseReason, Era, FirstContact, Notice, ProgressReport, ProgressSink, Revision, ToolCall,
};
use parking_lot::Mutex;
use serde_json::{Map, json};

use crate::fake::{Seen, call, connect, options, says, start, text};

#[tokio::test(start_paused = true)]
async fn an_older_server_is_found_by_its_answer_or_its_silence() {
    for silent in [false, true] {
        let seen = Seen::default();
        let streams = start(&seen, move |mut server| async move {
            let probe = server.expect("server/discover").await;
            assert_eq!(probe["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            if !silent {
                let error = json!({"code": -32601, "message": "Method not found"});
                server.send(json!({"jsonrpc": "2.0", "id": probe["id"], "error": error})).await;
            }
            server.handshake().await;
            let ping = server.expect("ping").await;
            server.answer(&ping, json!({})).await;
        });
        let client = Client::over_streams(streams, options(&seen, FirstContact::Discover)).await.unwrap();
        client.ping().await.unwrap();
        assert_eq!(client.facts().revision, Revision::V20251125);
        assert_eq!((client.facts().name.as_str(), client.facts().offers.tools_change), ("fake", true));
        assert_eq!(client.facts().revision.era(), Era::Sessions);
    }
}

#[derive(Default)]
struct Reports(Mutex<Vec<ProgressReport>>);

impl ProgressSink for Reports {
    fn progress(&self, report: ProgressReport) {
        self.0.lock().push(report);
    }
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_its_own_call_as_long_as_it_grows() {
    let seen = Seen::default();
    let client = connect(&seen, |mut server| async move {
        let request = server.expect("tools/call").await;
        let token = request["params"]["_meta"]["progressToken"].clone();
        for (token, progress) in [(token.clone(), 1.0), (token.clone(), 0.5), (json!(77), 9.0), (token, 2.0)]
        {
            let params =
                json!({"progressToken": token, "progress": progress, "total": 2, "message": "half\nway"});
            server
                .send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                .await;
        }
        server.answer(&request, says("done")).await;
        server.until_closed().await;
    })
    .await;
    let reports = Arc::new(Reports::default());
    let answer = client.call_tool(ToolCall { progress: Some(reports.clone()), ..call("t") }).await;
    assert_eq!(text(&answer), "done");
    let report =
        |progress| ProgressReport { progress, total: Some(2.0), message: Some("half way".to_owned()) };
    assert_eq!(*reports.0.lock(), [report(1.0), report(2.0)]);
}

#[tokio::test(start_paused = true)]
async fn calls_run_side_by_side_and_get_their_own_answers() {
    let seen = Seen::default();
    let client = connect(&seen, |mut server| async move {
        let mut requests = Vec::new();
        for _ in 0..50 {
            requests.push(server.expect("tools/call").await);
        }
        for request in requests.iter().rev() {
            server.answer(request, says(request["params"]["name"].as_str().unwrap())).await;
        }
        server.until_closed().await;
    })
    .await;
    let names: Vec<String> = (0..50).map(|index| format!("t{index}")).collect();
    let client = Arc::new(client);
    let calls: Vec<_> = names
        .iter()
        .map(|name| {
            let (client, name) = (client.clone(), name.clone());
            tokio::spawn(async move { text(&client.call_tool(call(&name)).await) })
        })
        .collect();
    for (task, name) in calls.into_iter().zip(&names) {
        assert_eq!(&task.await.unwrap(), name);
    }
}

#[tokio::test(start_paused = true)]
async fn resources_prompts_completions_and_logs_are_read() {
    let seen = Seen::default();
    let client = connect(&seen, |mut server| async move {
        while let Some(request) = server.next().await {
            let result = match request["method"].as_str().unwrap_or_default() {
                "resources/list" => json!({"resources": [{"uri": "x:1", "name": "one", "size": 3}]}),
                "resources/templates/list" => json!({"resourceTemplates": [{"uriTemplate": "x:{id}", "name": "t"}]}),
                "resources/read" => json!({"contents": [{"uri": request["params"]["uri"], "text": "content"}]}),
                "prompts/list" => json!({"prompts": [{"name": "p", "arguments": [{"name": "a", "required": true}]}]}),
                "prompts/get" => {
                    let text = format!("say {}", request["params"]["arguments"]["a"].as_str().unwrap());
                    json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
                }
                "completion/complete" => json!({"completion": {"values": ["ab", "ac"], "hasMore": true}}),
                _ => json!({}),
            };
            if request["method"] == "logging/setLevel" {
                let params = json!({"level": "warning", "logger": "x", "data": {"disk": "full"}});
                server.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})).await;
            }
            if request["method"] == "resources/subscribe" {
                server.send(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x:1"}})).await;
            }
            server.answer(&request, result).await;
        }
    })
    .await;
    assert_eq!(client.list_resources().await.unwrap().entries[0].size, Some(3));
    assert_eq!(client.list_templates().await.unwrap().entries[0].uri_template, "x:{id}");
    let contents = client.read_resource("x:1").await.unwrap();
    assert_eq!(
        (contents[0].uri.as_str(), &contents[0].data),
        ("x:1", &ResourceData::Text("content".to_owned()))
    );
    assert!(client.list_prompts().await.unwrap().entries[0].arguments[0].required);
    let arguments: Map<_, _> = json!({"a": "hello"}).as_object().unwrap().clone();
    let messages = client.get_prompt("p", arguments).await.unwrap();
    assert_eq!(messages[0].content, Content::Text("say hello".to_owned()));
    let completion = client.complete(json!({"type": "ref/prompt", "name": "p"}), "a", "a").await.unwrap();
    assert_eq!((completion.values, completion.has_more), (vec!["ab".to_owned(), "ac".to_owned()], true));
    client.ping().await.unwrap();
    client.set_log_level("warning").await.unwrap();
    client.subscribe("x:1").await.unwrap();
    let expected = [
        Notice::Log { level: "warning".to_owned(), text: "{\"disk\":\"full\"}".to_owned() },
        Notice::ResourceUpdated { uri: "x:1".to_owned() },
    ];
    assert_eq!(seen.notices(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_by_itself_has_its_time_and_another_one_is_killed() {
    for obeys in [true, false] {
        let seen = Seen::default();
        let (told, hears) = tokio::sync::oneshot::channel();
        let client = connect(&seen, move |mut server| async move {
            server.until_closed().await;
            told.send(()).unwrap();
            if !obeys {
                std::future::pending::<()>().await;
            }
        })
        .await;
        let before = tokio::time::Instant::now();
        client.end(Duration::from_secs(2)).await;
        assert_eq!(before.elapsed() < Duration::from_secs(1), obeys);
        hears.await.unwrap();
        assert!(seen.is_killed());
        let reason = if obeys { CloseReason::ByServer } else { CloseReason::ByCaller };
        assert_eq!(seen.notices(), [Notice::Closed(reason)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_leaves_no_task_and_no_process() {
    let seen = Seen::default();
    let (told, hears) = tokio::sync::oneshot::channel();
    let client = connect(&seen, |mut server| async move {
        let ping = server.expect("ping").await;
        server.answer(&ping, json!({})).await;
        server.until_closed().await;
        told.send(server.send(json!({})).await).unwrap();
    })
    .await;
    client.ping().await.unwrap();
    drop(client);
    assert!(seen.is_killed());
    assert!(!hears.await.unwrap(), "nobody holds the output of the server any longer");
    assert_eq!(seen.notices(), [Notice::Closed(CloseReason::ByCaller)]);
}
