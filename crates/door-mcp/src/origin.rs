//! Origin of a call, for traces, by OpenTelemetry's semantic conventions for MCP.

use engine::{Origin, Parent};
use serde_json::Value;

use crate::active_request::ActiveRequest;

/// Marker of a message that arrived independently, over HTTP, with the parent span of its HTTP request.
#[derive(Debug, Clone)]
pub(crate) struct IndependentMessage(pub(crate) Option<Parent>);

/// Returns the origin of the calls of a request. The message's own parent span takes precedence
/// (SEP-414), because one HTTP request may carry several messages. Otherwise the parent is that of
/// the HTTP request.
pub(crate) fn of(turn: &ActiveRequest) -> Origin {
    let text = |name: &str| turn.traced.get(name).and_then(Value::as_str);
    let own = text("traceparent").and_then(|parent| Parent::read(parent, text("tracestate")));
    let carried = turn.extensions.get::<IndependentMessage>();
    let around = carried.and_then(|carried| carried.0.clone());
    let (parent, carrier) = match own {
        Some(own) => (Some(own), around),
        None => (around, None),
    };
    let transport = if carried.is_some() { "tcp" } else { "pipe" };
    let mut facts =
        vec![("mcp.method.name", turn.method.to_owned()), ("network.transport", transport.to_owned())];
    facts.extend(turn.peer.version.as_ref().map(|version| ("mcp.protocol.version", version.to_string())));
    facts.extend(
        turn.line.connection.id_of(turn.number).map(|id| ("jsonrpc.request.id", id.shown().to_owned())),
    );
    Origin { parent, carrier, operation: Some(turn.method), facts }
}
