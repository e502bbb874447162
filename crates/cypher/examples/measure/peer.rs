//! The peer, in a process of its own, with the same functions and calls.

#![allow(clippy::disallowed_methods, reason = "the peer runs on the machine itself")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::graph::write_tables;

/// The process.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the peer and waits until it has loaded the graph.
    pub(crate) fn start(python: &str, script: &str) -> Result<Self, Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("handfast-measure-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        write_tables(&folder)?;
        let mut command = Command::new(python);
        let mut child = command
            .arg("-B")
            .arg(script)
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("the peer has no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("the peer has no output")?);
        let mut peer = Self { child, input, output };
        let loaded = peer.line();
        std::fs::remove_dir_all(&folder)?;
        println!("the peer: {}", loaded?.get("loaded").and_then(Value::as_str).unwrap_or_default());
        Ok(peer)
    }

    /// Asks a query. Returns its time, as the peer measures it, and the number of its rows.
    pub(crate) fn ask(
        &mut self,
        query: &str,
        id: usize,
        other: usize,
        name: &str,
    ) -> Result<(Duration, usize), Box<dyn Error>> {
        let all = json!({ "id": id, "other": other, "name": name });
        let used =
            all.as_object().into_iter().flatten().filter(|(key, _)| query.contains(&format!("${key}")));
        let parameters: serde_json::Map<String, Value> =
            used.map(|(key, value)| (key.clone(), value.clone())).collect();
        writeln!(self.input, "{}", json!({ "query": query, "parameters": parameters }))?;
        let answer = self.line()?;
        let seconds = answer.get("seconds").and_then(Value::as_f64).ok_or("an answer without its time")?;
        let rows = answer.get("rows").and_then(Value::as_u64).ok_or("an answer without its rows")?;
        Ok((Duration::from_secs_f64(seconds), usize::try_from(rows)?))
    }

    fn line(&mut self) -> Result<Value, Box<dyn Error>> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the peer ended".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has nothing to keep.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
