//! Results of a test suite, from the report of its runner. Pure: it reads text and runs nothing.

mod go;
mod jest;
mod junit;
mod libtest;
mod nextest;

use std::collections::BTreeMap;

use crate::test_command::Runner;

/// Maximum number of errors that a result lists.
const MOST_ERRORS: usize = 50;
/// Maximum characters of one error.
const LONGEST_ERROR: usize = 500;
/// Last characters of the output that a result repeats if the tests did not run.
const OUTPUT_TAIL: usize = 2_000;

/// End of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestEnd {
    Passed,
    Failed,
    Skipped,
}

/// End of a suite. Only `Passed` and `Failed` mean that tests ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuiteEnd {
    /// Tests ran, and none failed.
    Passed,
    /// Tests ran, and one failed or the runner failed after them.
    Failed,
    /// The runner ran no test.
    NoTests,
    /// The project or its tests could not be built.
    BuildFailed,
    /// The runner is not installed here.
    RunnerMissing,
    /// The time ran out.
    TimedOut,
    /// The runner ended without a report that can be read.
    NoReport,
}

impl SuiteEnd {
    /// Returns the word for this end in answers.
    pub(crate) fn word(self) -> &'static str {
        match self {
            SuiteEnd::Passed => "passed",
            SuiteEnd::Failed => "failed",
            SuiteEnd::NoTests => "no_tests",
            SuiteEnd::BuildFailed => "build_failed",
            SuiteEnd::RunnerMissing => "runner_missing",
            SuiteEnd::TimedOut => "timed_out",
            SuiteEnd::NoReport => "no_report",
        }
    }

    /// Returns true if tests ran.
    pub(crate) fn has_run(self) -> bool {
        matches!(self, SuiteEnd::Passed | SuiteEnd::Failed)
    }
}

/// Output of a runner in a cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunnerOutput {
    /// Standard output and standard error together.
    pub(crate) output: String,
    /// Content of the report file; empty if there is none.
    pub(crate) report: String,
    /// Exit code; 128 + N if signal N ended the runner.
    pub(crate) exit_code: i32,
    /// True if the time ran out.
    pub(crate) timed_out: bool,
}

/// Tests that a report names, with what went wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReportedTests {
    /// End of each test by its name.
    pub(crate) tests: BTreeMap<String, TestEnd>,
    /// Messages of failed tests and of files that could not be run.
    pub(crate) errors: Vec<String>,
    /// True if something could not be built or loaded.
    pub(crate) is_broken: bool,
    /// True if the report is complete, by its own counts.
    pub(crate) is_whole: bool,
}

impl ReportedTests {
    /// Adds a test. Two tests of one name get different names. A test is failed if any attempt has failed.
    fn add(&mut self, name: &str, end: TestEnd) {
        let mut free = name.to_owned();
        let mut number = 1;
        while self.tests.contains_key(&free) {
            number += 1;
            free = format!("{name} #{number}");
        }
        self.tests.insert(free, end);
    }
}

/// Result of a suite.
#[derive(Debug, Clone)]
pub(crate) struct SuiteResult {
    pub(crate) end: SuiteEnd,
    /// End of each test by its name.
    pub(crate) tests: BTreeMap<String, TestEnd>,
    /// Failed tests with their messages, or the reason why no test ran.
    pub(crate) errors: Vec<String>,
    /// Duration of the run in seconds.
    pub(crate) seconds: f64,
}

impl SuiteResult {
    /// Reads the result of a suite from the output of its runner.
    pub(crate) fn read(runner: Runner, ran: &RunnerOutput, seconds: f64) -> Self {
        let reported = match runner {
            Runner::Cargo => libtest::read(&ran.output),
            Runner::Nextest => nextest::read(&ran.output),
            Runner::Pytest | Runner::Node => junit::read(&ran.report),
            Runner::Jest | Runner::Vitest => jest::read(&ran.report),
            Runner::Go => go::read(&ran.output),
        };
        let end = end_of(runner, ran, &reported);
        let mut errors: Vec<String> = reported.errors.iter().map(|error| cut(error, LONGEST_ERROR)).collect();
        if errors.is_empty() && end != SuiteEnd::Passed {
            errors.push(tail(&ran.output, OUTPUT_TAIL));
        }
        if errors.len() > MOST_ERRORS {
            let more = errors.len() - MOST_ERRORS;
            errors.truncate(MOST_ERRORS);
            errors.push(format!("{more} more errors"));
        }
        Self { end, tests: reported.tests, errors, seconds }
    }

