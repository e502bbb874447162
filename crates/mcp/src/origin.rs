//! Where a call comes from, for traces: by the conventions of OpenTelemetry for MCP.

use engine::{Origin, Parent};
use serde_json::Value;

use crate::turn::Turn;

/// Marks a message that came by itself, over HTTP, with the span that its request was a part of.
#[derive(Debug, Clone)]
pub(crate) struct Carried(pub(crate) Option<Parent>);

/// Where the calls of this request come from. A message says itself what it is a part of (SEP-414), since several may come with one
/// request of HTTP; where it does not, it is a part of what carries it.
pub(crate) fn of(turn: &Turn) -> Origin {
    let text = |name: &str| turn.traced.get(name).and_then(Value::as_str);
    let own = text("traceparent").and_then(|parent| Parent::read(parent, text("tracestate")));
    let carried = turn.extensions.get::<Carried>();
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
