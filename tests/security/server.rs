//! An MCP server that answers one call after the other.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::Fixture;

/// A running server; ended with the value.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Server {
    /// The server of a fixture, which asks nobody.
    pub(crate) fn start(fixture: &Fixture) -> Self {
        let mut command = fixture.command();
        command.args(["--mode", "full_auto", "mcp"]);
        Self::run(command)
    }

    /// The server that this command starts.
    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, input, output, last: 0 };
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        server.request("initialize", &client);
        server
    }

    fn send(&mut self, method: &str, parameters: &Value) -> u64 {
        self.last += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": parameters});
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        self.last
    }

    fn receive(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn request(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.send(method, parameters);
        self.receive(id)
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Calls a tool; its whole answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let call = self.begin(tool, arguments);
        self.answer(call)
    }

    /// Begins a call; gives what [`Server::answer`] wants.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to a call that was begun.
    pub(crate) fn answer(&mut self, call: u64) -> Value {
        self.receive(call)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        // Where it has ended by itself there is nothing to kill.
        let _ended = self.child.kill();
        self.child.wait().unwrap();
    }
}
