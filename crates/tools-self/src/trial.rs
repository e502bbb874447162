//! A change that is being tried: what it is, and what its tests have shown.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tool::{Code, ToolError};

use crate::own_project::Project;
use crate::protected_paths::{decides_about_tests, is_test_file};
use crate::test_report::{SuiteChange, SuiteResult, TestEnd};

/// A change.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Replaces or adds one file.
    File { path: String, content: String },
    /// Takes one commit back, which changes these paths.
    Revert { commit: String, paths: Vec<String> },
    /// Adds a folder of the project, with these texts by their paths in it.
    Plugin { folder: String, files: BTreeMap<String, String> },
}

impl Change {
    /// Returns the paths in the project that the change writes.
    pub(crate) fn paths(&self) -> Vec<String> {
        match self {
            Change::File { path, .. } => vec![path.clone()],
            Change::Revert { paths, .. } => paths.clone(),
            Change::Plugin { folder, files } => files.keys().map(|path| format!("{folder}/{path}")).collect(),
        }
    }
}

/// Facts that the scripts of a trial have found.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepFacts {
    /// Commit on which the trial stands.
    pub(crate) base: String,
    /// Tree that was tested.
    pub(crate) tree: String,
    /// Difference of the change.
    pub(crate) diff: String,
    pub(crate) before: Option<SuiteResult>,
    pub(crate) after: Option<SuiteResult>,
    /// Results of tests that are not those of the project, in one line.
    pub(crate) checked: Option<String>,
    /// Output of `git log`.
    pub(crate) log: String,
    /// Full hash, subject and paths of the commit to take back.
    pub(crate) commit: Option<(String, String, Vec<String>)>,
}

/// A change that is being tried.
pub(crate) struct Trial {
    pub(crate) project: Project,
    pub(crate) change: Change,
    /// Text about the change for the question.
    pub(crate) about: String,
    pub(crate) found: Mutex<StepFacts>,
}

impl Trial {
    /// Creates a trial that has not begun.
    pub(crate) fn new(project: Project, change: Change, about: String) -> Self {
        Self { project, change, about, found: Mutex::default() }
    }

    /// Returns the difference between the two results; `None` until both are there.
    pub(crate) fn comparison(&self) -> Option<(SuiteChange, SuiteResult)> {
        let found = self.found.lock();
        let (before, after) = (found.before.as_ref()?, found.after.clone()?);
        Some((SuiteChange::between(before, &after), after))
    }

    /// Returns the results of both runs for people.
    pub(crate) fn results(&self) -> String {
        let found = self.found.lock();
        let line = |name: &str, result: &Option<SuiteResult>| {
            result.as_ref().map(|result| format!("{name}: {}", result.line()))
        };
        let own = [found.checked.clone(), line("before", &found.before), line("after", &found.after)];
        let mut lines: Vec<String> = own.into_iter().flatten().collect();
        if let (Some(before), Some(after)) = (&found.before, &found.after) {
            lines.extend(SuiteChange::between(before, after).lines());
            lines.extend(after.errors.iter().cloned());
        }
        lines.join("\n")
    }

    /// Returns what a human should look at in particular.
    pub(crate) fn notes(&self) -> Vec<String> {
        let found = self.found.lock();
        let mut notes = Vec::new();
        let Change::File { path, .. } = &self.change else { return notes };
        if decides_about_tests(path) {
            notes.push(format!("CAUTION: {path} decides which tests run, and how"));
        }
        let removed = checks(&found.diff, '-').saturating_sub(checks(&found.diff, '+'));
        if removed > 0 {
            notes.push(format!("CAUTION: the change removes {removed} lines with assertions"));
        }
        let failed = found.before.as_ref().is_some_and(|before| before.count(TestEnd::Failed) > 0);
        // An assertion that is replaced can be a weaker one.
        if failed && (is_test_file(path) || checks(&found.diff, '-') > 0) {
            notes.push("CAUTION: the change edits tests while tests fail".to_owned());
        }
        notes
    }

    /// Checks that a question shows the human everything.
    ///
    /// # Errors
    /// `EQUOTA` if the text is longer than a question.
    pub(crate) fn fits_a_question(&self) -> Result<(), ToolError> {
        let text = self.preview();
        let lines = text.lines().count();
        let is_long = lines > MOST_LINES || text.chars().count() > MOST_CHARACTERS;
        if !is_long && text.lines().all(|line| line.chars().count() <= LONGEST_LINE) {
            return Ok(());
        }
        let message = format!("not applied: a question would not show the whole difference ({lines} lines)");
        Err(ToolError::new(Code::Quota, message).hint(format!(
            "split the change: a question shows {MOST_LINES} lines of {LONGEST_LINE} characters, and \
             {MOST_CHARACTERS} characters in all"
        )))
    }

    /// Returns the text for the human who decides.
    pub(crate) fn preview(&self) -> String {
        let diff = self.found.lock().diff.clone();
        let parts = [self.about.clone(), self.notes().join("\n"), self.results(), diff];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }
}

/// Maximum number of lines of a question, with room for the question's own (`engine/src/approvals/preview.rs`).
const MOST_LINES: usize = 380;

/// Maximum number of characters of a question, as above.
const MOST_CHARACTERS: usize = 19_000;

/// Maximum number of characters of a line of a question, as above.
const LONGEST_LINE: usize = 490;

/// Counts the lines of a difference with this sign that check something.
fn checks(diff: &str, sign: char) -> usize {
    let is_check = |line: &str| {
        ["assert", "expect(", ".should", "t.Error", "t.Fatal"].iter().any(|word| line.contains(word))
    };
    let double = sign.to_string().repeat(3);
    diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(&double) && is_check(line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_project::tests::project;
    use crate::test_report::SuiteEnd;

    #[test]
    fn a_change_that_weakens_a_failing_test_says_so() {
        let change = Change::File { path: "src/a.rs".into(), content: String::new() };
        let trial = Trial::new(project(&[]), change, "mend it".into());
        let result = |end: TestEnd, suite| SuiteResult {
            end: suite,
            tests: [("a".to_owned(), end)].into(),
            errors: Vec::new(),
            seconds: 0.0,
        };
        *trial.found.lock() = StepFacts {
            diff: "--- a/x\n+++ b/x\n-    assert adds(1, 1) == 2\n+    pass\n".into(),
            before: Some(result(TestEnd::Failed, SuiteEnd::Failed)),
            after: Some(result(TestEnd::Passed, SuiteEnd::Passed)),
            ..StepFacts::default()
        };
        let preview = trial.preview();
        assert!(preview.starts_with("mend it\n\nCAUTION: the change removes 1 line"), "{preview}");
        assert!(
            preview.contains("edits tests while tests fail") && preview.contains("mended: a"),
            "{preview}"
        );
        trial.found.lock().diff = "-    assert_eq!(add(1, 1), 2);\n+    assert!(add(1, 1) > 0);\n".into();
        assert!(trial.notes().iter().any(|note| note.contains("edits tests while tests fail")));
    }
}
