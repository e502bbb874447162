//! The behavior of waiting cells when a process dies. Each test watches a separate program, the
//! example `run_cell`, because a spawner must start before there are threads, and a test harness
//! has some.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Number of cells that the example keeps waiting.
const WAITING: usize = 4;

/// Longer than any step here may take on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The example with a spawner.
struct Program {
    workspace: tempfile::TempDir,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program to run one line, or with `-` the lines that it is given later.
    fn start(line: &str) -> Self {
        Self::start_by(&[], line)
    }

    /// Starts the program through another one.
    fn start_by(starter: &[&str], line: &str) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        // target/debug/deps/this -> target/debug/examples/run_cell
        let own = std::env::current_exe().unwrap();
        let example = own.parent().unwrap().parent().unwrap().join("examples/run_cell");
        let mut words: Vec<OsString> = starter.iter().map(OsString::from).collect();
        words.push(example.into());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .arg("--spawner")
            .arg(workspace.path())
            .arg(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { workspace, input: child.stdin.take(), child, output }
    }

    /// Runs a line, and returns its output and the origin of its cell.
    fn run(&mut self, line: &str) -> (String, String) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut said = String::new();
        loop {
            let line = self.line();
            assert_ne!(line, "", "the program has ended");
            if let Some(how) = line.strip_prefix("Code(0), Finished, ") {
                return (said, how.trim().rsplit(' ').next().unwrap().to_owned());
            }
            said += &line;
        }
    }

    /// Runs a line that prints `x`, and returns the origin of its cell.
    fn origin(&mut self) -> String {
        let (said, origin) = self.run("echo x");
        assert_eq!(said, "x\n");
        origin
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    /// Returns the spawner, a grandchild of the program, once a process has its name.
    fn spawner(&self) -> i32 {
        let started = Instant::now();
        loop {
            let nurseries = children(self.pid()).into_iter().filter(|pid| name(*pid) == "handfast-nurse");
            let found = nurseries.flat_map(children).find(|pid| name(*pid) == "handfast-spawn");
            if found.is_some() || started.elapsed() > TIMEOUT {
                return found.unwrap();
            }
            std::thread::yield_now();
        }
    }

    /// Waits until `count` cells of the spawner exist, waiting and running ones.
    fn cells(&self, count: usize) -> Vec<i32> {
        let spawner = self.spawner();
        let started = Instant::now();
        loop {
            let all: Vec<_> =
                children(spawner).into_iter().filter(|pid| name(*pid) == "handfast-cell").collect();
            if all.len() == count || started.elapsed() > TIMEOUT {
                assert_eq!(all.len(), count);
                return all;
            }
            std::thread::yield_now();
        }
    }
}

fn children(pid: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// Lists the open descriptors of a process by the kernel's names: each socket has a unique number.
fn descriptors(pid: i32) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let entry = entry.unwrap();
        found.insert(
            entry.file_name().to_string_lossy().into_owned(),
            fs::read_link(entry.path()).unwrap_or_default(),
        );
    }
    found
}

fn watch(pids: &[i32]) -> Vec<OwnedFd> {
    pids.iter().map(|pid| pidfd_open(Pid::from_raw(*pid).unwrap(), PidfdFlags::empty()).unwrap()).collect()
}

/// Fails unless each of the processes ends.
fn assert_ended(processes: &[OwnedFd]) {
    for process in processes {
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut ended, Some(&patience)), Ok(1), "a process lives on");
    }
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn kill(pids: &[i32]) {
    let watched = watch(pids);
    for pid in pids {
        signal(*pid, Signal::KILL);
    }
    assert_ended(&watched);
}

#[test]
fn when_the_program_is_killed_its_spawner_and_all_cells_end() {
    let mut program = Program::start("trap '' TERM HUP INT; sleep 9999 & echo ready; wait");
    assert_eq!(program.line(), "ready\n");
    // One of the cells runs the command; it is not replaced before that has ended.
    let cells = program.cells(WAITING);
    let running: Vec<_> = cells.iter().flat_map(|pid| children(*pid)).collect();
    assert!(!running.is_empty(), "the control: a command runs in one of the cells");
    let sleeping: Vec<_> = running.iter().flat_map(|pid| children(*pid)).collect();
    assert!(!sleeping.is_empty());
    let watched = watch(&[&[program.spawner()], &cells[..], &running, &sleeping].concat());
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    assert_ended(&watched);
}

