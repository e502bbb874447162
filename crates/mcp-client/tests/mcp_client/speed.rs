//! Figures of this machine. Nothing here depends on them.

use std::time::{Duration, Instant};

use mcp_client::cache::{CachedServer, ListingCache};
use mcp_client::definition::ToolDefinition;
use mcp_client::offer::offer_all;
use mcp_client::{Client, FirstContact, Limits, Offers, Options, Revision, ServerFacts};
use serde_json::json;

use crate::fake::{Seen, call, connect, options, says, start};

/// Returns the median of some durations.
fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort();
    durations[durations.len() / 2]
}

#[test]
fn a_cache_of_300_tools_of_20_servers_is_read_whole() {
    let mut cache = ListingCache::default();
    let mut offering = Duration::ZERO;
    for server in 0..20 {
        let tools = (0..15).map(|index| {
            let properties: serde_json::Map<_, _> = (0..8)
                .map(|field| {
                    (
                        format!("field_{field}"),
                        json!({"type": "string", "description": "A field. ".repeat(10)}),
                    )
                })
                .collect();
            let tool = json!({
                "name": format!("tool_{index}"), "description": "Does something useful. ".repeat(20),
                "inputSchema": {"type": "object", "properties": properties, "required": ["field_0"]},
            });
            serde_json::from_str(&tool.to_string()).unwrap()
        });
        let definitions: Vec<ToolDefinition> = tools.collect();
        let before = Instant::now();
        let (tools, refused) = offer_all(&definitions);
        offering += before.elapsed();
        assert_eq!((tools.len(), refused.len()), (15, 0));
        let facts = ServerFacts {
            revision: Revision::V20251125,
            name: "server".to_owned(),
            version: "1".to_owned(),
            offers: Offers { tools: true, ..Offers::default() },
            instructions: None,
        };
        let entry = CachedServer {
            config: "npx server".to_owned(),
            listed_at: 0,
            facts,
            tools,
            refused,
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            content_faults: Vec::new(),
        };
        cache.insert(&format!("server{server}"), entry);
    }
    let text = cache.text();
    let times = (0..20).map(|_| {
        let before = Instant::now();
        let loaded = ListingCache::load(&text);
        let taken = before.elapsed();
        assert_eq!(loaded.servers().map(|(_, server)| server.tools.len()).sum::<usize>(), 300);
        taken
    });
    println!("schemas of 300 tools brought into the subset, once after a list: {offering:?}");
    println!("300 tools of 20 servers, {} KiB: {:?}", text.len() / 1024, median(times.collect()));
}

#[tokio::test]
async fn a_call_over_streams_in_memory_costs_little() {
    let seen = Seen::default();
    let client = connect(&seen, |mut server| async move {
        while let Some(request) = server.next().await {
            server.answer(&request, says("ok")).await;
        }
    })
    .await;
    let mut times = Vec::new();
    for _ in 0..500 {
        let before = Instant::now();
        client.call_tool(call("t")).await.unwrap();
        times.push(before.elapsed());
    }
    println!("a call over streams in memory, with its scripted server: {:?}", median(times));
}

#[tokio::test]
async fn a_result_of_10_megabytes_is_read_whole() {
    let text = "0123456789abcde\n".repeat(640 * 1024);
    let result = says(&text);
    let seen = Seen::default();
    let (ours, theirs) = (text.len(), result);
    let streams = start(&seen, move |mut server| async move {
        server.handshake().await;
        while let Some(request) = server.next().await {
            server.answer(&request, theirs.clone()).await;
        }
    });
    let options = Options { limits: Limits::default(), ..options(&seen, FirstContact::Handshake) };
    let client = Client::over_streams(streams, options).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..3 {
        let before = Instant::now();
        let answer = client.call_tool(call("t")).await;
        times.push(before.elapsed());
        assert_eq!(crate::fake::text(&answer).len(), ours);
    }
    println!(
        "a result of {} MiB over streams in memory, with its scripted server: {:?}",
        ours >> 20,
        median(times)
    );
}
