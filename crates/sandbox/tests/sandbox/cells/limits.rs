//! Tests of a command's limits, by attempts to exceed them.

use std::fs;

use sandbox::{Exit, Layer, Limit, Limits, Outcome};

use super::support::{Place, is_root, stderr, stdout};

const MEGABYTE: u64 = 1 << 20;

fn layer(outcome: &Outcome, limit: Limit) -> Option<Layer> {
    outcome.enforcement.limits.iter().find(|it| it.limit == limit).map(|it| it.layer)
}

/// Ways to use memory, each as a line of Python that takes some megabytes. The process table does
/// not show the last two.
const WAYS: [(&str, &str); 4] = [
    ("own", "held = bytearray(SIZE << 20)"),
    ("shared", "import mmap; held = mmap.mmap(-1, SIZE << 20); held.write(b'x' * (SIZE << 20))"),
    (
        "memfd",
        "import os; held = os.memfd_create('x'); [os.write(held, b'x' * (1 << 20)) for _ in range(SIZE)]",
    ),
    ("file", "held = open('/dev/shm/x', 'wb'); [held.write(b'x' * (1 << 20)) for _ in range(SIZE)]"),
];

#[test]
fn memory_of_every_kind_counts_and_the_limit_holds() {
    let mut place = Place::new();
    place.spec.limits.memory = Some(100 * MEGABYTE);
    for (name, way) in WAYS {
        let run = |size: u64| {
            let code = way.replace("SIZE", &size.to_string());
            place.sh(&format!("exec /usr/bin/python3 -c \"{code}; print('held')\""))
        };
        let modest = run(40);
        assert_eq!(
            (stdout(&modest).as_str(), modest.exceeded),
            ("held\n", None),
            "{name}: {}",
            stderr(&modest)
        );
        if layer(&modest, Limit::Memory) == Some(Layer::Watchdog) {
            // The watchdog samples the memory of processes several times a second, so it misses
            // some of these, and reacts late.
            continue;
        }
        let greedy = run(200);
        assert_eq!(greedy.exit, Exit::Signal(9), "{name}: {}", stderr(&greedy));
        assert_eq!(stdout(&greedy), "", "{name}");
        let exceeded = greedy.exceeded.unwrap();
        assert_eq!((exceeded.limit, exceeded.value), (Limit::Memory, 100 * MEGABYTE), "{name}");
    }
}

#[test]
fn memory_is_that_of_the_whole_cell() {
    let mut place = Place::new();
    place.spec.limits.memory = Some(100 * MEGABYTE);
    // The processes take memory once the shell has started all of them: at its limit the shell
    // cannot start another.
    place.write(
        "takes.py",
        "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nx = bytearray(40 << 20)\ntime.sleep(60)\n",
    );
    let line = "for i in 1 2 3 4; do /usr/bin/python3 takes.py & done; : >go; \
                wait -n; echo one ended with $?; kill %1 %2 %3 %4; true";
    let outcome = place.sh(line);
    if layer(&outcome, Limit::Memory) == Some(Layer::Watchdog) {
        assert_eq!(outcome.exceeded.map(|it| it.limit), Some(Limit::Memory));
        return;
    }
    assert_eq!(stdout(&outcome), "one ended with 137\n", "{outcome:?}");
    assert_eq!(outcome.exceeded.map(|it| it.limit), Some(Limit::Memory));
    assert_eq!(outcome.exit, Exit::Code(0), "who is not killed goes on");
}

#[test]
fn processes_are_counted_with_all_that_they_start() {
    let mut place = Place::new();
    place.spec.limits.processes = Some(20);
    place.write(
        "forks.py",
        "import os, signal\n\
         count = 1\n\
         try:\n    \
             while count < 1000:\n        \
                 if os.fork() == 0:\n            signal.pause()\n        \
                 count += 1\n\
         except OSError as error:\n    print(count, error.strerror)\n",
    );
    assert_eq!(place.output("exec /usr/bin/python3 forks.py"), "20 Resource temporarily unavailable\n");
    // Threads count as well, and processes of another cell do not.
    place.write(
        "threads.py",
        "import threading\n\
         stop = threading.Event()\n\
         try:\n    \
             for count in range(1, 1000):\n        threading.Thread(target=stop.wait).start()\n\
         except RuntimeError as error:\n    print(count, error)\n\
         stop.set()\n",
    );
    assert_eq!(place.output("exec /usr/bin/python3 threads.py"), "20 can't start new thread\n");
}

