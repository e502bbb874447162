//! A long manual test: up to eleven processes over one state folder, called through every door,
//! killed and restarted.
//!
//! Each answer is compared with a model. After every round the whole state is verified: files,
//! rows, the audit, saved files, and leftover processes and calls. The soak is not part of `cargo
//! xtask test`, because its length is its purpose. A seed repeats the calls, but not their timing.

mod doors;
mod full_disk;
mod machine;
mod model;
mod place;
mod worker;

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bench;
use crate::command::{Failure, Result, capture, remove_folder};
use crate::repository::Repository;
use crate::soak::doors::{Answer, Door, Up};
use crate::soak::machine::{Figures, processes_with};
use crate::soak::place::Place;
use crate::soak::worker::{Fate, Worker};

/// Number of reads whose median is taken at the beginning and at the end.
const READS: usize = 200;
/// Time that a round may exceed the limit of the whole soak before all processes are killed.
const GRACE: Duration = Duration::from_mins(4);

/// Length and seed of the soak.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Calls in all
    #[arg(long, default_value_t = 250_000)]
    calls: usize,
    /// Stops before the next call after this number of seconds
    #[arg(long, default_value_t = 21_600)]
    seconds: u64,
    /// Rounds; after each one all processes are ended, verified and restarted
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Repeats the calls of the run that printed this number [default: a new number each time]
    #[arg(long)]
    seed: Option<u64>,
    /// 1,500 calls in two rounds, about a minute
    #[arg(long, conflicts_with_all = ["calls", "seconds", "rounds"])]
    quick: bool,
    /// Tries this binary instead of building one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Runs the soak, and fails on the first deviation.
pub(crate) fn run(repository: &Repository, mut options: Options) -> Result<()> {
    if options.quick {
        (options.calls, options.seconds, options.rounds) = (1_500, 60, 2);
    }
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => bench::build(repository)?,
    };
    let seed = options.seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("soak: {} calls, at most {} s, seed {seed}", options.calls, options.seconds);
    let folder = repository.root.join("target/soak");
    let place = Place::new(&folder.join("shared"), &binary)?;
    let small = Place::new(&folder.join("small"), &binary)?;
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let (places, interrupted) = ([&place, &small], &*interrupted()?);
    let result = thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                let reason = if interrupted.load(Ordering::Relaxed) {
                    "a signal came"
                } else if Instant::now() > deadline + GRACE {
                    "a round took too long"
                } else {
                    continue;
                };
                let stopped = places.map(|place| place.stop.swap(true, Ordering::Relaxed));
                if stopped.contains(&false) {
                    eprintln!("soak: {reason}; ending all that was started");
                }
                for place in places {
                    place.kill_all();
                }
            }
        });
        let result = all(&place, &small, &options, seed, deadline);
        drop(running);
        result
    });
    match result {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            remove_folder(&folder)?;
            Err(Failure::new("the soak was ended by a signal, and its folders are removed"))
        }
        Err(failure) => Err(Failure(format!("{failure}\nWhat it left is in {}", folder.display()))),
        Ok(()) => {
            eprintln!("soak: all held");
            remove_folder(&folder)
        }
    }
}

/// Returns a flag that Ctrl-C and SIGTERM set. Neither signal is blocked, because child processes
/// would inherit the block.
fn interrupted() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure(format!("cannot wait for signals: {error}")))?;
    }
    Ok(flag)
}

