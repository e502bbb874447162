//! Embedding of texts, compared with onnxruntime and the same int8 model: the same texts in turns,
//! by seconds of processor time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::command::{Failure, Result, read, run as run_command};
use crate::repository::Repository;
use crate::setup;

/// Number of texts in one round, of about 180 tokens each.
const CHUNKS: usize = 120;
/// Approximate number of words in one text.
const WORDS: usize = 115;
/// A typical question of a person, 13 tokens long.
const QUERY: &str = "how do I undo what a command changed in my workspace";

/// A program that answers each line of texts with a line of vectors.
struct Server {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The answer to one line, with processor time and wall-clock time in seconds.
struct Answer {
    cpu: f64,
    wall: f64,
    vectors: Vec<Vec<f64>>,
}

/// Measures and prints the figures.
pub(super) fn run(repository: &Repository, quick: bool) -> Result<()> {
    setup::embedding::install_peer(repository)?;
    let build = ["build", "--release", "--quiet", "--package", "embed-bert", "--example", "embed_lines"];
    run_command(&mut repository.cargo(&build))?;
    let tools = repository.test_tools();
    let model = tools.join("model/all-MiniLM-L6-v2");
    let ours = repository.build_folder()?.join("release/examples/embed_lines");
    let own = |name, precision: &str, threads: &str| {
        Server::start(name, Command::new(&ours).arg(&model).args([precision, threads]))
    };
    let script = repository.root.join("xtask/test-tools/embedding_peer.py");
    let mut peer = Command::new(tools.join("embedding-bench/bin/python"));
    peer.arg(script).arg("onnx").arg(&model).arg(tools.join("model-bytes/model.onnx"));
    let mut servers = [
        own("handfast, bytes", "bytes", "1")?,
        own("handfast, bytes, 2 threads", "bytes", "2")?,
        own("handfast, floats", "exact", "1")?,
        Server::start("onnxruntime, bytes", &mut peer)?,
    ];
    let chunks = chunks(&repository.root.join("docs"))?;
    let rounds = if quick { 1 } else { 5 };
    let mut best = [(0.0_f64, 0.0_f64); 4];
    let mut query = [f64::INFINITY; 4];
    for _ in 0..rounds {
        for (server, (by_cpu, by_wall)) in servers.iter_mut().zip(&mut best) {
            let answer = server.ask(&chunks)?;
            let count = f64::from(u32::try_from(chunks.len()).unwrap_or(0));
            *by_cpu = by_cpu.max(count / answer.cpu);
            *by_wall = by_wall.max(count / answer.wall);
        }
        for _ in 0..20 {
            for (server, least) in servers.iter_mut().zip(&mut query) {
                *least = least.min(server.ask(&[QUERY.to_owned()])?.wall);
            }
        }
    }
    let [bytes, _, floats, _] = &mut servers;
    let (bytes, floats) = (bytes.ask(&chunks)?.vectors, floats.ask(&chunks)?.vectors);
    let cosines = bytes
        .iter()
        .zip(&floats)
        .map(|(one, other)| -> f64 { one.iter().zip(other).map(|(one, other)| one * other).sum() });
    let (mut out, failed) =
        (std::io::stdout().lock(), |error: std::io::Error| Failure(format!("cannot print: {error}")));
    writeln!(
        out,
        "embedding, {} chunks of the project's documents, the best of {rounds} rounds",
        chunks.len()
    )
    .map_err(failed)?;
    writeln!(out, "  {:<28} {:>14} {:>12} {:>14}", "", "chunks/CPU s", "chunks/s", "13 tokens, ms")
        .map_err(failed)?;
    for (server, ((by_cpu, by_wall), query)) in servers.iter().zip(best.iter().zip(query)) {
        writeln!(out, "  {:<28} {by_cpu:>14.1} {by_wall:>12.1} {:>14.2}", server.name, query * 1e3)
            .map_err(failed)?;
    }
    writeln!(out, "  chunks per CPU second, ratio to onnxruntime {:.2} (at least 1)", best[0].0 / best[3].0)
        .map_err(failed)?;
    writeln!(out, "  least cosine of bytes to floats {:.5} (at least 0.999)", cosines.fold(1.0, f64::min))
        .map_err(failed)?;
    servers.into_iter().try_for_each(Server::stop)
}

/// Returns texts of about the size of a chunk from the project's own pages.
fn chunks(folder: &Path) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for page in ["ARCHITECTURE.md", "GUARANTEES.md", "THREAT_MODEL.md", "DEPENDENCIES.md"] {
        words.extend(read(&folder.join(page))?.split_whitespace().map(str::to_owned));
    }
    let chunk = |number: usize| {
        let start = number * WORDS % words.len().saturating_sub(WORDS * 2).max(1);
        words[start..words.len().min(start + WORDS - 20 + number * 7 % 40)].join(" ")
    };
    Ok((0..CHUNKS).map(chunk).collect())
}

impl Server {
    fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let failed = |error: std::io::Error| Failure(format!("{name}: {error}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure(format!("{name} has no pipes")));
        };
        Ok(Self { name, child, input, output: BufReader::new(output) })
    }

    fn ask(&mut self, texts: &[String]) -> Result<Answer> {
        let name = self.name;
        let failed = |error: std::io::Error| Failure(format!("{name}: {error}"));
        let mut line = serde_json::json!(texts).to_string();
        line.push('\n');
        self.input.write_all(line.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).map_err(failed)?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|error| Failure(format!("{name}: {error} in {answer:?}")))?;
        let number = |key: &str| answer.get(key).and_then(Value::as_f64);
        let vectors = answer.get("vectors").and_then(Value::as_array).map(|rows| {
            let numbers =
                |row: &Value| row.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            rows.iter().map(numbers).collect::<Vec<Vec<f64>>>()
        });
        match (number("cpu"), number("wall"), vectors) {
            (Some(cpu), Some(wall), Some(vectors)) if vectors.len() == texts.len() => {
                Ok(Answer { cpu, wall, vectors })
            }
            _ => Err(Failure(format!("{name} answered something else"))),
        }
    }

    fn stop(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait().map(|_| ()).map_err(|error| Failure(format!("{}: {error}", self.name)))
    }
}
