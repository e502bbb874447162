//! Tests of a connection against a peer in memory.

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::event::Delivery;
use crate::protocol::browser::GetVersion;
use crate::protocol::page::LifecycleEvent;

/// The browser's end of a connection.
struct Peer {
    from: ReadHalf<DuplexStream>,
    to: WriteHalf<DuplexStream>,
}

impl Peer {
    /// Reads one call.
    async fn call(&mut self) -> Value {
        let mut bytes = Vec::new();
        loop {
            match self.from.read_u8().await.unwrap() {
                0 => return serde_json::from_slice(&bytes).unwrap(),
                byte => bytes.push(byte),
            }
        }
    }

    async fn say(&mut self, message: &str) {
        self.to.write_all(message.as_bytes()).await.unwrap();
        self.to.write_all(b"\0").await.unwrap();
    }

    async fn answer(&mut self, call: &Value, result: Value) {
        self.say(&json!({ "id": call["id"], "result": result }).to_string()).await;
    }
}

fn pair() -> (Connection, Peer) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(near);
    let (from, to) = tokio::io::split(far);
    (Connection::over_pipe(reader, writer), Peer { from, to })
}

/// Starts a call of this method without parameters.
fn calling(
    connection: &Connection,
    session: Option<&str>,
) -> tokio::task::JoinHandle<Result<Value, CdpError>> {
    let (connection, session) = (connection.clone(), session.map(SessionId::from));
    tokio::spawn(async move { connection.call(session.as_ref(), "A.b", json!({})).await })
}

/// Returns once the peer has been read up to here.
async fn settled(connection: &Connection, peer: &mut Peer) {
    let asking = calling(connection, None);
    let call = peer.call().await;
    peer.answer(&call, json!({})).await;
    asking.await.unwrap().unwrap();
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (connection, mut peer) = pair();
    let (first, second) = (calling(&connection, None), calling(&connection, Some("S")));
    let (one, two) = (peer.call().await, peer.call().await);
    assert_eq!(one["method"], "A.b");
    assert_ne!(one["id"], two["id"]);
    assert_eq!((&one["sessionId"], &two["sessionId"]), (&Value::Null, &json!("S")));
    peer.answer(&two, json!({ "n": 2 })).await;
    peer.answer(&one, json!({ "n": 1 })).await;
    assert_eq!(first.await.unwrap().unwrap(), json!({ "n": 1 }));
    assert_eq!(second.await.unwrap().unwrap(), json!({ "n": 2 }));
}

#[tokio::test]
async fn a_refused_call_gives_the_browsers_message() {
    let (connection, mut peer) = pair();
    let asking = calling(&connection, None);
    let call = peer.call().await;
    let error = json!({ "code": -32602, "message": "Invalid parameters", "data": "url: missing" });
    peer.say(&json!({ "id": call["id"], "error": error }).to_string()).await;
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "A.b: Invalid parameters: url: missing (-32602)");
}

#[tokio::test]
async fn an_answer_of_another_shape_is_an_error() {
    let (connection, mut peer) = pair();
    let asking = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.run(None, GetVersion {}).await })
    };
    let call = peer.call().await;
    assert_eq!(call["method"], "Browser.getVersion");
    peer.answer(&call, json!({ "product": 1 })).await;
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, CdpError::Answer { .. }), "{error}");
}

