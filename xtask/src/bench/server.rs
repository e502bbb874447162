//! An MCP server over standard streams. Messages are written raw, because an SDK would add its own
//! cost to the measurement.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::command::{Failure, Result};

/// Lifetime after which a hanging server is killed, so that the benchmark fails instead of hanging.
const LIFETIME: Duration = Duration::from_mins(5);

/// A tool's name and its arguments.
pub(super) type Call = (&'static str, Value);

/// A function that builds the call for an edit from the file (relative to the workspace), the old
/// text and the new text.
pub(super) type Edit = Box<dyn Fn(&str, &str, &str) -> Call>;

/// A kind of server: the command that starts it, and the calls that it understands.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Path of the log that receives standard error.
    pub(super) log: PathBuf,
    pub(super) command: Box<dyn Fn() -> Command>,
    /// Builds the call that reads a whole file, relative to the workspace.
    pub(super) read: Box<dyn Fn(&str) -> Call>,
    /// Builds the call that lists the names in a folder, relative to the workspace.
    pub(super) list_names: Box<dyn Fn(&str) -> Call>,
    /// Builds the call that lists a folder with details of each entry, at least its size.
    pub(super) list_details: Box<dyn Fn(&str) -> Call>,
    /// Builds the call that replaces a text that occurs once.
    pub(super) edit: Edit,
}

/// A running server.
pub(super) struct Server {
    name: &'static str,
    log: PathBuf,
    child: Arc<Mutex<Child>>,
    process: u32,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    next_id: u64,
    /// Sender that is dropped with the server and thereby stops the thread that enforces [`LIFETIME`].
    _lifetime: Sender<()>,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) took: Duration,
    /// The raw message.
    pub(super) line: String,
}

impl Server {
    /// Starts the server and initializes the session. No other request has been sent yet.
    pub(super) fn start(kind: &Kind) -> Result<Self> {
        let failed =
            |what: &str, error: &dyn std::fmt::Display| Failure(format!("{}: {what}: {error}", kind.name));
        let log = File::create(&kind.log).map_err(|error| failed("cannot create its log", &error))?;
        let mut child = (kind.command)()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| failed("cannot start it", &error))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure(format!("{}: it has no standard streams", kind.name)));
        };
        let process = child.id();
        let child = Arc::new(Mutex::new(child));
        let mut server = Self {
            name: kind.name,
            log: kind.log.clone(),
            process,
            requests: Some(requests),
            answers: BufReader::with_capacity(1 << 16, answers),
            next_id: 0,
            _lifetime: end_after(LIFETIME, &child),
            child,
        };
        server.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "handfast-bench", "version": env!("CARGO_PKG_VERSION")},
            }),
        )?;
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    /// Sends a request and waits for its answer. An error answer is a failure.
    pub(super) fn request(&mut self, method: &str, parameters: &Value) -> Result<Answer> {
        let id = self.fresh_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters});
        let started = Instant::now();
        self.send(&message)?;
        self.answer(started)
    }

    /// Calls a tool and waits for its answer. An error answer is a failure.
    pub(super) fn call(&mut self, (tool, arguments): Call) -> Result<Answer> {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Sends the same call `count` times without reading an answer.
    pub(super) fn send_calls(&mut self, (tool, arguments): &Call, count: usize) -> Result<()> {
        for _ in 0..count {
            let id = self.fresh_id();
            let parameters = json!({"name": tool, "arguments": arguments});
            self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": parameters}))?;
        }
        Ok(())
    }

    /// Returns the next answer. The duration runs from `started` until the complete message has arrived.
    pub(super) fn answer(&mut self, started: Instant) -> Result<Answer> {
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line);
            let took = started.elapsed();
            match read {
                Ok(0) => return Err(self.fault("it ended without answering")),
                Err(error) => return Err(self.fault(&format!("cannot read its answer: {error}"))),
                Ok(_) => {}
            }
            // Parsing is outside the measured time. A message with a method is a notification, not
            // an answer.
            let message: Value = serde_json::from_str(&line)
                .map_err(|error| self.fault(&format!("it answered no JSON: {error}")))?;
            if message.get("method").is_some() {
                continue;
            }
            let refused = message.pointer("/result/isError").and_then(Value::as_bool).unwrap_or_default();
            if message.get("error").is_some() || refused {
                let start: String = line.chars().take(500).collect();
                return Err(self.fault(&format!("it answered with an error: {start}")));
            }
            return Ok(Answer { took, line });
        }
    }

    /// Returns the memory of the server and of every process it has started, in KiB. A page that
    /// several processes share counts once, unlike in the sum of their `VmRSS`.
    pub(super) fn resident(&self) -> Result<u64> {
        self.figure_of_all("smaps_rollup", "Pss")
    }

    /// Returns the memory in KiB like [`Server::resident`], without the processes whose name contains
    /// `name`, and without those that they started.
    pub(super) fn resident_without(&self, name: &str) -> Result<u64> {
        self.figure_of("smaps_rollup", "Pss", &|process| {
            let own = std::fs::read_to_string(format!("/proc/{process}/comm"));
            own.is_ok_and(|own| own.contains(name))
        })
    }

    /// Returns a figure of `/proc/PID/status`, summed over the server and every process it has started.
    pub(super) fn status(&self, field: &str) -> Result<u64> {
        self.figure_of_all("status", field)
    }

    fn figure_of_all(&self, file: &str, field: &str) -> Result<u64> {
        self.figure_of(file, field, &|_| false)
    }

    fn figure_of(&self, file: &str, field: &str, leaves_out: &dyn Fn(u32) -> bool) -> Result<u64> {
        let mut sum = 0;
        let mut waiting = vec![self.process];
        while let Some(process) = waiting.pop() {
            if leaves_out(process) {
                continue;
            }
            let figure = match std::fs::read_to_string(format!("/proc/{process}/{file}")) {
                Ok(status) => figure(&status, field),
                Err(error) if process == self.process => {
                    return Err(self.fault(&format!("cannot read its {file}: {error}")));
                }
                Err(_ended) => None,
            };
            // A process that ended meanwhile, reaped or not, uses no memory. The server itself must
            // be alive.
            match figure {
                Some(figure) => sum += figure,
                None if process == self.process => {
                    return Err(self.fault(&format!("/proc/{process}/{file} has no figure {field}")));
                }
                None => continue,
            }
            for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                waiting.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
        }
        Ok(sum)
    }

    /// Closes the server's input and waits until the server exits.
    pub(super) fn stop(mut self) -> Result<()> {
        drop(self.requests.take());
        let mut rest = String::new();
        while self.answers.read_line(&mut rest).is_ok_and(|read| read > 0) {
            rest.clear();
        }
        let status = self.child.lock().wait();
        status.map(|_| ()).map_err(|error| self.fault(&format!("cannot wait for its end: {error}")))
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let sent = self.requests.as_mut().map_or(Ok(()), |requests| writeln!(requests, "{message}"));
        sent.map_err(|error| self.fault(&format!("it takes no requests: {error}")))
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn fault(&self, what: &str) -> Failure {
        Failure(format!("{}: {what} (its own words are in {})", self.name, self.log.display()))
    }
}

