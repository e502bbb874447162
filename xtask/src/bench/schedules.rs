//! Schedules of `handfast up`, compared with `APScheduler` and its job store in `SQLite`: the time to store a
//! job, and how late a job fires, among many others. Both have the same jobs at the same instants, in turns.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::bench::http::{Client, Up};
use crate::bench::measure::Durations;
use crate::command::{Failure, Result, capture, write};
use crate::repository::Repository;
use crate::setup;

/// Number of jobs, and of those that fire.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) jobs: usize,
    pub(super) firings: usize,
}

/// Figures of one scheduler.
#[derive(Default)]
pub(super) struct Figures {
    /// Time to store a job among all others.
    pub(super) add: Durations,
    /// Time from the instant of a job to its start.
    pub(super) late: Durations,
}

/// Figures of both schedulers, and of operations that the peer does not have alike.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) ours: Figures,
    pub(super) peer: Figures,
    pub(super) jobs: usize,
    /// Time to pause a job, or to resume it.
    pub(super) change: Durations,
    pub(super) history: Durations,
}

/// Measures both schedulers, in turns.
pub(super) fn all(
    repository: &Repository,
    folder: &Path,
    binary: &Path,
    samples: Samples,
) -> Result<Measured> {
    setup::install_python_tools(repository, "schedule-bench", "schedule-bench.txt", &[])?;
    let workspace = folder.join("workspace");
    write(&workspace.join("small.txt"), "x")?;
    let peer_folder = folder.join("peer");
    std::fs::create_dir_all(&peer_folder)
        .map_err(|error| Failure(format!("cannot create {}: {error}", peer_folder.display())))?;
    eprintln!("storing {} jobs at each scheduler", samples.jobs);
    let mut peer = Peer::start(repository, &peer_folder, samples.jobs)?;
    let up = Up::start(folder, &workspace, binary)?;
    let mut client = up.client("/v1/call", "")?;
    for number in 0..samples.jobs {
        let times = format!("{} {} 1 1 *", number % 60, number % 24);
        add(&mut client, &format!("other{number}"), &times)?;
    }
    let mut measured = Measured { jobs: samples.jobs, ..Measured::default() };
    for number in 0..samples.firings {
        let name = format!("job{number}");
        let began = Instant::now();
        add(&mut client, &name, "after 2 seconds")?;
        measured.ours.add.add(began.elapsed());
        measured.peer.add.add(peer.add(in_two_seconds())?);
        let (pause, resume) = if number % 2 == 0 { ("pause", "resume") } else { ("resume", "pause") };
        for action in [pause, resume] {
            let began = Instant::now();
            let arguments = json!({"name": format!("other{number}"), "action": action});
            call(&mut client, "schedule_update", &arguments)?;
            measured.change.add(began.elapsed());
        }
        let began = Instant::now();
        call(&mut client, "schedule_history", &json!({"name": name}))?;
        measured.history.add(began.elapsed());
        measured.peer.late.add(peer.late()?);
        thread::sleep(Duration::from_millis(300));
        measured.ours.late.add(late(binary, folder, &workspace, &name)?);
    }
    Ok(measured)
}

fn add(client: &mut Client, name: &str, times: &str) -> Result<()> {
    let job =
        json!({"name": name, "schedule": times, "tool": "file_read", "arguments": {"path": "small.txt"}});
    call(client, "schedule_task", &job)
}

fn call(client: &mut Client, tool: &str, arguments: &Value) -> Result<()> {
    let answer = client.post(&json!({"tool": tool, "arguments": arguments}).to_string())?;
    if answer.starts_with("{\"ok\":true") {
        Ok(())
    } else {
        Err(Failure(format!("{tool} failed: {answer:.300}")))
    }
}

/// Returns how late a job of Handfast fired, by its record.
fn late(binary: &Path, folder: &Path, workspace: &Path, name: &str) -> Result<Duration> {
    let mut command = Command::new(binary);
    command.arg("--workspace").arg(workspace).arg("--state").arg(folder.join("state"));
    command.env("XDG_CONFIG_HOME", folder.join("config")).args(["schedule", "history", name, "--json"]);
    let runs: Value = serde_json::from_str(&capture(&mut command)?)
        .map_err(|error| Failure(format!("the history of {name} is no JSON: {error}")))?;
    let (run, state) = (&runs[0], runs[0]["state"].as_str());
    match (second_of_day(&run["claim"]["instant"]), second_of_day(&run["begun_at"]), state) {
        (Some(instant), Some(begun), Some("done")) => {
            Ok(Duration::from_secs_f64((begun - instant).rem_euclid(SECONDS_OF_A_DAY)))
        }
        _ => Err(Failure(format!("{name} did not fire: {runs}"))),
    }
}

/// Number of seconds of a day.
const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// Reads the time of the day of a time as `RFC 3339` has it, in UTC.
fn second_of_day(time: &Value) -> Option<f64> {
    let time = time.as_str()?.split_once('T')?.1.strip_suffix('Z')?;
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    if let [hours, minutes, seconds] = parts[..] {
        Some((hours * 60.0 + minutes) * 60.0 + seconds)
    } else {
        None
    }
}

fn in_two_seconds() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now + Duration::from_secs(2)).as_secs_f64()
}

/// The running peer.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(repository: &Repository, folder: &Path, jobs: usize) -> Result<Self> {
        let failed = |what: &str| Failure(format!("the peer of schedules: {what}"));
        let python = repository.test_tools().join("schedule-bench/bin/python");
        let mut child = Command::new(python)
            .arg(repository.root.join("xtask/test-tools/schedule_peer.py"))
            .arg(folder)
            .arg(jobs.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let input = child.stdin.take().ok_or_else(|| failed("it has no input"))?;
        let output = child.stdout.take().ok_or_else(|| failed("it has no output"))?;
        let mut peer = Self { child, input, output: BufReader::new(output) };
        peer.read("ready")?;
        Ok(peer)
    }

    fn add(&mut self, instant: f64) -> Result<Duration> {
        writeln!(self.input, "{instant}")
            .map_err(|error| Failure(format!("the peer of schedules: {error}")))?;
        self.read("added")
    }

    fn late(&mut self) -> Result<Duration> {
        self.read("late")
    }

    fn read(&mut self, word: &str) -> Result<Duration> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .map_err(|error| Failure(format!("the peer of schedules: {error}")))?;
        let milliseconds = line.strip_prefix(word).and_then(|rest| rest.trim().parse::<f64>().ok());
        let milliseconds =
            milliseconds.ok_or_else(|| Failure(format!("the peer of schedules says {line:?} for {word}")))?;
        Ok(Duration::from_secs_f64((milliseconds / 1_000.0).max(0.0)))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // If the process has already ended, `kill` fails and no action is needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
