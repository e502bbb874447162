//! Traces of calls, as a collector receives them.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::collector::{Collector, Manner, Span, Spans, text};
use crate::harness::Fixture;
use crate::http::{Up, bearer};
use crate::server::Server;
use crate::specialist::EXEC;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traced(fixture: &Fixture, collector: &Collector) -> Command {
    let mut command = fixture.command();
    command.envs(collector.variables());
    command
}

fn up(fixture: &Fixture, collector: &Collector, arguments: &[&str]) -> Up {
    let mut command = traced(fixture, collector);
    command.args(arguments).args(["up", "--listen", "127.0.0.1:0", "--json"]);
    Up::of(command)
}

/// Returns the span of this name, and the spans below it in the order of their beginnings.
#[track_caller]
fn tree<'a>(spans: &'a [Span], name: &str) -> (&'a Span, Vec<&'a Span>) {
    let named = |span: &&Span| span.name == name;
    let root = spans.iter().find(named).unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
    let mut below: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == root.span_id).collect();
    below.sort_by_key(|span| span.start_time_unix_nano);
    (root, below)
}

fn names<'a>(spans: &[&'a Span]) -> Vec<&'a str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

#[test]
fn a_call_is_a_span_below_that_of_its_caller_and_its_stages_are_below_it() {
    let (fixture, collector) = (Fixture::new(), Collector::start(Manner::Takes));
    let up = up(&fixture, &collector, &[]);
    let body = json!({"tool": "shell_execute", "arguments": {"command": "echo secret-argument > a.txt"}});
    let from = format!("traceparent: {}", traceparent());
    let headers = [bearer(&up.agent), from, "tracestate: a=1".to_owned(), "tracestate: b=2".to_owned()];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let result = up.request("POST", "/v1/call", &headers, body.to_string().as_bytes()).json();
    assert_eq!(result["ok"], true, "{result:#}");

    let sent = collector.next();
    assert!(sent.head.starts_with("POST /v1/traces HTTP/1.1"), "{}", sent.head);
    let resource = &sent.message.resource_spans[0].resource.as_ref().unwrap().attributes;
    assert_eq!(text(resource, "service.name"), Some("handfast"));
    let spans = sent.message.spans();
    let (root, stages) = tree(&spans, "execute_tool shell_execute");
    assert_eq!(names(&stages), ["decide", "admit", "record intent", "checkpoint", "run", "swap in"]);
    assert_eq!(
        (hexadecimal(&root.trace_id), hexadecimal(&root.parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    assert_eq!((root.trace_state.as_str(), root.kind, root.status.is_none()), ("a=1,b=2", 2, true));
    let of = |name: &str| text(&root.attributes, name);
    assert_eq!(
        (of("gen_ai.tool.name"), of("gen_ai.operation.name")),
        (Some("shell_execute"), Some("execute_tool"))
    );
    assert_eq!((of("http.route"), of("handfast.door")), (Some("/v1/call"), Some("http")));
    assert_eq!((of("handfast.decision"), of("handfast.effect")), (Some("pass"), Some("done")));
    assert_eq!(of("handfast.call"), result["meta"]["call_id"].as_str());
    assert!(
        of("handfast.checkpoint").is_some()
            && of("handfast.checkpoint") == result["meta"]["checkpoint"].as_str()
    );
    let mut until = root.start_time_unix_nano;
    for stage in &stages {
        assert_eq!(stage.trace_id, root.trace_id);
        assert!(
            until <= stage.start_time_unix_nano && stage.start_time_unix_nano <= stage.end_time_unix_nano,
            "{stage:#?}"
        );
        until = stage.end_time_unix_nano;
    }
    assert!(until <= root.end_time_unix_nano);
    assert!(!format!("{:?}", sent.message).contains("secret-argument"), "an argument is in a span");
}

#[test]
fn what_failed_says_in_which_stage_and_a_secret_is_covered() {
    let (fixture, collector) =
        (Fixture::with_files(&[("a.txt", "a")]).asking(), Collector::start(Manner::Takes));
    let mut command = traced(&fixture, &collector);
    command.env("APP_TOKEN", "sk-1234567890abcdef").args(["up", "--listen", "127.0.0.1:0", "--json"]);
    let up = Up::of(command);
    for (tool, arguments, code, stage) in [
        ("file_read", json!({"path": ".env"}), "EPERMISSION", "decide"),
        ("file_write", json!({"path": "b.txt", "content": "b"}), "EAPPROVAL", "approve"),
        ("file_read", json!({"path": "sk-1234567890abcdef"}), "ENOTFOUND", "run"),
    ] {
        let result = up.call(tool, arguments);
        assert_eq!(result["error"]["code"], code, "{result:#}");
        let spans = collector.until(&format!("execute_tool {tool}"));
        let (root, stages) = tree(&spans, &format!("execute_tool {tool}"));
        assert_eq!(
            (text(&root.attributes, "error.type"), root.status.as_ref().unwrap().code),
            (Some(code), 2)
        );
        let failed: Vec<&str> =
            stages.iter().filter(|stage| stage.status.is_some()).map(|stage| stage.name.as_str()).collect();
        assert_eq!(failed, [stage], "{:?}", names(&stages));
        assert!(!format!("{spans:?}").contains("1234567890abcdef"));
    }
    let unknown = up.call("sk-1234567890abcdef", json!({}));
    assert_eq!(unknown["error"]["code"], "ENOTFOUND");
    let spans = collector.until("execute_tool");
    assert!(!format!("{spans:?}").contains("1234567890abcdef"));
    let figures = up.get(&up.observer, "/metrics").body;
    let sent = figures.lines().find_map(|line| line.strip_prefix("handfast_spans_sent_total ")).unwrap();
    assert!(sent.parse::<u32>().unwrap() > 0, "{figures}");
    assert!(figures.contains("\nhandfast_spans_dropped_total 0\n"), "{figures}");
}

#[test]
fn over_mcp_a_message_says_itself_what_it_is_a_part_of() {
    let (fixture, collector) = (Fixture::with_files(&[("a.txt", "a")]), Collector::start(Manner::Takes));
    let mut server = Server::of(traced(&fixture, &collector));
    let meta = json!({"traceparent": traceparent(), "tracestate": "a=1"});
    let params = json!({"name": "file_read", "arguments": {"path": "a.txt"}, "_meta": meta});
    assert_ne!(server.ask("tools/call", params)["isError"], true);
    let spans = collector.until("tools/call file_read");
    let (root, stages) = tree(&spans, "tools/call file_read");
    assert_eq!(names(&stages), ["decide", "admit", "run"]);
    assert_eq!((hexadecimal(&root.trace_id), root.trace_state.as_str()), (TRACE.to_owned(), "a=1"));
    let of = |name: &str| text(&root.attributes, name);
    assert_eq!((of("mcp.method.name"), of("network.transport")), (Some("tools/call"), Some("pipe")));
    assert_eq!((of("mcp.protocol.version"), of("handfast.door")), (Some("2025-11-25"), Some("mcp")));
    assert!(of("jsonrpc.request.id").is_some());

    let failed = server.call("file_read", json!({"path": "b.txt"}));
    assert_eq!(failed["isError"], true);
    let spans = collector.until("tools/call file_read");
    let (root, _) = tree(&spans, "tools/call file_read");
    assert_eq!(text(&root.attributes, "error.type"), Some("tool_error"), "as the conventions have it");
    assert_eq!((text(&root.attributes, "handfast.code"), root.parent_span_id.len()), (Some("ENOTFOUND"), 0));
    assert_ne!(hexadecimal(&root.trace_id), TRACE);

    server.ask("resources/read", json!({"uri": "handfast://file/a.txt"}));
    let spans = collector.until("resources/read");
    assert!(!format!("{spans:?}").contains("a.txt"));
    server.end();
}

#[test]
fn over_http_a_message_of_mcp_is_a_part_of_its_request_unless_it_says_otherwise() {
    let (fixture, collector) = (Fixture::with_files(&[("a.txt", "a")]), Collector::start(Manner::Takes));
    let up = up(&fixture, &collector, &[]);
    let other = format!("00-{}-{}-01", "1".repeat(32), "2".repeat(16));
    for (meta, trace, links) in [
        (json!({}), "1".repeat(32), 0),
        (json!({"traceparent": traceparent()}), TRACE.to_owned(), 1),
        (json!({"traceparent": "00-no"}), "1".repeat(32), 0),
    ] {
        let mut meta = meta;
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let params = json!({"name": "file_read", "arguments": {"path": "a.txt"}, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": "one", "method": "tools/call", "params": params});
        let headers = [
            bearer(&up.agent),
            format!("traceparent: {other}"),
            "content-type: application/json".to_owned(),
            "mcp-protocol-version: 2026-07-28".to_owned(),
            "mcp-method: tools/call".to_owned(),
            "mcp-name: file_read".to_owned(),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let answer = up.request("POST", "/mcp", &headers, message.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let spans = collector.until("tools/call file_read");
        let (root, _) = tree(&spans, "tools/call file_read");
        assert_eq!((hexadecimal(&root.trace_id), root.links.len()), (trace, links), "{root:#?}");
        assert_eq!(text(&root.attributes, "network.transport"), Some("tcp"));
        assert_eq!(text(&root.attributes, "jsonrpc.request.id"), Some("one"));
    }
}

#[test]
fn the_command_line_and_csp_are_followed_and_what_is_left_is_sent_at_the_end() {
    let (fixture, collector) = (Fixture::with_files(&[("a.txt", "a")]), Collector::start(Manner::Takes));
    let endpoint = format!("http://{}/in", collector.address);
    let run = |arguments: &[&str], input: &str| {
        let mut command = fixture.command();
        command
            .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc%20def")
            .env("OTEL_SERVICE_NAME", "hands")
            // The delay is longer than the test, so spans are sent only because the program ends.
            .env("OTEL_BSP_SCHEDULE_DELAY", "600000")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        collector.next()
    };
    let sent = run(&["call", "file_read", r#"{"path": "a.txt"}"#], "");
    assert!(
        sent.head.starts_with("POST /in HTTP/1.1") && sent.head.contains("x-key: abc def"),
        "{}",
        sent.head
    );
    let resource = sent.message.resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), Some("hands"));
    let spans = sent.message.spans();
    let (root, _) = tree(&spans, "execute_tool file_read");
    assert_eq!((root.kind, text(&root.attributes, "handfast.door")), (1, Some("cli")));
    let spans = run(&["csp"], &format!("{EXEC}COMMAND true\n\n")).message.spans();
    let (root, _) = tree(&spans, "execute_tool exec");
    assert_eq!(text(&root.attributes, "handfast.tool"), Some("shell_execute"));
    assert_eq!(text(&root.attributes, "handfast.door"), Some("csp"));
}

#[test]
fn nothing_is_sent_where_nobody_follows_or_the_caller_does_not() {
    let (fixture, collector) = (Fixture::with_files(&[("a.txt", "a")]), Collector::start(Manner::Takes));
    let call = ["call", "file_read", r#"{"path": "a.txt"}"#];
    let run = |variables: &[(&str, &str)]| {
        let mut command = traced(&fixture, &collector);
        assert!(
            command
                .envs(variables.iter().copied())
                .args(call)
                .stdout(Stdio::null())
                .status()
                .unwrap()
                .success()
        );
        collector.arrived()
    };
    assert_eq!(run(&[("OTEL_SDK_DISABLED", "true")]), 0);
    assert_eq!(run(&[("OTEL_TRACES_SAMPLER", "always_off")]), 0);
    assert_eq!(run(&[]), 1, "and without that it is");
    let up = up(&fixture, &collector, &[]);
    let body = json!({"tool": "file_read", "arguments": {"path": "a.txt"}}).to_string();
    for (flags, tool) in [("00", "unfollowed"), ("01", "followed")] {
        let from = format!("traceparent: 00-{TRACE}-{PARENT}-{flags}");
        let response = up.request("POST", "/v1/call", &[&bearer(&up.agent), &from], body.as_bytes());
        assert_eq!(response.status, 200, "{tool}");
    }
    let spans = collector.until("execute_tool file_read");
    assert_eq!(spans.iter().filter(|span| span.name == "execute_tool file_read").count(), 1);
}

/// Makes a hundred calls, one after the other, without other options.
fn hundred_calls(up: &Up) {
    for _ in 0..100 {
        let result = up.call("file_read", json!({"path": "a.txt"}));
        assert_eq!(result["ok"], true, "{result:#}");
    }
}

#[test]
fn a_collector_that_is_not_there_or_hangs_holds_nothing_up_and_is_told_of_once() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = gone.local_addr().unwrap();
    drop(gone);
    let hanging = Collector::start(Manner::Hangs);
    for (address, timeout) in [(nowhere, "10000"), (hanging.address, "600000")] {
        let fixture = Fixture::with_files(&[("a.txt", "a")]);
        let log = fixture.outside().join("log");
        let mut command = fixture.command();
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)
            .env("OTEL_BSP_SCHEDULE_DELAY", "1")
            .env("OTEL_BSP_MAX_QUEUE_SIZE", "2")
            .env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
            .stderr(std::fs::File::create(&log).unwrap())
            .args(["up", "--listen", "127.0.0.1:0", "--json"]);
        let up = Up::of(command);
        // A call that waited for the collector would exceed the timeout of the test's client.
        hundred_calls(&up);
        let figures = up.get(&up.observer, "/metrics").body;
        let figure = |name: &str| {
            figures.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap()
        };
        assert_eq!(figure("handfast_spans_sent_total"), 0);
        // Each call makes four spans. One batch is in flight, and two wait.
        assert!(figure("handfast_spans_dropped_total") >= 4 * 97, "{figures}");
        assert_eq!(up.end(), Some(128 + 15));
        let said = std::fs::read_to_string(&log).unwrap();
        let told = said.lines().filter(|line| line.contains("traces do not arrive")).count();
        assert_eq!(told, usize::from(address == nowhere), "{said}");
    }
}

#[test]
fn a_collector_that_refuses_is_told_of_and_one_that_takes_no_more_is_asked_again() {
    for (status, requests) in [(400, 1), (503, 2)] {
        let (fixture, collector) =
            (Fixture::with_files(&[("a.txt", "a")]), Collector::start(Manner::Answers(status)));
        let mut command = traced(&fixture, &collector);
        command.args(["mcp"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "file_read", "arguments": {"path": "a.txt"}}});
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, format!("{initialize}\n{call}\n").as_bytes()).unwrap();
        for _ in 0..requests {
            assert_eq!(collector.next().message.spans().len(), 4);
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            said.matches(&format!(
                "traces do not arrive at http://{}/v1/traces: it answered {status}",
                collector.address
            ))
            .count(),
            1,
            "{said}"
        );
    }
}

#[test]
fn a_workspace_cannot_say_where_traces_go_and_the_user_can() {
    let collector = Collector::start(Manner::Takes);
    let traces = format!("traces:\n  endpoint: http://{}\n  service_name: filed\n", collector.address);
    let fixture = Fixture::with_files(&[("a.txt", "a"), ("handfast.yaml", &traces)]);
    assert_eq!(fixture.run(&["trust"]).code, 0);
    let run = fixture.run(&["call", "file_read", r#"{"path": "a.txt"}"#]);
    assert!(run.stderr.contains("`traces` is ignored"), "{}", run.stderr);
    assert_eq!((run.json()["ok"].clone(), collector.arrived()), (Value::Bool(true), 0));
    std::fs::remove_file(fixture.workspace().join("handfast.yaml")).unwrap();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), traces).unwrap();
    assert_eq!(fixture.call("file_read", json!({"path": "a.txt"}))["ok"], true);
    let sent = collector.next();
    let resource = sent.message.resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), Some("filed"));
}

#[test]
fn every_call_of_many_arrives_and_is_a_trace_of_its_own() {
    let (fixture, collector) = (Fixture::with_files(&[("a.txt", "a")]), Collector::start(Manner::Takes));
    let up = up(&fixture, &collector, &[]);
    hundred_calls(&up);
    let mut calls = 0;
    while calls < 100 {
        calls +=
            collector.next().message.spans().iter().filter(|span| span.parent_span_id.is_empty()).count();
    }
    assert_eq!(calls, 100, "each is a trace of its own");
    assert_eq!(up.end(), Some(128 + 15));
}
