//! `cargo xtask test`: all checks, as named steps in a fixed order.
//!
//! The cheap steps come first, so that simple mistakes show within seconds. A step fails as a whole
//! and names the command that repeats it alone. No step is retried.

use std::process::Command;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::command::{Failure, Result, run as run_command};
use crate::repository::Repository;
use crate::{docs, setup, tidy};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Repository) -> Result<()>,
}

const STEPS: [Step; 8] = [
    Step { name: "set-up", what: "installs what the tests need, where it is missing", run: setup::run_all },
    Step { name: "format", what: "cargo fmt --check", run: format },
    Step { name: "tidy", what: "the repository's own rules", run: tidy::run },
    Step { name: "clippy", what: "cargo clippy on everything, warnings as errors", run: clippy },
    Step { name: "tests", what: "unit tests and whole-binary tests", run: tests },
    Step { name: "fuzz", what: "lines at random for the command policy, a bounded number", run: fuzz },
    Step { name: "doc-tests", what: "the examples in the documentation of the code", run: doc_tests },
    Step { name: "docs", what: "docs/tools/ is what the binary would write", run: generated_docs },
];

/// Runs every step in order, or only the named one.
pub(crate) fn run(repository: &Repository, only: Option<&str>) -> Result<()> {
    run_steps(&STEPS, repository, only)
}

/// Returns the names that `--step` accepts.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.map(|step| step.name))
}

/// Returns the steps as a list for `--help`.
pub(crate) fn list() -> String {
    let lines = STEPS.iter().map(|step| format!("  {:<10} {}", step.name, step.what));
    format!("Steps, in order:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn run_steps(steps: &[Step], repository: &Repository, only: Option<&str>) -> Result<()> {
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for step in steps.iter().filter(|step| only.is_none_or(|name| name == step.name)) {
        eprintln!("\n== {}: {}", step.name, step.what);
        let started = Instant::now();
        (step.run)(repository).map_err(|failure| failed(step, started.elapsed(), &failure))?;
        done.push((step.name, started.elapsed()));
    }
    eprintln!();
    for (name, took) in &done {
        eprintln!("{name:<10} {:>8.1} s", took.as_secs_f64());
    }
    let total: Duration = done.iter().map(|(_, took)| *took).sum();
    eprintln!("all passed {:>8.1} s", total.as_secs_f64());
    Ok(())
}

fn failed(step: &Step, took: Duration, failure: &Failure) -> Failure {
    let (name, seconds) = (step.name, took.as_secs_f64());
    Failure(format!(
        "step `{name}` failed after {seconds:.1} s: {failure}\nTo repeat it alone: cargo xtask test --step {name}"
    ))
}

fn format(repository: &Repository) -> Result<()> {
    run_command(&mut repository.cargo(&["fmt", "--all", "--check"]))
}

fn clippy(repository: &Repository) -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run_command(&mut repository.cargo(&arguments))
}

/// Runs all test programs even after an early failure, so that one run reports all failures.
fn tests(repository: &Repository) -> Result<()> {
    // Some tests start an example as a separate program, which `--tests` alone does not build.
    run_command(&mut repository.cargo(&["build", "--workspace", "--examples", "--quiet"]))?;
    run_command(&mut repository.cargo(&[
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--no-fail-fast",
    ]))
}

/// Number of lines for the fuzzer: some seconds. For longer manual runs, see `fuzz_lines`.
const LINES: &str = "20000";

/// Fuzzes with different lines in each run, because the seed is the id of this process. The fuzzer
/// prints what it finds.
fn fuzz(repository: &Repository) -> Result<()> {
    let seed = std::process::id().to_string();
    // For the whole workspace, cargo builds the example with the features of the other steps.
    run_command(&mut repository.cargo(&["build", "--quiet", "--workspace", "--example", "fuzz_lines"]))?;
    let program = repository.build_folder()?.join("debug/examples/fuzz_lines");
    run_command(Command::new(program).args([LINES, &seed]))
}

fn doc_tests(repository: &Repository) -> Result<()> {
    run_command(&mut repository.cargo(&["test", "--workspace", "--doc"]))
}

fn generated_docs(repository: &Repository) -> Result<()> {
    docs::run(repository, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step { name: "good", what: "passes", run: |_| Ok(()) };
    const BAD: Step = Step { name: "bad", what: "fails", run: |_| Err(Failure::new("broken")) };
    const UNREACHED: Step = Step { name: "unreached", what: "must not run", run: |_| panic!("it ran") };

    #[test]
    fn a_failing_step_ends_the_run_and_says_how_to_repeat_it() {
        let repository = Repository::of_this_build().unwrap();
        let failure = run_steps(&[GOOD, BAD, UNREACHED], &repository, None).unwrap_err();
        assert!(failure.0.starts_with("step `bad` failed after"), "{failure}");
        assert!(failure.0.ends_with("broken\nTo repeat it alone: cargo xtask test --step bad"), "{failure}");
    }

    #[test]
    fn a_named_step_runs_alone() {
        let repository = Repository::of_this_build().unwrap();
        run_steps(&[GOOD, BAD, UNREACHED], &repository, Some("good")).unwrap();
        run_steps(&[GOOD, BAD, UNREACHED], &repository, Some("bad")).unwrap_err();
    }
}
