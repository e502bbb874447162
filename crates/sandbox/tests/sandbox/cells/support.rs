//! A workspace to run cells in, and ways to find processes on the host.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sandbox::{CellHost, CellSpec, Command, Outcome, Program, SandboxError, Stopper};

use super::run;

/// Deadline for commands that should not take long; reaching it fails a test through the way in
/// which the command ended.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// A workspace with a cell around it.
pub(crate) struct Place {
    /// Guard that removes the workspace at the end.
    _workspace: tempfile::TempDir,
    pub(crate) spec: CellSpec,
    pub(crate) host: CellHost,
}

impl Place {
    pub(crate) fn new() -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let spec = CellSpec {
            workspace: workspace.path().canonicalize().unwrap(),
            spool_directory: std::env::temp_dir(),
            output_limit: 1 << 30,
            ..CellSpec::default()
        };
        Self { _workspace: workspace, spec, host: CellHost::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.spec.workspace.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn try_run(&self, program: Program) -> Result<Outcome, SandboxError> {
        let command = Command { program, working_directory: self.spec.workspace.clone() };
        run(&self.spec, &self.host, &command, Some(TIMEOUT), &Stopper::new()?, &mut |_, _| {})
    }

    pub(crate) fn argv(&self, arguments: &[&str]) -> Result<Outcome, SandboxError> {
        self.try_run(Program::Argv(arguments.iter().map(OsString::from).collect()))
    }

    /// Runs a shell line.
    pub(crate) fn sh(&self, line: &str) -> Outcome {
        self.try_run(Program::Shell(line.to_owned())).unwrap()
    }

    /// Runs a shell line that must succeed, and returns its output.
    pub(crate) fn output(&self, line: &str) -> String {
        let outcome = self.sh(line);
        assert_eq!(outcome.exit, sandbox::Exit::Code(0), "{line}\n{}{}", stdout(&outcome), stderr(&outcome));
        stdout(&outcome)
    }

    /// Builds a C program in the workspace, inside a cell.
    pub(crate) fn build(&self, name: &str, source: &str) {
        self.write(&format!("{name}.c"), source);
        self.output(&format!("gcc -O1 -Wall -pthread -o {name} {name}.c"));
    }
}

pub(crate) fn stdout(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&[&outcome.stdout.head[..], &outcome.stdout.tail].concat()).into_owned()
}

pub(crate) fn stderr(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&[&outcome.stderr.head[..], &outcome.stderr.tail].concat()).into_owned()
}

/// Returns a number of seconds to sleep that no other process on this machine has among its
/// arguments.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("9999.{}0{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Lists the processes of the host with `marker` among their arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let arguments = fs::read(Path::new("/proc").join(&name).join("cmdline")).unwrap_or_default();
        if arguments.split(|&byte| byte == 0).any(|argument| argument == marker.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Waits until `count` processes have the marker, which they get by executing; the shell that
/// started them may be ahead of that. Gives up after [`TIMEOUT`].
pub(crate) fn wait_for_processes_with(marker: &str, count: usize) -> Vec<i32> {
    let started = Instant::now();
    loop {
        let found = processes_with(marker);
        if found.len() >= count || started.elapsed() > TIMEOUT {
            return found;
        }
        std::thread::yield_now();
    }
}

/// Returns the path of the example that runs a cell, which is built with the tests.
pub(crate) fn run_cell() -> PathBuf {
    // target/debug/deps/this -> target/debug/examples/run_cell
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples/run_cell")
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
