//! The end of cells' control groups, even when the program that made them is killed. Each test
//! watches a separate program, the example `run_cell`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any step here may take on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The example, running a line that prints `ready` and then continues until it is killed.
struct Program {
    child: Child,
    /// Output pipe, which stays open for the program's last output.
    _output: BufReader<ChildStdout>,
    _workspace: tempfile::TempDir,
}

impl Program {
    fn start(options: &[&str], line: &str) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        // target/debug/deps/this -> target/debug/examples/run_cell
        let own = std::env::current_exe().unwrap();
        let example = own.parent().unwrap().parent().unwrap().join("examples/run_cell");
        let mut child = Command::new(example)
            .args(options)
            .arg(workspace.path())
            .arg(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self { child, _output: output, _workspace: workspace }
    }

    /// Returns the program and all its descendants.
    fn family(&self) -> Vec<u32> {
        let mut found = vec![self.child.id()];
        let mut next = 0;
        while let Some(pid) = found.get(next) {
            let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            found.extend(listed.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
            next += 1;
        }
        found
    }
}

/// Lists the groups made by one of `pids` below this process's group, in every hierarchy.
fn groups(pids: &[u32]) -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap(), parts.next().unwrap());
        let of_mount = |mount: &&str| {
            let fields: Vec<_> = mount.split(' ').collect();
            match controllers {
                "" => fields[2] == "cgroup2",
                controllers => fields[2] == "cgroup" && fields[3].ends_with(controllers),
            }
        };
        let Some(mount) = mounts.lines().find(of_mount).and_then(|mount| mount.split(' ').nth(1)) else {
            continue;
        };
        let folder = Path::new(mount).join(path.trim_start_matches('/'));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of = |pid: &u32| name.starts_with("handfast-") && name.contains(&format!("-{pid}-"));
            if pids.iter().any(of) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Waits until no group of `pids` is left.
fn assert_removed(pids: &[u32]) {
    let begun = Instant::now();
    while !groups(pids).is_empty() {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", groups(pids));
        std::thread::yield_now();
    }
}

/// Returns true if this user may make groups, which every test of this file needs.
fn may_make_groups() -> bool {
    let mut program = Program::start(&[], "sleep 0.2 & echo ready; wait");
    let has = !groups(&program.family()).is_empty();
    assert!(program.child.wait().unwrap().success());
    if !has {
        eprintln!("no control group can be made here: nothing to test");
    }
    has
}

/// Starts the program again until no group of `pids` is left. A cell may take a moment to end after
/// its program, so the first start may come too early.
fn sweep(pids: &[u32]) {
    let begun = Instant::now();
    while !groups(pids).is_empty() {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", groups(pids));
        assert!(Program::start(&[], "echo ready").child.wait().unwrap().success());
    }
}

fn end(mut program: Program) -> Vec<u32> {
    let family = program.family();
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    family
}

#[test]
fn every_group_goes_with_its_cell() {
    if !may_make_groups() {
        return;
    }
    for options in [&[][..], &["--spawner"]] {
        let mut program = Program::start(options, "sleep 0.2 & echo ready; wait");
        let family = program.family();
        assert!(!groups(&family).is_empty(), "the control: there is one while it runs");
        assert!(program.child.wait().unwrap().success());
        assert_removed(&family);
    }
}

#[test]
fn the_spawner_removes_the_groups_of_a_program_that_was_killed() {
    if !may_make_groups() {
        return;
    }
    let program = Program::start(&["--spawner"], "trap '' TERM; echo ready; sleep 9999");
    assert!(groups(&program.family()).len() > 1, "the control: waiting cells have theirs too");
    let family = end(program);
    assert_removed(&family);
}

#[test]
fn the_next_start_removes_what_a_killed_program_without_a_spawner_left() {
    if !may_make_groups() {
        return;
    }
    let program = Program::start(&[], "echo ready; sleep 9999");
    let family = end(program);
    let alive = Program::start(&[], "echo ready; sleep 9999");
    sweep(&family);
    assert!(!groups(&alive.family()).is_empty(), "the control: what is in use is left alone");
    sweep(&end(alive));
}
