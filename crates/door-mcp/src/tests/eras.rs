//! Transcripts of both forms of the protocol.

use serde_json::{Value, json};

use crate::fake::{Client, Fake, modern_meta};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test(start_paused = true)]
async fn a_client_of_2025_11_25_shakes_hands_lists_and_calls() {
    let mut client = Client::of(&Fake::new());
    insta::assert_snapshot!(client.shake_hands("2025-11-25", json!({})).await, @r#"{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"handfast","title":"Handfast","version":"1.2.3"}}}"#);
    insta::assert_snapshot!(client.ask(json!(1), "ping", json!({})).await, @r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let list = client.ask(json!(2), "tools/list", json!({})).await;
    assert_eq!(list["result"].as_object().unwrap().len(), 1, "{list}");
    insta::assert_snapshot!(list["result"]["tools"][0], @r#"{"name":"text","title":"A tool","description":"Does something.\nExample: {\"path\":\"a.txt\"}","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where."}},"additionalProperties":true},"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}"#);
    insta::assert_snapshot!(list["result"]["tools"][1]["outputSchema"], @r#"{"type":"object","properties":{"path":{"type":"string","description":"Where."}},"additionalProperties":true}"#);
    let call = |name, arguments| json!({"name": name, "arguments": arguments});
    insta::assert_snapshot!(client.ask(json!(3), "tools/call", call("record", json!({"a": [1, null]}))).await, @r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"{\"echo\":{\"a\":[1,null]}}"}],"structuredContent":{"echo":{"a":[1,null]}},"isError":false,"_meta":{"handfast/meta":{"call_id":"c1","duration_ms":0}}}}"#);
    insta::assert_snapshot!(client.ask(json!(4), "tools/call", call("text", json!({}))).await, @r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"[about {\"path\":\"a.txt\",\"size\":5}]\nxxxxx"}],"isError":false,"_meta":{"handfast/meta":{"call_id":"c2","duration_ms":0}}}}"#);
    insta::assert_snapshot!(client.ask(json!(5), "tools/call", call("fail", json!({}))).await, @r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"ETIMEOUT: it took too long\nHint: ask for less"},{"type":"text","text":"{\"stdout\":\"half\"}"}],"isError":true,"_meta":{"handfast/error":{"code":"ETIMEOUT","effect":"none","retry":"never"},"handfast/meta":{"call_id":"c3","duration_ms":0}}}}"#);
    insta::assert_snapshot!(client.ask(json!(6), "tools/call", call("recrod", json!({}))).await, @r#"{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"there is no tool named `recrod`; did you mean `record`?"}}"#);
    insta::assert_snapshot!(client.ask(json!(7), "no/such", json!({})).await, @r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"unknown method no/such"}}"#);
    let (rest, ended) = client.close().await;
    assert_eq!(rest, Vec::<String>::new());
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_of_2026_07_28_needs_no_handshake() {
    let mut client = Client::of(&Fake::new());
    let meta = || modern_meta(&json!({}));
    insta::assert_snapshot!(client.ask(json!(1), "server/discover", json!({"_meta": meta()})).await, @r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"handfast","title":"Handfast","version":"1.2.3"}}}}"#);
    let mut list = client.ask(json!(2), "tools/list", json!({"_meta": meta()})).await;
    let tools = list["result"]["tools"].take();
    assert_eq!(tools.as_array().unwrap().len(), 11);
    insta::assert_snapshot!(list, @r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":null}}"#);
    let call = json!({"_meta": meta(), "name": "record", "arguments": {}});
    insta::assert_snapshot!(client.ask(json!(3), "tools/call", call).await, @r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","content":[{"type":"text","text":"{\"echo\":{}}"}],"structuredContent":{"echo":{}},"isError":false,"_meta":{"handfast/meta":{"call_id":"c1","duration_ms":0}}}}"#);
    let ping = client.ask(json!(4), "ping", json!({"_meta": meta()})).await;
    assert_eq!(ping["error"]["code"], -32601, "this revision has no ping");
    let bare = client.ask(json!(5), "server/discover", json!({})).await;
    assert_eq!(bare["error"]["code"], -32602, "{bare}");
    let mut unknown = meta();
    unknown["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let refused = client.ask(json!(6), "tools/list", json!({"_meta": unknown})).await;
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    client.close().await.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_revision_with_a_handshake_is_agreed_to_and_an_unknown_one_is_answered_with_the_newest() {
    for revision in LEGACY {
        let answer = Client::of(&Fake::new()).shake_hands(revision, json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], revision);
    }
    for revision in ["2026-07-28", "2031-01-01", "1999-01-01", ""] {
        let answer = Client::of(&Fake::new()).shake_hands(revision, json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_from_before_structured_content_gets_text_alone() {
    for (revision, structured) in LEGACY.into_iter().zip([false, false, true, true]) {
        let mut client = Client::of(&Fake::new());
        client.shake_hands(revision, json!({})).await;
        let list = client.ask(json!(1), "tools/list", json!({})).await;
        let record = &list["result"]["tools"][1];
        assert_eq!(record.get("outputSchema").is_some(), structured, "{revision}");
        let call = client.ask(json!(2), "tools/call", json!({"name": "record"})).await;
        assert_eq!(call["result"].get("structuredContent").is_some(), structured, "{revision}");
        assert_eq!(call["result"]["content"][0]["text"], r#"{"echo":{}}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_may_be_followed_by_either_era_on_the_same_connection() {
    let mut client = Client::of(&Fake::new());
    let unknown = client.ask(json!(0), "what/is/this", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/early"})).await;
    let discover = json!({"_meta": modern_meta(&json!({}))});
    assert!(client.ask(json!(1), "server/discover", discover).await.get("result").is_some());
    assert_eq!(client.shake_hands("2025-06-18", json!({})).await["result"]["protocolVersion"], "2025-06-18");
    let old = client.ask(json!(2), "tools/list", json!({})).await;
    assert!(old["result"].get("resultType").is_none(), "{old}");
    let new = client.ask(json!(3), "tools/list", json!({"_meta": modern_meta(&json!({}))})).await;
    assert_eq!(new["result"]["resultType"], "complete");
    assert_eq!(client.shake_hands("2025-11-25", json!({})).await["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test(start_paused = true)]
async fn the_list_is_the_same_every_time() {
    let mut client = Client::of(&Fake::new());
    client.shake_hands("2025-11-25", json!({})).await;
    let first = client.ask(json!(1), "tools/list", json!({})).await;
    client.ask(json!(1), "tools/call", json!({"name": "record"})).await;
    let second = client.ask(json!(1), "tools/list", json!({})).await;
    assert_eq!(first, second);
    let beyond = client.ask(json!(1), "tools/list", json!({"cursor": "x"})).await;
    assert_eq!(beyond["error"]["code"], -32602, "{beyond}");
    let names: Vec<&Value> =
        first["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(
        json!(names),
        json!([
            "text", "record", "fail", "ask", "wait", "gate", "steps", "change", "sample", "form", "leave"
        ])
    );
}
