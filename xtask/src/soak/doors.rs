//! The doors that the calls go through: HTTP, MCP over stdio, and the command line.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::command::{Failure, Result};
use crate::soak::place::{Place, Process};

/// Maximum time for an answer.
const PATIENCE: Duration = Duration::from_mins(2);

/// The answer to a call.
pub(super) enum Answer {
    /// The result, in the shape of the command line.
    Result(Value),
    /// The soak itself interrupted the call. Its changes are all present or all absent.
    Lost,
}

/// An interruption of a call, with the delay before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Break {
    /// The client closes its connection.
    Disconnect(Duration),
    /// The process receives a signal.
    Signal(Signal, Duration),
}

/// The door of one caller.
pub(super) enum Door<'place> {
    Http(Arc<Up<'place>>),
    Mcp(&'place Place, Option<Mcp<'place>>),
    CommandLine(&'place Place),
}

impl Door<'_> {
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Answer> {
        match self {
            Self::Http(up) => up.call(tool, arguments),
            Self::Mcp(place, server) => {
                Mcp::running(place, server)?.call(tool, arguments).map(Answer::Result)
            }
            Self::CommandLine(place) => {
                let mut process = start_call(place, tool, arguments)?;
                let mut text = String::new();
                if let Some(mut output) = process.child.stdout.take() {
                    output.read_to_string(&mut text).map_err(|error| broken("handfast call", &error))?;
                }
                process.ended()?;
                parsed(&text).map(Answer::Result)
            }
        }
    }

    /// Makes a call and interrupts it. The answer is not read.
    pub(super) fn broken_call(&mut self, tool: &str, arguments: &Value, how: Break) -> Result<()> {
        let (Break::Disconnect(pause) | Break::Signal(_, pause)) = how;
        match self {
            Self::Http(up) => {
                let (_, address, token) = up.view();
                let stream = request(&address, &token, tool, arguments);
                thread::sleep(pause);
                drop(stream);
                if let Break::Signal(signal, _) = how { up.restart(signal) } else { Ok(()) }
            }
            Self::Mcp(place, server) => {
                Mcp::running(place, server)?.send_call(tool, arguments)?;
                thread::sleep(pause);
                let Some(mut mcp) = server.take() else { return Ok(()) };
                match how {
                    Break::Signal(signal, _) => mcp.process.signal(signal),
                    Break::Disconnect(_) => mcp.close(),
                }
                mcp.process.ended().map(drop)
            }
            Self::CommandLine(place) => {
                let mut process = start_call(place, tool, arguments)?;
                thread::sleep(pause);
                process.signal(if let Break::Signal(signal, _) = how { signal } else { Signal::SIGINT });
                process.ended().map(drop)
            }
        }
    }

    /// Closes the connection cleanly if this door owns one.
    pub(super) fn close(&mut self) -> Result<()> {
        let Self::Mcp(_, server) = self else { return Ok(()) };
        let Some(mut mcp) = server.take() else { return Ok(()) };
        mcp.close();
        let status = mcp.process.ended()?;
        if status.success() { Ok(()) } else { Err(Failure(format!("handfast mcp ended with {status}"))) }
    }

    pub(super) fn has_sessions(&self) -> bool {
        !matches!(self, Self::CommandLine(_))
    }

    pub(super) fn process(&self) -> Option<u32> {
        match self {
            Self::Http(up) => Some(up.process()),
            Self::Mcp(_, server) => server.as_ref().map(|server| server.process.child.id()),
            Self::CommandLine(_) => None,
        }
    }
}

/// A running `handfast up` that several workers call, and that one of them kills and restarts.
pub(super) struct Up<'place> {
    place: &'place Place,
    running: RwLock<Running<'place>>,
    /// Number of signals sent. If the number grows during a call, the soak interrupted that call.
    generation: AtomicU64,
}

struct Running<'place> {
    process: Process<'place>,
    address: String,
    token: String,
}

impl<'place> Up<'place> {
    pub(super) fn start(place: &'place Place) -> Result<Self> {
        Ok(Self { place, running: RwLock::new(Running::start(place)?), generation: AtomicU64::new(0) })
    }

    fn view(&self) -> (u64, String, String) {
        let running = self.running.read();
        (self.generation.load(Ordering::SeqCst), running.address.clone(), running.token.clone())
    }

    fn process(&self) -> u32 {
        self.running.read().process.child.id()
    }

    fn call(&self, tool: &str, arguments: &Value) -> Result<Answer> {
        let (generation, address, token) = self.view();
        let answer = request(&address, &token, tool, arguments).and_then(answered);
        let was_signalled = || self.generation.load(Ordering::SeqCst) != generation;
        match answer {
            Ok(result) if result["ok"] == true || !was_signalled() => Ok(Answer::Result(result)),
            Err(failure) if !was_signalled() => Err(failure),
            _ => Ok(Answer::Lost),
        }
    }

    fn restart(&self, signal: Signal) -> Result<()> {
        let mut running = self.running.write();
        self.generation.fetch_add(1, Ordering::SeqCst);
        running.process.signal(signal);
        running.process.ended()?;
        *running = Running::start(self.place)?;
        Ok(())
    }

    /// Ends the server cleanly.
    pub(super) fn end(&self) -> Result<()> {
        let mut running = self.running.write();
        running.process.signal(Signal::SIGTERM);
        running.process.ended().map(drop)
    }
}

