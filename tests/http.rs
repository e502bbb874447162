//! `handfast up` of the real program, and a client that writes its requests byte by byte.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::Fixture;

/// Longest wait for a response. A server that hangs fails the test instead of blocking it.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running server, killed when the value is dropped.
pub(crate) struct Up {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) agent: String,
    pub(crate) user: String,
    pub(crate) observer: String,
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Header lines, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the events of a stream: name and data of each.
    pub(crate) fn events(&self) -> Vec<(String, Value)> {
        let blocks = self.body.split("\n\n").filter(|block| block.contains("data: "));
        blocks
            .map(|block| {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let data = serde_json::from_str(field("data: ").unwrap()).unwrap();
                (field("event: ").unwrap_or("message").to_owned(), data)
            })
            .collect()
    }
}

impl Up {
    /// Starts the server of a fixture on a free port. The arguments stand before `up`.
    pub(crate) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        Self::with(fixture, arguments, &[])
    }

    /// Starts the server of a fixture on a free port. `arguments` stand before `up`, and `of_up`
    /// after it.
    pub(crate) fn with(fixture: &Fixture, arguments: &[&str], of_up: &[&str]) -> Self {
        let mut command = fixture.asking_command();
        command.args(arguments).args(["up", "--listen", "127.0.0.1:0", "--json"]).args(of_up);
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("it did not start: {line:?}"));
        let token = |file: &Value| {
            file.as_str()
                .map(|path| std::fs::read_to_string(path).unwrap().trim().to_owned())
                .unwrap_or_default()
        };
        Self {
            child,
            address: said["address"].as_str().unwrap().parse().unwrap(),
            agent: said["agent_token"].as_str().unwrap_or_default().to_owned(),
            user: token(&said["user_token_file"]),
            observer: token(&said["observer_token_file"]),
        }
    }

    /// Takes the standard error of a server that was started with a pipe for it.
    pub(crate) fn errors(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends a request with these header lines, in addition to the required ones.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Response {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for line in headers {
            head.push_str(&format!("{line}\r\n"));
        }
        head.push_str("\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// Sends these exact bytes, and reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Response {
        let mut stream = self.connect();
        // The server may refuse a request before it has read all of it.
        let _ = stream.write_all(bytes);
        read(stream)
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Response {
        self.request("GET", path, &[&bearer(token)], b"")
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &Value) -> Response {
        let kind = "content-type: application/json";
        self.request("POST", path, &[&bearer(token), kind], body.to_string().as_bytes())
    }

    /// Makes a call as the agent, and returns its result.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let body = serde_json::json!({"tool": tool, "arguments": arguments});
        let response = self.post(&self.agent, "/v1/call", &body);
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Makes a call as the agent, on another thread.
    pub(crate) fn call_later<'scope, 'up: 'scope>(
        &'up self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        tool: &'static str,
        arguments: Value,
    ) -> std::thread::ScopedJoinHandle<'scope, Value> {
        scope.spawn(move || self.call(tool, arguments))
    }

    /// Returns the resident memory of the server's process in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to end, waits, and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // A server that has already ended needs no kill.
        let _ended = self.child.kill();
        self.child.wait().unwrap();
    }
}

pub(crate) fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

/// Reads a response, or `None` if the other side closes without sending any byte.
pub(crate) fn read_if_any(stream: TcpStream) -> Option<Response> {
    let response = read(stream);
    let nothing = response.status == 0 && response.headers.is_empty() && response.body.is_empty();
    (!nothing).then_some(response)
}

/// Reads until the other side closes, and parses the bytes as a response.
pub(crate) fn read(mut stream: TcpStream) -> Response {
    let mut all = Vec::new();
    // A reset connection may have delivered a response before.
    let _ = stream.read_to_end(&mut all);
    let text = String::from_utf8_lossy(&all);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    // Bytes beyond the length are the response to a part that the server took for a further request.
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, length)| length.parse().ok()).unwrap_or(usize::MAX);
    let body = if chunked { unchunked(body) } else { body.get(..length).unwrap_or(body).to_owned() };
    Response { status: status.unwrap_or(0), headers, body }
}

/// Decodes a chunked body. A truncated body is decoded up to its last whole chunk.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}
