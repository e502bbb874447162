//! An MCP server of the real program, and one client of it that asks one thing after the other.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::shown::data_of;

/// The server, and the client's ends of its streams.
pub(crate) struct Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u32,
    /// What it said beside its answers.
    pub(crate) told: Vec<Value>,
}

impl Server {
    pub(crate) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.command();
        command.args(arguments);
        Self::of(command)
    }

    /// The one that this command starts, which lacks its last word.
    pub(crate) fn of(command: Command) -> Self {
        Self::for_client(command, json!({}))
    }

    /// The one of a client that shows forms.
    pub(crate) fn with_forms(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.asking_command();
        command.args(arguments);
        Self::that_shows_forms(command)
    }

    /// The one that this command starts, which lacks its last word, of a client that shows forms.
    pub(crate) fn that_shows_forms(command: Command) -> Self {
        Self::for_client(command, json!({"elicitation": {}}))
    }

    /// The one that this command starts, which lacks its last word, of a client with these capabilities.
    pub(crate) fn for_client(mut command: Command, capabilities: Value) -> Self {
        let mut process = command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self { process, input, output, last: 0, told: Vec::new() };
        server.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}),
        );
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The result of one request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.answer(method, params)["result"].take()
    }

    /// The code of one request that must fail.
    #[track_caller]
    pub(crate) fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.answer(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("it worked: {answer:#}"))
    }

    /// Begins a call; its answer is that of [`Server::received`].
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u32 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The whole answer to one request.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.received(id)
    }

    fn send(&mut self, method: &str, params: Value) -> u32 {
        self.last += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    /// The answer to the request of this id. What else is said meanwhile is kept in `told`.
    pub(crate) fn received(&mut self, id: u32) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
            self.told.push(answer);
        }
    }

    /// Sends a line as it is, and gives what the server says until it answers a ping behind it.
    pub(crate) fn answers_to(&mut self, line: &[u8]) -> String {
        self.input.as_mut().unwrap().write_all(line).unwrap();
        let mut answers = String::new();
        let ping = format!("ping {}", self.last);
        self.last += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": ping, "method": "ping"}));
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone after {answers}");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == ping {
                return answers;
            }
            answers.push_str(&line);
        }
    }

    /// The tools that it lists.
    pub(crate) fn tools(&mut self) -> Value {
        self.ask("tools/list", json!({}))["tools"].take()
    }

    /// The whole result of one call.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// One call that is asked about in a form, which gets this choice: the question, and the call's whole result.
    pub(crate) fn asked(&mut self, tool: &str, arguments: Value, choice: &str) -> (String, Value) {
        self.asked_and_told(tool, arguments, &json!({"action": "accept", "content": {"decision": choice}}))
    }

    /// The same with any answer of the client, of which the call's whole result is given.
    pub(crate) fn answered(&mut self, tool: &str, arguments: Value, answer: &Value) -> Value {
        self.asked_and_told(tool, arguments, answer).1
    }

    fn asked_and_told(&mut self, tool: &str, arguments: Value, answer: &Value) -> (String, Value) {
        self.last += 1;
        let id = self.last;
        let params = json!({"name": tool, "arguments": arguments});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let mut question = None;
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "elicitation/create" {
                question = message["params"]["message"].as_str().map(str::to_owned);
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
            } else if message["id"] == id {
                let question = question.unwrap_or_else(|| panic!("nobody was asked: {message:#}"));
                return (question, message["result"].take());
            }
        }
    }

    /// The data of one call that must work.
    #[track_caller]
    pub(crate) fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result:#}");
        data_of(tool, &result)
    }

    /// Starts a command in the background.
    #[track_caller]
    pub(crate) fn background(&mut self, command: &str, pty: bool) -> String {
        let started = self.data("shell_execute", json!({"command": command, "background": true, "pty": pty}));
        started["session_id"].as_str().unwrap().to_owned()
    }

    /// Waits for a line that matches, and gives where to read on.
    #[track_caller]
    pub(crate) fn expect(&mut self, session: &str, offset: u64, regex: &str) -> u64 {
        let arguments =
            json!({"action": "read", "session_id": session, "offset": offset, "regex": regex, "wait": 60});
        let read = self.data("shell_session", arguments);
        if read["content"].as_str().is_none_or(str::is_empty) {
            let all = self.data("shell_session", json!({"action": "read", "session_id": session}));
            panic!("no line matches {regex:?}: {all:#}");
        }
        read["next_offset"].as_u64().unwrap()
    }

    #[track_caller]
    pub(crate) fn press(&mut self, session: &str, text: &str, keys: &[&str]) {
        let arguments = json!({"action": "write", "session_id": session, "text": text, "keys": keys});
        self.data("shell_session", arguments);
    }

    /// The server's process.
    pub(crate) fn process(&mut self) -> &mut Child {
        &mut self.process
    }

    /// Closes the connection, and waits for the end of the server.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}