impl<'place> Running<'place> {
    fn start(place: &'place Place) -> Result<Self> {
        let mut command = place.caller();
        command.args(["up", "--json", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut process = place.start(&mut command)?;
        let mut line = String::new();
        if let Some(output) = process.child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| broken("handfast up", &error))?;
        }
        let said = parsed(&line)?;
        let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
        Ok(Self { process, address: text("address"), token: text("agent_token") })
    }
}

fn request(address: &str, token: &str, tool: &str, arguments: &Value) -> Result<TcpStream> {
    let body = json!({"tool": tool, "arguments": arguments}).to_string();
    let head = format!(
        "POST /v1/call HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let sent = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        Ok(stream)
    });
    sent.map_err(|error| broken("handfast up", &error))
}

fn answered(mut stream: TcpStream) -> Result<Value> {
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|error| broken("handfast up", &error))?;
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
    parsed(body.ok_or_else(|| Failure::new("handfast up closed the connection without an answer"))?)
}

/// A running `handfast mcp` and its streams.
pub(super) struct Mcp<'place> {
    process: Process<'place>,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl<'place> Mcp<'place> {
    fn running<'door>(place: &'place Place, server: &'door mut Option<Self>) -> Result<&'door mut Self> {
        match server {
            Some(running) => Ok(running),
            None => Ok(server.insert(Self::start(place.caller().arg("mcp"), place)?)),
        }
    }

    /// Starts the server with this command and initializes the session.
    pub(super) fn start(command: &mut std::process::Command, place: &'place Place) -> Result<Self> {
        let mut process = place.start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (input, output) = (process.child.stdin.take(), process.child.stdout.take());
        let output = BufReader::new(output.ok_or_else(|| Failure::new("handfast mcp has no output"))?);
        let mut server = Self { process, input, output, last: 0 };
        let client = json!({"name": "soak", "version": "1"});
        let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        server.send("initialize", &greeting)?;
        server.received()?;
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        self.send_call(tool, arguments)?;
        let mut answer = self.received()?;
        if answer["result"].is_object() {
            return Ok(plain(tool, &mut answer["result"]));
        }
        Err(Failure(format!("handfast mcp answered {tool} with {answer}")))
    }

    fn send_call(&mut self, tool: &str, arguments: &Value) -> Result<()> {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<()> {
        self.last += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}))
    }

    fn say(&mut self, message: &Value) -> Result<()> {
        let Some(input) = &mut self.input else { return Err(Failure::new("handfast mcp was closed")) };
        writeln!(input, "{message}").map_err(|error| broken("handfast mcp", &error))
    }

    fn received(&mut self) -> Result<Value> {
        loop {
            let message = parsed(&self.line()?)?;
            if message["id"] == self.last {
                return Ok(message);
            }
        }
    }

    /// Returns the next line of the server's output.
    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| broken("handfast mcp", &error))?;
        if read == 0 { Err(Failure::new("handfast mcp ended without an answer")) } else { Ok(line) }
    }

    pub(super) fn close(&mut self) {
        drop(self.input.take());
    }

    pub(super) fn id(&self) -> u32 {
        self.process.child.id()
    }
}

/// Converts a result of MCP to the shape of the command line, with the fields that the soak checks.
fn plain(tool: &str, result: &mut Value) -> Value {
    let meta = result["_meta"]["handfast/meta"].take();
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if result["isError"] == true {
        let mut error = result["_meta"]["handfast/error"].clone();
        error["message"] = text.into();
        return json!({"ok": false, "error": error, "meta": meta});
    }
    if tool == "shell_execute" {
        return json!({"ok": true, "data": of_command(text), "meta": meta});
    }
    // A record is JSON. Before a text, a line has the other fields.
    let data = serde_json::from_str(text).ok().or_else(|| {
        let (fields, content) = text.split_once('\n')?;
        let fields = fields.strip_prefix("[about ")?.strip_suffix(']')?;
        let mut data: Value = serde_json::from_str(fields).ok()?;
        data["content"] = content.into();
        Some(data)
    });
    json!({"ok": true, "data": data, "meta": meta})
}

/// Parses the output of a command. The last lines in brackets are Handfast's.
fn of_command(text: &str) -> Value {
    let (own, output): (Vec<&str>, Vec<&str>) =
        text.split_inclusive('\n').partition(|line| line.starts_with('[') && line.trim_end().ends_with(']'));
    let value =
        |name: &str| own.iter().find_map(|line| line.trim_end().strip_prefix(name)?.strip_suffix(']'));
    let code = value("[exit code ").map_or(Some(0), |code| code.parse().ok());
    json!({"stdout": output.concat(), "exit_code": code, "session_id": value("[session_id ")})
}

fn start_call<'place>(place: &'place Place, tool: &str, arguments: &Value) -> Result<Process<'place>> {
    let mut command = place.caller();
    command.args(["call", tool, &arguments.to_string()]).stdout(Stdio::piped());
    place.start(&mut command)
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|error| Failure(format!("an answer is no JSON ({error}): {text:.300}")))
}

fn broken(name: &str, error: &std::io::Error) -> Failure {
    Failure(format!("the connection to {name}: {error}"))
}
