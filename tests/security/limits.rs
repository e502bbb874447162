//! Limits: the resources of a command are bounded, whoever starts it, and the result names the
//! limit at which it was killed.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::security::ordinary_user::Ordinary;

/// Returns the configuration of a workspace with these limits. An untrusted workspace may lower limits.
fn limits(lines: &str) -> String {
    format!("sandbox_config:\n  normal:\n    limits:\n{lines}")
}

/// Runs a command with these limits, as the user of the tests and as an ordinary one.
fn run(limits_in: &str, command: &str, mut check: impl FnMut(&Value, &dyn Fn(&str) -> Option<u64>)) {
    let configuration = limits(limits_in);
    let files = [("handfast.yaml", configuration.as_str())];
    let arguments = || json!({"command": command, "timeout": 60});
    let own = Fixture::with_files(&files);
    let size = |name: &str| std::fs::metadata(own.workspace().join(name)).ok().map(|found| found.len());
    check(&own.call("shell_execute", arguments()), &size);
    let ordinary = Ordinary::new(&files);
    let workspace = ordinary.fixture.workspace();
    let size = |name: &str| std::fs::metadata(workspace.join(name)).ok().map(|found| found.len());
    check(&ordinary.call("shell_execute", arguments()), &size);
}

/// Returns the mechanism that enforces a limit, according to the result.
fn layer<'a>(result: &'a Value, limit: &str) -> Option<&'a str> {
    let words = result["meta"]["sandbox"].as_array().unwrap();
    let name = format!("limit:{limit}=");
    words.iter().find_map(|word| word.as_str().unwrap().strip_prefix(name.as_str()))
}

#[track_caller]
fn assert_killed_at(result: &Value, said: &str, key: &str) {
    let error = &result["error"];
    // The fate of the changes depends on their target, which `changes.rs` tests.
    assert_eq!(error["code"], "EQUOTA", "{result:#}");
    assert!(error["message"].as_str().unwrap().contains(said), "{error:#}");
    assert!(error["hint"].as_str().unwrap().contains(key), "{error:#}");
    assert_eq!(result["data"]["stdout"], "before\n", "what came before is kept: {result:#}");
}

#[test]
fn memory_is_bounded_for_the_whole_command_and_the_answer_says_so() {
    // The memory grows step by step and is not released, so that a watchdog that only samples sees
    // it, too.
    let hog = "import mmap, time\nheld = []\nfor _ in range(100):\n  part = mmap.mmap(-1, 4 << 20); part.write(b'x' * (4 << 20)); held.append(part); time.sleep(0.02)\ntime.sleep(50)";
    let line = format!("echo before; exec python3 -c \"{hog}\"");
    run("      memory_bytes: 104857600\n", &line, |result, _| {
        assert_killed_at(result, "limit of 100 MiB on memory", "limits.memory_bytes");
        assert!(["cgroup_v1", "cgroup_v2", "watchdog"].contains(&layer(result, "memory").unwrap()));
    });
    // The control: a command below the limit is undisturbed.
    run(
        "      memory_bytes: 104857600\n",
        "python3 -c \"x = bytearray(30 << 20); print(len(x))\"",
        |result, _| {
            assert_eq!(result["data"]["stdout"], "31457280\n", "{result:#}");
        },
    );
}

/// Ways to occupy memory that no process table shows: a file without a name that nobody maps, and
/// segments of System V that nobody attaches. Each takes 400 MiB, prints the amount that it got,
/// and does not release it.
const HIDDEN: [(&str, &str); 2] = [
    (
        "memfd",
        "import os, time\nheld = os.memfd_create('x')\nfor part in range(100):\n  os.write(held, b'x' * (4 << 20)); time.sleep(0.02)\n",
    ),
    (
        "System V",
        "import ctypes, time\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.shmat.restype = ctypes.c_void_p\ngot = 0\n\
         for size in [4 << 20] * 100 + [16 << 10] * 25600:\n  \
         segment = libc.shmget(0, ctypes.c_size_t(size), 0o1600)\n  \
         if segment < 0: continue\n  \
         at = libc.shmat(segment, None, 0)\n  ctypes.memset(ctypes.c_void_p(at), 1, size)\n  \
         libc.shmdt(ctypes.c_void_p(at)); got += size\n\
         print('held', got >> 20, flush=True)\n",
    ),
];

#[test]
fn memory_that_no_process_shows_is_bounded_too() {
    for (way, code) in HIDDEN {
        let line = format!("echo before; exec python3 -c \"{code}time.sleep(5)\"");
        run("      memory_bytes: 104857600\n", &line, |result, _| {
            let stdout = result["data"]["stdout"].as_str().unwrap();
            if let Some(held) = stdout.strip_prefix("before\nheld ") {
                // The process was not killed, because it could not get more memory.
                let held: u64 = held.trim().parse().unwrap();
                assert!((1..=64).contains(&held), "{way}: {result:#}");
            } else {
                assert_killed_at(result, "limit of 100 MiB on memory", "limits.memory_bytes");
            }
        });
    }
    // The control: both ways work for small amounts.
    let little = "import ctypes, os\nlibc = ctypes.CDLL(None)\n\
                  print(libc.shmget(0, ctypes.c_size_t(16384), 0o1600) >= 0, os.write(os.memfd_create('x'), b'x'))";
    run("      memory_bytes: 104857600\n", &format!("python3 -c \"{little}\""), |result, _| {
        assert_eq!(result["data"]["stdout"], "True 1\n", "{result:#}");
    });
}

