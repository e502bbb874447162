//! `cargo xtask test`: all checks, as named steps in a fixed order.
//!
//! The cheap steps come first, so that simple mistakes show within seconds. A step fails as a whole
//! and names the command that repeats it alone. No step is retried.
//!
//! `cargo xtask test CRATE` is the quick loop: the checks of one crate, without set-up.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::command::{Failure, Result, read, run as run_command};
use crate::repository::Repository;
use crate::{docs, extension, setup, tidy};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Repository) -> Result<()>,
}

const STEPS: [Step; 9] = [
    Step { name: "set-up", what: "installs what the tests need, where it is missing", run: setup::run_all },
    Step { name: "format", what: "cargo fmt --check", run: format },
    Step { name: "tidy", what: "the repository's own rules", run: tidy::run },
    Step {
        name: "extension",
        what: "the extension's scripts are what its source compiles to",
        run: extension_scripts,
    },
    Step { name: "clippy", what: "cargo clippy on everything, warnings as errors", run: clippy },
    Step { name: "tests", what: "unit tests and whole-binary tests", run: tests },
    Step { name: "fuzz", what: "lines at random for the command policy, a bounded number", run: fuzz },
    Step { name: "doc-tests", what: "the examples in the documentation of the code", run: doc_tests },
    Step { name: "docs", what: "the generated pages are what the binary would write", run: generated_docs },
];

/// Runs every step in order, or only the named one.
pub(crate) fn run(repository: &Repository, only: Option<&str>) -> Result<()> {
    run_steps(&STEPS, repository, only)?;
    let timings = repository.build_folder()?.join("cargo-timings/cargo-timing.html");
    if timings.exists() {
        eprintln!("time of each crate in the last build of the tests: {}", timings.display());
    }
    Ok(())
}

/// Runs the checks of one crate: format, clippy, and its tests without those of the whole binary.
pub(crate) fn run_crate(repository: &Repository, name: &str) -> Result<()> {
    if !repository.packages()?.iter().any(|package| package.name == name) {
        return Err(Failure(format!("this workspace has no crate `{name}`")));
    }
    let started = Instant::now();
    for arguments in checks_of(name) {
        run_command(&mut repository.cargo(&arguments))?;
    }
    eprintln!("{name}: all passed {:>8.1} s", started.elapsed().as_secs_f64());
    if name == WHOLE_BINARY {
        eprintln!("The tests of the whole binary take minutes: cargo test --workspace --test whole FILTER");
    }
    Ok(())
}

/// Name of the crate whose integration tests are those of the whole binary.
const WHOLE_BINARY: &str = "handfast";

/// Examples that tests start as separate programs, which a build of tests leaves out.
const STARTED_BY_TESTS: [(&str, &str); 4] = [
    ("sandbox", "attempt"),
    ("sandbox", "run_cell"),
    ("handfast", "mcp_conformance"),
    ("mcp-client", "conformance_client"),
];

/// Returns the arguments of cargo for each check of one crate.
fn checks_of(name: &str) -> Vec<Vec<&str>> {
    let clippy = vec!["clippy", "--quiet", "--package", name, "--all-targets", "--", "-D", "warnings"];
    let mut checks = vec![vec!["fmt", "--package", name, "--check"], clippy];
    let started = STARTED_BY_TESTS.iter().filter(|(of, _)| *of == name);
    checks.extend(
        started.map(|(_, example)| vec!["build", "--quiet", "--package", name, "--example", example]),
    );
    let targets = if name == WHOLE_BINARY { "--lib" } else { "--tests" };
    checks.push(vec!["test", "--quiet", "--package", name, targets]);
    checks
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
    let mut done: Vec<(&str, Duration, Duration)> = Vec::new();
    for step in steps.iter().filter(|step| only.is_none_or(|name| name == step.name)) {
        eprintln!("\n== {}: {}", step.name, step.what);
        let (started, processors) = (Instant::now(), processor_time()?);
        (step.run)(repository).map_err(|failure| failed(step, started.elapsed(), &failure))?;
        done.push((step.name, started.elapsed(), processor_time()?.saturating_sub(processors)));
    }
    let total = (
        "all passed",
        done.iter().map(|(_, took, _)| *took).sum(),
        done.iter().map(|(.., processors)| *processors).sum(),
    );
    eprintln!("\n{:<10} {:>8} {:>10}", "step", "seconds", "processor");
    for (name, took, processors) in done.iter().chain([&total]) {
        eprintln!("{name:<10} {:>8.1} {:>10.1}", took.as_secs_f64(), processors.as_secs_f64());
    }
    Ok(())
}

/// Returns the processor time of all programs that this process started and waited for, with theirs.
fn processor_time() -> Result<Duration> {
    let stat = read(Path::new("/proc/self/stat"))?;
    // The program's name, in parentheses, may contain spaces. The numbers are the 16th and 17th field.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks = fields.map(str::parse::<u64>).sum::<std::result::Result<u64, _>>();
    let ticks = ticks.map_err(|error| Failure(format!("cannot read /proc/self/stat: {error}")))?;
    // One tick is 10 milliseconds on every machine that Linux runs on.
    Ok(Duration::from_millis(ticks * 10))
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
    let examples = STARTED_BY_TESTS.iter().flat_map(|(_, example)| ["--example", example]);
    let build: Vec<&str> = ["build", "--workspace", "--quiet"].into_iter().chain(examples).collect();
    run_command(&mut repository.cargo(&build))?;
    let test = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--timings"];
    run_command(&mut repository.cargo(&test))
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

fn extension_scripts(repository: &Repository) -> Result<()> {
    extension::run(repository, true)
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
    fn the_quick_loop_checks_one_crate_and_builds_what_its_tests_start() {
        let lines = |name| -> Vec<String> { checks_of(name).iter().map(|line| line.join(" ")).collect() };
        assert_eq!(
            lines("sandbox"),
            [
                "fmt --package sandbox --check",
                "clippy --quiet --package sandbox --all-targets -- -D warnings",
                "build --quiet --package sandbox --example attempt",
                "build --quiet --package sandbox --example run_cell",
                "test --quiet --package sandbox --tests",
            ]
        );
        assert_eq!(lines("edit").last().unwrap(), "test --quiet --package edit --tests");
        assert_eq!(lines("handfast").last().unwrap(), "test --quiet --package handfast --lib");
    }

    #[test]
    fn a_crate_that_is_not_there_is_named() {
        let repository = Repository::of_this_build().unwrap();
        let failure = run_crate(&repository, "gone").unwrap_err();
        assert_eq!(failure.0, "this workspace has no crate `gone`");
    }

    #[test]
    fn the_processor_time_of_a_program_that_ended_is_counted() {
        let before = processor_time().unwrap();
        let line = "n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done";
        run_command(Command::new("sh").args(["-c", line])).unwrap();
        assert!(processor_time().unwrap() > before);
    }

    #[test]
    fn a_named_step_runs_alone() {
        let repository = Repository::of_this_build().unwrap();
        run_steps(&[GOOD, BAD, UNREACHED], &repository, Some("good")).unwrap();
        run_steps(&[GOOD, BAD, UNREACHED], &repository, Some("bad")).unwrap_err();
    }
}