    /// Counts the tests with this end.
    pub(crate) fn count(&self, end: TestEnd) -> u64 {
        self.tests.values().filter(|found| **found == end).count() as u64
    }

    /// Returns the result in one line.
    pub(crate) fn line(&self) -> String {
        let (passed, failed, skipped) =
            (self.count(TestEnd::Passed), self.count(TestEnd::Failed), self.count(TestEnd::Skipped));
        let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
        format!("{}: {passed} passed, {failed} failed{skipped}", self.end.word())
    }
}

fn end_of(runner: Runner, ran: &RunnerOutput, reported: &ReportedTests) -> SuiteEnd {
    if ran.timed_out {
        return SuiteEnd::TimedOut;
    }
    if is_missing(runner, ran) {
        return SuiteEnd::RunnerMissing;
    }
    if reported.is_broken {
        return SuiteEnd::BuildFailed;
    }
    if !reported.is_whole {
        // Runners of both kinds end early with an error if nothing matches.
        let is_empty = reported.tests.is_empty() && finds_nothing(runner, ran);
        return if is_empty { SuiteEnd::NoTests } else { SuiteEnd::NoReport };
    }
    let has = |end| reported.tests.values().any(|found| *found == end);
    if has(TestEnd::Failed) {
        return SuiteEnd::Failed;
    }
    match (has(TestEnd::Passed), ran.exit_code) {
        (true, 0) => SuiteEnd::Passed,
        (true, _) => SuiteEnd::Failed,
        (false, _) => SuiteEnd::NoTests,
    }
}

/// Returns true if the shell or the program in front of the runner did not find the runner.
fn is_missing(runner: Runner, ran: &RunnerOutput) -> bool {
    let says = |text: &str| ran.output.contains(text);
    match runner {
        _ if ran.exit_code == 127 => true,
        Runner::Pytest => ran.exit_code != 0 && says("No module named pytest"),
        Runner::Nextest => ran.exit_code != 0 && says("no such command: `nextest`"),
        Runner::Cargo | Runner::Jest | Runner::Vitest | Runner::Node | Runner::Go => false,
    }
}

/// Returns true if the runner says that it has no tests.
fn finds_nothing(runner: Runner, ran: &RunnerOutput) -> bool {
    let says = |text: &str| ran.output.contains(text);
    match runner {
        Runner::Nextest => ran.exit_code == 4 || says("no tests to run"),
        Runner::Pytest => ran.exit_code == 5,
        Runner::Jest => says("No tests found"),
        Runner::Vitest => says("No test files found"),
        Runner::Go => says("no packages to test"),
        Runner::Cargo | Runner::Node => false,
    }
}

/// Difference between two results of one suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SuiteChange {
    /// Tests that passed before and fail now.
    pub(crate) broken: Vec<String>,
    /// Tests that ran before and are gone or skipped now.
    pub(crate) lost: Vec<String>,
    /// Tests that failed before and pass now.
    pub(crate) mended: Vec<String>,
    /// Tests that are new.
    pub(crate) added: Vec<String>,
}

impl SuiteChange {
    /// Compares two results.
    pub(crate) fn between(before: &SuiteResult, after: &SuiteResult) -> Self {
        let mut change = Self::default();
        for (name, end) in &before.tests {
            let now = after.tests.get(name);
            match (end, now) {
                (TestEnd::Skipped, _)
                | (TestEnd::Passed, Some(TestEnd::Passed))
                | (TestEnd::Failed, Some(TestEnd::Failed)) => {}
                (TestEnd::Passed, Some(TestEnd::Failed)) => change.broken.push(name.clone()),
                (TestEnd::Failed, Some(TestEnd::Passed)) => change.mended.push(name.clone()),
                (_, None | Some(TestEnd::Skipped)) => change.lost.push(name.clone()),
            }
        }
        change.added = after.tests.keys().filter(|name| !before.tests.contains_key(*name)).cloned().collect();
        change
    }