#[test]
fn a_part_of_a_command_that_is_killed_for_memory_is_told_of_in_a_warning() {
    let fixture = Fixture::with_files(&[("handfast.yaml", &limits("      memory_bytes: 104857600\n"))]);
    let line = "python3 -c 'x = bytearray(200 << 20)'; echo ended with $?";
    let result = fixture.call("shell_execute", json!({ "command": line }));
    if layer(&result, "memory") == Some("watchdog") {
        // The process cannot allocate the memory.
        assert!(result["data"]["stderr"].as_str().unwrap().contains("MemoryError"), "{result:#}");
        return;
    }
    assert_eq!(result["data"]["stdout"], "ended with 137\n", "{result:#}");
    let warnings = result["meta"]["warnings"].to_string();
    assert!(warnings.contains("limit of 100 MiB on memory"), "{result:#}");
}

#[test]
fn a_fork_bomb_is_bounded_and_nothing_of_it_is_left() {
    // Python forks instead of the shell, which would retry for 15 seconds before it reports the
    // refusal.
    let line = "python3 -c \"
import os
try:
    while True:
        if os.fork() == 0: os.execvp('sleep', ['handfast-test-bomb', '50'])
except OSError as error: print(error.strerror, file=open('errors', 'w'))
\"; echo end";
    run("      processes: 30\n", line, |result, size| {
        assert!(layer(result, "processes").is_some(), "{result:#}");
        assert!(size("errors").is_some_and(|bytes| bytes > 0), "the kernel has refused to fork: {result:#}");
        let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.starts_with(b"handfast-test-bomb\0")
        });
        assert_eq!(left.count(), 0);
    });
}

#[test]
fn a_workspace_that_nobody_trusts_raises_no_limit() {
    let asked = "      processes: 5000\n      open_files: 1000000\n      memory_bytes: 1125899906842624\n";
    let mut at_first = None;
    run("      cpus: 64\n", "ulimit -Hu; ulimit -Hn", |result, _| {
        at_first = result["data"]["stdout"].as_str().map(str::to_owned);
        assert!(at_first.as_ref().unwrap().starts_with("513\n"), "{result:#}");
    });
    run(asked, "ulimit -Hu; ulimit -Hn", |result, _| {
        assert_eq!(result["data"]["stdout"].as_str(), at_first.as_deref(), "{result:#}");
    });
    // The control: a lower limit takes effect.
    run("      processes: 20\n", "ulimit -Hu", |result, _| {
        assert_eq!(result["data"]["stdout"], "21\n", "{result:#}");
    });
}

#[test]
fn what_is_written_to_disk_is_bounded() {
    let line = "echo before; exec python3 -c \"
import os, time
file = open('big', 'wb')
for _ in range(400):
    file.write(b'x' * (1 << 20)); file.flush(); time.sleep(0.01)
\"";
    run("      disk_bytes: 33554432\n", line, |result, size| {
        assert_killed_at(result, "limit of 32 MiB on disk writes", "limits.disk_bytes");
        assert_eq!(layer(result, "disk"), Some("watchdog"));
        assert!(size("big").is_none_or(|bytes| bytes < 400 << 20));
    });
}

#[test]
fn a_file_grows_to_its_limit_and_no_further() {
    run(
        "      file_size_bytes: 1048576\n",
        "echo before; exec head -c 3000000 /dev/zero > big",
        |result, size| {
            assert_killed_at(result, "limit of 1 MiB on the size of a file", "limits.file_size_bytes");
            assert!(size("big").is_none_or(|bytes| bytes <= 1 << 20));
            assert_eq!(layer(result, "file_size"), Some("rlimit"));
        },
    );
}

#[test]
fn a_strict_profile_refuses_what_cannot_be_held_exactly() {
    let configuration =
        "sandbox_config:\n  normal:\n    strict: true\n    limits:\n      disk_bytes: 1000000\n";
    let fixture = Fixture::with_files(&[("handfast.yaml", configuration)]);
    let error = fixture.error("shell_execute", json!({"command": "touch made"}));
    assert_eq!((&error["code"], &error["effect"]), (&json!("EUNAVAILABLE"), &json!("none")), "{error:#}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("strict") && message.contains("disk"), "{error:#}");
    assert!(!fixture.workspace().join("made").exists());
    // The control: without the disk limit, which is only watched, the command runs or the error
    // names another reason.
    fixture.write("handfast.yaml", "sandbox_config:\n  normal:\n    strict: true\n");
    let result = fixture.call("shell_execute", json!({"command": "touch made"}));
    assert!(
        result["ok"] == true || !result["error"]["message"].as_str().unwrap().contains("disk"),
        "{result:#}"
    );
}
