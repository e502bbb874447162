//! What a message says in headers, which must be what it says in its body: whatever stands in between decides by the headers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::Parent;
use rmcp::model::{ClientRequest, ErrorData, GetMeta, ProtocolVersion};

use crate::decode::{Incoming, is_modern};
use crate::skim::Skim;

/// The headers that the protocol has words about, and those of traces.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    /// `Mcp-Session-Id`.
    pub session: Once<'a>,
    /// `MCP-Protocol-Version`.
    pub version: Once<'a>,
    /// `Mcp-Method`.
    pub method: Once<'a>,
    /// `Mcp-Name`.
    pub name: Once<'a>,
    /// What `traceparent` and `tracestate` come to, where calls are followed.
    pub carrier: Option<&'a Parent>,
}

/// A header that may stand there once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once<'a> {
    /// It does not stand there.
    Absent,
    /// It stands there once.
    Is(&'a str),
    /// It stands there several times, or is no text.
    Several,
}

/// What a value in a header begins and ends with that could not stand there as it is.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Whether the message is one of the revision of 2026-07-28, by its body or by its header.
pub(crate) fn speaks_modern(headers: &Headers<'_>, incoming: &Incoming) -> bool {
    let said = match incoming {
        Incoming::Request { request, .. } => is_modern(request),
        _ => None,
    };
    let discovers = matches!(incoming, Incoming::Request { request, .. }
        if matches!(**request, ClientRequest::DiscoverRequest(_)));
    said.unwrap_or_else(|| discovers || named_modern(headers))
}

fn named_modern(headers: &Headers<'_>) -> bool {
    matches!(headers.version, Once::Is(version) if version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Checks that headers and body say the same.
///
/// # Errors
/// `-32020` where they do not, `-32602` where the body does not say what this revision requires, `-32600` for a revision that is not
/// known.
pub(crate) fn agree(headers: &Headers<'_>, incoming: &Incoming, body: &[u8]) -> Result<(), ErrorData> {
    let Incoming::Request { request, .. } = incoming else { return known(headers) };
    if matches!(**request, ClientRequest::InitializeRequest(_)) {
        return known(headers);
    }
    let meta = request.get_meta();
    if meta.protocol_version().is_none() && !speaks_modern(headers, incoming) {
        return known(headers);
    }
    let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
    if !missing.is_empty() {
        let problem = format!("`params._meta` lacks, or has wrong, {}", missing.join(", "));
        return Err(ErrorData::invalid_params(problem, None));
    }
    let version = meta.protocol_version().map(|version| version.to_string()).unwrap_or_default();
    same("MCP-Protocol-Version", headers.version, &version)?;
    let mut skim = Skim::default();
    skim.feed(body);
    same("Mcp-Method", headers.method, skim.method().unwrap_or_default())?;
    let named = match &**request {
        ClientRequest::CallToolRequest(_) => skim.tool().unwrap_or_default(),
        ClientRequest::GetPromptRequest(request) => &request.params.name,
        ClientRequest::ReadResourceRequest(request) => &request.params.uri,
        ClientRequest::GetTaskRequest(request) => &request.params.task_id,
        ClientRequest::UpdateTaskRequest(request) => &request.params.task_id,
        ClientRequest::CancelTaskRequest(request) => &request.params.task_id,
        _ => return Ok(()),
    };
    same("Mcp-Name", headers.name, named)
}

/// A message of an earlier revision names a known one, or none.
fn known(headers: &Headers<'_>) -> Result<(), ErrorData> {
    match headers.version {
        Once::Absent => Ok(()),
        Once::Is(version)
            if ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) =>
        {
            Ok(())
        }
        Once::Is(version) => {
            // Whole, as far as a header reaches: what is cut before it is covered could be a part of a secret.
            let shown = tool::visible(version);
            Err(ErrorData::invalid_request(format!("`MCP-Protocol-Version` {shown} is not supported"), None))
        }
        Once::Several => {
            Err(ErrorData::invalid_request("`MCP-Protocol-Version` stands there several times", None))
        }
    }
}

fn same(header: &str, said: Once<'_>, body: &str) -> Result<(), ErrorData> {
    let mismatch = |problem: String| Err(ErrorData::header_mismatch(problem, None));
    match said {
        Once::Absent => mismatch(format!("the header `{header}` is missing")),
        Once::Several => mismatch(format!("the header `{header}` stands there several times, or is no text")),
        Once::Is(value) => match plain(value) {
            Some(value) if value == body => Ok(()),
            Some(_) => mismatch(format!("the header `{header}` does not say what the body says")),
            None => mismatch(format!("the header `{header}` is not valid Base64")),
        },
    }
}

/// The value that a header stands for; none where it is wrongly encoded.
fn plain(value: &str) -> Option<Cow<'_, str>> {
    let (begin, end) = ENCODED;
    match value.strip_prefix(begin).and_then(|value| value.strip_suffix(end)) {
        None => Some(Cow::Borrowed(value)),
        Some(encoded) => {
            let bytes = BASE64_STANDARD.decode(encoded).ok()?;
            String::from_utf8(bytes).ok().map(Cow::Owned)
        }
    }
}
