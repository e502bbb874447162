//! The official servers, as they come from npm and `PyPI`. `cargo xtask test` installs them.

#![allow(
    clippy::disallowed_methods,
    reason = "the servers are programs of this test, and no cell is tested here"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_client::definition::Pins;
use mcp_client::names::{ForeignName, LONGEST_NAME, offered_names};
use mcp_client::schema::portable_schema;
use mcp_client::{
    Abilities, Client, ClientName, FirstContact, HttpEndpoint, Limits, Options, ProcessStreams,
    ProgressReport, ProgressSink, ServerProcess, ToolCall,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::fake::{RuntimeTimer, Seen, call, text};
use crate::transport::LocalTransport;

fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools")
}

fn installed(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is missing: `cargo xtask test` installs it", path.display());
    path
}

/// Returns the words that start a server from npm.
fn node(server: &str) -> Vec<PathBuf> {
    let script = tools().join("node/node_modules/@modelcontextprotocol").join(server).join("dist/index.js");
    vec!["node".into(), installed(script)]
}

/// Returns the words that start a server from `PyPI`.
fn python(module: &str) -> Vec<PathBuf> {
    vec![installed(tools().join("servers/bin/python")), "-m".into(), module.into()]
}

struct Process(Mutex<tokio::process::Child>);

impl ServerProcess for Process {
    fn kill(&self) {
        // It may have ended by itself.
        let _ = self.0.lock().start_kill();
    }
}

/// Starts a server, and connects to it.
async fn connect(words: Vec<PathBuf>, home: &Path, seen: &Seen) -> Client {
    let (program, arguments) = words.split_first().unwrap();
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .current_dir(home)
        .env("MEMORY_FILE_PATH", home.join("memory.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let streams = ProcessStreams {
        output: Box::new(child.stdout.take().unwrap()),
        input: Box::new(child.stdin.take().unwrap()),
        process: Box::new(Process(Mutex::new(child))),
    };
    Client::over_streams(streams, options(seen)).await.unwrap()
}

fn options(seen: &Seen) -> Options {
    Options {
        name: ClientName { name: "tests".to_owned(), version: "1".to_owned() },
        first: FirstContact::Discover,
        limits: Limits {
            discover: Duration::from_mins(1),
            handshake: Duration::from_mins(1),
            ..Limits::default()
        },
        timer: Arc::new(RuntimeTimer),
        requests: Arc::new(seen.clone()),
        listener: Arc::new(seen.clone()),
        wants_notices: true,
    }
}

fn arguments(value: &Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Checks that every tool of a server can be offered, and returns the names.
async fn offered(server: &str, client: &Client) -> Vec<String> {
    let listing = client.list_tools().await.unwrap();
    assert_eq!(listing.faults, Vec::<String>::new(), "{server}");
    let mut pins = Pins::default();
    for tool in &listing.entries {
        let schema = portable_schema(&tool.input_schema_value());
        let schema = schema.unwrap_or_else(|error| panic!("{server} {}: {error}", tool.name));
        assert_eq!(tool::subset_violations(&schema.schema), Vec::<String>::new(), "{server} {}", tool.name);
        pins.pin(tool);
    }
    let again = client.list_tools().await.unwrap();
    assert_eq!(pins.compare(&again.entries), [], "{server} says the same each time");
    let foreign: Vec<ForeignName> = listing
        .entries
        .iter()
        .map(|tool| ForeignName { server: server.to_owned(), tool: tool.name.clone() })
        .collect();
    offered_names(&foreign, &BTreeSet::new(), LONGEST_NAME)
}

#[derive(Default)]
struct Reports(Mutex<Vec<ProgressReport>>);

impl ProgressSink for Reports {
    fn progress(&self, report: ProgressReport) {
        self.0.lock().push(report);
    }
}

#[tokio::test]
async fn server_everything_works_with_progress_prompts_resources_and_sampling() {
    let home = tempfile::tempdir().unwrap();
    let seen = Seen::able(Abilities { sampling: true, forms: true, urls: false, roots: true });
    let client = connect(node("server-everything"), home.path(), &seen).await;
    let names = offered("everything", &client).await;
    assert!(names.contains(&"everything__echo".to_owned()), "{names:?}");
    let echo = client
        .call_tool(ToolCall { arguments: arguments(&json!({"message": "grüß dich"})), ..call("echo") })
        .await;
    assert_eq!(text(&echo), "Echo: grüß dich");
    let reports = Arc::new(Reports::default());
    let long = ToolCall {
        arguments: arguments(&json!({"duration": 1, "steps": 3})),
        progress: Some(reports.clone()),
        ..call("trigger-long-running-operation")
    };
    let answer = client.call_tool(long).await;
    assert!(text(&answer).contains("completed"), "{answer:?}");
    assert!(reports.0.lock().len() >= 2, "{:?}", reports.0.lock());
    let sampling = ToolCall {
        arguments: arguments(&json!({"prompt": "hi", "maxTokens": 5})),
        ..call("trigger-sampling-request")
    };
    let answer = client.call_tool(sampling).await;
    assert!(text(&answer).contains("hi"), "{answer:?}");
    assert!(seen.requests().contains(&"sampling".to_owned()), "{:?}", seen.requests());
    assert!(!client.list_prompts().await.unwrap().entries.is_empty());
    let resources = client.list_resources().await.unwrap();
    let contents = client.read_resource(&resources.entries[0].uri).await.unwrap();
    assert!(!contents.is_empty());
    let wrong = client.call_tool(call("no-such-tool")).await;
    assert!(wrong.is_err() || wrong.is_ok_and(|answer| answer.is_error));
}

#[tokio::test]
async fn server_memory_keeps_a_graph() {
    let home = tempfile::tempdir().unwrap();
    let client = connect(node("server-memory"), home.path(), &Seen::default()).await;
    let names = offered("memory", &client).await;
    assert!(names.contains(&"memory__read_graph".to_owned()), "{names:?}");
    let entity =
        json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["writes programs"]}]});
    client.call_tool(ToolCall { arguments: arguments(&entity), ..call("create_entities") }).await.unwrap();
    let graph = client.call_tool(call("read_graph")).await.unwrap();
    assert!(format!("{graph:?}").contains("writes programs"), "{graph:?}");
    assert!(home.path().join("memory.json").exists());
}

