//! Headers of a message, which must match its body, because intermediaries decide by the headers.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::Parent;
use rmcp::model::{ClientRequest, ErrorData, ProtocolVersion};

use crate::decode::Incoming;
use crate::envelope_scan::EnvelopeScan;

/// The headers that the protocol specifies, and the trace context.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    /// `Mcp-Session-Id`.
    pub session: SingleHeader<'a>,
    /// `MCP-Protocol-Version`.
    pub version: SingleHeader<'a>,
    /// `Mcp-Method`.
    pub method: SingleHeader<'a>,
    /// `Mcp-Name`.
    pub name: SingleHeader<'a>,
    /// Parent span from `traceparent` and `tracestate`, if calls are traced.
    pub carrier: Option<&'a Parent>,
}

/// A header that may occur once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleHeader<'a> {
    /// The header is missing.
    Absent,
    /// The header occurs once.
    Is(&'a str),
    /// The header occurs several times, or is not text.
    Several,
}

/// Prefix and suffix of an encoded value, used for values that headers cannot contain.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Returns true if the message is of revision 2026-07-28, by its body or its header.
pub(crate) fn speaks_modern(headers: &Headers<'_>, incoming: &Incoming) -> bool {
    let said = match incoming {
        Incoming::Request { request, .. } => request.is_modern(),
        _ => None,
    };
    let discovers = matches!(incoming, Incoming::Request { request, .. }
        if matches!(request.content, ClientRequest::DiscoverRequest(_)));
    said.unwrap_or_else(|| discovers || named_modern(headers))
}

fn named_modern(headers: &Headers<'_>) -> bool {
    matches!(headers.version, SingleHeader::Is(version) if version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Checks that headers and body match.
///
/// # Errors
/// `-32020` if they do not match, `-32602` if the body lacks data that this revision requires,
/// `-32600` for an unknown revision.
pub(crate) fn agree(headers: &Headers<'_>, incoming: &Incoming, body: &[u8]) -> Result<(), ErrorData> {
    let Incoming::Request { request, .. } = incoming else { return known(headers) };
    if request.is_handshake() {
        return known(headers);
    }
    let meta = &request.meta;
    if meta.protocol_version().is_none() && !speaks_modern(headers, incoming) {
        return known(headers);
    }
    let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
    if !missing.is_empty() {
        let problem = format!("missing or invalid in `params._meta`: {}", missing.join(", "));
        return Err(ErrorData::invalid_params(problem, None));
    }
    let version = meta.protocol_version().map(|version| version.to_string()).unwrap_or_default();
    same("MCP-Protocol-Version", headers.version, &version)?;
    let mut skim = EnvelopeScan::default();
    skim.feed(body);
    same("Mcp-Method", headers.method, skim.method().unwrap_or_default())?;
    let named = match &request.content {
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

/// Checks that a message of an earlier revision names a known revision, or none.
fn known(headers: &Headers<'_>) -> Result<(), ErrorData> {
    match headers.version {
        SingleHeader::Absent => Ok(()),
        SingleHeader::Is(version)
            if ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) =>
        {
            Ok(())
        }
        SingleHeader::Is(version) => {
            // Not truncated (a header has a bounded size): truncation before redaction could leave
            // a part of a secret.
            let shown = tool::visible(version);
            Err(ErrorData::invalid_request(format!("`MCP-Protocol-Version` {shown} is not supported"), None))
        }
        SingleHeader::Several => {
            Err(ErrorData::invalid_request("`MCP-Protocol-Version` occurs several times", None))
        }
    }
}

fn same(header: &str, said: SingleHeader<'_>, body: &str) -> Result<(), ErrorData> {
    let mismatch = |problem: String| Err(ErrorData::header_mismatch(problem, None));
    match said {
        SingleHeader::Absent => mismatch(format!("the header `{header}` is missing")),
        SingleHeader::Several => {
            mismatch(format!("the header `{header}` occurs several times or is not text"))
        }
        SingleHeader::Is(value) => match plain(value) {
            Some(value) if value == body => Ok(()),
            Some(_) => mismatch(format!("the header `{header}` differs from the body")),
            None => mismatch(format!("the header `{header}` is not valid Base64")),
        },
    }
}

/// Decodes the value of a header; `None` if the encoding is invalid.
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
