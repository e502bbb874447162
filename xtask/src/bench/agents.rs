//! Agents over a scripted model on this machine: what the loop adds to a turn, a question between two agents,
//! and the memory of idle agents. The turns are compared with a bare client that sends as many requests to the
//! same model.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::handfast;
use crate::bench::measure::Durations;
use crate::bench::server::Server;
use crate::command::{Failure, Result, capture, write};

/// Number of turns, of questions, and of idle agents.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) turns: usize,
    pub(super) questions: usize,
    pub(super) agents: usize,
}

/// Figures of agents.
pub(super) struct Measured {
    pub(super) turns: usize,
    /// Time of a turn beside its request to the model and its calls.
    pub(super) turn: Duration,
    /// Time of a request of a bare client.
    pub(super) bare: Duration,
    /// Time of a question to an idle agent, with its request to the model.
    pub(super) ask: Durations,
    /// Time of the requests to the model meanwhile, as the audit has them.
    pub(super) model: Durations,
    pub(super) agents: usize,
    /// Memory of the agents together, in KiB.
    pub(super) memory_kib: u64,
}

/// Measures agents.
pub(super) fn all(folder: &Path, binary: &Path, samples: Samples) -> Result<Measured> {
    let workspace = folder.join("workspace");
    write(&workspace.join("small.txt"), "x")?;
    let model = Model::start(samples.turns)?;
    let lines = format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"http://localhost:{}\"}}}}, routes: {{usual: [local/small]}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost]}}}}\ncatalogue: full\n",
        model.address.port()
    );
    write(&folder.join("config/handfast/config.yaml"), &lines)?;
    let command = |state: &str| {
        let mut command = Command::new(binary);
        command.arg("--workspace").arg(&workspace).arg("--state").arg(folder.join(state));
        command.env("XDG_CONFIG_HOME", folder.join("config"));
        command
    };
    eprintln!("a run of {} turns", samples.turns);
    let began = Instant::now();
    capture(command("run").args(["run", "--json", "--max-steps", "100000", "Look."]))?;
    let whole = began.elapsed();
    let calls: Duration = durations(&mut command("run"))?.into_values().flatten().sum();
    let turn = whole.saturating_sub(calls) / u32::try_from(samples.turns).unwrap_or(u32::MAX);
    let mut bare = Durations::default();
    let mut client = BareClient::connect(model.address)?;
    for _ in 0..samples.turns {
        let began = Instant::now();
        client.ask()?;
        bare.add(began.elapsed());
    }

    eprintln!("{} questions to an agent, and {} idle agents", samples.questions, samples.agents);
    model.answers_at_once();
    let mut server = Server::start(&handfast(folder, &workspace, binary))?;
    let first = agent(&mut server)?;
    let mut ask = Durations::default();
    for number in 0..samples.questions {
        let arguments = json!({"agent_id": first, "message": format!("question {number}")});
        ask.add(server.call(("ask_agent", arguments))?.took);
    }
    let before = server.resident()?;
    for _ in 0..samples.agents {
        agent(&mut server)?;
    }
    // The answer comes when no agent works any more.
    while server.call(("agent_list", json!({"wait_seconds": 1})))?.line.contains("running") {}
    let memory_kib = server.resident()?.saturating_sub(before);
    drop(server);
    let mut model = Durations::default();
    for took in durations(&mut command("state"))?.remove("model_turn").unwrap_or_default() {
        model.add(took);
    }
    let (turns, agents) = (samples.turns, samples.agents);
    Ok(Measured { turns, turn, bare: bare.median(), ask, model, agents, memory_kib })
}

/// Starts an agent, and returns its id.
fn agent(server: &mut Server) -> Result<String> {
    let answer = server.call(("create_agent", json!({"task_description": "Be ready."})))?.line;
    let id = answer
        .split("agent_id")
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| !word.is_empty()));
    id.map(str::to_owned).ok_or_else(|| Failure(format!("create_agent gave no id: {answer:.300}")))
}

/// Returns the durations of the calls that agents made, by their tools, as the audit has them.
fn durations(command: &mut Command) -> Result<BTreeMap<String, Vec<Duration>>> {
    let mut durations: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for line in capture(command.args(["audit", "export"]))?.lines() {
        let row: Value = serde_json::from_str(line)
            .map_err(|error| Failure(format!("a row of the audit is no JSON: {error}")))?;
        if let (Some("agent"), Some(tool), Some(took)) =
            (row["door"].as_str(), row["tool"].as_str(), row["duration_us"].as_u64())
        {
            durations.entry(tool.to_owned()).or_default().push(Duration::from_micros(took));
        }
    }
    Ok(durations)
}

/// Model with chat completions that answers a fixed number of requests with a call, and all later ones with a
/// text. Its threads end with the process.
struct Model {
    address: SocketAddr,
    left: Arc<AtomicUsize>,
}

impl Model {
    fn start(turns: usize) -> Result<Self> {
        let failed = |error: std::io::Error| Failure(format!("the scripted model: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let left = Arc::new(AtomicUsize::new(turns.saturating_sub(1)));
        let shared = left.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let left = shared.clone();
                // A client that has left ends its thread.
                thread::spawn(move || serve(stream, &left));
            }
        });
        Ok(Self { address, left })
    }

    fn answers_at_once(&self) {
        self.left.store(0, Ordering::SeqCst);
    }
}

fn serve(stream: TcpStream, left: &AtomicUsize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while read_message(&mut reader)?.is_some() {
        let number = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let body = answer(number.ok());
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    }
    Ok(())
}

/// Reads a message with a body of a known length; `None` at the end of the connection.
fn read_message(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}

/// Returns an answer: a call, which differs from the one before, or a text.
fn answer(call: Option<usize>) -> String {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let (said, finish) = match call {
        Some(number) => {
            let arguments = json!({"path": ".", "limit": number % 50 + 1}).to_string();
            let function = json!({"name": "file_list", "arguments": arguments});
            let call =
                json!({"index": 0, "id": format!("c{number}"), "type": "function", "function": function});
            (json!({"role": "assistant", "tool_calls": [call]}), "tool_calls")
        }
        None => (json!({"role": "assistant", "content": "Done."}), "stop"),
    };
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120});
    [
        chunk(delta(said, Value::Null), Value::Null),
        chunk(delta(json!({}), json!(finish)), Value::Null),
        chunk(json!([]), usage),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

/// Client that sends requests over one connection, and only reads the answers.
struct BareClient(BufReader<TcpStream>);

impl BareClient {
    fn connect(address: SocketAddr) -> Result<Self> {
        let failed = |error: std::io::Error| Failure(format!("the bare client: {error}"));
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self) -> Result<()> {
        let failed = |error: std::io::Error| Failure(format!("the bare client: {error}"));
        let body =
            json!({"model": "small", "stream": true, "messages": [{"role": "user", "content": "Look."}]})
                .to_string();
        let head = format!(
            "POST /chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(head.as_bytes()).map_err(failed)?;
        read_message(&mut self.0).map_err(failed)?;
        Ok(())
    }
}