#[tokio::test]
async fn server_filesystem_reads_within_its_folder_and_refuses_outside() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("note.txt"), "a note").unwrap();
    let words = node("server-filesystem").into_iter().chain([home.path().to_owned()]).collect();
    let client = connect(words, home.path(), &Seen::default()).await;
    let names = offered("filesystem", &client).await;
    assert!(names.contains(&"filesystem__read_text_file".to_owned()), "{names:?}");
    let read =
        |path: &Path| ToolCall { arguments: arguments(&json!({"path": path})), ..call("read_text_file") };
    assert_eq!(text(&client.call_tool(read(&home.path().join("note.txt"))).await), "a note");
    assert!(client.call_tool(read(Path::new("/etc/passwd"))).await.unwrap().is_error);
}

#[tokio::test]
async fn mcp_server_git_reads_a_repository() {
    let home = tempfile::tempdir().unwrap();
    let made = tokio::process::Command::new("git")
        .args(["init", "--quiet"])
        .arg(home.path())
        .status()
        .await
        .unwrap();
    assert!(made.success());
    let client = connect(python("mcp_server_git"), home.path(), &Seen::default()).await;
    let names = offered("git", &client).await;
    assert!(names.contains(&"git__git_status".to_owned()), "{names:?}");
    let status = ToolCall { arguments: arguments(&json!({"repo_path": home.path()})), ..call("git_status") };
    let answer = client.call_tool(status).await;
    assert!(text(&answer).contains("No commits yet"), "{answer:?}");
}

#[tokio::test]
async fn mcp_server_fetch_is_listed_and_reports_a_host_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let client = connect(python("mcp_server_fetch"), home.path(), &Seen::default()).await;
    assert_eq!(offered("fetch", &client).await, ["fetch__fetch"]);
    // Port 9 of this machine answers nobody.
    let fetch = ToolCall { arguments: arguments(&json!({"url": "http://127.0.0.1:9/"})), ..call("fetch") };
    let answer = client.call_tool(fetch).await;
    assert!(answer.is_err() || answer.as_ref().is_ok_and(|answer| answer.is_error), "{answer:?}");
}

