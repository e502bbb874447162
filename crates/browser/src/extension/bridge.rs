//! The bridge between the protocol of a browser and the extension.
//!
//! Calls in sessions go to the tab that the session stands for, if the list of methods and the level of
//! the user let them. Calls to the browser itself are answered here or become one of the extension's own
//! commands, since an extension may not make them. When a connection breaks, calls that wait end with an
//! error; tabs stay, and after the next one whoever follows them is told that events were missed.

mod calls;

use std::io;
use std::sync::Arc;

use cdp::{IncomingMessage, ReadMessages, WriteMessages};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::extension::messages::{CallError, FromExtension, Hello, RawMessage, SharedTab, ToExtension};
use crate::extension::methods;
use crate::extension::routes::{Pending, Route, Socket, State, session_of, target_info};
use crate::extension::{BACK, NOT_CONNECTED, PAUSED, shareable};

/// Sentence for a call that the extension cannot take.
pub(super) const DISCONNECTED: &str = "the extension in the user's browser is not connected";
/// Sentence for a call while the extension is paused.
pub(super) const HALTED: &str = "the user has paused the extension";

/// The bridge. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Bridge {
    state: Mutex<State>,
    /// Messages to the protocol's side. Its reader never waits, so they do not pile up.
    to_client: UnboundedSender<IncomingMessage>,
    connected: watch::Sender<bool>,
}

/// Stream of the messages to the protocol's side.
pub(super) struct BridgeReader(UnboundedReceiver<IncomingMessage>);

/// Destination of the calls of the protocol's side.
pub(super) struct BridgeWriter(Arc<Bridge>);

impl ReadMessages for BridgeReader {
    async fn next(&mut self) -> io::Result<Option<IncomingMessage>> {
        Ok(self.0.recv().await)
    }
}

impl WriteMessages for BridgeWriter {
    async fn write(&mut self, message: Vec<u8>) -> io::Result<()> {
        // The other calls wait behind this one: all of them need the extension.
        self.0.until_back().await;
        self.0.take_call(&message);
        Ok(())
    }
}

impl Bridge {
    /// Creates a bridge without an extension, with the two ends for a connection of the protocol.
    pub(super) fn new() -> (Arc<Self>, BridgeReader, BridgeWriter) {
        let (to_client, messages) = unbounded_channel();
        let bridge =
            Arc::new(Self { state: Mutex::default(), to_client, connected: watch::Sender::new(false) });
        (Arc::clone(&bridge), BridgeReader(messages), BridgeWriter(bridge))
    }

    /// Waits until an extension is connected.
    pub(super) async fn until_connected(&self) {
        // The sender lives as long as the bridge, so the wait cannot fail.
        let _ = self.connected.subscribe().wait_for(|connected| *connected).await;
    }

    /// Waits a little while for an extension whose connection has just broken.
    pub(super) async fn until_back(&self) {
        let back_by = {
            let state = self.state.lock();
            state.back_by.filter(|_| state.socket.is_none())
        };
        if let Some(back_by) = back_by {
            let _ = tokio::time::timeout_at(back_by, self.until_connected()).await;
        }
    }

    /// Returns the state of the extension; `None` if it is not connected.
    pub(super) fn hello(&self) -> Option<Hello> {
        self.state.lock().socket.as_ref().map(|socket| socket.hello.clone())
    }

    /// Takes over the connection of an admitted extension, whose first message must say its state.
    /// An earlier connection is left. Returns false if the message is another one,
    /// or if the browser was given back.
    pub(super) fn connect(&self, number: u64, out: UnboundedSender<String>, first: &str) -> bool {
        let Ok(FromExtension::Hello { hello, tabs }) = serde_json::from_str(first) else { return false };
        let mut state = self.state.lock();
        if state.has_left {
            return false;
        }
        self.end_calls(&mut state, NOT_CONNECTED, DISCONNECTED);
        let is_first = state.socket.is_none() && state.tabs.is_empty();
        state.socket = Some(Socket { number, out, hello });
        let gone: Vec<i64> = {
            let is_same = |old: &SharedTab| {
                tabs.iter().any(|new| new.tab == old.tab && new.attachment == old.attachment)
            };
            state.tabs.values().filter(|old| !is_same(old)).map(|old| old.tab).collect()
        };
        for tab in gone {
            self.remove(&mut state, tab);
        }
        for tab in tabs {
            self.add(&mut state, &tab);
        }
        if !is_first {
            self.tell(IncomingMessage::Missed);
        }
        drop(state);
        self.connected.send_replace(true);
        true
    }

