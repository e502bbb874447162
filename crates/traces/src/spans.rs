//! Spans of a call: one for the whole call, and a child span for each stage.
//!
//! Names and attributes come from OpenTelemetry's conventions for MCP and for tools of models.
//! Attributes that these conventions do not define begin with `handfast`.

use std::time::Duration;

use engine::{CallTrace, Door, Parent};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use crate::Options;

/// Request of an MCP client that calls a tool.
const TOOL_CALL: &str = "tools/call";
/// Name of a tool call in the conventions for tools of models.
const EXECUTE_TOOL: &str = "execute_tool";
/// `error.type` of a call over MCP that failed as a call (conventions for MCP).
const TOOL_ERROR: &str = "tool_error";
/// `error.type` of a call over MCP that names no tool: the JSON-RPC error code.
const UNKNOWN_TOOL: &str = "-32602";
/// Bits of a span's flags: the origin of the parent is known, and the parent is in another program
/// (trace.proto).
const REMOTE_PARENT: u32 = 0x300;
const LOCAL_PARENT: u32 = 0x100;
/// Flag of a sampled trace.
const SAMPLED: u32 = 1;

/// Builds the spans of one call. The span of the whole call comes first, and `next` returns each
/// span identifier.
pub(crate) fn of(call: &CallTrace, trace: [u8; 16], mut next: impl FnMut() -> [u8; 8]) -> Vec<Span> {
    let began = nanoseconds(call, Duration::ZERO);
    let root = next();
    let state = call.parent.as_ref().and_then(|parent| parent.state.clone()).unwrap_or_default();
    let stages = call.stages.iter().map(|stage| Span {
        trace_id: trace.to_vec(),
        span_id: next().to_vec(),
        parent_span_id: root.to_vec(),
        trace_state: state.clone(),
        flags: SAMPLED | LOCAL_PARENT,
        name: stage.name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: nanoseconds(call, stage.after),
        end_time_unix_nano: nanoseconds(call, stage.after + stage.took),
        attributes: stage.error.map(|code| attribute("error.type", code)).into_iter().collect(),
        status: status(stage.error),
        ..Span::default()
    });
    let mut stages: Vec<Span> = stages.collect();
    let mut attributes = vec![];
    if matches!(call.operation, None | Some(TOOL_CALL)) {
        attributes.push(attribute("gen_ai.operation.name", EXECUTE_TOOL));
    }
    attributes.extend(call.tool.as_deref().map(|tool| attribute("gen_ai.tool.name", tool)));
    if let Some(code) = call.error {
        attributes.push(attribute("error.type", error_type(call, code)));
        attributes.push(attribute("handfast.code", code));
    }
    attributes.extend(call.facts.iter().map(|(name, fact)| attribute(name, fact)));
    let whole = Span {
        trace_id: trace.to_vec(),
        span_id: root.to_vec(),
        parent_span_id: call.parent.as_ref().map(|parent| parent.span.to_vec()).unwrap_or_default(),
        trace_state: state,
        flags: SAMPLED | if call.parent.is_some() { REMOTE_PARENT } else { LOCAL_PARENT },
        name: name(call),
        kind: kind(call.door).into(),
        start_time_unix_nano: began,
        end_time_unix_nano: nanoseconds(call, call.took),
        attributes,
        links: call.carrier.as_ref().map(link).into_iter().collect(),
        status: status(call.error),
        ..Span::default()
    };
    let mut all = vec![whole];
    all.append(&mut stages);
    all
}

/// Builds the message that contains these spans.
pub(crate) fn message(options: &Options, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let attributes = options.resource.iter().map(|(name, value)| attribute(name, value)).collect();
    let scope = InstrumentationScope {
        name: "handfast".to_owned(),
        version: options.version.to_owned(),
        ..Default::default()
    };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..Default::default() }];
    let resource = Some(Resource { attributes, ..Default::default() });
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource, scope_spans, ..Default::default() }],
    }
}

/// Returns the name of the span of a call. Clients cannot add names, so the number of names stays small.
fn name(call: &CallTrace) -> String {
    match (call.operation, &call.tool) {
        (None, Some(tool)) => format!("{EXECUTE_TOOL} {tool}"),
        (None, None) => EXECUTE_TOOL.to_owned(),
        (Some(TOOL_CALL), Some(tool)) => format!("{TOOL_CALL} {tool}"),
        (Some(operation), _) => operation.to_owned(),
    }
}

fn kind(door: Door) -> SpanKind {
    match door {
        Door::Mcp | Door::Http | Door::Csp => SpanKind::Server,
        Door::CommandLine | Door::Library | Door::Internal(_) => SpanKind::Internal,
    }
}

fn error_type<'a>(call: &CallTrace, code: &'a str) -> &'a str {
    match (call.operation, &call.tool) {
        (Some(TOOL_CALL), Some(_)) => TOOL_ERROR,
        (Some(TOOL_CALL), None) => UNKNOWN_TOOL,
        _ => code,
    }
}

/// Builds a link to a span that carried the message and belongs to another trace.
fn link(parent: &Parent) -> Link {
    Link {
        trace_id: parent.trace.to_vec(),
        span_id: parent.span.to_vec(),
        trace_state: parent.state.clone().unwrap_or_default(),
        flags: REMOTE_PARENT | u32::from(parent.sampled),
        ..Link::default()
    }
}

/// Returns the status of a failed call, and none for success, as the conventions require.
fn status(error: Option<&str>) -> Option<Status> {
    error.map(|_| Status { code: StatusCode::Error.into(), message: String::new() })
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: name.to_owned(), value, ..Default::default() }
}

/// Returns a moment of the call, in nanoseconds since 1970.
fn nanoseconds(call: &CallTrace, after: Duration) -> u64 {
    let began = u128::try_from(call.began.as_nanosecond()).unwrap_or_default();
    u64::try_from(began + after.as_nanos()).unwrap_or(u64::MAX)
}