#[tokio::test]
async fn a_server_ends_when_its_input_closes() {
    let home = tempfile::tempdir().unwrap();
    let seen = Seen::default();
    let client = connect(node("server-memory"), home.path(), &seen).await;
    let before = Instant::now();
    client.end(Duration::from_secs(20)).await;
    eprintln!("server-memory ended after {:?}: {:?}", before.elapsed(), seen.notices());
    assert_eq!(seen.notices().len(), 1);
}

/// Uses server-everything over HTTP. `mode` is its own name for the transport, `path` that of the endpoint.
async fn uses_everything_over_http(mode: &str, path: &str) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let words = node("server-everything");
    let mut server = tokio::process::Command::new(&words[0])
        .arg(&words[1])
        .arg(mode)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // It says on which port it listens.
    let mut said = tokio::io::BufReader::new(server.stderr.take().unwrap()).lines();
    while let Some(line) = said.next_line().await.unwrap() {
        if line.contains(&port.to_string()) {
            break;
        }
    }
    tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
    let seen = Seen::able(Abilities { sampling: true, forms: true, urls: false, roots: true });
    let endpoint = HttpEndpoint {
        url: format!("http://127.0.0.1:{port}{path}"),
        headers: Vec::new(),
        transport: Arc::new(LocalTransport),
    };
    let client = match mode {
        "sse" => Client::over_event_stream(endpoint, options(&seen)).await.unwrap(),
        _ => Client::over_http(endpoint, options(&seen)).await.unwrap(),
    };
    assert!(offered("everything", &client).await.contains(&"everything__echo".to_owned()));
    let echo = client
        .call_tool(ToolCall { arguments: arguments(&json!({"message": "über HTTP"})), ..call("echo") })
        .await;
    assert_eq!(text(&echo), "Echo: über HTTP");
    let sampling = ToolCall {
        arguments: arguments(&json!({"prompt": "hi", "maxTokens": 5})),
        ..call("trigger-sampling-request")
    };
    let answer = client.call_tool(sampling).await;
    assert!(text(&answer).contains("hi"), "{answer:?}");
    client.end(Duration::from_secs(5)).await;
    server.kill().await.unwrap();
}

#[tokio::test]
async fn server_everything_works_over_streamable_http() {
    uses_everything_over_http("streamableHttp", "/mcp").await;
}

#[tokio::test]
async fn server_everything_works_over_the_transport_of_2024() {
    uses_everything_over_http("sse", "/sse").await;
}

/// Prints how much the client adds to a call. Nothing here depends on the figure.
#[tokio::test]
async fn calls_of_server_everything_are_timed_with_the_client_and_without() {
    let home = tempfile::tempdir().unwrap();
    let client = connect(node("server-everything"), home.path(), &Seen::default()).await;
    let message = arguments(&json!({"message": "hello"}));
    let (mut with_client, mut without) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let before = Instant::now();
        client.call_tool(ToolCall { arguments: message.clone(), ..call("echo") }).await.unwrap();
        with_client.push(before.elapsed());
    }
    let words = node("server-everything");
    let mut child = tokio::process::Command::new(&words[0])
        .arg(&words[1])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    input.write_all(format!("{initialize}\n{ready}\n").as_bytes()).await.unwrap();
    lines.next_line().await.unwrap().unwrap();
    for id in 1..=300 {
        let params = json!({"name": "echo", "arguments": message});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let (line, end) = (format!("{request}\n"), format!("\"id\":{id}}}"));
        let before = Instant::now();
        input.write_all(line.as_bytes()).await.unwrap();
        while !lines.next_line().await.unwrap().unwrap().contains(&end) {}
        without.push(before.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    println!(
        "echo of server-everything: {:?} with the client, {:?} without",
        median(with_client),
        median(without)
    );
}