    /// Records the end of a connection, unless another one has taken its place.
    pub(super) fn disconnect(&self, number: u64) {
        let mut state = self.state.lock();
        if state.socket.as_ref().is_some_and(|socket| socket.number == number) {
            state.socket = None;
            state.back_by = Some(Instant::now() + BACK);
            self.connected.send_replace(false);
            self.end_calls(&mut state, NOT_CONNECTED, DISCONNECTED);
        }
    }

    /// Says goodbye, so that the extension detaches its debugger.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        state.has_left = true;
        send(&state, &ToExtension::Bye);
    }

    /// Announces the tabs to the protocol's side, now and from now on.
    pub(super) fn announce(&self) {
        let mut state = self.state.lock();
        state.is_announced = true;
        let shown: Vec<SharedTab> = state.tabs.values().cloned().collect();
        for shown in shown {
            self.attached(&mut state, &shown);
        }
    }

    /// Takes a message of the extension. One that is not understood is ignored.
    pub(super) fn take_message(&self, number: u64, text: &str) {
        let mut state = self.state.lock();
        if state.socket.as_ref().is_none_or(|socket| socket.number != number) {
            return;
        }
        if let Ok(carried) = serde_json::from_str::<RawMessage<'_>>(text) {
            match carried.kind {
                "answer" => return self.take_answer(&mut state, &carried),
                "event" => return self.take_event(&mut state, &carried),
                _ => {}
            }
        }
        match serde_json::from_str(text) {
            Ok(FromExtension::State { hello }) => self.change(&mut state, hello),
            Ok(FromExtension::Tab { shown }) => self.add(&mut state, &shown),
            Ok(FromExtension::TabGone { tab }) => self.remove(&mut state, tab),
            Ok(FromExtension::Hello { .. } | FromExtension::Pong) | Err(_) => {}
        }
    }

    fn change(&self, state: &mut State, hello: Hello) {
        let Some(socket) = &mut state.socket else { return };
        let before = std::mem::replace(&mut socket.hello, hello);
        let is_paused = socket.hello.paused;
        if is_paused {
            self.end_calls(state, PAUSED, HALTED);
        } else if before.paused {
            self.tell(IncomingMessage::Missed);
        }
    }

    /// Ends every call that waits for the extension.
    fn end_calls(&self, state: &mut State, code: i64, message: &str) {
        state.collections.clear();
        let waiting = std::mem::take(&mut state.pending).into_values().map(|pending| pending.id());
        let held = std::mem::take(&mut state.held).into_iter().map(|held| held.id);
        for id in waiting.chain(held) {
            self.refuse(id, code, message);
        }
    }

    /// Adds a tab, or takes over its new URL and title.
    fn add(&self, state: &mut State, shown: &SharedTab) {
        if shareable::refusal(&shown.url).is_some() {
            self.unshare(state, shown.tab);
            return;
        }
        let known = state.tabs.get(&shown.tab).is_some_and(|old| old.attachment == shown.attachment);
        if !known {
            self.remove(state, shown.tab);
        }
        let old = state.tabs.insert(shown.tab, shown.clone());
        if !state.is_announced {
            return;
        }
        match old {
            None => self.attached(state, shown),
            Some(old) => self.frames_changed(state, &old, shown),
        }
    }

    /// Announces a tab and its frames.
    fn attached(&self, state: &mut State, shown: &SharedTab) {
        let session = session_of(shown);
        state.routes.insert(session.clone(), Route { tab: shown.tab, frame: None });
        let opener = shown.opener.and_then(|opener| state.tabs.get(&opener));
        let info = target_info(shown, opener.map(|opener| opener.target.as_str()));
        let params = json!({"sessionId": session, "targetInfo": info, "waitingForDebugger": false});
        self.event(None, "Target.attachedToTarget", &params);
    }

    /// Announces what has become of the frames in other processes while nobody listened.
    fn frames_changed(&self, state: &mut State, old: &SharedTab, new: &SharedTab) {
        let tab = new.tab;
        let has =
            |shown: &SharedTab, session: &str| shown.frames.iter().any(|frame| frame.session == session);
        let known: Vec<String> = state
            .routes
            .iter()
            .filter(|(session, route)| route.tab == tab && route.frame.is_some() && !has(new, session))
            .map(|(session, _)| session.clone())
            .collect();
        for session in known {
            state.routes.remove(&session);
            self.event(Some(&session_of(old)), "Target.detachedFromTarget", &json!({"sessionId": session}));
        }
        for frame in &new.frames {
            if state.routes.contains_key(&frame.session) {
                continue;
            }
            state.routes.insert(frame.session.clone(), Route { tab, frame: Some(frame.session.clone()) });
            let params =
                json!({"sessionId": frame.session, "targetInfo": frame.info, "waitingForDebugger": false});
            self.event(Some(&session_of(new)), "Target.attachedToTarget", &params);
        }
    }

    /// Removes a tab, and ends its sessions.
    fn remove(&self, state: &mut State, tab: i64) {
        let Some(old) = state.tabs.remove(&tab) else { return };
        let frames = state.routes.extract_if(|_, route| route.tab == tab && route.frame.is_some());
        for (session, _) in frames.collect::<Vec<_>>() {
            self.event(None, "Target.detachedFromTarget", &json!({"sessionId": session}));
        }
        let session = session_of(&old);
        if state.routes.remove(&session).is_some() {
            self.event(None, "Target.detachedFromTarget", &json!({"sessionId": session}));
        }
    }

    /// Ends the use of a tab that shows what is not shared.
    fn unshare(&self, state: &mut State, tab: i64) {
        send(state, &ToExtension::Unshare { tab });
        self.remove(state, tab);
    }

    /// Passes on an event of the list, of a tab that is known.
    fn take_event(&self, state: &mut State, carried: &RawMessage<'_>) {
        let (Some(tab), Some(method)) = (carried.tab, carried.method.as_deref()) else { return };
        let Some(shown) = state.tabs.get(&tab).filter(|_| methods::is_event(method)) else { return };
        if state.socket.as_ref().is_some_and(|socket| socket.hello.paused) {
            return;
        }
        let session = carried.session.clone().unwrap_or_else(|| session_of(shown));
        let params = carried.params.map_or("null", |params| params.get());
        match method {
            "Page.frameNavigated" if carried.session.is_none() => {
                let params: Value = serde_json::from_str(params).unwrap_or_default();
                let frame = params.get("frame").unwrap_or(&Value::Null);
                let url = frame.get("url").and_then(Value::as_str).unwrap_or_default();
                let is_main = frame.get("parentId").is_none();
                // The page of an error belongs to the browser.
                let is_error = url.starts_with(crate::address::ERROR_PAGE);
                if is_main && !is_error && shareable::refusal(url).is_some() {
                    return self.unshare(state, tab);
                }
            }
            "Target.attachedToTarget" => {
                let params: Value = serde_json::from_str(params).unwrap_or_default();
                if let Some(new) = params.get("sessionId").and_then(Value::as_str) {
                    let route = Route { tab, frame: Some(new.to_owned()) };
                    state.routes.insert(new.to_owned(), route);
                }
            }
            "Target.detachedFromTarget" => {
                let params: Value = serde_json::from_str(params).unwrap_or_default();
                if let Some(old) = params.get("sessionId").and_then(Value::as_str) {
                    state.routes.remove(old);
                }
            }
            _ => {}
        }
        if state.routes.contains_key(&session) {
            self.raw_event(&session, method, params);
        }
    }

    fn event(&self, session: Option<&str>, method: &str, params: &Value) {
        let message = match session {
            Some(session) => json!({"sessionId": session, "method": method, "params": params}),
            None => json!({"method": method, "params": params}),
        };
        self.tell(IncomingMessage::Whole(message.to_string().into_bytes()));
    }

    fn raw_event(&self, session: &str, method: &str, params: &str) {
        let (session, method) = (json!(session), json!(method));
        let message = format!("{{\"sessionId\":{session},\"method\":{method},\"params\":{params}}}");
        self.tell(IncomingMessage::Whole(message.into_bytes()));
    }

    fn answer(&self, id: u64, result: &str) {
        self.tell(IncomingMessage::Whole(format!("{{\"id\":{id},\"result\":{result}}}").into_bytes()));
    }

    fn refuse(&self, id: u64, code: i64, message: &str) {
        let error = CallError { code, message: message.to_owned() };
        self.tell(IncomingMessage::Whole(json!({"id": id, "error": error}).to_string().into_bytes()));
    }

    fn tell(&self, message: IncomingMessage) {
        // The connection may be shut already.
        let _ = self.to_client.send(message);
    }
}

/// Sends a message to the extension, if it is connected.
fn send(state: &State, message: &ToExtension<'_>) -> bool {
    let (Some(socket), Ok(text)) = (&state.socket, serde_json::to_string(message)) else { return false };
    socket.out.send(text).is_ok()
}

/// Sends a call to the extension, and notes what its answer is for.
fn ask(
    state: &mut State,
    pending: Pending,
    (method, route): (&str, Option<&Route>),
    params: Option<&serde_json::value::RawValue>,
) {
    let id = state.next();
    let (tab, session) = (route.map(|route| route.tab), route.and_then(|route| route.frame.as_deref()));
    send(state, &ToExtension::Call { id, method, tab, session, params });
    state.pending.insert(id, pending);
}

#[cfg(test)]
mod tests;
