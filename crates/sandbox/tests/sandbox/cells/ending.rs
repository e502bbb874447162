//! The end of commands, and tests that no process outlives its cell.

use std::io::{BufRead, BufReader};
use std::process::{self, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sandbox::{Command, EndReason, Exit, Outcome, Program, Stopper};

use super::run;
use super::support::{
    Place, TIMEOUT, marker, processes_with, run_cell, stderr, stdout, wait_for_processes_with,
};

/// Runs a line. When it prints `ready`, waits until at least `count` processes of the host have the
/// marker, and then calls `then`. That wait is the control of every test that finds none
/// afterwards.
fn run_until_ready(
    place: &Place,
    line: &str,
    (marker, count): (&str, usize),
    deadline: Duration,
    stopper: &Stopper,
    mut then: impl FnMut(),
) -> Outcome {
    let command =
        Command { program: Program::Shell(line.to_owned()), working_directory: place.spec.workspace.clone() };
    let mut said = Vec::new();
    run(&place.spec, &place.host, &command, Some(deadline), stopper, &mut |_, chunk| {
        let before = said.len();
        said.extend_from_slice(chunk);
        let ready = |text: &[u8]| text.windows(5).any(|word| word == b"ready");
        if ready(&said) && !ready(&said[..before]) {
            assert!(wait_for_processes_with(marker, count).len() >= count);
            then();
        }
    })
    .unwrap()
}

#[test]
fn the_deadline_kills_and_keeps_what_was_written() {
    let (place, marker) = (Place::new(), marker());
    let line = format!("sleep {marker} & echo ready; exec sleep {marker}");
    let outcome =
        run_until_ready(&place, &line, (&marker, 2), Duration::from_secs(2), &Stopper::new().unwrap(), || {});
    assert_eq!((outcome.exit, outcome.ended), (Exit::Signal(15), EndReason::Deadline));
    assert_eq!(stdout(&outcome), "ready\n");
    assert_eq!(processes_with(&marker), []);
}

#[test]
fn a_command_may_end_in_order_when_it_is_told() {
    let place = Place::new();
    let line = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let stopper = Stopper::new().unwrap();
    let outcome = run_until_ready(&place, line, ("-", 0), TIMEOUT, &stopper, || stopper.stop());
    assert_eq!((outcome.exit, outcome.ended), (Exit::Code(7), EndReason::Stopped));
    assert_eq!(stdout(&outcome), "ready\nbye\n");
}

#[test]
fn a_command_that_ignores_the_signal_or_stops_itself_is_killed() {
    let place = Place::new();
    let stops_itself = "(until grep -q '^State:.T' /proc/$$/status; do :; done; echo ready) & kill -STOP $$";
    for line in ["trap '' TERM; echo ready; while :; do :; done", stops_itself] {
        let stopper = Stopper::new().unwrap();
        let outcome = run_until_ready(&place, line, ("-", 0), TIMEOUT, &stopper, || stopper.stop());
        assert_eq!((outcome.exit, outcome.ended), (Exit::Signal(9), EndReason::Stopped), "{line}");
        assert_eq!(stdout(&outcome), "ready\n");
    }
}

#[test]
fn a_stop_from_another_thread_or_from_before_ends_the_command() {
    let (place, marker) = (Place::new(), marker());
    let stopper = Stopper::new().unwrap();
    let (send, receive) = mpsc::channel();
    let from_thread = std::thread::spawn({
        let stopper = stopper.clone();
        move || {
            receive.recv().unwrap();
            stopper.stop();
        }
    });
    let line = format!("sleep {marker} & echo ready; wait");
    let outcome = run_until_ready(&place, &line, (&marker, 1), TIMEOUT, &stopper, || send.send(()).unwrap());
    from_thread.join().unwrap();
    assert_eq!((outcome.exit, outcome.ended), (Exit::Signal(15), EndReason::Stopped));
    assert_eq!(processes_with(&marker), []);

    let outcome = run_until_ready(&place, "sleep 1000", ("-", 0), TIMEOUT, &stopper, || {});
    assert_eq!(outcome.ended, EndReason::Stopped, "once stopped, always stopped");
}

#[test]
fn a_background_process_that_holds_the_output_open_does_not_hold_the_call() {
    let (place, marker) = (Place::new(), marker());
    let line = format!("sleep {marker} & sleep {marker} > /dev/null 2>&1 & echo ready");
    let outcome = run_until_ready(&place, &line, (&marker, 2), TIMEOUT, &Stopper::new().unwrap(), || {});
    assert_eq!((outcome.exit, outcome.ended), (Exit::Code(0), EndReason::Finished));
    assert_eq!(processes_with(&marker), []);
}

#[test]
fn a_daemon_that_left_its_session_dies_with_the_cell() {
    let (place, marker) = (Place::new(), marker());
    place.write(
        "daemon.py",
        "import os, sys\n\
         read, write = os.pipe()\n\
         if os.fork() == 0:\n    \
             os.setsid()\n    \
             if os.fork() == 0:\n        \
                 null = os.open('/dev/null', os.O_RDWR)\n        \
                 [os.dup2(null, fd) for fd in (0, 1, 2)]\n        \
                 os.write(write, b'x')\n        \
                 os.execvp('sleep', ['sleep', sys.argv[1]])\n    \
             os._exit(0)\n\
         os.read(read, 1)\n",
    );
    let line = format!("/usr/bin/python3 daemon.py {marker}; echo ready");
    let outcome = run_until_ready(&place, &line, (&marker, 1), TIMEOUT, &Stopper::new().unwrap(), || {});
    assert_eq!(outcome.exit, Exit::Code(0));
    assert_eq!(processes_with(&marker), []);
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let place = Place::new();
    assert_eq!(place.sh("exit 137").exit, Exit::Code(137));
    assert_eq!(place.sh("kill -9 $$").exit, Exit::Signal(9));
    assert_eq!(place.sh("kill -TERM $$").exit, Exit::Signal(15));
    let outcome = place.sh("kill -9 1; kill -TERM 1; kill -STOP 1; echo still here");
    assert_eq!(stdout(&outcome), "still here\n", "the cell's first process cannot be killed from inside");
}

#[test]
fn output_of_a_process_substitution_that_outlives_the_command_is_read() {
    let place = Place::new();
    assert_eq!(place.output("echo text > >(sleep 0.02; cat)"), "text\n");
}

#[test]
fn a_cell_dies_with_the_program_that_started_it() {
    let (place, marker) = (Place::new(), marker());
    let line = format!("sleep {marker} & trap '' TERM HUP INT; echo ready; wait");
    let mut parent = process::Command::new(run_cell())
        .args([place.spec.workspace.as_os_str(), line.as_ref()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let sleeping: Vec<_> = wait_for_processes_with(&marker, 1)
        .into_iter()
        .map(|pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap())
        .collect();
    assert!(!sleeping.is_empty());
    parent.kill().unwrap();
    parent.wait().unwrap();
    for process in &sleeping {
        // The descriptor is readable when the process has ended.
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut ended, Some(&patience)), Ok(1), "the process lives on");
    }
}

#[test]
fn a_cell_that_is_killed_from_outside_is_said_to_be() {
    let (place, marker) = (Place::new(), marker());
    let line = format!("echo ready; exec sleep {marker}");
    let stopper = Stopper::new().unwrap();
    let outcome = run_until_ready(&place, &line, (&marker, 1), TIMEOUT, &stopper, || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", processes_with(&marker)[0])).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
        let first = Pid::from_raw(parent.trim().parse().unwrap()).unwrap();
        kill_process(first, Signal::KILL).unwrap();
    });
    assert_eq!((outcome.exit, outcome.ended), (Exit::Signal(9), EndReason::Killed));
    assert_eq!(stdout(&outcome), "ready\n");
    assert_eq!(processes_with(&marker), []);
}

#[test]
fn a_full_spool_is_said_and_disturbs_nothing() {
    let mut place = Place::new();
    place.spec.spool_directory = "/no/such/folder".into();
    let outcome = place.sh("head -c 1000000 /dev/zero; echo end >&2");
    assert_eq!((outcome.exit, outcome.stdout.bytes), (Exit::Code(0), 1_000_000));
    assert!(outcome.stdout.spool_error.is_some() && outcome.stdout.whole.is_none());
    assert_eq!(stderr(&outcome), "end\n");
}
