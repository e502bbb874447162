//! The check of an entry: Handfast is reached exactly as the client will reach it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::{Web, WebRequest};
use fetch::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::clients::Way;
use crate::commands::tokio_runtime;

/// Revision of MCP that the check speaks. Every client of the list speaks it or a later one.
const REVISION: &str = "2025-06-18";
/// Time for a whole check.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of an answer in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A successful check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handshake {
    /// Number of listed tools.
    pub(super) tools: usize,
    /// Time from the start to the list of tools.
    pub(super) took: Duration,
}

/// Failure of a check.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// No server listens at the address. The server may be started later.
    NobodyListens,
    /// The check failed, for the given reason.
    Failed(String),
}

impl From<String> for HandshakeError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Makes the handshake of a client and lists the tools.
///
/// # Errors
/// [`HandshakeError`] with the reason in words.
pub(super) fn check(way: &Way, client: &str, folder: &Path) -> Result<Handshake, HandshakeError> {
    match way {
        Way::Stdio { program, arguments } => Ok(by_stdio(program, arguments, client, folder)?),
        Way::Http { url, token } => tokio_runtime().map_err(|error| error.to_string())?.block_on(by_http(
            url,
            token.as_deref(),
            client,
        )),
    }
}

fn initialize(client: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": format!("handfast-attach-{client}"), "version": env!("CARGO_PKG_VERSION")}}})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn list() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
}

fn tools_in(answer: &Value) -> Result<usize, String> {
    if let Some(message) = answer["error"]["message"].as_str() {
        return Err(message.to_owned());
    }
    answer["result"]["tools"].as_array().map(Vec::len).ok_or_else(|| "the answer lists no tools".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "the check starts the program as the user's own client will")]
fn by_stdio(program: &str, arguments: &[String], client: &str, folder: &Path) -> Result<Handshake, String> {
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let (mut input, output) = (child.stdin.take(), child.stdout.take());
    let (lines, received) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output?).lines() {
            let answer = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok())?;
            lines.send(answer).ok()?;
        }
        Some(())
    });
    let answer_to = |id: u64| loop {
        let left = TIMEOUT.saturating_sub(began.elapsed());
        match received.recv_timeout(left) {
            Ok(answer) if answer["id"] == json!(id) => return Ok(answer),
            Ok(_) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(format!("no answer within {} s", TIMEOUT.as_secs()));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err("it ended without an answer".to_owned()),
        }
    };
    let mut send = |messages: &[Value]| {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        // If the program has ended, the missing answer is the better message.
        let _ = input.as_mut().map(|input| input.write_all(text.as_bytes()).and_then(|()| input.flush()));
    };
    send(&[initialize(client)]);
    let listed = answer_to(1).and_then(|answer| match answer["error"]["message"].as_str() {
        Some(message) => Err(message.to_owned()),
        None => {
            send(&[initialized(), list()]);
            tools_in(&answer_to(2)?)
        }
    });
    let took = began.elapsed();
    drop(input);
    if listed.is_err() {
        // The program may hang. Its end is all that is needed.
        let _ = child.kill();
    }
    let ended = child.wait_with_output();
    let _ = reader.join();
    listed.map(|tools| Handshake { tools, took }).map_err(|reason| {
        let errors =
            ended.map(|ended| String::from_utf8_lossy(&ended.stderr).trim().to_owned()).unwrap_or_default();
        if errors.is_empty() { reason } else { format!("{reason}: {}", tool::visible(&errors)) }
    })
}

async fn by_http(url: &str, token: Option<&str>, client: &str) -> Result<Handshake, HandshakeError> {
    let began = Instant::now();
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    let socket = format!("{}:{}", target.host(), target.port());
    if std::net::TcpStream::connect(&socket)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    {
        return Err(HandshakeError::NobodyListens);
    }
    let web = Web::default();
    let mut headers = HeaderMap::new();
    let constant = |name: &'static str| HeaderName::from_static(name);
    headers.insert(constant("content-type"), HeaderValue::from_static("application/json"));
    headers.insert(constant("accept"), HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(token) = token {
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(constant("authorization"), value);
    }
    let (_, session) = post(&web, &target, &headers, &initialize(client)).await?;
    if let Some(session) = session {
        headers.insert(constant("mcp-session-id"), session);
    }
    headers.insert(constant("mcp-protocol-version"), HeaderValue::from_static(REVISION));
    post(&web, &target, &headers, &initialized()).await?;
    let (answer, _) = post(&web, &target, &headers, &list()).await?;
    let tools = tools_in(&answer)?;
    Ok(Handshake { tools, took: began.elapsed() })
}

async fn post(
    web: &Web,
    target: &Target,
    headers: &HeaderMap,
    message: &Value,
) -> Result<(Value, Option<HeaderValue>), String> {
    let ask = WebRequest {
        target: target.clone(),
        method: fetch::Method::POST,
        headers: headers.clone(),
        body: message.to_string().into_bytes().into(),
        permission: Permission::judged(|_| Some(true)),
        deadline: Instant::now() + TIMEOUT,
    };
    let mut answer = web.send(ask).await.map_err(|error| error.to_string())?;
    let (status, session) = (answer.status, answer.headers.get("mcp-session-id").cloned());
    let decoder = tool_support::decoder(&answer, true, LARGEST).map_err(|_| "the answer cannot be read")?;
    let body = tool_support::whole(&mut answer, decoder).await.map_err(|_| "the answer cannot be read")?;
    let text = String::from_utf8_lossy(&body);
    if !(200..300).contains(&status) {
        return Err(match status {
            401 | 403 => "the server does not accept the token".to_owned(),
            status => format!("the server answers with status {status}"),
        });
    }
    // An answer may come as JSON or as the last event of a stream.
    let json = text.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap_or(&text);
    Ok((serde_json::from_str(json.trim()).unwrap_or_default(), session))
}
