//! An MCP server of the real program, and one client that sends one request after the other.

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
    /// Messages of the server besides its responses.
    pub(crate) notifications: Vec<Value>,
}

impl Server {
    pub(crate) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.command();
        command.args(arguments);
        Self::of(command)
    }

    /// Starts a server with this command, to which `mcp` is appended.
    pub(crate) fn of(command: Command) -> Self {
        Self::for_client(command, json!({}))
    }

    /// Starts a server whose client shows forms.
    pub(crate) fn with_forms(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.asking_command();
        command.args(arguments);
        Self::that_shows_forms(command)
    }

    /// Starts a server with this command, to which `mcp` is appended, for a client that shows forms.
    pub(crate) fn that_shows_forms(command: Command) -> Self {
        Self::for_client(command, json!({"elicitation": {}}))
    }

    /// Starts a server with this command, to which `mcp` is appended, for a client with these
    /// capabilities.
    pub(crate) fn for_client(mut command: Command, capabilities: Value) -> Self {
        let mut process = command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self { process, input, output, last: 0, notifications: Vec::new() };
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

    /// Returns the result of one request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.answer(method, params)["result"].take()
    }

    /// Returns the error code of one request that must fail.
    #[track_caller]
    pub(crate) fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.answer(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("it worked: {answer:#}"))
    }

    /// Begins a call. [`Server::received`] returns the response.
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u32 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Returns the whole response to one request.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.received(id)
    }

    fn send(&mut self, method: &str, params: Value) -> u32 {
        self.last += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    /// Returns the response to the request of this id. Appends other messages to the field `notifications`.
    pub(crate) fn received(&mut self, id: u32) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
            self.notifications.push(answer);
        }
    }

    /// Sends these exact bytes, and returns all output of the server until it answers the ping that
    /// follows.
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

    /// Returns the tools that the server lists.
    pub(crate) fn tools(&mut self) -> Value {
        self.ask("tools/list", json!({}))["tools"].take()
    }

    /// Returns the whole result of one call.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Makes one call, and answers its form with this choice. Returns the question and the call's
    /// whole result.
    pub(crate) fn asked(&mut self, tool: &str, arguments: Value, choice: &str) -> (String, Value) {
        self.asked_and_told(tool, arguments, &json!({"action": "accept", "content": {"decision": choice}}))
    }

    /// Makes one call, and answers its form with any response of a client. Returns the call's whole
    /// result.
    pub(crate) fn answered(&mut self, tool: &str, arguments: Value, answer: &Value) -> Value {
        self.asked_and_told(tool, arguments, answer).1
    }

    fn asked_and_told(&mut self, tool: &str, arguments: Value, answer: &Value) -> (String, Value) {
        let mut question = None;
        let result = self.call_answering(tool, arguments, |method, params| {
            question =
                (method == "elicitation/create").then(|| params["message"].as_str().unwrap().to_owned());
            Ok(answer.clone())
        });
        (question.unwrap_or_else(|| panic!("nobody was asked: {result:#}")), result)
    }

    /// Makes one call, and answers the requests of the server meanwhile, with a result or an error. Returns
    /// the call's whole result.
    pub(crate) fn call_answering(
        &mut self,
        tool: &str,
        arguments: Value,
        mut answer: impl FnMut(&str, &Value) -> Result<Value, Value>,
    ) -> Value {
        let id = self.begin(tool, arguments);
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if let Some(method) = message["method"].as_str().filter(|_| !message["id"].is_null()) {
                let mut response = json!({"jsonrpc": "2.0", "id": message["id"]});
                match answer(method, &message["params"]) {
                    Ok(result) => response["result"] = result,
                    Err(error) => response["error"] = error,
                }
                self.say(&response);
            } else if message["id"] == id {
                return message["result"].take();
            } else {
                self.notifications.push(message);
            }
        }
    }

    /// Makes one call as [`Server::call_answering`] does, by a client of revision 2026-07-28 with these
    /// capabilities: the server asks in its responses, and the client repeats the call with the answers.
    pub(crate) fn call_repeating(
        &mut self,
        tool: &str,
        arguments: Value,
        capabilities: Value,
        mut answer: impl FnMut(&str, &Value) -> Value,
    ) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }});
        loop {
            let mut response = self.answer("tools/call", params.clone());
            let Some(requests) = response["result"]["inputRequests"].as_object() else {
                return response["result"].take();
            };
            let answers = requests.iter().map(|(key, request)| {
                (key.clone(), answer(request["method"].as_str().unwrap(), &request["params"]))
            });
            params["inputResponses"] = Value::Object(answers.collect());
            params["requestState"] = response["result"]["requestState"].clone();
        }
    }

    /// Makes one call that must work, and returns its data.
    #[track_caller]
    pub(crate) fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result:#}");
        data_of(tool, &result)
    }

    /// Starts a command in the background, and returns its session id.
    #[track_caller]
    pub(crate) fn background(&mut self, command: &str, pty: bool) -> String {
        let started = self.data("shell_execute", json!({"command": command, "background": true, "pty": pty}));
        started["session_id"].as_str().unwrap().to_owned()
    }

    /// Waits for a line that matches, and returns the offset after the output read.
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

    /// Returns the server's process.
    pub(crate) fn process(&mut self) -> &mut Child {
        &mut self.process
    }

    /// Closes the connection, and waits for the end of the server.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}
