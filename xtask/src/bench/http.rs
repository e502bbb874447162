//! Cost of the HTTP door: a small read on one connection and with many in flight, and the memory of
//! calls and of sessions.
//!
//! The client runs in this process and takes its share of the processors. The client writes
//! requests and scans answers byte by byte, without a library.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::measure::Durations;
use crate::bench::server::figure;
use crate::bench::{SMALL_FILE, text_of};
use crate::command::{Failure, Result, write};

/// Number of connections that call at once.
const IN_FLIGHT: usize = 32;

/// Number of samples per measurement.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) alone: usize,
    pub(super) calls: usize,
    pub(super) sessions: usize,
}

/// Figures about HTTP.
pub(super) struct Http {
    /// Reads of 1 KB, one after the other.
    pub(super) alone: Durations,
    /// Reads per second, with [`IN_FLIGHT`] at a time.
    pub(super) each_second: f64,
    pub(super) calls: usize,
    pub(super) resident_at_first: u64,
    pub(super) resident_after_calls: u64,
    pub(super) sessions: usize,
    pub(super) resident_with_sessions: u64,
}

/// A running `handfast up`.
pub(super) struct Up {
    child: Child,
    address: String,
    token: String,
}

/// One persistent connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

pub(super) fn all(folder: &Path, binary: &Path, samples: Samples) -> Result<Http> {
    let workspace = folder.join("workspace");
    write(&workspace.join("small.txt"), &text_of(SMALL_FILE))?;
    let up = Up::start(folder, &workspace, binary)?;
    let call = json!({"tool": "file_read", "arguments": {"path": "small.txt"}}).to_string();
    let mut client = up.client("/v1/call", "")?;
    client.post(&call)?;
    let resident_at_first = up.resident()?;
    eprintln!("reading 1 KB over HTTP {} times", samples.alone);
    let mut alone = Durations::default();
    for _ in 0..samples.alone {
        let began = Instant::now();
        let answer = client.post(&call)?;
        alone.add(began.elapsed());
        if !answer.starts_with("{\"ok\":true") || answer.len() < SMALL_FILE {
            return Err(Failure(format!("the read failed: {answer:.300}")));
        }
    }
    eprintln!("reading it {} times, {IN_FLIGHT} at a time", samples.calls);
    let began = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..IN_FLIGHT)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut client = up.client("/v1/call", "")?;
                    (0..samples.calls / IN_FLIGHT).try_for_each(|_| client.post(&call).map(drop))
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| {
            client.join().map_err(|_| Failure::new("a client of the benchmark broke off"))?
        })
    })?;
    let took = began.elapsed();
    let resident_after_calls = up.resident()?;
    eprintln!("opening {} sessions", samples.sessions);
    let client_info = json!({"name": "handfast-bench", "version": "1"});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info}})
    .to_string();
    let mut client = up.client("/mcp", "accept: application/json, text/event-stream\r\n")?;
    for _ in 0..samples.sessions {
        client.post(&hello)?;
    }
    Ok(Http {
        alone,
        each_second: rate(samples.calls / IN_FLIGHT * IN_FLIGHT, took),
        calls: samples.calls + samples.alone,
        resident_at_first,
        resident_after_calls,
        sessions: samples.sessions,
        resident_with_sessions: up.resident()?,
    })
}

#[expect(clippy::cast_precision_loss, reason = "nobody makes 2^53 calls")]
fn rate(calls: usize, took: Duration) -> f64 {
    calls as f64 / took.as_secs_f64().max(f64::EPSILON)
}

impl Up {
    pub(super) fn start(folder: &Path, workspace: &Path, binary: &Path) -> Result<Self> {
        let failed = |what: &str| Failure(format!("handfast up: {what}"));
        let log: PathBuf = folder.join("up.log");
        let log = File::create(&log).map_err(|error| failed(&format!("cannot create its log: {error}")))?;
        let mut child = Command::new(binary)
            .args(["up", "--json", "--listen", "127.0.0.1:0", "--mode", "full_auto", "--workspace"])
            .arg(workspace)
            .arg("--state")
            .arg(folder.join("state"))
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| failed(&format!("cannot start it: {error}")))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(|error| failed(&format!("it says nothing: {error}")))?;
        }
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
        Ok(Self { child, address: text("address"), token: text("agent_token") })
    }

    pub(super) fn client(&self, path: &str, further: &str) -> Result<Client> {
        let stream = TcpStream::connect(&self.address).map_err(|error| broken(&error))?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        let (address, token) = (&self.address, &self.token);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\n{further}content-length: "
        );
        Ok(Client { stream: BufReader::new(stream), head })
    }

    /// Returns the resident memory of the server's own process, in KiB.
    fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.map_err(|error| Failure(format!("handfast up has ended: {error}")))?;
        figure(&status, "VmRSS").ok_or_else(|| Failure::new("the kernel says nothing of its memory"))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // If the process has already ended, `kill` fails and no action is needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Sends a request and returns the body of the answer.
    pub(super) fn post(&mut self, body: &str) -> Result<String> {
        let request = format!("{}{}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(request.as_bytes()).map_err(|error| broken(&error))?;
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            let read = self.stream.read_line(&mut line).map_err(|error| broken(&error))?;
            if read == 0 {
                return Err(Failure::new("handfast up closed the connection"));
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap_or_default();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).map_err(|error| broken(&error))?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn broken(error: &std::io::Error) -> Failure {
    Failure(format!("the connection to handfast up: {error}"))
}
