//! Tests that the probes find the state of this machine, and notice a failure.

use std::path::PathBuf;

use sandbox::{Attempter, Probe, Verdict, probe};

fn attempter() -> Attempter {
    // target/debug/deps/this -> target/debug/examples/attempt
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().parent().unwrap().join("examples/attempt");
    Attempter { program, arguments: Vec::new(), entrance: None }
}

#[test]
fn every_promise_holds_on_this_machine() {
    let found = probe(&attempter());
    assert!(found.len() > 25, "{found:#?}");
    for probe in &found {
        assert!(probe.promise.is_none() || probe.verdict == Verdict::Holds, "{probe:?}");
    }
}

#[test]
fn nothing_is_known_when_no_attempt_can_be_made() {
    let silent = Attempter { program: PathBuf::from("/bin/true"), arguments: Vec::new(), entrance: None };
    let found = probe(&silent);
    let tried: Vec<&Probe> = found.iter().filter(|probe| probe.verdict == Verdict::Holds).collect();
    // The outcome of a run alone proves this one.
    assert!(tried.iter().all(|probe| probe.name == "landlock"), "{tried:#?}");
}
