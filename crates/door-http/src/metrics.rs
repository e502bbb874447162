//! `/metrics`: metrics in the text format of Prometheus (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::RANGES_MS;
use hyper::StatusCode;
use tool::ByteReservation;

use crate::mount::Gauge;
use crate::reply::{self, Reply};
use crate::response_counts::ResponseCounts;
use crate::state::{MAX_FOLLOWERS, ServerState};

/// `GET /metrics`.
pub(crate) fn show(shared: &ServerState) -> Reply {
    let mut text = String::new();
    answers(&mut text, &shared.answered);
    calls(&mut text, shared);
    resources(&mut text, shared);
    agents(&mut text, shared);
    let open = shared.options.connections.saturating_sub(shared.places.available_permits());
    gauge(&mut text, "handfast_http_connections", "Open connections.", open);
    for Gauge { name, help, value } in shared.options.mounts.iter().flat_map(|mount| mount.handler.gauges()) {
        gauge(&mut text, name, help, value);
    }
    let listening = MAX_FOLLOWERS.saturating_sub(shared.followers.available_permits());
    gauge(&mut text, "handfast_event_listeners", "Clients listening for questions.", listening);
    reply::bytes(StatusCode::OK, "text/plain; version=0.0.4", text.into_bytes(), ByteReservation::default())
}

fn answers(text: &mut String, answered: &ResponseCounts) {
    head(text, "handfast_http_requests_total", "counter", "Answered requests.");
    for ((route, method, status), count) in answered.all() {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "handfast_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {count}"
        );
    }
}

fn calls(text: &mut String, shared: &ServerState) {
    let figures = shared.engine.figures();
    head(text, "handfast_calls_total", "counter", "Finished tool calls, through every door.");
    for ((tool, outcome), count) in &figures.ended {
        let _ = writeln!(text, "handfast_calls_total{{tool=\"{tool}\",outcome=\"{outcome}\"}} {count}");
    }
    if let Some(traces) = figures.traces {
        counter(text, "handfast_spans_sent_total", "Spans accepted by the trace collector.", traces.sent);
        let help = "Spans rejected by the trace collector or dropped from a full queue.";
        counter(text, "handfast_spans_dropped_total", help, traces.dropped);
    }
    gauge(text, "handfast_calls_running", "Running tool calls.", figures.running);
    let name = "handfast_call_duration_seconds";
    head(text, name, "histogram", "Duration of tool calls.");
    let mut so_far = 0;
    for (range, count) in RANGES_MS.iter().zip(&figures.took) {
        so_far += count;
        let (seconds, rest) = (range / 1_000, range % 1_000);
        let _ = writeln!(text, "{name}_bucket{{le=\"{seconds}.{rest:03}\"}} {so_far}");
    }
    let all: u64 = figures.took.iter().sum();
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "{name}_sum {}", figures.took_in_all.as_secs_f64());
    let _ = writeln!(text, "{name}_count {all}");
}

fn resources(text: &mut String, shared: &ServerState) {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for resource in shared.engine.resources() {
        *counts.entry(resource.kind).or_default() += 1;
    }
    head(text, "handfast_resources", "gauge", "Resources that outlive calls, by kind.");
    for (kind, count) in counts {
        let _ = writeln!(text, "handfast_resources{{kind=\"{kind}\"}} {count}");
    }
}

/// Writes figures of the agents that work here. Their number is bounded, and their ids are hexadecimal.
fn agents(text: &mut String, shared: &ServerState) {
    let Some(feed) = shared.engine.agents() else { return };
    let agents = feed.agents();
    let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
    for agent in &agents {
        *states.entry(agent.state).or_default() += 1;
    }
    head(text, "handfast_agents", "gauge", "Agents of this process, by state.");
    for (state, count) in states {
        let _ = writeln!(text, "handfast_agents{{state=\"{state}\"}} {count}");
    }
    head(text, "handfast_agent_tokens", "gauge", "Tokens of an agent's requests to models.");
    for agent in &agents {
        let _ = writeln!(text, "handfast_agent_tokens{{agent=\"{}\"}} {}", agent.id, agent.tokens);
    }
    head(text, "handfast_agent_cost_usd", "gauge", "Known cost of an agent's requests, in US dollars.");
    for agent in &agents {
        let _ = writeln!(text, "handfast_agent_cost_usd{{agent=\"{}\"}} {}", agent.id, agent.usd);
    }
}

fn counter(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, "counter", help);
    let _ = writeln!(text, "{name} {value}");
}

fn gauge(text: &mut String, name: &str, help: &str, value: usize) {
    head(text, name, "gauge", help);
    let _ = writeln!(text, "{name} {value}");
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