#[test]
fn waiting_cells_share_no_descriptor_with_each_other_the_spawner_or_the_program() {
    // The descriptors of a waiting cell are visible to root alone.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut program = Program::start("echo ready; sleep 9999");
    assert_eq!(program.line(), "ready\n");
    let cells = program.cells(WAITING);
    let sockets = |pid: i32| -> Vec<PathBuf> {
        descriptors(pid).into_values().filter(|path| path.to_string_lossy().starts_with("socket:")).collect()
    };
    let waiting: Vec<_> = cells.iter().copied().filter(|pid| children(*pid).is_empty()).collect();
    assert_eq!(waiting.len(), WAITING - 1);
    // The spawner has the last cell's descriptors open until it has handed the cell out; then only
    // its line and three descriptors of the null device remain.
    let started = Instant::now();
    while descriptors(program.spawner()).len() != 4 {
        assert!(started.elapsed() < TIMEOUT, "{:?}", descriptors(program.spawner()));
        std::thread::yield_now();
    }
    let mut seen = sockets(program.spawner());
    assert_eq!(seen.len(), 1, "the control: the spawner has its line");
    seen.extend(sockets(program.pid()));
    for pid in waiting {
        // The control socket is the one socket; the Landlock ruleset and the null device are the
        // only other descriptors.
        let own = sockets(pid);
        assert_eq!(own.len(), 1, "{:?}", descriptors(pid));
        assert!(!seen.contains(&own[0]));
        seen.extend(own);
        let others: Vec<_> = descriptors(pid)
            .into_values()
            .map(|path| path.to_string_lossy().into_owned())
            .filter(|path| !path.starts_with("socket:") && path != "/dev/null" && !path.contains("landlock"))
            .collect();
        assert_eq!(others, Vec::<String>::new());
    }
    program.child.kill().unwrap();
    program.child.wait().unwrap();
}

#[test]
fn cells_that_are_killed_while_they_wait_are_replaced() {
    let mut program = Program::start("-");
    assert_eq!(program.origin(), "Spawner");
    kill(&program.cells(WAITING)[..1]);
    assert_eq!(program.origin(), "Spawner");
    // The last one may still be in the making: if that fails, a call makes its own cell.
    kill(&program.cells(WAITING)[..WAITING - 1]);
    assert_eq!(program.origin(), "Spawner");
    program.cells(WAITING);
    program.end();
}

#[test]
fn without_its_spawner_the_program_uses_up_the_cells_and_makes_its_own() {
    let mut program = Program::start("-");
    assert_eq!(program.origin(), "Spawner");
    let cells = program.cells(WAITING);
    let watched = watch(&cells);
    kill(&[program.spawner()]);
    let origins: Vec<_> = (0..6).map(|_| program.origin()).collect();
    assert_eq!(origins[..3], ["Spawner"; 3], "{origins:?}");
    // The fourth may have been ready, but not handed over.
    assert_eq!(origins[4..], ["Made"; 2], "{origins:?}");
    assert_ended(&watched);
    program.end();
}

#[test]
fn a_spawner_that_does_not_answer_holds_nothing_up_for_long() {
    let mut program = Program::start("-");
    program.cells(WAITING);
    signal(program.spawner(), Signal::STOP);
    let origins: Vec<_> = (0..6).map(|_| program.origin()).collect();
    assert_eq!(origins[..3], ["Spawner"; 3], "{origins:?}");
    // The fourth may have been ready, but not handed over.
    assert_eq!(origins[4..], ["Made"; 2], "{origins:?}");
    signal(program.spawner(), Signal::CONT);
    program.cells(WAITING);
    assert_eq!(program.origin(), "Spawner");
    program.end();
}

#[test]
fn what_was_mounted_while_cells_waited_shows_in_the_next_one() {
    // In a new user and mount namespace a program may mount as any user, and takes the roots by
    // their paths.
    let mut program = Program::start_by(&["unshare", "--map-root-user", "--mount"], "-");
    let folder = program.workspace.path().join("sub");
    fs::create_dir(&folder).unwrap();
    assert_eq!(program.run("ls sub"), (String::new(), "Spawner".to_owned()));
    program.cells(WAITING);
    let mounted = Command::new("nsenter")
        .args(["--target", &program.pid().to_string(), "--user", "--mount", "--preserve-credentials"])
        .args(["sh", "-c", "mount -t tmpfs none \"$0\" && touch \"$0/file\""])
        .arg(&folder)
        .status();
    assert!(mounted.unwrap().success());
    assert_eq!(program.run("ls sub"), ("file\n".to_owned(), "Spawner".to_owned()));
    program.end();
}
