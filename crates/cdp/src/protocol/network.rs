//! Domain `Network`: the requests of a page.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{FrameId, LoaderId, RequestId};

/// Turns on the events of the domain.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Enable {
    /// Number of bytes of responses that the browser keeps in all.
    pub max_total_buffer_size: u32,
    /// Number of bytes that it keeps of one response.
    pub max_resource_buffer_size: u32,
}
command!(Enable, "Network.enable");

/// A request is about to be sent. A redirect reports it again.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestWillBeSent {
    /// Id of the request.
    pub request_id: RequestId,
    /// Load of the document that it belongs to.
    #[serde(default)]
    pub loader_id: Option<LoaderId>,
    /// The request.
    pub request: Request,
    /// Time.
    pub timestamp: f64,
    /// Seconds since 1970.
    #[serde(default)]
    pub wall_time: f64,
    /// Kind of what is requested: `Document`, `Image`, `XHR`, `Fetch`, `EventSource`, ...
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Frame of the request.
    #[serde(default)]
    pub frame_id: Option<FrameId>,
    /// Response that led here, if this is a redirect.
    #[serde(default)]
    pub redirect_response: Option<Response>,
}
event!(RequestWillBeSent, "Network.requestWillBeSent");

/// A request, without its headers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// URL without its fragment.
    pub url: String,
    /// Fragment with the `#`.
    #[serde(default)]
    pub url_fragment: Option<String>,
    /// Method.
    pub method: String,
}

/// The head of a response has come.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseReceived {
    /// Id of the request.
    pub request_id: RequestId,
    /// Kind of what was requested.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Frame of the request.
    #[serde(default)]
    pub frame_id: Option<FrameId>,
    /// The response.
    pub response: Response,
}
event!(ResponseReceived, "Network.responseReceived");

/// Head of a response.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// URL.
    #[serde(default)]
    pub url: String,
    /// Status of HTTP.
    pub status: u16,
    /// Media type.
    #[serde(default)]
    pub mime_type: String,
    /// Headers, as the browser wrote them.
    #[serde(default)]
    pub headers: Option<Box<RawValue>>,
}

/// A request is complete.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadingFinished {
    /// Id of the request.
    pub request_id: RequestId,
    /// Time.
    pub timestamp: f64,
    /// Number of bytes that came over the network.
    #[serde(default)]
    pub encoded_data_length: f64,
}
event!(LoadingFinished, "Network.loadingFinished");

/// A request has failed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadingFailed {
    /// Id of the request.
    pub request_id: RequestId,
    /// Time.
    pub timestamp: f64,
    /// Error, for example `net::ERR_FAILED`.
    #[serde(default)]
    pub error_text: String,
    /// True if the page itself gave up.
    #[serde(default)]
    pub canceled: bool,
    /// Rule of the browser that forbade it, for example `csp`.
    #[serde(default)]
    pub blocked_reason: Option<String>,
}
event!(LoadingFailed, "Network.loadingFailed");

/// A page has opened a WebSocket.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSocketCreated {
    /// Id of the socket.
    pub request_id: RequestId,
    /// URL.
    pub url: String,
}
event!(WebSocketCreated, "Network.webSocketCreated");

/// A WebSocket asks its server for the upgrade.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSocketWillSendHandshakeRequest {
    /// Id of the socket.
    pub request_id: RequestId,
    /// Time.
    pub timestamp: f64,
    /// Seconds since 1970.
    pub wall_time: f64,
}
event!(WebSocketWillSendHandshakeRequest, "Network.webSocketWillSendHandshakeRequest");

/// The server of a WebSocket has answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSocketHandshakeResponseReceived {
    /// Id of the socket.
    pub request_id: RequestId,
    /// The answer.
    pub response: WebSocketResponse,
}
event!(WebSocketHandshakeResponseReceived, "Network.webSocketHandshakeResponseReceived");

/// Answer to the request of a WebSocket.
#[derive(Debug, Clone, Deserialize)]
pub struct WebSocketResponse {
    /// Status of HTTP: 101 if the socket is open.
    pub status: u16,
}

/// A WebSocket has failed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSocketFrameError {
    /// Id of the socket.
    pub request_id: RequestId,
    /// Reason.
    pub error_message: String,
}
event!(WebSocketFrameError, "Network.webSocketFrameError");

/// A WebSocket has closed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebSocketClosed {
    /// Id of the socket.
    pub request_id: RequestId,
    /// Time.
    pub timestamp: f64,
}
event!(WebSocketClosed, "Network.webSocketClosed");
