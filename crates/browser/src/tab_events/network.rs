//! Requests of a tab: those in flight, and their entries in the log.

use cdp::protocol::network::{
    LoadingFailed, LoadingFinished, RequestWillBeSent, ResponseReceived, WebSocketClosed, WebSocketCreated,
    WebSocketFrameError, WebSocketHandshakeResponseReceived, WebSocketWillSendHandshakeRequest,
};
use cdp::{Event, EventKind, RequestId, SessionClient};

use super::with;
use crate::address;
use crate::downloads::whole;
use crate::event_log::{LogEvent, RequestEntry};
use crate::limits::{self, cut};
use crate::requests::Request;
use crate::tab::Tab;
use crate::tab_state::TabState;

pub(super) fn take(tab: &Tab, client: &SessionClient, event: &Event) {
    match event.method.as_str() {
        RequestWillBeSent::METHOD => with(event, |event: RequestWillBeSent| {
            tab.change(|state| begin(state, client, event));
        }),
        ResponseReceived::METHOD => with(event, |event: ResponseReceived| {
            tab.change(|state| {
                if event.kind.as_deref() == Some("Document") {
                    state.status = Some((event.request_id.clone(), event.response.status));
                }
                change_entry(state, &event.request_id, |entry| entry.status = Some(event.response.status));
            });
        }),
        LoadingFinished::METHOD => with(event, |event: LoadingFinished| {
            tab.change(|state| {
                end(state, &event.request_id, event.timestamp, |entry| {
                    entry.bytes = whole(event.encoded_data_length);
                });
            });
        }),
        LoadingFailed::METHOD => with(event, |event: LoadingFailed| {
            tab.change(|state| {
                // The request of a document has the id of its load.
                state.frames.stop(&event.request_id.as_str().into());
                end(state, &event.request_id, event.timestamp, |entry| {
                    let reason = event.blocked_reason.as_deref().unwrap_or(&event.error_text);
                    entry.failure = Some(cut(reason, limits::NAME));
                });
            });
        }),
        WebSocketCreated::METHOD => with(event, |event: WebSocketCreated| {
            tab.change(|state| begin_socket(state, client, event));
        }),
        WebSocketWillSendHandshakeRequest::METHOD => {
            with(event, |event: WebSocketWillSendHandshakeRequest| {
                tab.change(|state| {
                    let time_ms = event.wall_time * 1000.0;
                    if let Some(entry) = state.requests.begun(&event.request_id, event.timestamp) {
                        state.log.set_time(entry, time_ms);
                    }
                });
            });
        }
        WebSocketHandshakeResponseReceived::METHOD => {
            with(event, |event: WebSocketHandshakeResponseReceived| {
                tab.change(|state| {
                    change_entry(state, &event.request_id, |entry| {
                        entry.status = Some(event.response.status);
                    });
                });
            });
        }
        WebSocketFrameError::METHOD => with(event, |event: WebSocketFrameError| {
            tab.change(|state| {
                change_entry(state, &event.request_id, |entry| {
                    entry.failure = Some(cut(&event.error_message, limits::NAME));
                });
            });
        }),
        WebSocketClosed::METHOD => with(event, |event: WebSocketClosed| {
            tab.change(|state| end(state, &event.request_id, event.timestamp, |_| {}));
        }),
        _ => {}
    }
}

/// Adds a WebSocket to the requests. The browser says the time of its begin later.
fn begin_socket(state: &mut TabState, client: &SessionClient, event: WebSocketCreated) {
    let resource = "WebSocket".to_owned();
    let entry = RequestEntry {
        method: "GET".to_owned(),
        url: address::shown(&event.url),
        resource: resource.clone(),
        status: None,
        bytes: 0,
        duration_ms: None,
        failure: None,
    };
    let entry = state.log.push(state.log.last_time(), LogEvent::Request(entry));
    let (id, session) = (event.request_id, client.id().clone());
    state.requests.begin(Request { id, session, loader: None, resource, began: 0.0, entry });
}

/// Changes the entry of a request in flight.
fn change_entry(state: &mut TabState, id: &RequestId, change: impl FnOnce(&mut RequestEntry)) {
    let entry = state.requests.get(id).map(|request| request.entry);
    if let Some(entry) = entry.and_then(|entry| state.log.request(entry)) {
        change(entry);
    }
}

fn begin(state: &mut TabState, client: &SessionClient, event: RequestWillBeSent) {
    if let Some(redirect) = &event.redirect_response {
        let status = redirect.status;
        end(state, &event.request_id, event.timestamp, |entry| entry.status = Some(status));
    }
    // A URL with its content is no request to anybody.
    if event.request.url.starts_with("data:") {
        return;
    }
    let resource = cut(event.kind.as_deref().unwrap_or("Other"), limits::NAME);
    let entry = RequestEntry {
        method: cut(&event.request.method, limits::NAME),
        url: address::shown(&event.request.url),
        resource: resource.clone(),
        status: None,
        bytes: 0,
        duration_ms: None,
        failure: None,
    };
    let entry = state.log.push(event.wall_time * 1000.0, LogEvent::Request(entry));
    state.requests.begin(Request {
        id: event.request_id,
        session: client.id().clone(),
        loader: event.loader_id,
        resource,
        began: event.timestamp,
        entry,
    });
}

/// Ends a request and completes its entry.
fn end(state: &mut TabState, id: &RequestId, at: f64, complete: impl FnOnce(&mut RequestEntry)) {
    let Some(request) = state.requests.end(id) else { return };
    if let Some(entry) = state.log.request(request.entry) {
        entry.duration_ms = Some(((at - request.began) * 1000.0).max(0.0));
        complete(entry);
    }
}
