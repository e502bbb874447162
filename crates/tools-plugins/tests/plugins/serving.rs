//! Plugins whose process answers one call after the other.

use tool::{Code, Owner, ResourcePool, StopReason};

use crate::place::{Place, eventually};

const SERVE: &str = "mode: serve";

/// Script that counts its calls, and misbehaves at the second one.
fn counting(second: &str) -> String {
    format!(
        "n=0\nwhile IFS= read -r request; do\nn=$((n + 1))\nif [ $n = 2 ]; then {second}; fi\n\
         echo \"{{\\\"ok\\\":true,\\\"data\\\":{{\\\"n\\\":$n}}}}\"\ndone\n"
    )
}

/// Returns true if the command line of a process has this text.
fn runs(text: &str) -> bool {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    lines.map(line).any(|line| line.windows(text.len()).any(|part| part == text.as_bytes()))
}

#[test]
fn one_process_answers_all_calls_of_an_owner() {
    let place = Place::new();
    let tool = place.plugin(&counting("true"), SERVE);
    for expected in 1..=5 {
        assert_eq!(place.call(&tool).unwrap()["n"], expected);
    }
}

#[test]
fn a_process_that_misbehaves_ends_and_the_next_call_has_another_one() {
    for (second, told) in [
        ("echo garbage; continue", "is not JSON"),
        ("echo; continue", "answered nothing"),
        ("exit 4", "ended without an answer"),
        ("yes", "more than"),
        ("head -c 2000000 /dev/zero", "more than 1048576 bytes"),
        ("kill -9 $$", "ended without an answer"),
    ] {
        let place = Place::new();
        let tool = place.plugin(&counting(second), SERVE);
        assert_eq!(place.call(&tool).unwrap()["n"], 1);
        let error = place.call(&tool).unwrap_err();
        assert_eq!(error.code, Code::Runtime, "{second}: {error:?}");
        assert!(error.message.contains(told), "{second}: {error:?}");
        assert_eq!(place.call(&tool).unwrap()["n"], 1, "{second}");
    }
}

#[test]
fn a_process_that_is_silent_ends_with_the_deadline_of_its_call() {
    let place = Place::new();
    let tool = place.plugin(&counting("exec sleep 100"), SERVE);
    assert_eq!(place.call(&tool).unwrap()["n"], 1);
    assert_eq!(place.call_too_long(&tool, StopReason::Deadline).unwrap_err().code, Code::Timeout);
    assert_eq!(place.call(&tool).unwrap()["n"], 1, "another process");
}

#[test]
fn a_process_that_ended_between_two_calls_is_started_again() {
    let place = Place::new();
    // The pipes are closed before the end, so that a process that is gone has closed them.
    let once = "IFS= read -r request\necho '{\"ok\":true,\"data\":{\"n\":1}}'\nexec >&- <&-\n";
    let tool = place.plugin(once, SERVE);
    let hash = place.store.all().unwrap().pop().unwrap().state.hash;
    for _ in 0..3 {
        assert_eq!(place.call(&tool).unwrap()["n"], 1);
        // The command line of the process has the path of the copy.
        eventually("the end of the process", || !runs(&hash));
    }
}

#[test]
fn a_process_is_refused_the_workspace_unless_it_declares_it_and_never_writes_it() {
    let place = Place::new();
    let file = place.path("workspace/notes.txt");
    std::fs::write(&file, "7").unwrap();
    let reading = |name: &str| {
        format!(
            "while IFS= read -r request; do n=$(cat {name} 2>/dev/null || echo 0)\n(echo 8 > {name}) 2>/dev/null\n\
             echo \"{{\\\"ok\\\":true,\\\"data\\\":{{\\\"n\\\":$n}}}}\"\ndone\n"
        )
    };
    let script = reading(file.to_str().unwrap());
    for (uses, expected) in [("none", 0), ("read", 7)] {
        let tool = place.plugin(&script, &format!("{SERVE}\neffects: {{workspace: {uses}}}"));
        assert_eq!(place.call(&tool).unwrap()["n"], expected, "{uses}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "7", "{uses}");
    }
}

#[test]
fn processes_end_with_their_owner() {
    let place = Place::new();
    let tool = place.plugin(&counting("true"), SERVE);
    assert_eq!(place.call(&tool).unwrap()["n"], 1);
    let processes = place.processes();
    assert_eq!(processes.list(jiff::Timestamp::UNIX_EPOCH).len(), 1);
    for owner in [Owner::Session(tool::SessionId("other".to_owned())), Owner::Runtime] {
        processes.stop(&owner);
        processes.join(&owner);
        let left = usize::from(owner != Owner::Runtime);
        assert_eq!(processes.list(jiff::Timestamp::UNIX_EPOCH).len(), left);
    }
    assert_eq!(place.call(&tool).unwrap_err().code, Code::Unavailable, "the runtime has ended");
}