/// Kills the server after a failed benchmark. A server that was stopped has already ended.
impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.lock();
        if matches!(child.try_wait(), Ok(None)) && child.kill().is_ok() {
            // The exit status of a killed server carries no information.
            let _ = child.wait();
        }
    }
}

/// Kills `child` after `limit`, unless the returned sender is dropped first.
fn end_after(limit: Duration, child: &Arc<Mutex<Child>>) -> Sender<()> {
    let (alive, ended) = mpsc::channel();
    let child = Arc::clone(child);
    thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Fails only if the process has already ended.
            let _ = child.lock().kill();
        }
    });
    alive
}

pub(crate) fn figure(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripted(script: &'static str) -> (tempfile::TempDir, Kind) {
        let folder = tempfile::tempdir().unwrap();
        let kind = Kind {
            name: "scripted",
            log: folder.path().join("log"),
            command: Box::new(move || {
                let mut command = Command::new("sh");
                command.args(["-c", script]);
                command
            }),
            read: Box::new(|path| ("read", json!({"path": path}))),
            list_names: Box::new(|path| ("list", json!({"path": path}))),
            list_details: Box::new(|path| ("list", json!({"path": path}))),
            edit: Box::new(|path, _, _| ("edit", json!({"path": path}))),
        };
        (folder, kind)
    }

    const GREETS: &str = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read line; "#;

    #[test]
    fn an_answer_is_told_from_a_notification() {
        let script = r#"read a; echo '{"id":1,"result":{}}'; read b; read c
            echo '{"method":"notifications/progress"}'; echo '{"id":2,"result":{"content":"here"}}'; read d"#;
        let (_folder, kind) = scripted(script);
        let mut server = Server::start(&kind).unwrap();
        assert!(server.call((kind.read)("x")).unwrap().line.contains("here"));
        server.stop().unwrap();
    }

    #[test]
    fn an_error_for_an_answer_fails_the_benchmark() {
        let script = r#"read a; echo '{"id":1,"result":{}}'; read b; read c
            echo '{"id":2,"result":{"isError":true,"content":"EPERMISSION"}}'; read d"#;
        let (_folder, kind) = scripted(script);
        let mut server = Server::start(&kind).unwrap();
        let failure = server.call((kind.read)("x")).err().unwrap();
        assert!(failure.0.contains("EPERMISSION"), "{failure}");
    }

    #[test]
    fn a_server_that_ends_early_is_told_with_its_log() {
        let (_folder, kind) = scripted(GREETS);
        let mut server = Server::start(&kind).unwrap();
        let failure = server.answer(Instant::now()).err().unwrap();
        assert!(failure.0.contains("it ended without answering (its own words are in "), "{failure}");
    }

    #[test]
    fn figures_are_read_from_a_status() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nThreads:\t7\n";
        assert_eq!(figure(status, "VmHWM"), Some(2048));
        assert_eq!(figure(status, "Threads"), Some(7));
        assert_eq!(figure(status, "Vm"), None);
    }
}
