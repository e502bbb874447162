//! Origin of a call, for traces, by OpenTelemetry's semantic conventions for MCP.

use engine::{Origin, Parent};
use serde_json::Value;

use crate::active_request::{ActiveRequest, Arrival};

/// Returns the origin of the calls of a request. The message's own parent span takes precedence
/// (SEP-414), because one HTTP request may carry several messages. Otherwise the parent is that of
/// the HTTP request.
pub(crate) fn of(turn: &ActiveRequest) -> Origin {
    let text = |name: &str| turn.traced.get(name).and_then(Value::as_str);
    let own = text("traceparent").and_then(|parent| Parent::read(parent, text("tracestate")));
    let (around, transport) = match &turn.arrival {
        Arrival::Line => (None, "pipe"),
        Arrival::Independent(parent) => (parent.clone(), "tcp"),
    };
    let (parent, carrier) = match own {
        Some(own) => (Some(own), around),
        None => (around, None),
    };
    let mut facts =
        vec![("mcp.method.name", turn.method.to_owned()), ("network.transport", transport.to_owned())];
    facts.extend(turn.peer.version.as_ref().map(|version| ("mcp.protocol.version", version.to_string())));
    facts.push(("jsonrpc.request.id", turn.pending.id.shown().to_owned()));
    Origin { parent, carrier, operation: Some(turn.method), facts }
}