#[tokio::test]
async fn what_is_unknown_or_no_json_is_ignored() {
    let (connection, mut peer) = pair();
    let mut events = connection.subscribe(None);
    for junk in
        ["", "null", "[]", "{", "{\"id\":\"x\"}", "{\"id\":99,\"result\":{}}", "{\"method\":7}", "{\"a\":1}"]
    {
        peer.say(junk).await;
    }
    peer.to.write_all(b"\xff\xfe\0").await.unwrap();
    peer.say(r#"{"method":"New.event","params":{"deep":[{"x":[]}]}}"#).await;
    settled(&connection, &mut peer).await;
    let Some(Delivery::Event(event)) = events.next().await else { panic!("no event") };
    assert_eq!((event.method.as_str(), event.params.get()), ("New.event", r#"{"deep":[{"x":[]}]}"#));
    assert!(event.get::<LifecycleEvent>().is_none());
}

#[tokio::test]
async fn events_reach_the_subscribers_of_their_session_alone() {
    let (connection, mut peer) = pair();
    let (mut browser, mut page) =
        (connection.subscribe(None), connection.subscribe(Some(&SessionId::from("P"))));
    let params = json!({ "frameId": "F", "loaderId": "L", "name": "load" });
    peer.say(&json!({ "method": "Page.lifecycleEvent", "sessionId": "P", "params": params }).to_string())
        .await;
    peer.say(r#"{"method":"Page.lifecycleEvent","sessionId":"Q","params":{}}"#).await;
    peer.say(r#"{"method":"Browser.event"}"#).await;
    settled(&connection, &mut peer).await;
    let Some(Delivery::Event(event)) = page.next().await else { panic!("no event") };
    assert_eq!(event.get::<LifecycleEvent>().unwrap().name, "load");
    let Some(Delivery::Event(event)) = browser.next().await else { panic!("no event") };
    assert_eq!((event.method.as_str(), event.params.get()), ("Browser.event", "null"));
    connection.shut();
    assert!(page.next().await.is_none());
    assert!(browser.next().await.is_none());
}

#[tokio::test]
async fn a_string_with_half_a_surrogate_pair_is_read() {
    #[derive(Deserialize)]
    struct Title {
        title: String,
    }
    let (connection, mut peer) = pair();
    let asking = {
        let connection = connection.clone();
        tokio::spawn(async move { connection.call::<Title>(None, "A.b", json!({})).await })
    };
    let call = peer.call().await;
    peer.say(&format!(r#"{{"id":{},"result":{{"title":"a\ud83db \ud83d\ude00"}}}}"#, call["id"])).await;
    assert_eq!(asking.await.unwrap().unwrap().title, "a\u{fffd}b \u{1f600}");
}

#[tokio::test]
async fn every_call_ends_when_the_peer_goes() {
    let (connection, mut peer) = pair();
    let waiting = [calling(&connection, None), calling(&connection, Some("S"))];
    peer.call().await;
    peer.call().await;
    let mut events = connection.subscribe(None);
    drop(peer);
    for call in waiting {
        let error = call.await.unwrap().unwrap_err();
        assert!(error.is_closed(), "{error}");
    }
    assert!(events.next().await.is_none());
    assert!(connection.subscribe(None).next().await.is_none());
    connection.closed().await;
    assert!(calling(&connection, None).await.unwrap().unwrap_err().is_closed());
}

#[tokio::test]
async fn calls_end_with_their_session() {
    let (connection, mut peer) = pair();
    let (of_session, of_browser) = (calling(&connection, Some("S")), calling(&connection, None));
    peer.call().await;
    let other = peer.call().await;
    let mut events = connection.subscribe(Some(&SessionId::from("S")));
    peer.say(r#"{"method":"Target.detachedFromTarget","params":{"sessionId":"S"}}"#).await;
    let error = of_session.await.unwrap().unwrap_err();
    assert!(matches!(&error, CdpError::SessionEnded { session } if session.as_str() == "S"), "{error}");
    assert!(events.next().await.is_none());
    // The order of the two calls is open.
    let of_browser_id = if other["sessionId"].is_null() { other["id"].clone() } else { json!(2) };
    peer.answer(&json!({ "id": of_browser_id }), json!({})).await;
    of_browser.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_in_time_and_leaves_nothing() {
    let (connection, mut peer) = pair();
    let asking = calling(&connection, None);
    peer.call().await;
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, CdpError::TimedOut { waited, .. } if waited == CALL_DEADLINE), "{error}");
    assert_eq!(connection.shared.state.lock().calls.len(), 0);
}

#[tokio::test]
async fn a_call_whose_caller_is_gone_leaves_nothing() {
    let (connection, mut peer) = pair();
    let asking = calling(&connection, None);
    let call = peer.call().await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert_eq!(connection.shared.state.lock().calls.len(), 0);
    peer.answer(&call, json!({})).await;
    settled(&connection, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_does_not_read_costs_a_bounded_queue() {
    let (connection, _peer) = pair();
    let large = json!({ "text": "x".repeat(1 << 16) });
    let calls: Vec<_> = (0..QUEUED_CALLS * 3)
        .map(|_| {
            let (connection, large) = (connection.clone(), large.clone());
            tokio::spawn(async move { connection.call::<Value>(None, "A.b", large).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(connection.shared.state.lock().calls.len() <= QUEUED_CALLS + 1);
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(CdpError::TimedOut { .. })));
    }
}

#[tokio::test]
async fn an_answer_above_the_limit_ends_its_call() {
    struct Huge(Option<mpsc::Receiver<IncomingMessage>>);
    struct Sink(mpsc::Sender<IncomingMessage>);
    impl ReadMessages for Huge {
        async fn next(&mut self) -> std::io::Result<Option<IncomingMessage>> {
            Ok(match &mut self.0 {
                Some(messages) => messages.recv().await,
                None => None,
            })
        }
    }
    impl WriteMessages for Sink {
        async fn write(&mut self, message: Vec<u8>) -> std::io::Result<()> {
            let head = message.into_iter().take(12).collect();
            self.0.send(IncomingMessage::TooLarge { head, bytes: 1 << 30 }).await.unwrap();
            Ok(())
        }
    }
    let (sender, receiver) = mpsc::channel(1);
    let connection = Connection::start(Huge(Some(receiver)), Sink(sender));
    let error = connection.call::<Value>(None, "A.b", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "A.b: a message of 1073741824 bytes is larger than 268435456");
}

#[tokio::test]
async fn the_last_handle_closes_the_streams() {
    let (connection, mut peer) = pair();
    drop(connection);
    assert_eq!(peer.from.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}
