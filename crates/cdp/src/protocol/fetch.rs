//! Domain `Fetch`: requests that wait for this client.

use serde::{Deserialize, Serialize};

use crate::id::{FrameId, RequestId};

/// Holds the requests that fit a pattern.
#[derive(Debug, Clone, Serialize)]
pub struct Enable {
    /// The patterns.
    pub patterns: Vec<RequestPattern>,
}
command!(Enable, "Fetch.enable");

/// Pattern of requests.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPattern {
    /// URL with `*` and `?`.
    pub url_pattern: &'static str,
    /// Kind of what is requested, for example `Document`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<&'static str>,
    /// `Request`, or `Response` to hold it once its head has come.
    pub request_stage: &'static str,
}

/// Lets a request go on as it is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContinueRequest {
    /// Id of the request in this domain.
    pub request_id: RequestId,
}
command!(ContinueRequest, "Fetch.continueRequest");

/// Lets a response go on, with other headers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContinueResponse {
    /// Id of the request in this domain.
    pub request_id: RequestId,
    /// Status of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_code: Option<u16>,
    /// All headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<Vec<HeaderEntry>>,
}
command!(ContinueResponse, "Fetch.continueResponse");

/// Answers a request in the place of its server.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FulfillRequest {
    /// Id of the request in this domain.
    pub request_id: RequestId,
    /// Status of HTTP.
    pub response_code: u16,
    /// All headers.
    pub response_headers: Vec<HeaderEntry>,
    /// Body in Base64.
    pub body: String,
}
command!(FulfillRequest, "Fetch.fulfillRequest");

/// Lets a request fail.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailRequest {
    /// Id of the request in this domain.
    pub request_id: RequestId,
    /// Reason: `Failed`, `Aborted`, `AccessDenied`, ...
    pub error_reason: &'static str,
}
command!(FailRequest, "Fetch.failRequest");

/// A header.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeaderEntry {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A request waits.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPaused {
    /// Id of the request in this domain.
    pub request_id: RequestId,
    /// The request.
    pub request: crate::protocol::network::Request,
    /// Frame of the request.
    pub frame_id: FrameId,
    /// Error, if the request has failed.
    #[serde(default)]
    pub response_error_reason: Option<String>,
    /// Status of the response, if its head has come.
    #[serde(default)]
    pub response_status_code: Option<u16>,
    /// Headers of the response, if its head has come.
    #[serde(default)]
    pub response_headers: Option<Vec<HeaderEntry>>,
}
event!(RequestPaused, "Fetch.requestPaused");
