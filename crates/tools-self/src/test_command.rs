//! The command that runs a project's tests, with a report that programs can read. Pure.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A runner of tests, which decides in which form its report is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Runner {
    /// `cargo test`.
    Cargo,
    /// `cargo nextest run`.
    Nextest,
    /// `pytest`, also as `python -m pytest`.
    Pytest,
    /// Jest, also behind a script of npm.
    Jest,
    /// Vitest, also behind a script of npm.
    Vitest,
    /// `node --test`.
    Node,
    /// `go test`.
    Go,
}

/// Path of the report in the cell, in memory.
pub(crate) const REPORT: &str = "/tmp/handfast-test-report";

impl Runner {
    /// Every runner.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 7] =
        [Self::Cargo, Self::Nextest, Self::Pytest, Self::Jest, Self::Vitest, Self::Node, Self::Go];

    /// Returns the runner that a command line names; `None` if it is hidden behind another program.
    pub(crate) fn of_command(words: &[String]) -> Option<Self> {
        let name = |word: &String| {
            Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let first = words.first().map(name)?;
        let has = |wanted: &str| words.iter().any(|word| name(word) == wanted);
        match first.as_str() {
            "cargo" if has("nextest") => Some(Self::Nextest),
            "cargo" => Some(Self::Cargo),
            "go" => Some(Self::Go),
            _ if has("pytest") || has("py.test") => Some(Self::Pytest),
            _ if has("vitest") => Some(Self::Vitest),
            _ if has("jest") => Some(Self::Jest),
            "node" if has("--test") => Some(Self::Node),
            _ => None,
        }
    }

    /// Returns the command with the options that make its report readable.
    pub(crate) fn reporting(self, words: &[String]) -> Vec<String> {
        let mut words = words.to_vec();
        let own: Vec<String> = match self {
            Self::Cargo => vec!["--no-fail-fast".into()],
            Self::Nextest => vec!["--no-fail-fast".into(), "--message-format".into(), "libtest-json".into()],
            Self::Pytest => {
                // The names of tests must not depend on folders above the project.
                let own = ["--rootdir=.", "-p", "no:cacheprovider"].map(str::to_owned);
                [vec![format!("--junitxml={REPORT}")], own.to_vec()].concat()
            }
            Self::Jest => vec!["--json".into(), format!("--outputFile={REPORT}")],
            Self::Vitest => vec!["--reporter=json".into(), format!("--outputFile={REPORT}")],
            Self::Node => {
                vec!["--test-reporter=junit".into(), format!("--test-reporter-destination={REPORT}")]
            }
            Self::Go => vec!["-json".into()],
        };
        let after = match self {
            // Options of node and go stand before the names of files and packages.
            Self::Node => 1,
            Self::Go => 2,
            _ => words.iter().position(|word| word == "--").unwrap_or(words.len()),
        };
        let through_npm = words.first().is_some_and(|word| word.ends_with("npm")) && self != Self::Node;
        let after = after.min(words.len());
        if through_npm && after == words.len() && words.first().is_some_and(|word| word == "npm") {
            words.push("--".into());
            words.extend(own);
        } else {
            let own: Vec<String> = own.into_iter().filter(|word| !words.contains(word)).collect();
            words.splice(after..after, own);
        }
        words
    }

    /// Returns the environment in which the runner reports plainly.
    pub(crate) fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Cargo => &[("CARGO_TERM_COLOR", "never")],
            Self::Nextest => &[("CARGO_TERM_COLOR", "never"), ("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")],
            Self::Pytest => &[("PY_COLORS", "0"), ("PYTHONDONTWRITEBYTECODE", "1")],
            Self::Jest | Self::Vitest | Self::Node => &[("CI", "1"), ("NO_COLOR", "1")],
            Self::Go => &[],
        }
    }
}

/// Returns the problem of a target; `None` if it can be a word of the command.
pub(crate) fn problem_of_target(target: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_./:@+-[]".contains(c);
    match target {
        "" => Some("is empty"),
        _ if target.starts_with('-') => Some("begins with `-`, like an option"),
        _ if target.chars().count() > 200 => Some("is longer than 200 characters"),
        _ if !target.chars().all(is_plain) => Some("has a character that no module or test path has"),
        _ => None,
    }
}

/// Replaces `{target}` in a command. A command without that word gets the target at its end.
pub(crate) fn with_target(words: &[String], target: Option<&str>) -> Vec<String> {
    let has_place = words.iter().any(|word| word.contains("{target}"));
    let mut made: Vec<String> = words
        .iter()
        .filter(|word| target.is_some() || word.as_str() != "{target}")
        .map(|word| word.replace("{target}", target.unwrap_or_default()))
        .collect();
    if let Some(target) = target.filter(|_| !has_place) {
        made.push(target.to_owned());
    }
    made
}

/// Returns words as a line for the shell.
pub(crate) fn quoted(words: &[String]) -> String {
    let one = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_command_names_its_runner_and_gets_the_options_of_its_report() {
        for (line, runner, made) in [
            ("cargo test -- --nocapture", Some(Runner::Cargo), "cargo test --no-fail-fast -- --nocapture"),
            ("cargo test --no-fail-fast", Some(Runner::Cargo), "cargo test --no-fail-fast"),
            ("go test ./...", Some(Runner::Go), "go test -json ./..."),
            (
                "python3 -m pytest tests",
                Some(Runner::Pytest),
                "python3 -m pytest tests --junitxml=/tmp/handfast-test-report --rootdir=. -p no:cacheprovider",
            ),
            (
                "node --test",
                Some(Runner::Node),
                "node --test-reporter=junit --test-reporter-destination=/tmp/handfast-test-report --test",
            ),
            ("npx jest", Some(Runner::Jest), "npx jest --json --outputFile=/tmp/handfast-test-report"),
            ("npm test", None, ""),
        ] {
            assert_eq!(Runner::of_command(&words(line)), runner, "{line}");
            if let Some(runner) = runner {
                assert_eq!(runner.reporting(&words(line)).join(" "), made);
            }
        }
        let npm = Runner::Jest.reporting(&words("npm test")).join(" ");
        assert_eq!(npm, "npm test -- --json --outputFile=/tmp/handfast-test-report");
    }

    #[test]
    fn a_target_is_one_word_and_refuses_to_be_an_option() {
        assert_eq!(with_target(&words("cargo test"), Some("a::b")).join(" "), "cargo test a::b");
        assert_eq!(with_target(&words("cargo test -p {target}"), Some("a")).join(" "), "cargo test -p a");
        assert_eq!(with_target(&words("pytest {target}"), None).join(" "), "pytest");
        for wrong in ["", "--config=x", "a b", "a;b", "$(id)", "a\nb", "a'b"] {
            assert!(problem_of_target(wrong).is_some(), "{wrong}");
        }
        assert!(problem_of_target("tests/test_a.py::TestA::test_b[1]").is_none());
        assert_eq!(quoted(&words("a b'c")), r"'a' 'b'\''c'");
    }
}
