//! Tests of the bridge with an extension that is a channel. Each refusal has a control that passes.

use cdp::{Connection, Delivery, SessionId};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::extension::NOT_ALLOWED;

/// A bridge between a client of the protocol and an extension.
struct Ground {
    bridge: Arc<Bridge>,
    client: Connection,
    sent: UnboundedReceiver<String>,
    number: u64,
}

const SHOP: &str = "https://shop.test/";
const SESSION: &str = "user-7-a";

fn tab(url: &str) -> Value {
    json!({"tab": 7, "attachment": "a", "target": "T", "url": url, "title": "Shop", "frames": []})
}

fn hello(level: &str, paused: bool, tabs: &[Value]) -> String {
    json!({"type": "hello", "browser": "Chrome/1", "paused": paused, "level": level, "tabs": tabs})
        .to_string()
}

impl Ground {
    fn new(level: &str, paused: bool, tabs: &[Value]) -> Self {
        let (bridge, reader, writer) = Bridge::new();
        let client = Connection::start(reader, writer);
        let (out, sent) = unbounded_channel();
        assert!(bridge.connect(1, out, &hello(level, paused, tabs)));
        bridge.announce();
        Self { bridge, client, sent, number: 1 }
    }

    /// Calls a method in the session of the tab, or of the browser itself. The extension answers with
    /// this result, if it is asked.
    async fn call(
        &mut self,
        session: Option<&str>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, (i64, String)> {
        let session = session.map(SessionId::from);
        let calling = self.client.call::<Value>(session.as_ref(), method, params);
        let (bridge, sent, number) = (&self.bridge, &mut self.sent, self.number);
        let answering = async {
            while let Some(text) = sent.recv().await {
                let call: Value = serde_json::from_str(&text).unwrap();
                if call["type"] == "call" {
                    let result = json!({"asked": call["method"], "tab": call["tab"], "target": "T"});
                    let answer = json!({"type": "answer", "id": call["id"], "result": result});
                    bridge.take_message(number, &answer.to_string());
                }
            }
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = calling => outcome,
            () = answering => Ok(Value::Null),
        };
        outcome.map_err(|error| match error {
            cdp::CdpError::Refused { code, message, .. } => (code, message),
            other => (0, other.to_string()),
        })
    }
}

#[tokio::test]
async fn a_method_on_no_list_and_one_above_the_level_do_not_reach_the_extension() {
    let mut ground = Ground::new("reading", false, &[tab(SHOP)]);
    let read = ground.call(Some(SESSION), "Page.captureScreenshot", json!({})).await.unwrap();
    assert_eq!((&read["asked"], &read["tab"]), (&json!("Page.captureScreenshot"), &json!(7)), "the control");
    for (session, method) in [
        (Some(SESSION), "Page.crash"),
        (Some(SESSION), "Network.getAllCookies"),
        (Some(SESSION), "Input.insertText"),
        (Some(SESSION), "tabs.create"),
        (None, "Browser.close"),
        (None, "Target.getTargets"),
        (None, "Storage.setCookies"),
        (None, "Storage.getCookies"),
        (None, "Target.createTarget"),
    ] {
        let params = json!({"url": "about:blank"});
        let (code, message) = ground.call(session, method, params).await.unwrap_err();
        assert_eq!(code, NOT_ALLOWED, "{method}: {message}");
    }
    assert!(ground.sent.try_recv().is_err(), "nothing was sent for them");
    let mut ground = Ground::new("interaction", false, &[tab(SHOP)]);
    assert!(ground.call(Some(SESSION), "Input.insertText", json!({"text": "x"})).await.is_ok());
    let closing = ground.call(None, "Target.closeTarget", json!({"targetId": "T"})).await;
    assert_eq!(closing.unwrap_err().0, NOT_ALLOWED);
    let mut ground = Ground::new("destructive", false, &[tab(SHOP)]);
    assert!(ground.call(None, "Target.closeTarget", json!({"targetId": "T"})).await.is_ok());
}

#[tokio::test]
async fn a_paused_extension_takes_no_call_and_calls_that_wait_end() {
    let mut ground = Ground::new("interaction", true, &[tab(SHOP)]);
    let refused = ground.call(Some(SESSION), "Page.captureScreenshot", json!({})).await.unwrap_err();
    assert_eq!(refused, (PAUSED, HALTED.to_owned()));
    let state = |paused| json!({"type": "state", "browser": "C", "paused": paused, "level": "interaction"});
    ground.bridge.take_message(1, &state(false).to_string());
    assert!(ground.call(Some(SESSION), "Page.captureScreenshot", json!({})).await.is_ok(), "the control");
    let session = SessionId::from(SESSION);
    let waiting = ground.client.call::<Value>(Some(&session), "Runtime.evaluate", json!({}));
    let pausing = async {
        assert!(ground.sent.recv().await.unwrap().contains("Runtime.evaluate"));
        ground.bridge.take_message(1, &state(true).to_string());
    };
    let (ended, ()) = tokio::join!(waiting, pausing);
    assert!(matches!(ended, Err(cdp::CdpError::Refused { code: PAUSED, .. })), "{ended:?}");
}

#[tokio::test]
async fn only_shared_tabs_are_reached_and_pages_of_this_machine_are_not() {
    let mut ground = Ground::new("destructive", false, &[tab(SHOP)]);
    for session in ["user-8-a", "user-7-b", "other"] {
        let (_, message) = ground.call(Some(session), "Runtime.evaluate", json!({})).await.unwrap_err();
        assert!(message.contains("Session with given id not found"), "{session}: {message}");
    }
    let unknown = ground.call(None, "Target.closeTarget", json!({"targetId": "U"})).await;
    assert!(unknown.unwrap_err().1.contains("No target"));
    for url in ["http://127.0.0.1:7600/", "http://localhost/", "file:///etc/passwd", "javascript:1"] {
        let here = ground.call(Some(SESSION), "Page.navigate", json!({"url": url})).await;
        assert_eq!(here.unwrap_err().0, NOT_ALLOWED, "{url}");
        let new = ground.call(None, "Target.createTarget", json!({"url": url})).await;
        assert_eq!(new.unwrap_err().0, NOT_ALLOWED, "{url}");
    }
    assert!(ground.call(Some(SESSION), "Page.navigate", json!({"url": SHOP})).await.is_ok(), "the control");
    // A page that leads there is shared no more.
    let event = json!({"type": "event", "tab": 7, "method": "Page.frameNavigated",
        "params": {"frame": {"id": "T", "url": "http://localhost:3000/"}}});
    ground.bridge.take_message(1, &event.to_string());
    let sent: Value = serde_json::from_str(&ground.sent.try_recv().unwrap()).unwrap();
    assert_eq!(sent, json!({"type": "unshare", "tab": 7}));
    assert!(ground.call(Some(SESSION), "Runtime.evaluate", json!({})).await.is_err());
}

#[tokio::test]
async fn events_pass_if_they_are_on_the_list_and_of_a_shared_tab() {
    let ground = Ground::new("reading", false, &[tab(SHOP)]);
    let mut events = ground.client.subscribe(Some(&SessionId::from(SESSION)));
    let send = |tab: i64, method: &str| {
        let event = json!({"type": "event", "tab": tab, "method": method, "params": {"tab": tab}});
        ground.bridge.take_message(1, &event.to_string());
    };
    send(7, "Fetch.requestPaused");
    send(8, "Page.frameStoppedLoading");
    send(7, "Page.frameStoppedLoading");
    let Some(Delivery::Event(event)) = events.next().await else { panic!("no event") };
    assert_eq!((event.method.as_str(), event.params.get()), ("Page.frameStoppedLoading", r#"{"tab":7}"#));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_extension_to_come_back_and_not_for_ever() {
    let mut ground = Ground::new("interaction", false, &[tab(SHOP)]);
    ground.bridge.disconnect(1);
    let began = Instant::now();
    let (code, _) = ground.call(Some(SESSION), "Runtime.evaluate", json!({})).await.unwrap_err();
    assert_eq!((code, began.elapsed().as_secs()), (NOT_CONNECTED, BACK.as_secs()));
    let (code, _) = ground.call(Some(SESSION), "Runtime.evaluate", json!({})).await.unwrap_err();
    assert_eq!((code, began.elapsed().as_secs()), (NOT_CONNECTED, BACK.as_secs()), "at once");
    let (out, sent) = unbounded_channel();
    assert!(ground.bridge.connect(2, out, &hello("interaction", false, &[tab(SHOP)])));
    (ground.sent, ground.number) = (sent, 2);
    assert!(ground.call(Some(SESSION), "Runtime.evaluate", json!({})).await.is_ok());
}

#[tokio::test]
async fn a_break_ends_calls_and_keeps_tabs_and_the_next_connection_tells_of_it() {
    let mut ground = Ground::new("interaction", false, &[tab(SHOP)]);
    let mut events = ground.client.subscribe(Some(&SessionId::from(SESSION)));
    let session = SessionId::from(SESSION);
    let waiting = ground.client.call::<Value>(Some(&session), "Runtime.evaluate", json!({}));
    let breaking = async {
        ground.sent.recv().await.unwrap();
        ground.bridge.disconnect(1);
    };
    let (ended, ()) = tokio::join!(waiting, breaking);
    assert!(matches!(ended, Err(cdp::CdpError::Refused { code: NOT_CONNECTED, .. })), "{ended:?}");
    let (out, sent) = unbounded_channel();
    let mut changed = tab(SHOP);
    changed["frames"] = json!([{"session": "F", "info": {"targetId": "X", "type": "iframe"}}]);
    assert!(ground.bridge.connect(2, out, &hello("interaction", false, &[changed])));
    (ground.sent, ground.number) = (sent, 2);
    // Messages of the earlier connection count no more.
    ground.bridge.take_message(1, &json!({"type": "tab_gone", "tab": 7}).to_string());
    let mut told = Vec::new();
    for _ in 0..2 {
        match events.next().await {
            Some(Delivery::Missed(0)) => told.push("missed".to_owned()),
            Some(Delivery::Event(event)) => told.push(event.method.clone()),
            other => panic!("{other:?}"),
        }
    }
    told.sort();
    assert_eq!(told, ["Target.attachedToTarget", "missed"]);
    assert!(ground.call(Some(SESSION), "Runtime.evaluate", json!({})).await.is_ok());
    // A tab with another attachment is another one.
    let (out, _sent) = unbounded_channel();
    let mut other = tab(SHOP);
    other["attachment"] = json!("b");
    assert!(ground.bridge.connect(3, out, &hello("interaction", false, &[other])));
    let (_, message) = ground.call(Some(SESSION), "Runtime.evaluate", json!({})).await.unwrap_err();
    assert!(message.contains("not found") || message.contains("has ended"), "{message}");
}
