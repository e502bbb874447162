//! The measurements of both servers, in order.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::server::{Answer, Call, Kind, Server};
use crate::bench::{Bench, ENTRIES, LARGE_FILE, SMALL_FILE, Samples};
use crate::command::{Failure, Result};

/// Number of large answers requested before the first one is read.
const IN_FLIGHT: usize = 32;
/// Time that a server may fill its memory before the answers are read.
const UNREAD: Duration = Duration::from_secs(2);
/// Number of turns that both servers take over the samples of one measurement.
const TURNS: usize = 10;

/// The figures of one server.
pub(super) struct Figures {
    pub(super) name: &'static str,
    /// Time from spawn to the complete first `tools/list`.
    pub(super) start: Durations,
    /// Resident memory right after the first `tools/list`, over all processes of the server.
    pub(super) resident_kib: u64,
    pub(super) threads: u64,
    pub(super) tools: usize,
    /// Number of characters in the tool list, divided by four.
    pub(super) tokens: usize,
    pub(super) small_read: Durations,
    pub(super) large_read: Durations,
    pub(super) names: Durations,
    pub(super) details: Durations,
    /// Peak resident memory while [`IN_FLIGHT`] large answers were under way.
    pub(super) peak_kib: u64,
}

/// Durations of one operation, sorted.
#[derive(Default)]
pub(super) struct Durations(Vec<Duration>);

impl Durations {
    pub(super) fn add(&mut self, duration: Duration) {
        let at = self.0.partition_point(|other| *other <= duration);
        self.0.insert(at, duration);
    }

    pub(super) fn min(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }

    /// Returns the upper median, which is one of the samples.
    pub(super) fn median(&self) -> Duration {
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the 10th percentile: one sample in ten is quicker.
    pub(super) fn tenth(&self) -> Duration {
        self.0.get(self.0.len() / 10).copied().unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Measures both servers, in turns.
pub(super) fn all(bench: &Bench, samples: Samples) -> Result<[Figures; 2]> {
    let kinds = [&bench.handfast, &bench.peer];
    let mut figures = kinds.map(Figures::none_yet);
    eprintln!("starting each server {} times", samples.starts);
    for _ in 0..samples.starts {
        for (kind, figures) in kinds.iter().zip(&mut figures) {
            start_once(kind, figures)?;
        }
    }
    let [handfast, peer] = kinds;
    let mut servers = [Server::start(handfast)?, Server::start(peer)?];
    let small = |kind: &Kind| (kind.read)("small.txt");
    let large = |kind: &Kind| (kind.read)("large.txt");
    let names = |kind: &Kind| (kind.list_names)("many");
    let details = |kind: &Kind| (kind.list_details)("many");
    let mut turns = |call: &dyn Fn(&Kind) -> Call, count: usize, least: usize| {
        in_turns(kinds, &mut servers, call, count, least)
    };
    eprintln!("reading 1 KB {} times", samples.small_reads);
    let [a, b] = turns(&small, samples.small_reads, SMALL_FILE)?;
    [figures[0].small_read, figures[1].small_read] = [a, b];
    eprintln!("reading 10 MB {} times", samples.large_reads);
    let [a, b] = turns(&large, samples.large_reads, LARGE_FILE)?;
    [figures[0].large_read, figures[1].large_read] = [a, b];
    eprintln!("listing {ENTRIES} entries {} times, with and without details", samples.listings);
    let least = ENTRIES * "entry-00000.txt".len();
    let [a, b] = turns(&names, samples.listings, least)?;
    [figures[0].names, figures[1].names] = [a, b];
    let [a, b] = turns(&details, samples.listings, least)?;
    [figures[0].details, figures[1].details] = [a, b];
    for server in servers {
        server.stop()?;
    }
    eprintln!("asking for {IN_FLIGHT} large answers at once");
    for (kind, figures) in kinds.iter().zip(&mut figures) {
        figures.peak_kib = peak_memory(kind)?;
    }
    Ok(figures)
}

impl Figures {
    fn none_yet(kind: &Kind) -> Self {
        Self {
            name: kind.name,
            start: Durations::default(),
            resident_kib: 0,
            threads: 0,
            tools: 0,
            tokens: 0,
            small_read: Durations::default(),
            large_read: Durations::default(),
            names: Durations::default(),
            details: Durations::default(),
            peak_kib: 0,
        }
    }
}

fn start_once(kind: &Kind, figures: &mut Figures) -> Result<()> {
    let started = Instant::now();
    let mut server = Server::start(kind)?;
    let answer = server.request("tools/list", &json!({}))?;
    figures.start.add(started.elapsed());
    figures.resident_kib = figures.resident_kib.max(server.resident()?);
    figures.threads = figures.threads.max(server.status("Threads")?);
    (figures.tools, figures.tokens) = size_of_list(&answer)?;
    server.stop()
}

fn size_of_list(answer: &Answer) -> Result<(usize, usize)> {
    let message: Value =
        serde_json::from_str(&answer.line).map_err(|error| Failure(format!("tools/list: {error}")))?;
    let tools = message.pointer("/result/tools").and_then(Value::as_array);
    let tools = tools.ok_or_else(|| Failure::new("tools/list answered no list of tools"))?;
    let characters: usize = tools.iter().map(|tool| tool.to_string().chars().count()).sum();
    Ok((tools.len(), characters / 4))
}

/// Sends both servers the same call `count` times, in turns, after one answer that is not counted.
fn in_turns(
    kinds: [&Kind; 2],
    servers: &mut [Server; 2],
    call: &dyn Fn(&Kind) -> Call,
    count: usize,
    least: usize,
) -> Result<[Durations; 2]> {
    let mut durations = [Durations::default(), Durations::default()];
    for (kind, server) in kinds.iter().zip(servers.iter_mut()) {
        let answer = server.call(call(kind))?;
        // A truncated answer would be quick for the wrong reason.
        if answer.line.len() < least {
            return Err(Failure(format!(
                "{}: an answer of {} bytes, under {least}",
                kind.name,
                answer.line.len()
            )));
        }
    }
    let turns = TURNS.min(count).max(1);
    for _ in 0..turns {
        for ((kind, server), durations) in kinds.iter().zip(servers.iter_mut()).zip(&mut durations) {
            for _ in 0..count.div_ceil(turns) {
                durations.add(server.call(call(kind))?.took);
            }
        }
    }
    Ok(durations)
}

fn peak_memory(kind: &Kind) -> Result<u64> {
    let mut server = Server::start(kind)?;
    server.send_calls(&(kind.read)("large.txt"), IN_FLIGHT)?;
    // A client that does not read is the hard case: only the server's own bounds limit the answers
    // in memory.
    thread::sleep(UNREAD);
    for _ in 0..IN_FLIGHT {
        server.answer(Instant::now())?;
    }
    let peak = server.status("VmHWM")?;
    server.stop()?;
    Ok(peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_answer_from_their_order_not_their_arrival() {
        let mut durations = Durations::default();
        for milliseconds in [5, 1, 4, 2, 3] {
            durations.add(Duration::from_millis(milliseconds));
        }
        assert_eq!(durations.min(), Duration::from_millis(1));
        assert_eq!(durations.median(), Duration::from_millis(3));
    }

    #[test]
    fn a_list_of_tools_is_weighed_in_characters() {
        let tool = json!({"name": "é".repeat(100)});
        let line = json!({"result": {"tools": [tool]}}).to_string();
        let (tools, tokens) = size_of_list(&Answer { took: Duration::ZERO, line }).unwrap();
        assert_eq!((tools, tokens), (1, (100 + r#"{"name":""}"#.len()) / 4));
    }
}