    /// Returns the reason why a change with this difference is not applied; `None` if it may be.
    pub(crate) fn objection(&self, after: &SuiteResult) -> Option<String> {
        if !after.end.has_run() {
            return Some(format!("the tests did not run with the change ({})", after.end.word()));
        }
        if !self.broken.is_empty() {
            return Some(format!("tests that passed before fail: {}", named(&self.broken)));
        }
        if !self.lost.is_empty() {
            return Some(format!("tests are gone or skipped: {}", named(&self.lost)));
        }
        None
    }

    /// Returns the difference in lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        [("broken", &self.broken), ("lost", &self.lost), ("mended", &self.mended), ("added", &self.added)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(word, names)| format!("{word}: {}", named(names)))
            .collect()
    }
}

/// Returns the first names of a list as text.
fn named(names: &[String]) -> String {
    let first = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(20) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns the first characters of a text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{} [...]", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns the last characters of a text.
pub(crate) fn tail(text: &str, most: usize) -> String {
    let text = text.trim_end();
    let from = text.char_indices().rev().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    text.get(from..).unwrap_or_default().to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn result(tests: &[(&str, TestEnd)]) -> SuiteResult {
        let tests: BTreeMap<String, TestEnd> =
            tests.iter().map(|(name, end)| ((*name).to_owned(), *end)).collect();
        let end = if tests.values().any(|end| *end == TestEnd::Failed) {
            SuiteEnd::Failed
        } else {
            SuiteEnd::Passed
        };
        SuiteResult { end, tests, errors: Vec::new(), seconds: 0.0 }
    }

    #[test]
    fn a_test_that_is_gone_or_skipped_counts_as_lost_even_if_it_failed_before() {
        use TestEnd::{Failed, Passed, Skipped};
        let before = result(&[("a", Passed), ("b", Failed), ("c", Passed), ("d", Skipped), ("e", Failed)]);
        let after = result(&[("a", Passed), ("c", Skipped), ("e", Passed), ("f", Passed)]);
        let change = SuiteChange::between(&before, &after);
        assert_eq!(change.lost, ["b", "c"]);
        assert_eq!((change.mended.join(""), change.added.join("")), ("e".into(), "f".into()));
        assert!(change.objection(&after).unwrap().contains("b, c"));
        let broken = result(&[("a", Failed), ("b", Failed), ("c", Passed), ("e", Failed)]);
        let change = SuiteChange::between(&before, &broken);
        assert!(change.objection(&broken).unwrap().contains("fail: a"));
    }

    #[test]
    fn tests_that_did_not_run_are_never_passed() {
        let ran = |output: &str, exit_code| RunnerOutput {
            output: output.to_owned(),
            exit_code,
            ..RunnerOutput::default()
        };
        let read = |runner, ran: &RunnerOutput| SuiteResult::read(runner, ran, 0.0);
        for runner in Runner::ALL {
            let silent = read(runner, &ran("", 0));
            assert!(!silent.end.has_run(), "{runner:?} {:?}", silent.end);
            let change = SuiteChange::between(&silent, &silent);
            assert!(change.objection(&silent).is_some(), "{runner:?}");
            let missing = read(runner, &ran("bash: x: command not found", 127));
            assert_eq!(missing.end, SuiteEnd::RunnerMissing);
            assert!(missing.errors[0].contains("not found"));
            let late = RunnerOutput { timed_out: true, ..ran("test a ... ok\n", 0) };
            assert_eq!(read(runner, &late).end, SuiteEnd::TimedOut);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 2), "äö [...]");
        assert_eq!(tail("äöü\n", 2), "öü");
        assert_eq!(tail("", 2), "");
    }
}