fn all(place: &Place, small: &Place, options: &Options, seed: u64, deadline: Instant) -> Result<()> {
    let marker = format!("handfast-soak-{}", std::process::id());
    let steady = Arc::new(Up::start(place)?);
    let killed = Arc::new(Up::start(place)?);
    let mut workers = workers(place, &steady, &killed, seed, &marker);
    each(place, &mut workers, Worker::prepare)?;
    let each_round = (options.calls / options.rounds.max(1) / workers.len()).max(1);
    let mut first = None;
    for round in 1..=options.rounds.max(1) {
        each(place, &mut workers, |worker| {
            let until = worker.calls + each_round;
            while worker.calls < until && !place.stops() && Instant::now() < deadline {
                worker.step().map_err(|failure| Failure(format!("{}: {failure}", worker.model.name)))?;
            }
            Ok(())
        })?;
        if place.stops() {
            return Err(Failure::new("the soak was ended before its end"));
        }
        quiet(&mut workers)?;
        let figures = figures(place, &mut workers)?;
        let first = *first.get_or_insert(figures);
        verify(place, &workers)?;
        full_disk::run(small)?;
        let sum = |of: fn(&Worker<'_>) -> usize| workers.iter().map(of).sum::<usize>();
        let (calls, breaks) = (sum(|worker| worker.calls), sum(|worker| worker.breaks));
        eprintln!(
            "round {round}: {calls} calls, {breaks} of them broken off; memory {} KiB, {} KiB of it anonymous",
            figures.memory_kib, figures.anonymous_kib
        );
        if round == options.rounds.max(1) || Instant::now() > deadline {
            Figures::compare(first, figures)?;
            break;
        }
    }
    steady.end()?;
    killed.end()?;
    nothing_runs(&[&marker, &place.state.to_string_lossy()])?;
    no_folder_left(place)
}

/// Creates thirteen callers of eleven processes: four of two servers, one of which is killed, five
/// with an MCP server each, and four of the command line.
fn workers<'place>(
    place: &'place Place,
    steady: &Arc<Up<'place>>,
    killed: &Arc<Up<'place>>,
    seed: u64,
    marker: &str,
) -> Vec<Worker<'place>> {
    let doors = [
        (Door::Http(Arc::clone(steady)), Fate::Stays),
        (Door::Http(Arc::clone(steady)), Fate::Stays),
        (Door::Http(Arc::clone(killed)), Fate::Kills),
        (Door::Http(Arc::clone(killed)), Fate::Dies),
        (Door::Mcp(place, None), Fate::Stays),
        (Door::Mcp(place, None), Fate::Kills),
        (Door::Mcp(place, None), Fate::Kills),
        (Door::Mcp(place, None), Fate::Kills),
        (Door::Mcp(place, None), Fate::Kills),
        (Door::CommandLine(place), Fate::Kills),
        (Door::CommandLine(place), Fate::Kills),
        (Door::CommandLine(place), Fate::Kills),
        (Door::CommandLine(place), Fate::Kills),
    ];
    let numbered = (0..).zip(doors);
    numbered.map(|(number, (door, fate))| Worker::new(number, door, fate, seed, marker)).collect()
}

/// Runs `part` on every worker at the same time. The first failure stops the others before their
/// next call.
fn each<'place>(
    place: &Place,
    workers: &mut [Worker<'place>],
    part: impl Fn(&mut Worker<'place>) -> Result<()> + Sync,
) -> Result<()> {
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let part = &part;
        let running: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                scope.spawn(move || {
                    let result = part(worker);
                    if result.is_err() {
                        place.stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|_| Err(Failure::new("a worker broke off")))).collect()
    });
    let failures: Vec<String> =
        results.into_iter().filter_map(Result::err).map(|failure| failure.0).collect();
    if failures.is_empty() { Ok(()) } else { Err(Failure(failures.join("\n"))) }
}

