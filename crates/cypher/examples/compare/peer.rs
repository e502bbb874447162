//! The second engine, in a process of its own.

#![allow(clippy::disallowed_methods, reason = "the peer runs on the machine itself")]

use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// An answer to a query.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Rows, each as JSON.
    Rows(Vec<String>),
    /// An error, with its message.
    Refused(String),
    /// The engine exceeded its time or its memory.
    Unfinished,
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(formatter, "{} rows: {}", rows.len(), rows.join(" ")),
            Self::Refused(message) => {
                write!(formatter, "refused: {}", message.lines().next().unwrap_or_default())
            }
            Self::Unfinished => formatter.write_str("unfinished"),
        }
    }
}

/// The process, which is started again when a query ends it.
pub(crate) struct Peer {
    python: String,
    script: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the engine.
    pub(crate) fn start(python: &str, script: &str) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(python);
        let mut child = command.arg("-B").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("the second engine has no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("the second engine has no output")?);
        Ok(Self { python: python.to_owned(), script: script.to_owned(), child, input, output })
    }

    /// Makes a graph by a statement, and asks about it.
    pub(crate) fn ask(&mut self, statement: &str, queries: &[&str]) -> Result<Vec<Answer>, Box<dyn Error>> {
        let mut answers = Vec::new();
        while answers.len() < queries.len() {
            let rest = queries.get(answers.len()..).unwrap_or_default();
            writeln!(self.input, "{}", json!({ "create": statement, "queries": rest }))?;
            for _ in rest {
                let mut line = String::new();
                if self.output.read_line(&mut line)? > 0 {
                    answers.push(parsed(&line)?);
                    continue;
                }
                let status = self.child.wait()?;
                if status.code().is_some() {
                    return Err(format!("the second engine ended with {status}").into());
                }
                // A signal ended the process: the alarm, or the limit of memory.
                answers.push(Answer::Unfinished);
                let (python, script) = (self.python.clone(), self.script.clone());
                *self = Self::start(&python, &script)?;
                break;
            }
        }
        Ok(answers)
    }
}

fn parsed(line: &str) -> Result<Answer, Box<dyn Error>> {
    let answer: Value = serde_json::from_str(line)?;
    if let Some(rows) = answer.get("rows").and_then(Value::as_array) {
        return Ok(Answer::Rows(rows.iter().map(Value::to_string).collect()));
    }
    let message = answer.get("error").and_then(Value::as_str).ok_or("an answer without rows and error")?;
    Ok(Answer::Refused(message.to_owned()))
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has nothing to keep.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