#[test]
fn a_fork_bomb_ends_with_its_cell_and_harms_no_other_cell() {
    let mut place = Place::new();
    place.spec.limits.processes = Some(50);
    place.write("bomb.sh", "bomb() { bomb | bomb & }\necho begun\nbomb\nsleep 0.3\n");
    let bomb = std::thread::scope(|scope| {
        let bomb = scope.spawn(|| place.sh("bash bomb.sh"));
        // The control: other cells start processes at the same time.
        let other = Place::new();
        for _ in 0..10 {
            assert_eq!(other.output("echo $(echo a | tr a b)"), "b\n");
        }
        bomb.join().unwrap()
    });
    assert!(stdout(&bomb).starts_with("begun"), "{}", stderr(&bomb));
    assert!(stderr(&bomb).contains("Resource temporarily unavailable"), "{}", stderr(&bomb));
}

#[test]
fn open_files_and_the_size_of_a_file_are_bounded() {
    let mut place = Place::new();
    place.spec.limits = Limits { open_files: Some(40), file_size: Some(MEGABYTE), ..Limits::default() };
    let code = "import os\nfds = []\ntry:\n  while True: fds.append(os.dup(0))\nexcept OSError as e: print(max(fds), e.strerror)";
    assert_eq!(
        place.output(&format!("/usr/bin/python3 -c '{code}'; ulimit -Hn")),
        "39 Too many open files\n40\n"
    );
    let outcome = place.sh("exec head -c 2000000 /dev/zero > big");
    assert_eq!(outcome.exit, Exit::Signal(25), "SIGXFSZ: {}", stderr(&outcome));
    assert_eq!(fs::metadata(place.path("big")).unwrap().len(), MEGABYTE);
    assert_eq!(
        place.output("head -c 1000000 /dev/zero > small; head -c 2000000 /dev/zero | wc -c"),
        "2000000\n"
    );
    // A command cannot raise any of these limits.
    assert_ne!(place.sh("ulimit -Hn 41").exit, Exit::Code(0));
    assert_ne!(place.sh("ulimit -f unlimited").exit, Exit::Code(0));
}

#[test]
fn one_processor_is_the_time_of_one() {
    let mut place = Place::new();
    let code = "import os, time\n\
                end = time.monotonic() + 0.6\n\
                child = os.fork()\n\
                while time.monotonic() < end: pass\n\
                if child: os.wait()\n";
    place.write("busy.py", code);
    let share = |place: &Place| -> f64 {
        let line = "TIMEFORMAT='%R %U %S'; time /usr/bin/python3 busy.py";
        let outcome = place.sh(line);
        let text = stderr(&outcome);
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers.len(), 3, "{text}");
        (numbers[1] + numbers[2]) / numbers[0]
    };
    place.spec.limits.cpus = Some(1);
    let outcome = place.sh("true");
    let Some(held) = layer(&outcome, Limit::Cpus) else {
        assert!(outcome.enforcement.limits.iter().all(|it| it.limit != Limit::Cpus), "one is all there are");
        return;
    };
    // The quota is for a tenth of a second at a time, and started work may be finished.
    assert!(share(&place) < 1.3, "held by {held:?}");
}

#[test]
fn a_strict_cell_says_what_it_would_not_hold_and_runs_nothing() {
    let mut place = Place::new();
    place.spec.strict = true;
    place.spec.limits.disk = Some(MEGABYTE);
    let error = place.try_run(sandbox::Program::Shell("touch ran".to_owned())).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, sandbox::SandboxError::Unavailable { .. }), "{text}");
    assert!(text.contains("strict") && text.contains("disk"), "{text}");
    assert!(!place.path("ran").exists());
    // The control: without that limit it runs if all others are exact.
    place.spec.limits.disk = None;
    let outcome = place.try_run(sandbox::Program::Shell("touch ran".to_owned()));
    assert_eq!(outcome.is_ok(), place.path("ran").exists());
    if is_root() {
        let shortcomings = outcome.unwrap().enforcement.shortcomings();
        assert_eq!(shortcomings, Vec::<String>::new());
    }
}
