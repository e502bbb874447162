//! The content of the upper folder after the command, and tests that no part of the overlay is
//! left.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sandbox::{CellSpec, EndReason, Program, Stopper};

use super::support::{each, is_root, overlay_at, run, run_cell, state};

/// Longer than any step here may take on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

#[test]
fn what_was_written_through_a_mapping_is_there_without_a_sync() {
    each(|place| {
        place.write("mapped", &"a".repeat(1 << 20));
        let ran = place
            .ok("python3 -c \"import mmap, os; f = os.open('mapped', os.O_RDWR); m = mmap.mmap(f, 0); \
             m[:] = b'b' * len(m); os._exit(0)\"");
        assert_eq!(fs::read(ran.path("mapped")).unwrap(), vec![b'b'; 1 << 20]);
        assert_eq!(place.read("mapped"), "a".repeat(1 << 20));
    });
}

#[test]
fn nothing_changes_after_the_answer_although_the_command_left_writers_behind() {
    each(|place| {
        let ran = place.ok(
            "for i in 1 2 3; do (trap '' TERM HUP; setsid sh -c 'while :; do echo x >> busy; done' >/dev/null 2>&1 &); \
             done; while ! test -s busy; do :; done",
        );
        let before = state(&ran.upper);
        // The duration of another command is time enough for a remaining writer.
        place.ok("ls -l /usr/bin > /tmp/list");
        assert_eq!(state(&ran.upper), before);
        assert!(fs::metadata(ran.path("busy")).unwrap().len() > 0, "the control: they did write");
    });
}

#[test]
fn what_a_command_had_changed_at_its_deadline_is_there() {
    each(|place| {
        let overlay = place.overlay();
        let upper = overlay.upper.clone();
        let spec = CellSpec { overlay: Some(overlay), ..place.spec.clone() };
        let command = sandbox::Command {
            program: Program::Shell("trap '' TERM; echo half > done; while :; do :; done".to_owned()),
            working_directory: spec.workspace.clone(),
        };
        let deadline = Some(Duration::from_secs(1));
        let outcome =
            sandbox::run(&spec, &place.host, &command, deadline, &Stopper::new().unwrap(), &mut |_, _| {})
                .unwrap();
        assert_eq!(outcome.ended, EndReason::Deadline);
        assert_eq!(fs::read_to_string(upper.join("done")).unwrap(), "half\n");
        assert!(!place.path("done").exists());
    });
}

#[test]
fn changes_of_others_are_told_by_the_time_at_which_it_started() {
    each(|place| {
        place.write("before", "x");
        let changed = |name: &str| {
            let metadata = fs::metadata(place.path(name)).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        // A kernel with coarse stamps may give a change just before the start the same stamp.
        let _seen = changed("before");
        let ran = place.ok("true");
        place.write("after", "x");
        let started = ran.outcome.started_at.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let started = (i64::try_from(started.as_secs()).unwrap(), i64::from(started.subsec_nanos()));
        assert!(changed("before") <= started, "{:?} {started:?}", changed("before"));
        assert!(changed("after") >= started, "{:?} {started:?}", changed("after"));
    });
}

#[test]
fn a_hundred_commands_on_one_workspace_at_once_see_it_alike_and_keep_apart() {
    let place = super::support::Place::new(sandbox::Origin::Spawner);
    place.write("file", "old");
    place.write("gone", "old");
    let before = state(&place.spec.workspace);
    thread::scope(|scope| {
        for number in 0..100 {
            let (spec, host) = (place.spec.clone(), place.host.clone());
            let folder = place.outside(&format!("parallel{number}"));
            scope.spawn(move || {
                let overlay = overlay_at(&folder);
                let spec = CellSpec { overlay: Some(overlay), ..spec };
                let outcome =
                    run(&spec, &host, &format!("cat file; rm gone; echo {number} > file; ls")).unwrap();
                assert_eq!(String::from_utf8_lossy(&outcome.stdout.head), "oldfile\n");
                assert_eq!(fs::read_to_string(folder.join("upper/file")).unwrap(), format!("{number}\n"));
            });
        }
    });
    assert_eq!(state(&place.spec.workspace), before);
}

/// Lists the processes whose mounts contain `text`, as far as this user may see.
fn mounts_naming(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let names = |path: &std::path::Path| {
        fs::read_to_string(path.join("mountinfo")).is_ok_and(|mounts| mounts.contains(text))
    };
    processes.filter(|path| names(path)).map(|path| path.display().to_string()).collect()
}

#[test]
fn a_program_that_is_killed_leaves_no_process_and_no_mount() {
    each(|place| {
        let folder = place.outside("killed");
        overlay_at(&folder);
        fs::remove_dir(folder.join("upper")).unwrap();
        fs::remove_dir(folder.join("work")).unwrap();
        let mut command = Command::new(run_cell());
        command.args(place.host.spawner.is_some().then_some("--spawner"));
        let line = "echo x > new; echo $PPID; exec sleep 1000";
        command.arg("--overlay").arg(&folder).arg(&place.spec.workspace).arg(line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        // The folders for the changes are mounted under their own path, which no other mount
        // contains.
        let name = place.outside("").file_name().unwrap().to_str().unwrap().to_owned() + "/killed";
        let holders = mounts_naming(&name);
        assert!(!is_root() || !holders.is_empty(), "the control: they are there while it runs");
        let watched: Vec<_> = family(child.id()).into_iter().map(pidfd).collect();
        assert!(watched.len() >= 3, "the program, the cell and its command");
        child.kill().unwrap();
        child.wait().unwrap();
        for process in watched.iter().flatten() {
            let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
            assert_eq!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience)), Ok(1));
        }
        let started = Instant::now();
        while !mounts_naming(&name).is_empty() && started.elapsed() < TIMEOUT {
            thread::yield_now();
        }
        assert_eq!(mounts_naming(&name), Vec::<String>::new());
        assert!(!place.path("new").exists() && folder.join("upper/new").exists());
    });
}

/// Returns a process and all its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        found.extend(listed.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        next += 1;
    }
    found
}

fn pidfd(pid: u32) -> Option<std::os::fd::OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).ok()
}