/// Compares all rows with the models, and closes the connections that end their processes.
fn quiet(workers: &mut [Worker<'_>]) -> Result<()> {
    workers.iter_mut().try_for_each(|worker| {
        worker.look_at_rows(None)?;
        worker.door.close()
    })
}

/// Measures the server that is never killed. No other caller uses it at this point.
fn figures(place: &Place, workers: &mut [Worker<'_>]) -> Result<Figures> {
    let Some(worker) = workers.first_mut() else { return Err(Failure::new("there is no worker")) };
    std::fs::write(place.workspace.join("read"), "x".repeat(1024))
        .map_err(|error| Failure(format!("cannot write a file to read: {error}")))?;
    let mut took = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        let Answer::Result(result) = worker.door.call("file_read", &json!({"path": "read"}))? else {
            return Err(Failure::new("a read was lost though nobody was killed"));
        };
        took.push(began.elapsed());
        if result["data"]["size_bytes"] != 1024 {
            return Err(Failure(format!("WRONG ANSWER of a read of 1 KiB: {result}")));
        }
    }
    took.sort();
    let Some(process) = worker.door.process() else {
        return Err(Failure::new("there is no server to measure"));
    };
    Ok(Figures::of(process, &place.state, took.get(READS / 2).copied().unwrap_or_default()))
}

/// Verifies files, audit, saved files, processes of commands and folders of calls.
fn verify(place: &Place, workers: &[Worker<'_>]) -> Result<()> {
    let run = |arguments: &[&str]| capture(place.program().args(arguments));
    // The next call cleans up after killed processes.
    run(&["call", "file_list", r#"{"path": "."}"#])?;
    workers.iter().try_for_each(|worker| worker.model.verify(&place.workspace))?;
    run(&["audit", "verify"])?;
    let missing = missing_rows(place, workers)?;
    if !missing.is_empty() {
        let shown = missing.iter().take(10).map(|call| call.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure(format!("LOST ROWS: {} acknowledged calls, such as {shown}", missing.len())));
    }
    let doctor = place.program().args(["doctor", "--json"]).output();
    let doctor = doctor.map_err(|error| Failure(format!("cannot start handfast doctor: {error}")))?;
    let findings: Value = serde_json::from_slice(&doctor.stdout).unwrap_or_default();
    let findings = findings.as_array().map(Vec::as_slice).unwrap_or_default();
    match findings.iter().find(|finding| finding["name"] == "saved-files") {
        Some(finding) if finding["verdict"] == "holds" => eprintln!("saved files: {}", finding["detail"]),
        finding => return Err(Failure(format!("`handfast doctor` says of saved files: {finding:?}"))),
    }
    nothing_runs(&workers.iter().map(|worker| worker.marker.as_str()).collect::<Vec<_>>())
}

/// Returns acknowledged calls without a row in the audit.
fn missing_rows<'worker>(place: &Place, workers: &'worker [Worker<'_>]) -> Result<Vec<&'worker String>> {
    let mut missing: HashSet<&String> = workers.iter().flat_map(|worker| &worker.recorded).collect();
    let mut command = place.program();
    let mut export = place.start(command.args(["audit", "export"]).stdout(Stdio::piped()))?;
    if let Some(output) = export.child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let row: Value = line.ok().and_then(|line| serde_json::from_str(&line).ok()).unwrap_or_default();
            if let Some(call) = row["call"].as_str() {
                missing.remove(&call.to_owned());
            }
        }
    }
    let status = export.ended()?;
    if !status.success() {
        return Err(Failure(format!("`handfast audit export` ended with {status}")));
    }
    Ok(missing.into_iter().collect())
}

/// Waits for recently interrupted processes, then fails on processes whose command line contains
/// one of these texts.
fn nothing_runs(texts: &[&str]) -> Result<()> {
    let began = Instant::now();
    loop {
        let processes = processes_with(texts);
        if processes.is_empty() {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(20) {
            return Err(Failure(format!("LEFT RUNNING: {processes:#?}")));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Fails on folders of calls, except those of changes that are kept for a human: a process was
/// killed while it committed them. Servers, which keep a folder for their next call, must have
/// ended.
fn no_folder_left(place: &Place) -> Result<()> {
    // The next start removes the leftovers of a killed process.
    capture(place.program().args(["call", "file_list", r#"{"path": "."}"#]))?;
    let entries = std::fs::read_dir(place.state.join("changes")).into_iter().flatten().flatten();
    let kept = capture(place.program().args(["changes", "list", "--json"]))?;
    let kept: Value = serde_json::from_str(&kept).unwrap_or_default();
    let is_kept = |name: &str| {
        kept.as_array().into_iter().flatten().any(|changes| {
            changes["id"] == name && changes["reason"] == "the program ended while they were being committed"
        })
    };
    let folders: Vec<_> = entries
        .filter(|entry| !entry.file_name().to_str().is_some_and(is_kept))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    if folders.is_empty() {
        Ok(())
    } else {
        Err(Failure(format!("LEFT BEHIND: folders of calls {folders:#?}")))
    }
}
