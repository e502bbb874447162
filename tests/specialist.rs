//! `handfast csp` of the real program.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::harness::Fixture;

/// The first line of a request.
pub(crate) const EXEC: &str = "TASK REQ:exec IN:SHELL OUT:EXEC_RESULT\n";

/// A running specialist, and the client's ends of its streams.
pub(crate) struct Specialist {
    pub(crate) process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// An answer: the value of each key. A repeated key has its last value.
pub(crate) type Answer = BTreeMap<String, String>;

impl Specialist {
    pub(crate) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.command();
        command.args(arguments).arg("csp");
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Sends a request to run a command, with further lines.
    pub(crate) fn exec(&mut self, command: &str, lines: &str) {
        self.send(request(command, lines).as_bytes());
    }

    /// Reads the next answer, or returns `None` at the end.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        answers(&self.answer_text()?).pop()
    }

    /// Reads the text of the next answer with the empty line at its end, or returns `None` at the end.
    pub(crate) fn answer_text(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let before = text.len();
            if self.output.read_line(&mut text).unwrap() == 0 {
                assert_eq!(text, "", "an answer without its end");
                return None;
            }
            if &text[before..] == "\n" {
                return Some(text);
            }
        }
    }

    /// Runs a command and waits for its answer.
    pub(crate) fn run(&mut self, command: &str, lines: &str) -> Answer {
        self.exec(command, lines);
        self.answer().unwrap()
    }

    /// Closes the input: no further request follows.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Closes the input and waits. Returns the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.close();
        while self.answer().is_some() {}
        self.process.wait().unwrap().code()
    }
}

impl Drop for Specialist {
    fn drop(&mut self) {
        // A specialist that has already ended needs no kill.
        let _ended = self.process.kill();
        self.process.wait().unwrap();
    }
}

/// Builds a request to run a command, with further lines.
pub(crate) fn request(command: &str, lines: &str) -> String {
    format!("{EXEC}{lines}COMMAND {}\n\n", serde_json::to_string(command).unwrap())
}

/// Parses answers, and checks the form of each.
pub(crate) fn answers(text: &str) -> Vec<Answer> {
    let mut all = Vec::new();
    for block in text.split_terminator("\n\n") {
        assert!(block.starts_with("STATUS "), "{block:?}");
        let line = |line: &str| {
            let (key, value) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} in {block:?}"));
            assert!(key.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{line:?}");
            assert!(!value.chars().any(char::is_control), "{line:?}");
            (key.to_owned(), value.to_owned())
        };
        all.push(block.lines().map(line).collect());
    }
    all
}

/// Parses a value that is a JSON string.
pub(crate) fn text(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}
