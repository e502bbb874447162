//! Cost of a command, compared with the same command without a cell and in bubblewrap.
//!
//! The three take turns, one command each. The report compares the 10th percentile, because it is
//! close to the speed of an idle machine. The median also reflects other load.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::measure::Durations;
use crate::bench::server::{Kind, Server};
use crate::command::{Failure, Result, probe, write};

/// Number of commands at once, the capacity of one lane: 5 that run and 10 that wait.
const AT_ONCE: usize = 15;
/// Work for one core for some tens of milliseconds.
const WORK: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";
/// Command that changes ten files. The folders are those of [`prepare`].
const TEN_FILES: &str = "for n in 0 1 2 3 4 5 6 7 8 9; do echo changed > d00$n/f00$n; done";
/// Number of folders in the workspace in which ten files are changed, followed by the number of
/// files per folder.
const FOLDERS: usize = 100;
const FILES: usize = 1_000;

/// Durations of one operation in each of the three ways.
#[derive(Default)]
pub(super) struct Ways {
    pub(super) bare: Durations,
    pub(super) bubblewrap: Durations,
    pub(super) handfast: Durations,
}

/// Figures about commands.
#[derive(Default)]
pub(super) struct Commands {
    /// The command `true`.
    pub(super) nothing: Ways,
    /// A command that changes ten files in a workspace of many.
    pub(super) ten_files: Ways,
    /// [`AT_ONCE`] commands that compute.
    pub(super) at_once: Ways,
}

/// Lays out the workspace of 100,000 files.
pub(super) fn prepare(workspace: &Path) -> Result<()> {
    for folder in 0..FOLDERS {
        for file in 0..FILES {
            write(&workspace.join(format!("d{folder:03}/f{file:03}")), "x")?;
        }
    }
    Ok(())
}

/// Measures all commands, `count` times each. The server must serve the workspace of [`prepare`].
pub(super) fn all(kind: &Kind, workspace: &Path, count: usize) -> Result<Commands> {
    let mut server = Server::start(kind)?;
    let bubblewrap = probe(Command::new("bwrap").arg("--version"));
    if !bubblewrap {
        eprintln!(
            "bubblewrap is not installed, so its column stays empty; on Debian: sudo apt-get install bubblewrap"
        );
    }
    let mut commands = Commands::default();
    for (line, ways) in [("true", &mut commands.nothing), (TEN_FILES, &mut commands.ten_files)] {
        eprintln!("running a command {count} times in each way: {line}");
        for turn in 0..=count {
            // The first turn of each is not counted.
            let keep = |durations: &mut Durations, took| (turn > 0).then(|| durations.add(took));
            keep(&mut ways.bare, timed(bare(workspace, line))?);
            if bubblewrap {
                keep(&mut ways.bubblewrap, timed(wrapped(workspace, line))?);
            }
            keep(&mut ways.handfast, called(&mut server, line)?);
        }
    }
    let rounds = count.div_ceil(30);
    eprintln!("running {AT_ONCE} commands at once, {rounds} times in each way");
    for _ in 0..rounds {
        commands.at_once.bare.add(at_once(|| bare(workspace, WORK))?);
        if bubblewrap {
            commands.at_once.bubblewrap.add(at_once(|| wrapped(workspace, WORK))?);
        }
        commands.at_once.handfast.add(called_at_once(&mut server)?);
    }
    server.stop()?;
    Ok(commands)
}

fn bare(workspace: &Path, line: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(workspace);
    command
}

/// Wraps the command as a careful user of bubblewrap would: all namespaces, a read-only system, a
/// writable workspace, no capabilities.
fn wrapped(workspace: &Path, line: &str) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
    command.arg("--bind").arg(workspace).arg(workspace).arg("--chdir").arg(workspace);
    command.args(["bash", "-c", line]);
    command
}

fn timed(mut command: Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().map_err(|error| Failure(format!("cannot run {command:?}: {error}")))?;
    let took = started.elapsed();
    if output.status.success() {
        return Ok(took);
    }
    Err(Failure(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))))
}

fn at_once(make: impl Fn() -> Command) -> Result<Duration> {
    let started = Instant::now();
    let mut children = Vec::new();
    for _ in 0..AT_ONCE {
        let mut command = make();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        children.push(child.map_err(|error| Failure(format!("cannot run {command:?}: {error}")))?);
    }
    for mut child in children {
        let status = child.wait().map_err(|error| Failure(format!("cannot wait for a command: {error}")))?;
        if !status.success() {
            return Err(Failure(format!("a command of several at once: {status}")));
        }
    }
    Ok(started.elapsed())
}

fn called(server: &mut Server, line: &str) -> Result<Duration> {
    let answer = server.call(("shell_execute", json!({"command": line})))?;
    succeeded(&answer.line)?;
    Ok(answer.took)
}

fn called_at_once(server: &mut Server) -> Result<Duration> {
    let started = Instant::now();
    server.send_calls(&("shell_execute", json!({"command": WORK})), AT_ONCE)?;
    for _ in 0..AT_ONCE {
        succeeded(&server.answer(started)?.line)?;
    }
    Ok(started.elapsed())
}

/// Fails if the command failed, because a failed command would be quick for the wrong reason.
fn succeeded(answer: &str) -> Result<()> {
    let message: Value =
        serde_json::from_str(answer).map_err(|error| Failure(format!("shell_execute: {error}")))?;
    let text = message.pointer("/result/content/0/text").and_then(Value::as_str);
    let failed = message.pointer("/result/isError").is_none_or(|failed| *failed == true);
    if text.is_some_and(|text| !text.contains("[exit code ")) && !failed {
        return Ok(());
    }
    Err(Failure(format!("shell_execute answered {answer}")))
}
